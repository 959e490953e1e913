"""Requests that are the futures of their callers.

They have a module of their own because `concurrent.futures` takes 4 ms to import, and many processes call
`predict` only.
"""

from __future__ import annotations

import sched
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar

from pinnace.engines.forks import renewed_by_forks
from pinnace.log import ERROR, Log
from pinnace.serving.request import Request, timed_out

if TYPE_CHECKING:
    from pinnace.serving.pool import WorkerPool
    from pinnace.types import Array

T = TypeVar("T")
_log = Log("pinnace.serving")


class Deadlines:
    """Calls at later times. One thread waits for the next one, and starts another before it calls: the call
    may wait, as a callback of a future does that tries again.
    """

    def __init__(self) -> None:
        self.renew()
        renewed_by_forks(self)

    def renew(self) -> None:
        self._calls = sched.scheduler()
        self._changed = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call in `seconds`. Returns a function that cancels this."""
        due = self._calls.enter(seconds, 0, self._call, (call,))
        self._replace(None)
        self._changed.set()

        def cancel() -> None:
            with suppress(ValueError):  # it was called
                self._calls.cancel(due)

        return cancel

    def _replace(self, thread: threading.Thread | None) -> None:
        """Start a thread if this is the one that waits, or None and there is none."""
        with self._lock:
            if self._thread is thread:
                self._thread = threading.Thread(target=self._work, name="pinnace-deadlines", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            delay = self._calls.run(blocking=False)
            if threading.current_thread() is not self._thread:
                return
            self._changed.wait(delay)
            self._changed.clear()

    def _call(self, call: Callable[[], None]) -> None:
        self._replace(threading.current_thread())
        call()


_deadlines = Deadlines()


class RequestFuture(Future[T]):
    """A future of a request that its client can give up, also while it runs.

    It is pending until the request has ended, so that `cancel` works as for one that waits. Its callbacks
    cannot end the thread that completes it: `Future` lets exceptions pass that are no `Exception`, and
    `sys.exit()` in a callback would end a worker thread.
    """

    def __init__(self, pool: WorkerPool) -> None:
        super().__init__()
        self._pool: WorkerPool | None = pool  # until the request has ended
        self._claimed = threading.Lock()
        self._unfinished = threading.Lock()
        self._unfinished.acquire()
        self.add_done_callback(lambda _: self._unfinished.release())
        self.begun = False
        self.began_at = 0  # by `perf_counter_ns`, 0 while it waits

    def requests(self) -> Sequence[Request]:
        raise NotImplementedError

    def running(self) -> bool:
        return self.begun and not self.done()

    def claim(self) -> bool:
        """Return True if the caller of this is the one who ends the request."""
        return self._claimed.acquire(blocking=False) and self.set_running_or_notify_cancel()

    def cancel(self) -> bool:
        """Cancel the prediction, and stop it if it runs. Returns False if it is done."""
        pool, cancelled = self._pool, super().cancel()
        if cancelled and pool is not None:
            self.claim()  # for those who wait for several futures
            self._leave(pool)
        return cancelled

    def expire_after(self, seconds: float | None) -> None:
        """Fail with `PredictTimeoutError` in `seconds`, if the request has not ended by then."""
        if seconds is not None:
            cancel = _deadlines.after(seconds, lambda: self.expire(seconds))
            self.add_done_callback(lambda _: cancel())

    def expire(self, seconds: float | None) -> None:
        """Fail with `PredictTimeoutError`, and stop the prediction if it runs; do nothing if it is done."""
        pool = self._pool
        if pool is not None and self.claim():
            self._guarded(self.set_exception, timed_out(seconds, self.begun))
            self._leave(pool)

    def _leave(self, pool: WorkerPool) -> None:
        self._pool = None
        pool.give_up(*self.requests())

    def succeed_with(self, result: T) -> None:
        self._pool = None
        self._guarded(self.set_result, result)

    def fail(self, error: BaseException) -> None:
        self._pool = None
        self._guarded(self.set_exception, error)

    def result(self, timeout: float | None = None) -> T:
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        """Wait for the end of the request, at most `timeout` seconds.

        Not as `Future` does: Ctrl-C can leave its condition locked, and then the worker waits for ever.
        """
        self._run_here()
        if self._unfinished.acquire(timeout=-1 if timeout is None else max(0, timeout)):
            self._unfinished.release()

    def _run_here(self) -> None:
        """Run the requests if this thread is a worker: it would wait for itself."""
        if (pool := self._pool) is not None:
            pool.run_now(*self.requests())

    @staticmethod
    def _guarded(complete: Callable[[Any], None], outcome: object) -> None:
        try:
            complete(outcome)
        except InvalidStateError:
            raise
        except BaseException as error:
            message = "a callback of a prediction's future raised an exception"
            _log.event(ERROR, "callback failed", message, error)


class SubmittedRequest(RequestFuture[Any]):
    """A request that is also the future of its caller."""

    def __init__(
        self, pool: WorkerPool, arrays: Sequence[Array], present: Callable[[list[Array]], Any], priority: int
    ) -> None:
        """Create a request of a pool. `present` converts the results."""
        super().__init__(pool)
        self.arrays = arrays
        self.outputs: list[Array] | None = None
        self.arrived, self.priority = perf_counter_ns(), priority
        self._present = present

    def requests(self) -> Sequence[Request]:
        return [self]

    def begin(self) -> bool:
        self.begun, self.began_at = not self.done(), perf_counter_ns()
        return self.begun

    def succeed(self, results: list[Array]) -> None:
        self.succeed_with(self._present(results))
