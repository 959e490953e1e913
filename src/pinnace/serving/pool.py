"""Many requests over one executable."""

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
from time import perf_counter_ns
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

if TYPE_CHECKING:  # importing an engine takes long, and this is imported by all
    from pinnace.engines.protocol import Array, Executable


@dataclass(frozen=True)
class WorkerGroup:
    """An executable, and how many workers run it, bound to `cores`, a worker each in turn."""

    executable: Executable
    count: int = 1
    cores: Sequence[int] = ()

    def workers(self, group: int) -> list[Worker]:
        """New workers, which are told apart from those of other posts by `group`."""
        cores = self.cores
        places = [frozenset({cores[i % len(cores)]} if cores else ()) for i in range(self.count)]
        return [Worker(self.executable, place, group) for place in places]


def _kinds(executable: Executable) -> list[tuple[object, object]]:
    return [(value.shape, value.dtype) for value in executable.execution().state]


_CROWD = 4
"""Requests that wait for each worker from which on all go through the queue for `_CROWDED` ns.

A thread that Python lets run would else find a worker idle again and again, before those that it keeps from
running have had their turn: with requests of some microseconds the slowest of 32 clients then had 2 to 3
times the mean latency of the fastest. To go through the queue costs a thread's waking up.
"""
_CROWDED = 20_000_000

_WITHIN = 100
"""Requests that callbacks of one request submit and that run there at once; more of them wait in the queue.

Where each callback submits the next request, they are on the stack all together.
"""


