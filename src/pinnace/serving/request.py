"""Predictions that wait for a worker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from pinnace.engines.protocol import Array

T = TypeVar("T")
_log = logging.getLogger("pinnace")
_RAISED = "a callback of a prediction's future has raised"


class Request(Protocol):
    """A prediction on its way. `arrived` is its time by `perf_counter_ns`."""

    arrays: Sequence[Array]
    outputs: Sequence[Array] | None
    arrived: int

    def begin(self) -> bool:
        """Whether it is to run: nobody has called it off."""

    def succeed(self, results: list[Array]) -> None:
        """Give the caller its results."""

    def fail(self, error: BaseException) -> None:
        """Give the caller an error."""


class Blocking:
    """A request whose caller sleeps until it is done."""

    __slots__ = ("_error", "_gate", "_results", "arrays", "arrived", "outputs")

    def __init__(self, arrays: Sequence[Array], outputs: Sequence[Array] | None, arrived: int) -> None:
        self.arrays, self.outputs, self.arrived = arrays, outputs, arrived
        self._error: BaseException | None = None
        self._results: list[Array] = []
        self._gate = threading.Lock()
        self._gate.acquire()

    def begin(self) -> bool:
        """Whoever stops to wait takes it off the queue first."""
        return True

    def succeed(self, results: list[Array]) -> None:
        """Wake the caller."""
        self._results = results
        self._gate.release()

    def fail(self, error: BaseException) -> None:
        """Wake the caller."""
        self._error = error
        self._gate.release()

    def wait(self, seconds: float | None) -> bool:
        """Sleep until it is done, or for some seconds; whether it is done."""
        return self._gate.acquire(timeout=-1 if seconds is None else seconds)

    def results(self) -> list[Array]:
        """What `wait` has waited for: the results, or the error is raised."""
        if self._error is not None:
            raise self._error
        return self._results


class GuardedFuture(Future[T]):
    """A future that a thread of ours fulfils, which has to go on where a callback ends its thread.

    `Future` lets what is no `Exception` pass: `sys.exit()` in a callback would end a worker for good.
    """

    def set_result(self, result: T) -> None:
        """See `Future`."""
        try:
            super().set_result(result)
        except Exception:
            raise
        except BaseException:
            _log.exception(_RAISED)

    def set_exception(self, exception: BaseException | None) -> None:
        """See `Future`."""
        try:
            super().set_exception(exception)
        except Exception:
            raise
        except BaseException:
            _log.exception(_RAISED)


class Callbacks:
    """To whom a thread that must not wait, because others wait for it, leaves callbacks to another one."""

    _left = threading.local()

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()

    def left_by_this_thread(self) -> None:
        """Run here, from now on, what `call` is given in this thread."""
        self._left.to = self

    @classmethod
    def call(cls, callback: Callable[[T], object], argument: T) -> None:
        """Call it: now, or in the other thread."""
        to: Callbacks | None = getattr(cls._left, "to", None)
        if to is None:
            callback(argument)
        else:
            to._calls.put(partial(callback, argument))

    def run(self) -> None:
        """What the other thread does, until `end`."""
        while (call := self._calls.get()) is not None:
            try:
                call()
            except BaseException:
                _log.exception(_RAISED)
            del call  # and what it holds, while this waits

    def end(self) -> None:
        """End after what is there."""
        self._calls.put(None)


class Submitted(GuardedFuture[Any]):
    """A request whose caller has a future in its hand: itself."""

    def __init__(
        self,
        arrays: Sequence[Array],
        present: Callable[[list[Array]], Any],
        withdraw: Callable[[Request], bool],
        hurry: Callable[[Request], None],
    ) -> None:
        """`present` makes of the results what the future gives; `withdraw` takes a request off the queue.

        `hurry` is told of one for whose end this thread is about to wait.
        """
        super().__init__()
        self.arrays = arrays
        self.outputs: Sequence[Array] | None = None
        self.arrived = perf_counter_ns()
        self._present = present
        self._withdraw: Callable[[Request], bool] | None = withdraw
        self._hurry: Callable[[Request], None] | None = hurry

    def begin(self) -> bool:
        """Whether it was not cancelled; from now on it cannot be."""
        self._withdraw = self._hurry = None
        return self.set_running_or_notify_cancel()

    def succeed(self, results: list[Array]) -> None:
        """Fulfil the future."""
        self.set_result(self._present(results))

    def fail(self, error: BaseException) -> None:
        """Break the future."""
        if self.running() or self.begin():
            self.set_exception(error)

    def result(self, timeout: float | None = None) -> Any:
        """See `Future`."""
        if (hurry := self._hurry) is not None:
            hurry(self)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """See `Future`."""
        if (hurry := self._hurry) is not None:
            hurry(self)
        return super().exception(timeout)

    def cancel(self) -> bool:
        """Call the prediction off; False where it runs already or is done."""
        withdraw, cancelled = self._withdraw, super().cancel()
        if cancelled and withdraw is not None and withdraw(self):
            self.begin()
        return cancelled
