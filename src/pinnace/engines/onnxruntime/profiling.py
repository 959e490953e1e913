"""Profiles of onnxruntime's sessions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import onnxruntime as ort

from pinnace.engines.steps import Step

if TYPE_CHECKING:  # cached models need no onnx-ir
    from pinnace.engines.names import Names

_NODE = "_kernel_time"  # suffix of the names of node events
_RUN = "model_run"


class SessionProfile:
    """The file to which one session writes its events, in a temporary folder."""

    def __init__(self, chosen: ort.SessionOptions) -> None:
        self._folder = TemporaryDirectory(prefix="pinnace-")
        self._path = ""
        self.names: Names | None = None
        chosen.enable_profiling = True
        chosen.profile_file_prefix = str(Path(self._folder.name) / "profile")

    def runs(self, session: ort.InferenceSession) -> list[list[Step]]:
        """Stop profiling, and return the steps of each run, with the file's names if `names` is set."""
        self._path = self._path or session.end_profiling()
        runs = _runs(json.loads(Path(self._path).read_bytes()))
        if self.names is None:
            return runs
        return [[replace(step, node=self.names.of(step.node, step.operator)) for step in run] for run in runs]

    def close(self) -> None:
        self._folder.cleanup()


def _runs(events: list[Mapping[str, Any]]) -> list[list[Step]]:
    """Return the events of nodes by runs; a run's own event follows those of its nodes."""
    runs: list[list[Step]] = []
    steps: list[Step] = []
    threads: dict[int, int] = {}
    for event in events:
        if event["name"] == _RUN:
            runs.append(steps)
            steps = []
        elif event["name"].endswith(_NODE):
            node = event["name"].removesuffix(_NODE)
            thread = threads.setdefault(event["tid"], len(threads))
            steps.append(Step(node, event["args"]["op_name"], event["ts"], event["dur"], thread))
    return runs
