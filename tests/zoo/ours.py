"""Pinnace's side: run a model file and compare with what MindSpore computed.

    python -m tests.zoo.ours MODEL GOLDENS

Says what `report` gives, then the seconds of a prediction for each line of the standard input.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from tests.zoo.talk import Answer, seconds_of, serve

import pinnace
from pinnace.building.opening import inspect_model
from pinnace.errors import UnsupportedModelError

RIGHT = 1e-4
"""Largest difference to MindSpore's outputs that counts as right, relative to the largest of them."""


class Ours:
    """A model built for one thread."""

    def __init__(self, path: Path, goldens: Path) -> None:
        self._path = path
        self._runs = runs(np.load(goldens))
        self._model = pinnace.Model()
        self._reordered = False

    def first(self) -> Answer:
        """What the file holds, and the errors of its outputs; {"unsupported": ...} and "stop" otherwise."""
        held = inspect_model(self._path)
        counts = {
            "nodes": sum(held.primitives.values()),
            "primitives": len(held.primitives),
            "parameters": held.parameters,
            "bytes": held.parameter_bytes,
        }
        if held.unsupported:
            missing = [f"{p.name} x{p.count}: {p.reason}" for p in held.unsupported]
            return counts | {"unsupported": missing, "stop": True}
        context = pinnace.Context()
        context.target = ["cpu"]
        context.cpu.thread_num = 1
        kind = pinnace.ModelType.ONNX if self._path.suffix == ".onnx" else pinnace.ModelType.MINDIR
        start = time.perf_counter()
        try:
            self._model.build_from_file(str(self._path), kind, context)
        except UnsupportedModelError as error:
            return counts | {"unsupported": [str(error)], "stop": True}
        opened = time.perf_counter() - start
        errors = [self._error(inputs, expected) for inputs, expected in self._runs]
        facts = {"cache": self._model.get_model_info("cache"), "reordered": self._reordered}
        return counts | {"open": opened, "error": max(errors)} | facts

    def further(self) -> Answer:
        """Seconds of a prediction."""
        inputs = self._runs[0][0]
        return {"seconds": seconds_of(lambda: self._model.predict(inputs))}

    def _error(self, inputs: list[np.ndarray], expected: list[np.ndarray]) -> float:
        given = [t.get_data_to_numpy() for t in self._model.predict(inputs)]
        shapes = [(g.shape, g.dtype) for g in given], [(e.shape, e.dtype) for e in expected]
        if shapes[0] != shapes[1]:
            raise SystemExit(f"outputs are {shapes[0]}, and should be {shapes[1]}")
        return max(self._of_output(g, e) for g, e in zip(given, expected, strict=True))

    def _of_output(self, given: np.ndarray, expected: np.ndarray) -> float:
        straight = error(given, expected)
        if straight <= RIGHT or expected.ndim < 2 or expected.size > 4000:
            return straight
        # Detections come sorted by scores, and those of near equal scores in either order.
        matched = max(error_of_rows(given, expected), error_of_rows(expected, given))
        self._reordered |= matched <= RIGHT
        return min(straight, matched)


def error(given: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference relative to the largest value expected; infinite where one has a NaN."""
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(given, expected) else float("inf")
    difference = np.abs(given.astype(np.float64) - expected).max(initial=0.0)
    largest = np.abs(expected).max(initial=0.0)
    relative = float(difference / largest) if largest else float(difference)
    return relative if np.isfinite(relative) else float("inf")


def error_of_rows(given: np.ndarray, expected: np.ndarray) -> float:
    """As `error`, each row of the last dimension beside that of `expected` which is nearest."""
    rows, others = (a.reshape(-1, a.shape[-1]).astype(np.float64) for a in (given, expected))
    nearest = np.abs(rows[:, None] - others).max(-1).min(1)
    return float(nearest.max() / (np.abs(others).max() or 1))


def runs(goldens: np.lib.npyio.NpzFile) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Inputs and outputs of each run, in order."""
    count = len({key.split("_")[0] for key in goldens})
    return [(_arrays(goldens, f"run{i}_x"), _arrays(goldens, f"run{i}_y")) for i in range(count)]


def _arrays(goldens: np.lib.npyio.NpzFile, letter: str) -> list[np.ndarray]:
    return [goldens[f"{letter}{i}"] for i in range(sum(key.startswith(letter) for key in goldens))]


if __name__ == "__main__":
    side = Ours(Path(sys.argv[1]), Path(sys.argv[2]))
    serve(side.first, side.further)