class Workers:
    """`count` places where one executable runs, each with a state of its own, first come first served.

    A caller who finds a worker idle runs on it in its own thread, unless many had to wait just before. Who
    does not waits in the queue; then the threads of the workers run what is in the queue, one request after
    the other without a hand-over in between, until it is empty. (Callers that hand a worker to the next one
    leave a core idle while that one wakes: 0.81 of what the kernels allow was measured, 0.98 in this way.)

    `cores` are bound to, a worker each in turn; `limit` is how many may wait, 0 any number. `others` are more
    workers of the same queue with executables of their own: the same model on other devices.
    """

    def __init__(
        self,
        executable: Executable,
        count: int = 1,
        cores: Sequence[int] = (),
        limit: int = 0,
        batching: Batching | None = None,
        others: Sequence[WorkerGroup] = (),
    ) -> None:
        if batching is not None:
            batching.check(executable)
        posts = (WorkerGroup(executable, count, cores), *others)
        self._executables = tuple(post.executable for post in posts)
        self._limit, self._batching = limit, batching
        # Device by device in turn, so that few requests are spread over all.
        in_turn = zip_longest(*(post.workers(group) for group, post in enumerate(posts)))
        self._workers = [worker for turn in in_turn for worker in turn if worker is not None]
        self._idle = self._workers[::-1]
        self._waiting: deque[Request] = deque()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # all idle, or one more waits for a batch
        self._visit = Visit()
        self._direct = batching is None or not batching.delay
        self._closed = ""  # why, once it is
        self._freed = False
        self._crowded_until = 0
        self._refused = self._withdrawn = 0
        self._trial = threading.Lock()  # of the one that runs now
        weakref.finalize(self, _dismiss, self._workers).atexit = False  # `_close_all` does more
        _pools.add(self)

    @property
    def executable(self) -> Executable:
        """What runs, on the first device where there are several."""
        return self._executables[0]

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array] | None = None, timeout: float | None = None
    ) -> list[Array]:
        """Compute the outputs of a request, into `outputs` where these are given (see `Execution.run`).

        Raises `EngineError`, `ModelStateError` if closed, `QueueFullError`, and `PredictTimeoutError` after
        `timeout` seconds; a request that runs by then goes on, for nothing.
        """
        arrived = perf_counter_ns()
        visit = self._visit
        if visit.is_inside:  # a callback of a future asks: to wait for a worker would be to wait for itself
            self._check_open()
            return visit.own().run(arrays, outputs, arrived)
        worker: Worker | None = None
        turn = 0
        try:
            visit.is_inside = True
            if timeout is None and self._direct and arrived > self._crowded_until:
                with self._lock:
                    self._check_open()
                    # A worker that was woken for those who wait may not have come to it yet.
                    if self._idle and not self._waiting:
                        worker, turn = self._idle[-1], self._idle[-1].turn
                        del self._idle[-1]  # no call, as `pop`, in which the handler of a signal could raise
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
            except BaseException:  # the handler of a signal has raised
                self._give_back(worker, turn)  # type: ignore[arg-type]
                raise
            finally:
                visit.is_inside = False

    def _wait_for(self, request: Blocking, timeout: float | None) -> list[Array]:
        """The results of a request that goes through the queue."""
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
        """Put a request into the queue; the future gets what `present` makes of its results.

        Raises as `run`, but for what goes wrong while it runs.
        """
        request = Submitted(arrays, present, self.withdraw, self.hurry)
        self.enqueue(request)
        return request

    @visits_once
    def try_out(self, arrays: Sequence[Array]) -> list[Array] | None:
        """As `run`, on a state that is thrown away and uncounted; None where the engine fails."""
        with self._trial:
            self._check_open()
            try:
                return self.executable.execution().run(arrays)
            except EngineError:
                return None

    @visits_once
    def exchange(self, *executables: Executable) -> None:
        """Run other executables from now on, one for each device, on the states as they are.

        Requests that run finish on those before, which are freed with the last of them. Raises
        `ModelStateError` if closed, `DataMismatchError` where the states do not fit them, `ConfigError` where
        they cannot compute requests together as is wanted.
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
        """What was done, and what is being done."""
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
            )

    def close(self) -> None:
        """Turn away who waits, wait for those who run, and free the executable. May be called again.

        Called from within, as by the callback of a future, the handler of a signal or a finalizer that came
        in between, it returns at once: what it would wait for may be what it was called by.
        """
        self._closed = self._closed or "the model is closed"
        if self._visit.is_inside:
            with suppress(RuntimeError):  # no thread can be had: who waits is served, and none comes after
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
        """Go on in a child after a fork; not where requests ran, whose engine may be in any state."""
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
        """Let a worker be idle, or go on with the queue in its own thread.

        `turn` is what its `turn` was when it was taken: it may have been given back already.
        """
        with self._lock:
            if worker.turn == turn:
                self._rest(worker)
            if not self._waiting:
                return
        self._wake(worker)

    def _rest(self, worker: Worker) -> None:
        worker.adopt(self._executables[worker.group])
        # No call, as `append` is: the handler of a signal could raise before the next line.
        self._idle += [worker]
        worker.turn += 1
        if self._closed:
            self._changed.notify_all()

    def enqueue(self, request: Request) -> None:
        """Put a request into the queue. Raises as `submit`."""
        own = self._visit.worker
        if own is not None and own.within < _WITHIN:  # called from a future's callback
            self._check_open()
            own.within += 1
            self._perform(own, [request])
            return
        self._put_alone(request)

    def _put(self, request: Request) -> None:
        """Put a request into the queue, and wake one of the idle workers for it."""
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
            # The last ones were woken for those who wait, and have not come yet.
            worker = self._idle[-min(waiting + 1, idle)] if idle else None
            if self._batching is not None:
                self._changed.notify_all()
        if worker is not None:
            self._wake(worker)

    _put_alone = visits_once(_put)

    @visits
    def withdraw(self, request: Request, is_over: bool = True) -> bool:
        """Take a request off the queue; False where it is not there any more."""
        with self._lock:
            try:
                self._waiting.remove(request)
            except ValueError:
                return False
            self._withdrawn += is_over
            return True

    def hurry(self, request: Request) -> None:
        """Run a request that waits here, where it is a callback of the worker that waits for its end."""
        own = self._visit.worker
        if own is not None and self.withdraw(request, is_over=False):
            self._perform(own, [request])

    def _check_open(self) -> None:
        if self._closed:
            raise ModelStateError(self._closed)

    def _wake(self, worker: Worker) -> None:
        """Let a worker's thread serve the queue, or this one where the system has no thread for it."""
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
        """Run what is in the queue, and rest; nothing where somebody else runs on the worker."""
        with self._lock:
            if worker not in self._idle or not self._waiting:
                return
            self._idle.remove(worker)
        while batch := self._next(worker):
            worker.within = 0
            self._perform(worker, batch)

    def _perform(self, worker: Worker, batch: Sequence[Request]) -> None:
        """Run requests but those that were called off after they had left the queue."""
        begun = [request for request in batch if request.begin()]
        if len(begun) < len(batch):
            with self._lock:
                self._withdrawn += len(batch) - len(begun)
        if len(begun) == 1:
            worker.perform(begun[0])
        elif begun:
            self._perform_together(worker, begun)

    def _next(self, worker: Worker) -> list[Request]:
        """The request that has waited longest, with those to be computed together with it."""
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
        """Run requests as one; where that fails, each by itself, so that only who is wrong gets an error."""
        parts = None
        with suppress(Exception):  # there is no memory for all, or a warning is an error
            parts = self._together(worker, batch)
        if parts is not None:
            worker.finish(batch, parts)
            return
        for request in batch:
            worker.perform(request)

    def _together(self, worker: Worker, batch: Sequence[Request]) -> list[list[Array]] | None:
        """The results of each request; None where the engine fails."""
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
    """What a worker's thread does; it keeps the pool alive only while there is something to do."""
    if worker.cores:
        os.sched_setaffinity(0, worker.cores)
    while True:
        worker.wake.get()
        workers = pool()
        if worker.dismissed or workers is None:
            worker.wake.put(None)  # there is a second thread where a signal came while one was started
            return
        workers._visit.is_inside, workers._visit.worker = True, worker
        workers._serve(worker)
        del workers


_pools: weakref.WeakSet[Workers] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """At the end of Python: a thread that it ends while an engine runs there takes the process with it."""
    for workers in list(_pools):
        workers.close()


def _after_fork() -> None:
    """In a child after a fork, where the threads that ran and held locks are not."""
    for workers in list(_pools):
        workers.inherit()


os.register_at_fork(after_in_child=_after_fork)


def _dismiss(workers: Iterable[Worker]) -> None:
    """End the workers' threads."""
    for worker in workers:
        worker.dismissed = True
        worker.wake.put(None)
