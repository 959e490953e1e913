"""What Pinnace gives for a case, held beside what the oracle gives."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from tests.converted import KINDS
from tests.random_graphs import oracle
from tests.random_graphs.dress import Case

from pinnace import Context, Converter, FmkType, Model, ModelType, errors
from pinnace.cache.store import OFF
from pinnace.engines.onnxruntime import compilation, export

_RELATIVE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-11}
_ABSOLUTE = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-13}
"""What functions of two libraries may differ by, where nothing is cancelled: some ulps."""

_TIMES = 8
"""How much further than by noise of some ulps a result may move: libraries add in other orders."""


_SMALL = 128
"""Bytes of the weights that an entry of the compile cache has in its graph; further ones, which random graphs have,
too, go into files or stay in the model's. onnxruntime infers no shape from a tensor that is in a file."""

_BEYOND = "larger than the data shape after padding"
"""What OpenVINO says where the window of a pool does not fit, and onnxruntime takes a part of it."""


class NotConverted(Exception):
    """The Converter refuses a case."""


class Verdict(NamedTuple):
    """The outcome of a case, and the report of it.

    "same"; "different", "refused", "crashed" or "hung"; "uncounted" where the oracle refuses it; "documented"
    where the manual names it: NaN in pools (limits.md), numbers that OpenVINO takes otherwise, or a window that it
    refuses (engines.md).
    """

    kind: str
    text: str = ""
    engine: str = ""


class Turn(NamedTuple):
    """How a case is built: by an engine, with Pinnace's rules or without; into the compile cache `cache`, or with
    `loads` from there, by a process that did not compile it. If `form` is not "onnx", the Converter writes it in that
    form first.
    """

    engine: str
    rules: bool = True
    cache: str = OFF
    loads: bool = False
    form: str = "onnx"


def judge(case: Case, turn: Turn, stage: Callable[[str], None]) -> Verdict:
    """Run a case here; `stage` is told whose turn it is, in case that is the end of the process."""
    stage("oracle")
    try:
        expected = oracle.run(case.model, case.feed)
    except Exception as error:
        return Verdict("uncounted", f"oracle: {_line(error)}")
    stage("pinnace")
    try:
        given, name, kept = by_pinnace(case, turn if turn.loads else turn._replace(cache=OFF))
        if not turn.loads and turn.cache != OFF:
            by_pinnace(case, turn)
        elif turn.loads and kept != "loaded":
            return Verdict("different", f"the compile cache does not have it: {kept}", name)
    except NotConverted as error:
        return Verdict("uncounted", _line(error))
    except errors.PinnaceError as error:
        return _unless_documented(case, turn.engine, Verdict("refused", _line(error)))
    kind, text = compared(given, expected, [np.zeros(np.shape(y)) for y in expected])
    if kind == "different":
        stage("slack")
        try:
            kind, text = compared(given, expected, oracle.slack(case.model, case.feed, expected))
        except Exception as error:  # what noise cannot be put into is compared as it is
            text += f" (without noise: {_line(error)[:100]})"
    return _unless_documented(case, turn.engine, Verdict(kind, text, name))


def _unless_documented(case: Case, engine: str, verdict: Verdict) -> Verdict:
    if verdict.kind == "same":
        return verdict
    documented = verdict._replace(kind="documented")
    numbers = (*case.feed.values(), *oracle.between(case.model, case.feed).values())
    if engine == "onnxruntime":
        there = {n.op_type for g in oracle.graphs(case.model.graph) for n in g.node}
        undefined = ("MaxPool" in there and any(map(oracle.has_nan, numbers))) or (
            "QuantizeLinear" in there and not all(map(_is_finite, numbers))
        )
        return documented if undefined and verdict.kind == "different" else verdict
    if verdict.kind == "refused" and _BEYOND in verdict.text:
        return documented
    return verdict if all(map(_is_usual, numbers)) else documented


def _is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _is_usual(array: np.ndarray) -> bool:
    """Whether there are elements, and each is finite and, of integers, exact in float32."""
    if array.dtype.kind not in "fiu":
        return array.size > 0
    with np.errstate(invalid="ignore"):
        return array.size > 0 and bool(
            (np.abs(array.astype(np.float64)) <= (1e30 if array.dtype.kind == "f" else 1 << 24)).all()
        )


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"


def by_pinnace(case: Case, turn: Turn) -> tuple[list[np.ndarray], str, str]:
    """The outputs, the engine that computed them, and what became of the compile cache."""
    context = Context()
    context.target = ["cpu"]
    context.cpu.thread_num = 1
    context.cpu.provider = turn.engine
    model = Model()
    off = nullcontext() if turn.rules else patch.object(compilation, "rewrite", lambda *_: None)
    kept = patch.dict(
        os.environ, PINNACE_CACHE_DIR=turn.cache, PINNACE_CACHE_KEEP="before", KEEP_ORIGIN_DTYPE="1"
    )
    small = patch.object(export, "SMALL", _SMALL)
    with kept, small, off, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file, kind = case.model.SerializeToString(), ModelType.ONNX
        if turn.form != "onnx":
            file, kind = converted(file, turn.form), KINDS[turn.form]
        model.build_from_buffer(file, kind, context)
        arrays = [case.feed[tensor.name] for tensor in model.get_inputs()]
        outputs = model.predict(arrays)
        found = [tensor.get_data_to_numpy() for tensor in outputs]
        return found, model.get_model_info("engine"), model.get_model_info("cache")


def converted(file: bytes, form: str) -> bytes:
    """What the Converter makes of an ONNX file. Raises NotConverted if it refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "given.onnx").write_bytes(file)
        converter = Converter()
        converter.save_type = KINDS[form]
        try:
            converter.convert(FmkType.ONNX, f"{folder}/given.onnx", f"{folder}/made")
        except errors.PinnaceError as error:
            raise NotConverted(str(error)) from None
        return Path(folder, f"made.{form}").read_bytes()


def compared(
    given: Sequence[np.ndarray], expected: oracle.Arrays, slack: Sequence[np.ndarray | None]
) -> tuple[str, str]:
    """ "same" or "different", and where."""
    if len(given) != len(expected):
        return "different", f"{len(given)} outputs and not {len(expected)}"
    for place, (y, wanted, room) in enumerate(zip(given, expected, slack, strict=True)):
        found = _difference(y, wanted, room)
        if found:
            return "different", f"output {place}: {found}"
    return "same", ""


def _difference(y: np.ndarray, wanted: np.ndarray, slack: np.ndarray | None) -> str:
    if y.dtype != wanted.dtype and not (y.dtype.kind in "OSUT" and wanted.dtype.kind in "OSUT"):
        return f"{y.dtype} and not {wanted.dtype}"
    if slack is None:
        return ""
    if y.shape != wanted.shape:
        return f"shape {y.shape} and not {wanted.shape}"
    if y.dtype.kind not in "f":
        wrong = (y != wanted) & (slack == 0)
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(y.astype(np.float64) - wanted.astype(np.float64))
            room = _TIMES * slack + _ABSOLUTE[y.dtype.name] + _RELATIVE[y.dtype.name] * np.abs(wanted)
        same = (y == wanted) | (np.isnan(y) & np.isnan(wanted)) | (np.isinf(slack))
        wrong = ~same & ~(np.isfinite(off) & (off <= room))
    if not wrong.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {y.size} {y.dtype}, {y[first]!r} and not {wanted[first]!r} at {first}"
