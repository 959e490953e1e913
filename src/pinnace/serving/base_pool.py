"""The workers of a pool, and their end."""

from __future__ import annotations

import atexit
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import NamedTuple

from pinnace.engines.forks import renewed_by_forks
from pinnace.engines.protocol import Executable
from pinnace.errors import ModelStateError
from pinnace.serving.request import Request
from pinnace.serving.thread_pool import ThreadPool, end_all
from pinnace.serving.worker import Worker


class WorkerGroup(NamedTuple):
    """An executable and the number of its workers, each bound to one of `cores` in turn."""

    executable: Executable
    count: int = 1  # type: ignore[assignment]  # hides a method of tuples
    cores: Sequence[int] = ()

    def workers(self, group: int, kind: type[Worker]) -> list[Worker]:
        cores = self.cores
        bindings = [frozenset({cores[i % len(cores)]} if cores else ()) for i in range(self.count)]
        return [kind(self.executable, binding, group) for binding in bindings]


class BasePool(ABC):
    """Workers of one or more groups, and the queue that threads serve with them: its own, or given `threads`.

    Who has a worker's lock runs on it. All else has `_lock`, which would add 5 % to a caller's way to an idle
    worker and back. No wake-up is missed: one thread adds a request, closes the pool or exchanges
    executables, and then looks for idle workers; the other one takes or releases a worker, and then looks for
    requests, the end and executables. Both are locks of C that a `with` takes, so that an exception of a
    signal handler (Ctrl-C) finds them either free, or in a block that frees them.
    """

    def __init__(
        self, groups: Sequence[WorkerGroup], kind: type[Worker], threads: ThreadPool | None = None
    ) -> None:
        self._executables = tuple(group.executable for group in groups)
        # Alternate between devices, so that few requests are spread over all of them.
        turns = zip_longest(*(group.workers(number, kind) for number, group in enumerate(groups)))
        self._workers = [worker for turn in turns for worker in turn if worker is not None]
        self.size = len(self._workers)
        self._active = self._workers  # those that may take requests
        self._waiting: deque[Request] = deque()
        self._closed = ""  # the reason, once closed
        self._freed = False
        self._make_locks()
        self._threads, self._has_own = threads or ThreadPool(), threads is None
        if self._has_own:
            weakref.finalize(self, self._threads.end).atexit = False  # `_close_all` does more at exit
        _pools.add(self)
        renewed_by_forks(self)

    def _make_locks(self) -> None:
        self._main = threading.main_thread().ident
        # A lock of C: an exception of a signal handler could leave that of a Condition taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # notified of requests that may join a batch
        self._trial = threading.Lock()  # held while `try_out` runs

    @property
    def executables(self) -> Sequence[Executable]:
        return self._executables

    @property
    def executable(self) -> Executable:
        return self._executables[0]

    @abstractmethod
    def serve(self, worker: Worker) -> None:
        """See `Queue.serve`."""

    def waits_since(self) -> int:
        try:
            return self._waiting[0].arrived
        except IndexError:
            return 0

    def _held(self) -> Worker | None:
        """Return the worker that this thread has: it runs a callback, a signal handler or a finalizer."""
        me = threading.get_ident()
        return next((worker for worker in self._workers if worker.user == me), None)

    def _idle(self) -> list[Worker]:
        return [worker for worker in self._active if not worker.lock.locked()]

    def _check_open(self) -> None:
        if self._closed:
            raise ModelStateError(self._closed)

    def _release(self, worker: Worker) -> None:
        """Make a worker idle, and let a thread continue with the queue."""
        worker.release()
        self._continue(worker)

    def _continue(self, worker: Worker) -> None:
        """Do what came up while an idle worker was taken: an exchange, or requests."""
        if worker.executable is not self._executables[worker.group]:
            with self._lock:
                self._adopt()
        if self._waiting:
            self._threads.serve(self, worker)

    def _adopt(self) -> None:
        """Let idle workers use the current executables, unless they are closed. The caller has `_lock`."""
        for worker in () if self._closed else self._workers:
            if worker.taken():
                try:
                    worker.adopt(self._executables[worker.group])
                finally:
                    worker.release()

    def close(self) -> None:
        """Fail the waiting requests, wait for the running ones, and free the executables. May be called
        again.

        If this thread has a worker (the callback of a future, a signal handler, a finalizer), the call
        returns at once and another thread closes: it would wait for its own caller.
        """
        self._closed = self._closed or "the model is closed"
        if self._held() is None:
            self._end()
            return
        with suppress(RuntimeError):  # no thread can start: new requests are refused all the same
            threading.Thread(target=self._end, name="pinnace-close").start()

    def _end(self) -> None:
        with self._lock:
            turned_away = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for request in turned_away:
            if request.claim():
                request.fail(ModelStateError("the model was closed while this request waited for a worker"))
        for worker in self._workers:
            with worker.lock:  # once it has ended its request, it begins none
                pass
        with self._trial, self._lock:
            if self._freed:
                return
            self._freed = True
            for executable in self._executables:
                executable.close()
        if self._has_own:
            self._threads.end()
            self._threads.join()

    def stop_for_good(self) -> None:
        for worker in self._workers:
            worker.stop_for_good()

    def renew(self) -> None:
        """Reset the pool in a forked child; close it if it was running requests, or cannot run there."""
        lost = next(filter(None, (executable.lost_by_fork for executable in self._executables)), "")
        if self._waiting or self._trial.locked() or any(worker.lock.locked() for worker in self._workers):
            lost = lost or (
                "this process was forked while the model ran a prediction: build the model here, or start "
                "the process by spawn"
            )
        self._make_locks()
        for worker in self._workers:
            worker.renew()
        if lost:
            self._waiting.clear()
            self._freed, self._closed = True, self._closed or lost


_pools: weakref.WeakSet[BasePool] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close all pools at exit: ending a thread inside an engine would abort the process."""
    if getattr(sys, "last_type", None) is KeyboardInterrupt:  # it ends the process
        for pool in list(_pools):
            pool.stop_for_good()
    for pool in list(_pools):
        pool.close()
    end_all()
