"""Requests that are the futures of their callers.

They have a module of their own because `concurrent.futures` takes 4 ms to import, and many processes call
`predict` only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar

from pinnace.log import Log
from pinnace.serving.request import Request

if TYPE_CHECKING:
    from pinnace.types import Array

T = TypeVar("T")
_log = Log("pinnace.serving")


class GuardedFuture(Future[T]):
    """A future whose callbacks cannot end the thread that completes it.

    `Future` lets exceptions pass that are no `Exception`: `sys.exit()` in a callback would end a worker
    thread.
    """

    def set_result(self, result: T) -> None:
        """See `Future`."""
        try:
            super().set_result(result)
        except InvalidStateError:
            raise
        except BaseException as error:
            _log_callback(error)

    def set_exception(self, exception: BaseException | None) -> None:
        """See `Future`."""
        try:
            super().set_exception(exception)
        except InvalidStateError:
            raise
        except BaseException as error:
            _log_callback(error)


def _log_callback(error: BaseException) -> None:
    message = "a callback of a prediction's future raised an exception"
    _log.exception("callback failed", message, error)


class Submitted(GuardedFuture[Any]):
    """A request that is also the future of its caller."""

    def __init__(
        self,
        arrays: Sequence[Array],
        present: Callable[[list[Array]], Any],
        withdraw: Callable[[Request], bool],
        run_now: Callable[[Request], None],
    ) -> None:
        """Create a request. `present` converts the results; `withdraw` removes a request from the queue.

        `run_now` is called with the request that this thread is about to wait for.
        """
        super().__init__()
        self.arrays = arrays
        self.outputs: Sequence[Array] | None = None
        self.arrived = perf_counter_ns()
        self._present = present
        self._withdraw: Callable[[Request], bool] | None = withdraw
        self._run_now: Callable[[Request], None] | None = run_now

    def begin(self) -> bool:
        """Return True unless the request was cancelled; afterwards it cannot be cancelled."""
        self._withdraw = self._run_now = None
        return self.set_running_or_notify_cancel()

    def succeed(self, results: list[Array]) -> None:
        """Complete the future."""
        self.set_result(self._present(results))

    def fail(self, error: BaseException) -> None:
        """Complete the future with an error."""
        if self.running() or self.begin():
            self.set_exception(error)

    def result(self, timeout: float | None = None) -> Any:
        """See `Future`."""
        if (run_now := self._run_now) is not None:
            run_now(self)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """See `Future`."""
        if (run_now := self._run_now) is not None:
            run_now(self)
        return super().exception(timeout)

    def cancel(self) -> bool:
        """Cancel the prediction. Returns False if it is running or done."""
        withdraw, cancelled = self._withdraw, super().cancel()
        if cancelled and withdraw is not None and withdraw(self):
            self.begin()
        return cancelled
