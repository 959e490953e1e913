"""A pool of workers over one executable, behind one queue."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from queue import SimpleQueue
from time import monotonic, perf_counter_ns
from typing import TYPE_CHECKING, Any

from pinnace.errors import (
    DataMismatchError,
    EngineError,
    ModelStateError,
    PredictTimeoutError,
    QueueFullError,
    warn,
)
from pinnace.machine.cores import bound
from pinnace.serving import stats
from pinnace.serving.batching import Batching, joined, split
from pinnace.serving.request import Blocking, Request, Submitted
from pinnace.serving.visit import Visit, visits, visits_once
from pinnace.serving.worker import Worker

if TYPE_CHECKING:  # importing an engine is slow, and every process imports this module
    from pinnace.engines.protocol import Executable
    from pinnace.types import Array


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


def _kinds(executable: Executable) -> list[tuple[object, object]]:
    return [(value.shape, value.dtype) for value in executable.execution().state]


_CROWD = 4
"""Waiting requests per worker above which all requests go through the queue for `_CROWDED` ns.

Otherwise the thread that Python happens to run finds a worker idle again and again while the others wait:
with requests of some microseconds the slowest of 32 clients had 2 to 3 times the mean latency of the fastest.
Going through the queue costs one thread wake-up.
"""
_CROWDED = 20_000_000

_WITHIN = 100
"""Maximum of nested requests that callbacks of one request submit and run at once; more go to the queue.

