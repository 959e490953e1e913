"""The files of one model: what everybody reads, is given, and has to compute."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.models import INPUTS, MAKERS
from benchmarks.suite.environments import PEERS, PINNACE, LeftOut, Peer
from benchmarks.suite.talk import Contestant, Failed


@dataclass(frozen=True)
class Entrant:
    """A library that takes part, with the interpreter that has it."""

    peer: Peer
    python: Path
    precision: str = "fp32"
    options: tuple[tuple[str, str], ...] = ()
    """Of Pinnace's section [runner]."""

    @property
    def name(self) -> str:
        marks = [self.precision] if self.precision != "fp32" else []
        return " ".join([self.peer.name, *marks, *(f"{key}={value}" for key, value in self.options)])

    @property
    def is_ours(self) -> bool:
        return self.peer is PINNACE


class Material:
    """A model in a folder of its own: its ONNX file, seeded inputs, what onnxruntime makes of them."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self.onnx = self._folder / "model.onnx"
        self._given, self._expected = self._folder / "inputs.npz", self._folder / "outputs.npz"
        if not self._expected.exists():
            self._make()
        with np.load(self._expected) as arrays:
            self._outputs = arrays.files

    def _make(self) -> None:
        MAKERS[self.name](self.onnx)
        np.savez(self._given, **INPUTS[self.name]())
        self._outputs = [port.name for port in onnx.load(self.onnx).graph.output]
        reference = Entrant(PEERS["onnxruntime"], Path(sys.executable))
        with self.opened(reference) as (contestant, _):
            self._written(contestant).replace(self._expected)

    def _written(self, contestant: Contestant) -> Path:
        """A file of the contestant's outputs by name."""
        file = self._folder / "made.npz"
        contestant.ask("outputs", file=str(file))
        return file

    @contextmanager
    def opened(self, entrant: Entrant, **job: Any) -> Iterator[tuple[Contestant, dict[str, Any]]]:
        """A contestant with this model loaded, and its answer. Raises `LeftOut`."""
        file = self._file(entrant)
        options = {"options": {"runner": dict(entrant.options)}} if entrant.options else {}
        with ExitStack() as stack:
            contestant = stack.enter_context(Contestant(entrant.python, entrant.peer.script))
            try:
                answer = contestant.ask(
                    "load", file=str(file), inputs=str(self._given), outputs=self._outputs,
                    precision=entrant.precision, **options, **job,
                )  # fmt: skip
            except Failed as failure:
                raise LeftOut(str(failure)) from failure
            yield contestant, answer

    def _file(self, entrant: Entrant) -> Path:
        """What the entrant reads, converted where it does not read ONNX."""
        if not entrant.peer.converts:
            return self.onnx
        home = self._folder / entrant.peer.name
        note = home / "converted.json"
        if not note.exists():
            home.mkdir(exist_ok=True)
            with Contestant(entrant.python, entrant.peer.script) as contestant:
                try:
                    answer = contestant.ask("convert", onnx=str(self.onnx), folder=str(home))
                except Failed as failure:
                    answer = {"failed": str(failure)}
            note.write_text(json.dumps(answer), encoding="utf-8")
        answer = json.loads(note.read_text(encoding="utf-8"))
        if "failed" in answer:
            raise LeftOut(answer["failed"])
        return Path(answer["file"])

    def difference(self, contestant: Contestant) -> float:
        """How far a contestant's outputs are from onnxruntime's: see `apart`."""
        with np.load(self._written(contestant)) as ours, np.load(self._expected) as theirs:
            return apart([ours[name] for name in self._outputs], [theirs[name] for name in self._outputs])


def apart(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """The largest difference in any output, over the largest value of that output; infinite for nonsense."""
    if [a.size for a in ours] != [b.size for b in theirs]:
        return float("inf")
    pairs = [(a.reshape(b.shape).astype(np.float64), b) for a, b in zip(ours, theirs, strict=True)]
    if not all(np.isfinite(a).all() for a, _ in pairs):
        return float("inf")
    return max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in pairs)
