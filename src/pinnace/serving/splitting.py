"""Splitting of a request into parts for several devices, and joining of their results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from time import perf_counter_ns

import numpy as np

from pinnace.errors import ArgumentValueError, DataMismatchError
from pinnace.serving.futures import RequestFuture
from pinnace.serving.pool import WorkerPool
from pinnace.serving.request import Request
from pinnace.serving.worker import Counts, log_failure
from pinnace.shapes import Shape
from pinnace.tensors.outputs import OutputPorts
from pinnace.tensors.tensor import Outputs, tensors_of
from pinnace.types import Array, Port

_ANY = (-2,)
"""The shape of a port of unknown rank."""


class SharedCounts(Counts):
    """Counts that several threads change."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


@dataclass(frozen=True)
class SplitPlan:
    """Describes which inputs are split and which outputs are joined.

    `candidates` are the inputs to split, `first` is the index of the one that sets the number of rows, and
    `rows` is the number of rows that the model computes at a time, -1 for any. `always` splits candidates
    whatever their size is. `shapes` are the accepted input shapes, `joined` marks the outputs that have rows.
    """

    axis: int
    candidates: tuple[bool, ...]
    first: int
    rows: int
    always: bool
    shapes: tuple[Shape, ...]
    joined: tuple[bool, ...]
    inputs: tuple[Port, ...]

    @classmethod
    def of(
        cls, inputs: Sequence[Port], outputs: Sequence[Port], axis: int, split: Sequence[str] | None
    ) -> SplitPlan:
        """Make the plan of a model. Raises ArgumentValueError if there is nothing to split."""
        names = [port.name for port in inputs]
        for name in split or ():
            if name not in names:
                raise ArgumentValueError(f"split names {name!r}, but the inputs are {', '.join(names)}")
        able = [_has(port, axis) and (split is None or port.name in split) for port in inputs]
        if not any(able) or sum(able) < len(set(split or ())):
            which = "no input of the model has" if split is None else f"not all of {', '.join(split)} have"
            raise ArgumentValueError(f"axis {axis}: {which} a dimension of this number to split")
        first = able.index(True)
        rows = inputs[first].shape[axis]
        candidates = tuple(can and port.shape[axis] == rows for can, port in zip(able, inputs, strict=True))
        if split is not None and candidates != tuple(able):
            raise ArgumentValueError(f"split: {', '.join(split)} have different sizes at axis {axis}")
        return cls(
            axis,
            candidates,
            first,
            rows,
            split is not None,
            tuple(
                freed(port.shape, axis) if may else port.shape
                for port, may in zip(inputs, candidates, strict=True)
            ),
            tuple(
                port.shape[axis] == rows if _has(port, axis) else port.shape == _ANY and rows == -1
                for port in outputs
            ),
            tuple(inputs),
        )

    def parts(self, arrays: Sequence[Array], devices: int) -> list[tuple[int, int, list[Array]]]:
        """Return first row, end row and inputs of each part. Raises `DataMismatchError`."""
        axis, total = self.axis, arrays[self.first].shape[self.axis]
        cut = [
            may and (self.always or array.shape[axis] == total or (is_like_first and array.shape[axis] != 1))
            for may, is_like_first, array in zip(self.candidates, self._likes, arrays, strict=True)
        ]
        for port, array, may, is_cut in zip(self.inputs, arrays, self.candidates, cut, strict=True):
            size = array.shape[axis] if may else 0
            if (is_cut and size != total) or (may and not is_cut and self.rows not in (-1, size)):
                raise DataMismatchError(
                    f"input {port.name!r} has {size} rows at axis {axis}, but "
                    f"{self.inputs[self.first].name!r} has {total}"
                )
        return [
            (begin, end, [_rows(a, axis, begin, end) if c else a for a, c in zip(arrays, cut, strict=True)])
            for begin, end in pairwise(accumulate(self._sizes(total, devices), initial=0))
        ]

    @cached_property
    def _likes(self) -> list[bool]:
        """True for each input whose rows have the name of those of the first one in the file."""
        names = [port.names[self.axis : self.axis + 1] for port in self.inputs]
        return [name == names[self.first] and any(name) for name in names]

    def _sizes(self, total: int, devices: int) -> list[int]:
        if self.rows == -1:
            count = max(1, min(total, devices))
            return [total // count + (place < total % count) for place in range(count)]
        if total % max(1, self.rows) or not total:
            raise DataMismatchError(
                f"the model computes {self.rows} rows at a time, but {total} is not a multiple of that; "
                f"export it with a free batch, or fill up the last rows"
            )
        return [self.rows] * (total // self.rows)


class SplitRequest(RequestFuture[Outputs]):
    """A prediction that is done when all of its parts are."""

    def __init__(
        self,
        plan: SplitPlan,
        arrays: Sequence[Array],
        devices: int,
        outputs: OutputPorts,
        counts: SharedCounts,
        pool: WorkerPool,
    ) -> None:
        super().__init__(pool)
        self._plan, self._outputs, self._counts = plan, outputs, counts
        self._arrived = perf_counter_ns()
        self._lock = threading.Lock()
        self._results: list[Array] | None = None
        self.arrays = arrays
        found = plan.parts(arrays, devices)
        self._total = found[-1][1]
        self._left = len(found)
        self.parts = [RequestPart(self, *part) for part in found]

    def requests(self) -> Sequence[Request]:
        return self.parts

    def take(self, begin: int, end: int, results: Sequence[Array]) -> Callable[[], None]:
        """Copy the results of some rows. Returns a function that completes a request with all rows."""
        rows = end - begin
        with self._lock:
            if self._results is None:
                self._results = [
                    np.empty(self._whole(result), result.dtype) if joined else np.array(result)
                    for result, joined in zip(results, self._plan.joined, strict=True)
                ]
            into = self._results
        ports, plan = self._outputs.ports, self._plan
        for port, result, joined, whole in zip(ports, results, plan.joined, into, strict=True):
            if joined:
                there = _rows(whole, self._plan.axis, begin, end)
                if result.shape != there.shape:
                    raise DataMismatchError(
                        f"output {port.name!r} of {rows} rows has shape {list(result.shape)}: it cannot be "
                        f"joined along axis {self._plan.axis}"
                    )
                np.copyto(there, result)
            elif result.shape != whole.shape or not _same(result, whole):
                raise DataMismatchError(
                    f"output {port.name!r} has no batch at axis {self._plan.axis}, and differs from part to "
                    f"part: it depends on the rows, and cannot be joined"
                )
        return self._finished

    def _whole(self, result: Array) -> Shape:
        axis = self._plan.axis
        return (*result.shape[:axis], self._total, *result.shape[axis + 1 :])

    def _finished(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left or not self.claim():
                return
        assert self._results is not None
        with self._counts.lock:
            self._counts.count(perf_counter_ns() - self._arrived)
        self.succeed_with(tensors_of(self._results, self._outputs.kinds))

    def _leave(self, pool: WorkerPool) -> None:
        with self._counts.lock:
            self._counts.withdrawn += 1
        super()._leave(pool)

    def fail(self, error: BaseException) -> None:
        if not self.claim():
            return
        with self._counts.lock:
            self._counts.failed += 1
        log_failure(self.arrays, error)
        super().fail(error)


class RequestPart:
    """Some rows of a request, which workers run as a request of its own."""

    priority = 0

    def __init__(self, request: SplitRequest, begin: int, end: int, arrays: Sequence[Array]) -> None:
        self.arrays, self.arrived = arrays, perf_counter_ns()
        self.outputs: list[Array] | None = None
        self.request, self._begin, self._end = request, begin, end

    def begin(self) -> bool:
        self.request.begun = wanted = not self.done()
        return wanted

    claim = begin

    def done(self) -> bool:
        return self.request.done()

    def succeed(self, results: Sequence[Array]) -> None:
        self.take(results)()

    def take(self, results: Sequence[Array]) -> Callable[[], None]:
        """Copy the results, whose memory may be reused. Returns a function that notifies the caller."""
        return self.request.take(self._begin, self._end, results)

    def fail(self, error: BaseException) -> None:
        self.request.fail(error)


def freed(shape: Shape, axis: int) -> Shape:
    """Return the shape with the dimension at `axis` free."""
    return shape if shape == _ANY else (*shape[:axis], -1, *shape[axis + 1 :])


def _has(port: Port, axis: int) -> bool:
    return port.shape != _ANY and len(port.shape) > axis


def _rows(array: Array, axis: int, begin: int, end: int) -> Array:
    return array[(slice(None),) * axis + (slice(begin, end),)]


def _same(one: Array, other: Array) -> bool:
    """Compare two results of the same inputs; devices may add in different orders."""
    if one.dtype.kind in "fcV":
        return bool(np.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True))
    return bool(np.array_equal(one, other))
