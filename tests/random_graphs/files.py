"""Cases as files: a model, and a folder of arrays beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from tests.random_graphs.dress import Case


def write(path: Path, case: Case, expected: dict[str, np.ndarray] | None = None) -> None:
    """Write PATH.onnx, and PATH.npz with inputs, and with outputs where these are given."""
    path.with_suffix(".onnx").write_bytes(case.model.SerializeToString())
    arrays = {f"in.{n}": v.astype(str) if v.dtype == object else v for n, v in case.feed.items()}
    arrays |= {f"out.{n}": v for n, v in (expected or {}).items()}
    np.savez(path.with_suffix(".npz"), **arrays)


def read(path: Path) -> tuple[Case, dict[str, np.ndarray]]:
    """A case, and its outputs by name."""
    with np.load(path.with_suffix(".npz")) as stored:
        arrays = dict(stored)
    feed = {n.removeprefix("in."): v for n, v in arrays.items() if n.startswith("in.")}
    outputs = {n.removeprefix("out."): v for n, v in arrays.items() if n.startswith("out.")}
    return Case(onnx.load(path.with_suffix(".onnx")), feed), outputs


def described(case: Case) -> str:
    """A case as text."""
    text = onnx.printer.to_text(case.model)
    lines = [line for line in text.splitlines() if line.strip()]
    lines += [f"{n} = {v.dtype}{list(v.shape)} {_elements(v)}" for n, v in case.feed.items()]
    lines += [f"{t.name} : {_elements(numpy_helper.to_array(t))}" for t in case.model.graph.initializer]
    return "\n".join(f"    {line[:300]}" for line in lines)


def _elements(array: np.ndarray) -> str:
    return " ".join(str(array.tolist()).split())[:200]
