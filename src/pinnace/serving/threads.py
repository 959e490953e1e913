"""The workers of a pool: which are idle, the threads that serve its queue, and their end."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from queue import SimpleQueue
from typing import TYPE_CHECKING

from pinnace.errors import ModelStateError
from pinnace.serving.request import Request
from pinnace.serving.visit import Visits
from pinnace.serving.worker import Worker

if TYPE_CHECKING:  # importing an engine is slow, and every process imports this module
    from pinnace.engines.protocol import Executable


@dataclass(frozen=True)
class WorkerGroup:
    """An executable and the number of its workers, each bound to one of `cores` in turn."""

    executable: Executable
    count: int = 1
    cores: Sequence[int] = ()

    def workers(self, group: int, kind: type[Worker]) -> list[Worker]:
        """Create workers of a class; `group` is the number of this group in the pool."""
        cores = self.cores
        places = [frozenset({cores[i % len(cores)]} if cores else ()) for i in range(self.count)]
        return [kind(self.executable, place, group) for place in places]


class WorkerThreads:
    """Workers of one or more groups, their threads, and the queue that these serve.

    The lock guards all but a caller's way to an idle worker and back, to which it would add 5 % for a tiny
    model. There, the worker's token says whose it is, and two threads cannot miss each other: one adds a
    request, closes the pool or exchanges executables, and then looks for idle workers; the other one takes
    or returns a worker, and then looks for requests, the end and executables.
    """

    def __init__(self, groups: Sequence[WorkerGroup], kind: type[Worker]) -> None:
        self._executables = tuple(group.executable for group in groups)
        # Alternate between devices, so that few requests are spread over all of them.
        in_turn = zip_longest(*(group.workers(number, kind) for number, group in enumerate(groups)))
        self._workers = [worker for turn in in_turn for worker in turn if worker is not None]
        self._places = self._workers  # those that may take requests
        self._waiting: deque[Request] = deque()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # all are idle, or one more request waits
        self._visits = Visits()
        self._closed = ""  # the reason, once closed
        self._freed = False
        self._trial = threading.Lock()  # held while `try_out` runs
        weakref.finalize(self, _dismiss, self._workers).atexit = False  # `_close_all` does more at exit
        _pools.add(self)

    @property
    def executables(self) -> Sequence[Executable]:
        """The executables, one for each device."""
        return self._executables

    @property
    def executable(self) -> Executable:
        """The executable of the first device."""
        return self._executables[0]

    def _serve(self, worker: Worker) -> None:
        """Run queued requests until the queue is empty. Does nothing if the worker is taken."""
        raise NotImplementedError

    def close(self) -> None:
        """Fail the waiting requests, wait for the running ones, and free the executables. May be called
        again.

        If the call comes from inside the pool (the callback of a future, a signal handler, a finalizer), it
        returns at once and closes in another thread: it might otherwise wait for its own caller.
        """
        self._closed = self._closed or "the model is closed"
        if self._visits.here.is_inside:
            with suppress(RuntimeError):  # no thread can start: new requests are refused all the same
                threading.Thread(target=self._end, name="pinnace-close").start()
        else:
            self._end()

    def _end(self) -> None:
        with self._lock:
            turned_away = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for request in turned_away:
            if request.claim():
                request.fail(ModelStateError("the model was closed while this request waited for a worker"))
        with self._lock:
            while self._is_busy():
                self._changed.wait()
        with self._trial, self._lock:
            if self._freed:
                return
            self._freed = True
            for executable in self._executables:
                executable.close()
        _dismiss(self._workers)
        for worker in self._workers:
            if worker.thread is not None:
                worker.thread.join()

    def halt(self) -> None:
        """Stop all runs, before the end of the process."""
        for worker in self._workers:
            worker.halt()

    def _idle(self) -> list[Worker]:
        return [worker for worker in self._places if worker.idle]

    def _is_busy(self) -> bool:
        return bool(self._waiting) or not all(worker.idle for worker in self._workers)

    def inherit(self) -> None:
        """Reset the pool in a forked child; close it if it was running requests, or cannot run there."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._visits = Visits()
        for worker in self._workers:
            worker.thread, worker.wake = None, SimpleQueue()
        lost = next(filter(None, (executable.lost_by_fork for executable in self._executables)), "")
        if self._is_busy() or self._trial.locked():
            lost = lost or (
                "this process was forked while the model ran a prediction: build the model here, or start "
                "the process by spawn"
            )
        if lost:
            self._waiting.clear()
            for worker in self._workers:
                worker.token[0] = None
            self._trial, self._freed = threading.Lock(), True
            self._closed = self._closed or lost

    def _give_back(self, worker: Worker, turn: int) -> None:
        """Mark a worker as idle, or continue with the queue in its own thread.

        `turn` is the worker's `turn` when it was taken: the worker may have been returned already.
        """
        if worker.turn == turn:
            worker.turn = turn + 1
            worker.token[0] = None
        if self._closed or worker.executable is not self._executables[worker.group]:
            with self._lock:
                self._adopt()
                self._changed.notify_all()
        if self._waiting:
            self._wake(worker)

    def _adopt(self) -> None:
        """Let idle workers use the current executables. The caller has the lock."""
        for worker in self._workers:
            if worker.taken():
                try:
                    worker.adopt(self._executables[worker.group])
                finally:
                    worker.token[0] = None

    def _check_open(self) -> None:
        if self._closed:
            raise ModelStateError(self._closed)

    def _wake(self, worker: Worker) -> None:
        """Let the worker's thread serve the queue, or this thread if the system cannot start another one."""
        if worker.thread is None:
            thread = threading.Thread(
                target=_work, args=(weakref.ref(self), worker), name="pinnace-worker", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                self._serve(worker)
                return
            worker.thread = thread
        worker.wake.put(None)


def _work(pool: weakref.ref[WorkerThreads], worker: Worker) -> None:
    """The loop of a worker thread. It holds a reference to the pool only while there is work."""
    _threads.difference_update([thread for thread in list(_threads) if not thread.is_alive()])
    _threads.add(threading.current_thread())
    if worker.cores:
        os.sched_setaffinity(0, worker.cores)
    while True:
        worker.wake.get()
        workers = pool()
        if worker.dismissed or workers is None:
            worker.wake.put(None)  # a second thread exists if two callers started one at a time
            return
        visit = workers._visits.here
        visit.is_inside, visit.worker = True, worker
        workers._serve(worker)
        del workers


_pools: weakref.WeakSet[WorkerThreads] = weakref.WeakSet()
_threads: set[threading.Thread] = set()
"""Threads of workers that may be alive. The last one of a pool that nobody refers to frees the model."""


@atexit.register
def _close_all() -> None:
    """Close all pools at exit: ending a thread inside an engine would abort the process."""
    if getattr(sys, "last_type", None) is KeyboardInterrupt:  # it ends the process
        for workers in list(_pools):
            workers.halt()
    for workers in list(_pools):
        workers.close()
    for thread in list(_threads):
        thread.join()


def _after_fork() -> None:
    """Reset all pools in a forked child: their threads are gone, and locks may be held."""
    _threads.clear()
    for workers in list(_pools):
        workers.inherit()


os.register_at_fork(after_in_child=_after_fork)


def _dismiss(workers: Iterable[Worker]) -> None:
    """End the threads of the workers."""
    for worker in workers:
        worker.dismissed = True
        worker.wake.put(None)
