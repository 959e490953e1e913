"""Requests that are the futures of their callers.

They have a module of their own because `concurrent.futures` takes 4 ms to import, and many processes call
`predict` only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar

from pinnace.log import Log
from pinnace.serving.request import Request, timed_out

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


class Cancellable(GuardedFuture[T]):
    """A future of a request that its client can give up, also while it runs.

    It is pending until the request has ended, so that `cancel` works as for one that waits.
    """

    def __init__(self, give_up: Callable[[Any], object]) -> None:
        """`give_up` removes a request from the queue, or stops it where it runs."""
        super().__init__()
        self._give_up: Callable[[Any], object] | None = give_up
        self._claimed = threading.Lock()
        self.begun = False

    def running(self) -> bool:
        """Return True if the request runs."""
        return self.begun and not self.done()

    def claim(self) -> bool:
        """Return True if the caller of this is the one who ends the request."""
        return self._claimed.acquire(blocking=False) and self.set_running_or_notify_cancel()

    def cancel(self) -> bool:
        """Cancel the prediction, and stop it if it runs. Returns False if it is done."""
        give_up, cancelled = self._give_up, super().cancel()
        if cancelled and give_up is not None:
            self.claim()  # for those who wait for several futures
            self._leave(give_up)
        return cancelled

    def expire_after(self, seconds: float | None) -> None:
        """Fail with `PredictTimeoutError` in `seconds`, if the request has not ended by then."""
        if seconds is None:
            return
        from pinnace.serving.deadlines import after

        cancel = after(seconds, lambda: self.expire(seconds))
        self.add_done_callback(lambda _: cancel())

    def expire(self, seconds: float | None) -> None:
        """Fail with `PredictTimeoutError`, and stop the prediction if it runs; do nothing if it is done."""
        give_up = self._give_up
        if give_up is not None and self.claim():
            self.set_exception(timed_out(seconds, self.begun))
            self._leave(give_up)

    def _leave(self, give_up: Callable[[Any], object]) -> None:
        self._give_up = None
        give_up(self)


class Submitted(Cancellable[Any]):
    """A request that is also the future of its caller."""

    def __init__(
        self,
        arrays: Sequence[Array],
        present: Callable[[list[Array]], Any],
        give_up: Callable[[Any], object],
        run_now: Callable[[Request], None],
    ) -> None:
        """Create a request. `present` converts the results; `give_up` is that of `Cancellable`.

        `run_now` is called with the request that this thread is about to wait for.
        """
        super().__init__(give_up)
        self.arrays = arrays
        self.outputs: Sequence[Array] | None = None
        self.arrived = perf_counter_ns()
        self._present = present
        self._run_now: Callable[[Request], None] | None = run_now

    def begin(self) -> bool:
        """Return True unless the request was given up."""
        self._run_now = None
        self.begun = not self.done()
        return self.begun

    def succeed(self, results: list[Array]) -> None:
        """Complete the future."""
        self._give_up = None
        self.set_result(self._present(results))

    def fail(self, error: BaseException) -> None:
        """Complete the future with an error."""
        self._give_up = self._run_now = None
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
