"""One trial: a request is sent several times, in fresh memory with other marks, and after another request."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from tests.elements.calls import Call, Feed, Place, free
from tests.requests.memory import mark
from tests.requests.trial import without_arena

from pinnace.building.build import build_model as build
from pinnace.engines.onnxruntime import guards, session
from pinnace.engines.protocol import WITHOUT_ELEMENTS
from pinnace.errors import PinnaceError
from pinnace.options.settings import Settings
from pinnace.options.target import Target

_MOST = 40
"""Requests of a call."""

UNSAFE = ("ended", "wrong at times", "memory that nobody wrote")
"""What no result excuses."""

Answer = list[np.ndarray] | str


def requests(feed: Feed) -> Iterator[tuple[frozenset[str], dict[str, np.ndarray]]]:
    """Requests without elements, or with sizes of 0; each with the names of the inputs that it changes."""
    for places in emptied(feed):
        found = dict(feed)
        for name, axis in places:
            found[name] = np.ascontiguousarray(np.take(found[name], [], axis))
        yield frozenset(name for name, _ in places), found
    for name, array in feed.items():
        if array.dtype.kind in "iu" and array.ndim <= 1 and array.any():
            yield frozenset([name]), {**feed, name: np.zeros_like(array)}


def emptied(feed: Feed) -> list[frozenset[Place]]:
    """Dimensions that lack elements together: each alone, those of one size or at one place, and pairs."""
    size = {(name, axis): n for name, array in feed.items() for axis, n in enumerate(array.shape)}
    found = [frozenset([p]) for p in size]
    found += [frozenset(q for q in size if size[q] == size[p]) for p in size]
    found += [frozenset(q for q in size if size[q] == size[p] and q[1] == p[1]) for p in size]
    found += [frozenset(q for q in size if q[1] == axis) for axis in {axis for _, axis in size}]
    pairs = itertools.combinations(size, 2)
    found += [frozenset((p, q)) for p, q in pairs if p[0] != q[0] and size[p] == size[q]]
    return list(dict.fromkeys(found))[:_MOST]


class Subject:
    """A built model, once with an arena and once without; raises PinnaceError if another engine runs it.

    It has guards by the table, unless it is tried for the table.
    """

    def __init__(self, call: Call, engine: str, guarded: bool = True) -> None:
        model = free(call.model)
        self.executions, self._usual = [], call.feed
        os.environ["PINNACE_CACHE_DIR"] = "off"
        for arena in (False, True):
            with ExitStack() as off, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                off.enter_context(patch.object(session, "options", without_arena(arena)))
                if not guarded:
                    off.enter_context(patch.object(guards, "guard_elements"))
                built = build(model.SerializeToString(), None, Target(threads=1, provider=engine), Settings())
            if built.info["engine"].split()[0] != engine:
                raise PinnaceError(f"{built.info['engine']} runs it")
            self.executions.append(built.execution())
        self.reason, self._names = built.info[WITHOUT_ELEMENTS], [port.name for port in built.inputs]
        self._model = model
        domains = {node.domain for node in model.graph.node}
        self.has_reference = domains <= {"", "ai.onnx.ml"}

    def judge(self, request: Feed) -> str:
        """Return what came of a request: "right", "error", or what is wrong or unknown."""
        first = self._answer(0, request, 0)
        others = [self._answer(0, request, 1), self._answer(1, request, 1)]
        self._answer(1, self._usual, 1)
        others.append(self._answer(1, request, 1))
        if any(isinstance(other, str) != isinstance(first, str) for other in others):
            return "wrong at times"
        if isinstance(first, str):
            return "error"
        if not all(all(map(_same, first, other)) for other in others):
            return "memory that nobody wrote"
        return self._compared(first, request)

    def _answer(self, place: int, request: Feed, number: int) -> Answer:
        arrays = [np.asarray(request[name], order="C") for name in self._names]
        mark(number)
        try:
            return [np.array(y) for y in self.executions[place].run(arrays)]
        except PinnaceError as error:
            return str(error)

    def _compared(self, found: list[np.ndarray], request: Feed) -> str:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                expected = [np.asarray(y) for y in ReferenceEvaluator(self._model).run(None, dict(request))]
        except Exception as error:  # of numpy, or of the evaluator's own code, or there is no such operator
            other = f"unknown, as the reference fails: {type(error).__name__}"
        else:
            other = f"wrong, as the reference has other results: {[y.shape for y in expected]}"
            if all(map(_close, found, expected)):
                return "right"
        if not any(y.size for y in found) and (not self.has_reference or self._may_have(found, request)):
            return "right"
        return f"{other}, {[y.shape for y in found]}"

    def _may_have(self, found: list[np.ndarray], request: Feed) -> bool:
        """Return True if ONNX's inference allows the shapes of results without elements."""
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        for value in model.graph.input:
            for dim, size in zip(value.type.tensor_type.shape.dim, request[value.name].shape, strict=True):
                dim.dim_value = size
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
        try:
            inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except Exception:
            return False
        for value, y in zip(inferred.graph.output, found, strict=True):
            kind = value.type.tensor_type
            dims = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
            if kind.HasField("shape") and (
                len(dims) != y.ndim or any(d not in (None, n) for d, n in zip(dims, y.shape, strict=True))
            ):
                return False
        return True


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(np.array_equal(a, b)) or (a.dtype != object and a.tobytes() == b.tobytes())


def _close(y: np.ndarray, expected: np.ndarray) -> bool:
    """Numbers are compared loosely: what nobody wrote is seen without it."""
    if y.shape != expected.shape:
        return False
    if y.dtype.kind in "fcV":
        return np.allclose(y.astype(np.float64), expected.astype(np.float64), 1e-2, 1e-3, equal_nan=True)
    return not y.size or np.array_equal(y, expected)
