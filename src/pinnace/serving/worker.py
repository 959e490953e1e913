"""One worker: an execution, the lock of the thread that runs on it, and its counts."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import TypeVar

from pinnace.engines.protocol import BY_SHAPES, OTHER_PROCESS, Executable
from pinnace.errors import DataMismatchError, EngineError
from pinnace.log import DEBUG, WARNING, Log
from pinnace.serving.request import Request, UnwantedError
from pinnace.shapes import is_free, takes
from pinnace.types import Array

T = TypeVar("T")
_log = Log("pinnace.predictions")  # a caller gets the error too

_QUICK = 50_000_000
"""Nanoseconds up to which a signal handler of Python may wait for a run in the main thread."""
_BRIEF = 50_000
"""Nanoseconds up to which a caller runs beside the workers: to wait for one takes as long."""

BITS = 5
"""A power of 2 is divided into 2**BITS equal steps, so that a step is at most 1/32 of its values."""
STEPS = (65 - BITS) << BITS  # up to 2**64 ns


class Counts:
    """Counts of one worker; only one thread at a time writes them."""

    __slots__ = ("batched", "batches", "failed", "steps", "total", "withdrawn")

    def __init__(self) -> None:
        self.failed = self.withdrawn = self.batches = self.batched = self.total = 0
        self.steps = [0] * STEPS

    @property
    def served(self) -> int:
        return sum(self.steps)

    def count(self, nanoseconds: int) -> None:
        self.total += nanoseconds
        shift = nanoseconds.bit_length() - 6  # literals for BITS: each prediction waits for this
        self.steps[(shift << 5) + (nanoseconds >> shift) if shift > 0 else nanoseconds] += 1


class Stoppable:
    """An execution whose run ends early when nobody wants its results.

    A stopped execution is replaced by another one with its state, so no stop can reach the next run.
    """

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self._execution = executable.execution()
        self._is_wanted: Callable[[], bool] | None = None  # that of the run in progress
        self._stopped = False
        self._stopping = threading.RLock()  # reentrant: a signal handler may cancel a request

    def watched(self, is_wanted: Callable[[], bool], run: Callable[[], T]) -> T:
        """Return `run()`, which `stop_unwanted` ends early once `is_wanted()` is False."""
        self._is_wanted = is_wanted
        if not is_wanted():  # given up before
            self.stop_unwanted()
        try:
            return run()
        finally:
            with self._stopping:
                self._is_wanted, stopped, self._stopped = None, self._stopped, False
            if stopped:
                self._execution = self.executable.execution(self._execution.state)

    def stop_unwanted(self) -> None:
        """Stop the run in progress if nobody wants its results any more."""
        with self._stopping:
            if self._is_wanted is not None and not self._is_wanted() and not self._stopped:
                self._stopped = True
                self._execution.stop()

    def stop_for_good(self) -> None:
        self._execution.stop(for_good=True)


class Worker(Stoppable):
    """An execution, the cores that it is bound to, and its counts.

    The thread that has `lock` runs on it: a caller that found it idle, or one that serves the queue.
    """

    def __init__(self, executable: Executable, cores: frozenset[int], group: int = 0) -> None:
        """`group` is the number of its worker group in the pool."""
        super().__init__(executable)
        self.cores, self.group, self.counts = cores, group, Counts()
        # requests of so many elements take less than `_QUICK` or `_BRIEF`, as far as others tell
        self.quick = self.brief = 0.0
        self._logs, self._model = _log.seen(DEBUG), executable.info.get("file", "")
        self.renew()

    def renew(self) -> None:
        self.lock, self._stopping = threading.Lock(), threading.RLock()
        self.user = 0  # the thread that has the lock

    def taken(self) -> bool:
        """Take it if it is idle. Returns whether this thread has it now."""
        if not self.lock.acquire(blocking=False):
            return False
        self.user = threading.get_ident()
        return True

    def release(self) -> None:
        self.user = 0
        self.lock.release()

    def adopt(self, executable: Executable) -> None:
        """Use another executable from now on, with the current state."""
        if executable is not self.executable:
            self.executable, self._execution = executable, executable.execution(self._execution.state)
            self.quick = self.brief = 0.0

    def run(
        self,
        arrays: Sequence[Array],
        outputs: list[Array] | None,
        arrived: int,
        request: Request | None = None,
    ) -> list[Array]:
        """Compute the outputs of one request, and count it. Raises `EngineError`.

        Raises `UnwantedError` if the client of `request` has given it up.
        """
        counts = self.counts
        try:
            results = self._execution.run(arrays, outputs)
        except BaseException as error:
            self._claim(request)
            counts.failed += 1
            log_failure(arrays, error, self._model)
            if isinstance(error, EngineError):
                self._check_shapes(arrays)
            raise
        if request is not None:
            self._claim(request)
        taken = perf_counter_ns() - arrived
        counts.count(taken)
        if taken > _QUICK:
            self.quick = self.brief = 0.0
        if self._logs:
            shapes = [array.shape for array in arrays]
            message = f"a prediction took {taken / 1e6:.3f} ms, inputs of shapes {shapes}"
            _log.event(DEBUG, "prediction", message, model=self._model, seconds=taken / 1e9, shapes=shapes)
        return results

    def _claim(self, request: Request | None) -> None:
        if request is not None and not request.claim():
            self.counts.withdrawn += 1
            raise UnwantedError from None

    def _check_shapes(self, arrays: Sequence[Array]) -> None:
        for port, array in zip(self.executable.inputs, arrays, strict=True):
            if not takes(port.shape, array.shape):
                raise DataMismatchError(
                    f"input {port.name!r} has shape {list(array.shape)}, but the model was resized to "
                    f"{list(port.shape)} while the prediction waited"
                ) from None

    def perform(self, request: Request) -> None:
        """Run a request, and pass the results or any error to its caller."""
        try:
            finish = self.watched(lambda: not request.done(), lambda: self.compute(request))
        except UnwantedError:
            pass
        except BaseException as error:
            request.fail(error)
        else:
            finish()

    def compute(self, request: Request) -> Callable[[], None]:
        """Run a request. Returns a function that passes the results to its caller."""
        began = perf_counter_ns()
        results = self.run(request.arrays, request.outputs, request.arrived, request)
        if self.brief != math.inf:
            self._note(request.arrays, perf_counter_ns() - began)
        return partial(request.succeed, results)

    def _note(self, arrays: Sequence[Array], taken: int) -> None:
        """Learn from the time of a run which ones are quick or brief.

        None is in another process: a signal handler that raises in the main thread would leave its answer to
        the next request.
        """
        if self.executable.runs_in == OTHER_PROCESS or (self.quick == math.inf and taken >= _BRIEF):
            return
        counted = any(array.size <= 1 and array.dtype.kind in "iub" for array in arrays)
        if taken >= _QUICK or (counted and not self.executable.info.get(BY_SHAPES)):
            return  # the number may be that of the rounds of a loop
        fixed = not any(is_free(port.shape) for port in self.executable.inputs)
        # of twice as many elements, such as in a cache that grows, attention takes four times as long
        known = math.inf if fixed else elements(arrays)
        self.quick = max(self.quick, known * (2 if 4 * taken < _QUICK else 1))
        if taken < _BRIEF and self.executable.info.get(BY_SHAPES):
            self.brief = max(self.brief, known)

    def finish(self, batch: Sequence[Request], results: Sequence[list[Array]]) -> None:
        """Count requests of a batch, and pass their results on."""
        self.counts.batches += 1
        now = perf_counter_ns()
        for request, its_own in zip(batch, results, strict=True):
            if request.claim():
                self.counts.count(now - request.arrived)
                self.counts.batched += 1
                request.succeed(its_own)
            else:
                self.counts.withdrawn += 1

    def attempt(self, arrays: Sequence[Array]) -> list[Array] | None:
        """Run uncounted inputs. Returns None if the engine fails."""
        try:
            return self._execution.run(arrays)
        except EngineError:
            return None


def elements(arrays: Sequence[Array]) -> int:
    """Return the number of elements; without any, sizes of 0 count as 1: others say how large results are."""
    total = 0
    for array in arrays:
        total += array.size or math.prod(max(1, size) for size in array.shape)
    return total


def log_failure(arrays: Sequence[Array], error: BaseException, model: str = "") -> None:
    shapes = [array.shape for array in arrays]
    message = f"a prediction failed, inputs of shapes {shapes}: {error}"
    _log.event(WARNING, "prediction failed", message, model=model, shapes=shapes, kind=type(error).__name__)
