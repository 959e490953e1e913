"""One place where an executable runs."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from queue import SimpleQueue
from time import perf_counter_ns
from typing import TYPE_CHECKING

from pinnace.engines.protocol import BY_SHAPES
from pinnace.errors import DataMismatchError, EngineError
from pinnace.log import DEBUG, WARNING, Log
from pinnace.serving.request import Request, UnwantedError
from pinnace.serving.stopping import Stoppable
from pinnace.serving.tally import Tally
from pinnace.shapes import takes

if TYPE_CHECKING:
    from pinnace.engines.protocol import Executable
    from pinnace.types import Array


_log = Log("pinnace.predictions")  # a caller gets the error too

_QUICK = 50_000_000
"""Nanoseconds up to which a signal handler of Python may wait for a run in the main thread."""


def elements(arrays: Sequence[Array]) -> int:
    """Return the number of elements of all inputs of a request."""
    total = 0
    for array in arrays:
        total += array.size
    return total


def log_failure(arrays: Sequence[Array], error: BaseException, model: str = "") -> None:
    """Log a failed prediction."""
    shapes = [array.shape for array in arrays]
    message = f"a prediction failed, inputs of shapes {shapes}: {error}"
    _log.event(WARNING, "prediction failed", message, model=model, shapes=shapes, kind=type(error).__name__)


class Worker(Stoppable):
    """A place to run: its execution, the cores that it is bound to, and its counts.

    One thread at a time runs on it: a caller that took it while idle, or its own thread. `token` of an idle
    worker has an item, which one thread alone can delete: that thread has the worker, and puts it back.
    Requests of up to `quick` elements take less than `_QUICK`, as far as others tell.
    """

    def __init__(self, executable: Executable, cores: frozenset[int], group: int = 0) -> None:
        """`group` is the number of its worker group in the pool."""
        self.cores, self.group, self.tally = cores, group, Tally()
        self.thread: threading.Thread | None = None
        self.wake: SimpleQueue[None] = SimpleQueue()
        self.token = {0: None}
        self.turn = 0  # number of times it was returned to the pool
        self.dismissed = False
        self.within = 0  # nested requests of callbacks since the last queued request
        self.quick = 0.0
        super().__init__(executable)
        self._logs, self._model = _log.seen(DEBUG), executable.info.get("file", "")

    @property
    def idle(self) -> bool:
        """True if no thread has it."""
        return bool(self.token)

    def taken(self) -> bool:
        """Take it if it is idle. Returns whether this thread has it now."""
        try:
            del self.token[0]
        except KeyError:
            return False
        return True

    def adopt(self, executable: Executable) -> None:
        """Use another executable from now on, with the current state."""
        if executable is not self.executable:
            self.executable, self._execution = executable, executable.execution(self._execution.state)
            self.quick = 0.0

    def run(
        self,
        arrays: Sequence[Array],
        outputs: Sequence[Array] | None,
        arrived: int,
        request: Request | None = None,
    ) -> list[Array]:
        """Compute the outputs of one request, and count it. Raises `EngineError`.

        Raises `UnwantedError` if the client of `request` has given it up.
        """
        tally = self.tally
        try:
            results = self._execution.run(arrays, outputs)
        except BaseException as error:
            self._claim(request)
            tally.failed += 1
            log_failure(arrays, error, self._model)
            if isinstance(error, EngineError):
                self._check_shapes(arrays)
            raise
        if request is not None:
            self._claim(request)
        taken = perf_counter_ns() - arrived
        tally.count(taken)
        if taken > _QUICK:
            self.quick = 0.0
        if self._logs:
            shapes = [array.shape for array in arrays]
            message = f"a prediction took {taken / 1e6:.3f} ms, inputs of shapes {shapes}"
            _log.event(DEBUG, "prediction", message, model=self._model, seconds=taken / 1e9, shapes=shapes)
        return results

    def _claim(self, request: Request | None) -> None:
        if request is not None and not request.claim():
            self.tally.withdrawn += 1
            raise UnwantedError from None

    def _check_shapes(self, arrays: Sequence[Array]) -> None:
        """Raise DataMismatchError if the model was resized after the request was queued."""
        for port, array in zip(self.executable.inputs, arrays, strict=True):
            if not takes(port.shape, array.shape):
                raise DataMismatchError(
                    f"input {port.name!r} has shape {list(array.shape)}, but the model was resized to "
                    f"{list(port.shape)} while the prediction waited"
                ) from None

    def perform(self, request: Request) -> None:
        """Run a request, and pass the results or any error to its caller."""
        arrays, outputs, arrived, began = request.arrays, request.outputs, request.arrived, perf_counter_ns()
        try:
            results = self.watched(
                lambda: not request.done(), lambda: self.run(arrays, outputs, arrived, request)
            )
        except UnwantedError:
            pass
        except BaseException as error:
            request.fail(error)
        else:
            self._note_quick(arrays, perf_counter_ns() - began)
            request.succeed(results)

    def _note_quick(self, arrays: Sequence[Array], taken: int) -> None:
        counted = any(array.size <= 1 and array.dtype.kind in "iub" for array in arrays)
        if taken >= _QUICK or (counted and not self.executable.info.get(BY_SHAPES)):
            return  # the number may be that of the rounds of a loop
        fixed = all(min(port.shape, default=0) >= 0 for port in self.executable.inputs)
        # of twice as many elements, such as in a cache that grows, attention takes four times as long
        known = elements(arrays) * (2 if 4 * taken < _QUICK else 1)
        self.quick = math.inf if fixed else max(self.quick, known)

    def finish(self, batch: Sequence[Request], results: Sequence[list[Array]]) -> None:
        """Count requests of a batch, and pass their results on."""
        self.tally.batches += 1
        now = perf_counter_ns()
        for request, its_own in zip(batch, results, strict=True):
            if request.claim():
                self.tally.count(now - request.arrived)
                request.succeed(its_own)
            else:
                self.tally.withdrawn += 1

    def attempt(self, arrays: Sequence[Array]) -> list[Array] | None:
        """Run uncounted inputs. Returns None if the engine fails."""
        try:
            return self._execution.run(arrays)
        except EngineError:
            return None
