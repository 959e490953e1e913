"""Threads that serve the queues of worker pools."""

from __future__ import annotations

import threading
import weakref
from queue import SimpleQueue
from typing import Protocol

from pinnace.engines.forks import renewed_by_forks
from pinnace.serving.worker import Worker


class Queue(Protocol):
    """The queue of a worker pool."""

    @property
    def size(self) -> int:
        """The number of workers."""

    def waits_since(self) -> int:
        """Return when the next request arrived, by `perf_counter_ns`; 0 if there is none."""

    def serve(self, worker: Worker) -> None:
        """Run waiting requests on this worker until there are none, or another queue waits longer.

        Does nothing if another thread has the worker.
        """


class ThreadPool:
    """Threads that serve one queue, or those of several models: the request that waits longest is next.

    There are as many as the pool with the most workers has: ten models with two workers each have two.
    """

    def __init__(self) -> None:
        self.renew()
        _all.add(self)
        renewed_by_forks(self)

    def renew(self) -> None:
        self._lock, self._alone = threading.RLock(), threading.Lock()
        self._turns: list[tuple[Queue, Worker]] = []
        self._wake: SimpleQueue[bool] = SimpleQueue()  # True for each turn, False for the end
        self._threads: list[threading.Thread] = []

    @property
    def is_here(self) -> bool:
        """True in its threads."""
        return threading.current_thread() in self._threads

    def serve(self, queue: Queue, worker: Worker) -> None:
        """Let a thread serve the queue with this worker; the caller's if the system cannot start one."""
        turn = queue, worker
        with self._lock:
            if turn not in self._turns:
                self._turns.append(turn)
            if len(self._threads) < queue.size:
                self._start()
        if self._threads:
            self._wake.put(True)  # also for a known turn: an exception may have come before
            return
        while self._turns and self._alone.acquire(blocking=False):  # else one that called before serves it
            try:
                self._serve_next()
            finally:
                self._alone.release()

    def are_wanted_by_another(self, queue: Queue) -> bool:
        """Return True if another queue that waits for a thread waits longer than this one."""
        if not self._turns:
            return False
        since = queue.waits_since()
        return any(other.waits_since() < since for other, _ in self._turns.copy())

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name="pinnace-worker", daemon=True)
        self._threads.append(thread)  # before an exception of a signal handler while it starts
        try:
            thread.start()
        except RuntimeError:
            self._threads.remove(thread)

    def _work(self) -> None:
        while self._wake.get():
            self._serve_next()
        self._wake.put(False)  # for the next thread

    def _serve_next(self) -> None:
        with self._lock:
            if not self._turns:
                return
            turn = self._turns[0] if len(self._turns) == 1 else min(self._turns, key=_waits_since)
            self._turns.remove(turn)
        queue, worker = turn
        queue.serve(worker)

    def end(self) -> None:
        """End the threads once they have served what waits."""
        self._wake.put(False)

    def join(self) -> None:
        """Wait for the end of the threads."""
        with self._lock:  # they have started
            threads = [*self._threads]
        for thread in threads:
            thread.join()


def _waits_since(turn: tuple[Queue, Worker]) -> int:
    return turn[0].waits_since()


_all: weakref.WeakSet[ThreadPool] = weakref.WeakSet()


def end_all() -> None:
    """End all threads, and wait for them."""
    for pool in list(_all):
        pool.end()
        pool.join()
