"""What onnxruntime notes of every node that it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import onnxruntime as ort

from pinnace.engines.steps import Step
from pinnace.options.target import Target

if TYPE_CHECKING:  # what is loaded needs no onnx-ir
    from pinnace.engines.names import Names

_NODE = "_kernel_time"  # how the names of events end that are executions of nodes
_RUN = "model_run"


class Notes:
    """The file that one session writes its events to, in a folder that lives as long."""

    def __init__(self, chosen: ort.SessionOptions) -> None:
        """Let the session that is started with these options write them."""
        self._folder = TemporaryDirectory(prefix="pinnace-")
        self._path = ""
        self.names: Names | None = None
        chosen.enable_profiling = True
        chosen.profile_file_prefix = str(Path(self._folder.name) / "profile")

    def runs(self, session: ort.InferenceSession) -> list[list[Step]]:
        """The steps of each run, by `names` where these are known; none is noted any more."""
        self._path = self._path or session.end_profiling()
        runs = _runs(json.loads(Path(self._path).read_bytes()))
        if self.names is None:
            return runs
        return [[replace(step, node=self.names.of(step.node, step.operator)) for step in run] for run in runs]

    def close(self) -> None:
        """Remove the file, after the session is gone."""
        self._folder.cleanup()


def notes(target: Target, chosen: ort.SessionOptions) -> Notes | None:
    """Where the target says so, let the session that is started with these options take notes."""
    return Notes(chosen) if target.profile else None


def _runs(events: list[Mapping[str, Any]]) -> list[list[Step]]:
    """The nodes' events, run by run: a run's own event is written after those of its nodes."""
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