If each callback submits the next request, all of them are on the stack together.
"""


class Workers:
    """`count` workers that run one executable, first come, first served, each with its own state.

    A caller that finds an idle worker runs on it in its own thread, unless the queue was crowded just before.
    Otherwise the request waits in the queue, and the worker threads run queued requests one after the other
    until the queue is empty. (Handing a worker from caller to caller leaves a core idle while the next caller
    wakes: that reached 0.81 of what the kernels allow, worker threads reach 0.98.)

    Each worker is bound to one of `cores` in turn. `limit` is the number of requests that may wait, 0 for no
    limit. `others` are more workers behind the same queue with executables of their own: the same model on
    other devices.
    """

    def __init__(
        self,
        executable: Executable,
        count: int = 1,
        cores: Sequence[int] = (),
        limit: int = 0,
        batching: Batching | None = None,
        others: Sequence[WorkerGroup] = (),
        worker: type[Worker] = Worker,
    ) -> None:
        if batching is not None:
            batching.check(executable)
        posts = (WorkerGroup(executable, count, cores), *others)
        self._executables = tuple(post.executable for post in posts)
        self._limit, self._batching = limit, batching
        # Alternate between devices, so that few requests are spread over all of them.
        in_turn = zip_longest(*(post.workers(group, worker) for group, post in enumerate(posts)))
        self._workers = [worker for turn in in_turn for worker in turn if worker is not None]
        self._idle = self._workers[::-1]
        self._waiting: deque[Request] = deque()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # all are idle, or one more request waits
        self._visit = Visit()
        self._direct = batching is None or not batching.delay
        self._closed = ""  # the reason, once closed
        self._freed = False
        self._crowded_until = 0
        self._refused = self._withdrawn = 0
        self._began = monotonic()
        self._trial = threading.Lock()  # held while `try_out` runs
        weakref.finalize(self, _dismiss, self._workers).atexit = False  # `_close_all` does more at exit
        _pools.add(self)

    @property
    def executable(self) -> Executable:
        """The executable of the first device."""
        return self._executables[0]

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array] | None = None, timeout: float | None = None
    ) -> list[Array]:
        """Compute the outputs of a request, into `outputs` if given (see `Execution.run`).

        Raises `EngineError`, `ModelStateError` if closed, `QueueFullError`, and `PredictTimeoutError` after
        `timeout` seconds; a request that is running by then continues, and its results are dropped.
        """
        arrived = perf_counter_ns()
        visit = self._visit
        if visit.is_inside:  # called by a callback of a future: waiting for a worker would deadlock
            self._check_open()
            return visit.own().run(arrays, outputs, arrived)
        worker: Worker | None = None
        turn = 0
        try:
            visit.is_inside = True
            if timeout is None and self._direct and arrived > self._crowded_until:
                with self._lock:
                    self._check_open()
                    # A worker that was woken for a waiting request may not have taken it yet.
                    if self._idle and not self._waiting:
                        worker, turn = self._idle[-1], self._idle[-1].turn
                        del self._idle[-1]  # `pop` is a call, in which a signal handler could raise
                if worker is not None:
                    if not worker.cores:
                        return worker.run(arrays, outputs, arrived)
                    with bound(worker.cores):
                        return worker.run(arrays, outputs, arrived)
            return self._wait_for(Blocking(arrays, outputs if timeout is None else None, arrived), timeout)
        finally:
            try:
                if worker is not None:
                    self._give_back(worker, turn)
            except BaseException:  # a signal handler raised
                self._give_back(worker, turn)  # type: ignore[arg-type]
                raise
            finally:
                visit.is_inside = False

    def _wait_for(self, request: Blocking, timeout: float | None) -> list[Array]:
        """Queue a request and wait for its results."""
        try:
            self._put(request)
            done = request.wait(timeout)
        except BaseException:  # KeyboardInterrupt
            self.withdraw(request)
            raise
        if not done and not request.wait(0):
            what = "waited for a worker" if self.withdraw(request) else "was running"
            raise PredictTimeoutError(f"the prediction {what} when its {timeout} s were over")
        return request.results()

    def submit(self, arrays: Sequence[Array], present: Callable[[list[Array]], Any]) -> Future[Any]:
        """Queue a request; the future gets `present(results)`.

        Raises as `run` does, except for errors of the run itself.
        """
        request = Submitted(arrays, present, self.withdraw, self.run_now)
        self.enqueue(request)
        return request

    @visits_once
    def try_out(self, arrays: Sequence[Array]) -> list[Array] | None:
        """Run a request on a temporary state, without counting it. Returns None if the engine fails."""
        with self._trial:
            self._check_open()
            try:
                return self.executable.execution().run(arrays)
            except EngineError:
                return None

    @visits_once
    def exchange(self, *executables: Executable) -> None:
        """Replace the executables, one for each device, and keep the states.

        Running requests finish on the old executables, which are freed after the last of them. Raises
        `ModelStateError` if closed, `DataMismatchError` if the states do not fit, `ConfigError` if the new
        executables cannot batch requests as configured.
        """
        with self._lock:
            if self._closed:
                raise ModelStateError("the model was closed while its weights or shapes were exchanged")
            if self._batching is not None:
                self._batching.check(executables[0])
            if _kinds(executables[0]) != _kinds(self.executable):
                raise DataMismatchError("the model would keep values of other shapes between predictions")
            self._executables = executables
            for worker in self._idle:
                worker.adopt(executables[worker.group])

    @visits
    def stats(self) -> stats.Stats:
        """Return counts of requests and workers."""
        with self._lock:
            tallies = [worker.tally for worker in self._workers]
            return stats.Stats(
                workers=len(tallies),
                busy=len(tallies) - len(self._idle),
                queued=len(self._waiting),
                served=sum(t.served for t in tallies),
                failed=sum(t.failed for t in tallies),
                refused=self._refused,
                withdrawn=self._withdrawn,
                batches=sum(t.batches for t in tallies),
                latency=stats.latency(tallies),
                seconds=monotonic() - self._began,
            )

    def close(self) -> None:
        """Fail the waiting requests, wait for the running ones, and free the executables. May be called
        again.

        If the call comes from inside the pool (the callback of a future, a signal handler, a finalizer), it
        returns at once and closes in another thread: it might otherwise wait for its own caller.
        """
        self._closed = self._closed or "the model is closed"
        if self._visit.is_inside:
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

    def _is_busy(self) -> bool:
        return bool(self._waiting) or len(self._idle) < len(self._workers)

    def inherit(self) -> None:
        """Reset the pool in a forked child; close it if it was running requests."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._visit = Visit()
        for worker in self._workers:
            worker.thread, worker.wake = None, SimpleQueue()
        if self._is_busy() or self._trial.locked():
            self._waiting.clear()
            self._idle, self._trial, self._freed = list(self._workers), threading.Lock(), True
            self._closed = (
                "this process was forked while the model ran a prediction: build the model here, or start "
                "the process by spawn"
            )

    def _give_back(self, worker: Worker, turn: int) -> None:
        """Mark a worker as idle, or continue with the queue in its own thread.

        `turn` is the worker's `turn` when it was taken: the worker may have been returned already.
        """
        with self._lock:
            if worker.turn == turn:
                self._rest(worker)
            if not self._waiting:
                return
        self._wake(worker)

    def _rest(self, worker: Worker) -> None:
        worker.adopt(self._executables[worker.group])
        # `append` is a call: a signal handler could raise before the next line.
        self._idle += [worker]
        worker.turn += 1
        if self._closed:
            self._changed.notify_all()

    def enqueue(self, request: Request) -> None:
        """Queue a request. Raises as `submit` does."""
        own = self._visit.worker
        if own is not None and own.within < _WITHIN:  # called from the callback of a future
            self._check_open()
            own.within += 1
            self._perform(own, [request])
            return
        self._put_alone(request)

    def _put(self, request: Request) -> None:
        """Queue a request and wake an idle worker for it."""
        with self._lock:
            self._check_open()
            waiting, idle = len(self._waiting), len(self._idle)
            if self._limit and waiting - idle >= self._limit:
                self._refused += 1
                raise QueueFullError(
                    f"the queue is full: {waiting} predictions wait for {len(self._workers)} workers, and "
                    f"[runner] max_queue is {self._limit}; try again later"
                )
            if waiting >= _CROWD * len(self._workers):
                self._crowded_until = request.arrived + _CROWDED
            self._waiting.append(request)
            # The last idle workers were woken for the requests that wait already.
            worker = self._idle[-min(waiting + 1, idle)] if idle else None
            if self._batching is not None:
                self._changed.notify_all()
        if worker is not None:
            self._wake(worker)

    _put_alone = visits_once(_put)

    @visits
    def withdraw(self, request: Request, is_over: bool = True) -> bool:
        """Remove a request from the queue. Returns False if it is not there any more."""
        with self._lock:
            try:
                self._waiting.remove(request)
            except ValueError:
                return False
            self._withdrawn += is_over
            return True

    def run_now(self, request: Request) -> None:
        """Run a waiting request here, if this thread is the worker that is about to wait for it."""
        own = self._visit.worker
        if own is not None and self.withdraw(request, is_over=False):
            self._perform(own, [request])

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

    def _serve(self, worker: Worker) -> None:
        """Run queued requests until the queue is empty. Does nothing if the worker is taken."""
        with self._lock:
            if worker not in self._idle or not self._waiting:
                return
            self._idle.remove(worker)
        while batch := self._next(worker):
            worker.within = 0
            self._perform(worker, batch)

    def _perform(self, worker: Worker, batch: Sequence[Request]) -> None:
        """Run requests, without those that were cancelled after they left the queue."""
        begun = [request for request in batch if request.begin()]
        if len(begun) < len(batch):
            with self._lock:
                self._withdrawn += len(batch) - len(begun)
        if len(begun) == 1:
            worker.perform(begun[0])
        elif begun:
            self._perform_together(worker, begun)

    def _next(self, worker: Worker) -> list[Request]:
        """Return the oldest request, with those to be batched with it."""
        with self._lock:
            worker.adopt(self._executables[worker.group])
            if not self._waiting:
                self._rest(worker)
                return []
            batch = [self._waiting.popleft()]
            batching = self._batching
            if batching is not None:
                end = batch[0].arrived + batching.delay
                while batching.extend(batch, self._waiting) and not self._closed:
                    left = end - perf_counter_ns()
                    if left <= 0 or not self._changed.wait(left / 1e9):
                        break
            return batch

    def _perform_together(self, worker: Worker, batch: Sequence[Request]) -> None:
        """Run requests as a batch. If that fails, run each alone, so that only faulty ones get errors."""
        parts = None
        with suppress(Exception):  # not enough memory for the batch, or warnings raise
            parts = self._together(worker, batch)
        if parts is not None:
            worker.finish(batch, parts)
            return
        for request in batch:
            worker.perform(request)

    def _together(self, worker: Worker, batch: Sequence[Request]) -> list[list[Array]] | None:
        """Return the results of each request; None if the engine fails."""
        results = worker.attempt(joined(batch))
        if results is None:
            return None
        try:
            return split(results, batch)
        except EngineError as error:
            self._batching = None
            warn(f"[runner] max_batch_size: requests run one by one from now on: {error}")
            return None


def _work(pool: weakref.ref[Workers], worker: Worker) -> None:
    """The loop of a worker thread. It holds a reference to the pool only while there is work."""
    if worker.cores:
        os.sched_setaffinity(0, worker.cores)
    while True:
        worker.wake.get()
        workers = pool()
        if worker.dismissed or workers is None:
            worker.wake.put(None)  # a second thread exists if a signal arrived while one was started
            return
        workers._visit.is_inside, workers._visit.worker = True, worker
        workers._serve(worker)
        del workers


_pools: weakref.WeakSet[Workers] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close all pools at exit: ending a thread inside an engine would abort the process."""
    for workers in list(_pools):
        workers.close()


def _after_fork() -> None:
    """Reset all pools in a forked child: their threads are gone, and locks may be held."""
    for workers in list(_pools):
        workers.inherit()


os.register_at_fork(after_in_child=_after_fork)


def _dismiss(workers: Iterable[Worker]) -> None:
    """End the threads of the workers."""
    for worker in workers:
        worker.dismissed = True
        worker.wake.put(None)
