"""Many requests over one executable."""

from __future__ import annotations

import atexit
import os
import sys
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
from types import FrameType
from typing import TYPE_CHECKING, Any

from pinnace.cores import bound
from pinnace.errors import (
    DataMismatchError,
    EngineError,
    ModelStateError,
    PredictTimeoutError,
    QueueFullError,
    warn,
)
from pinnace.workers import stats
from pinnace.workers.batching import Batching, joined, split
from pinnace.workers.request import Blocking, Request, Submitted
from pinnace.workers.worker import Worker

if TYPE_CHECKING:  # importing an engine takes long, and this is imported by all
    from pinnace.engines.protocol import Array, Executable


@dataclass(frozen=True)
class Post:
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

_INTERRUPTED = (
    "this prediction would wait for the one that it has interrupted, and that for it: in the handler of a "
    "signal take another model, or submit and do not wait"
)


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
        others: Sequence[Post] = (),
    ) -> None:
        if batching is not None:
            batching.check(executable)
        posts = (Post(executable, count, cores), *others)
        self._executables = tuple(post.executable for post in posts)
        self._limit, self._batching = limit, batching
        # Device by device in turn, so that few requests are spread over all.
        in_turn = zip_longest(*(post.workers(group) for group, post in enumerate(posts)))
        self._workers = [worker for turn in in_turn for worker in turn if worker is not None]
        self._idle = self._workers[::-1]
        self._waiting: deque[Request] = deque()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # all idle, or one more waits for a batch
        self._direct = batching is None or not batching.delay
        self._closed = ""  # why, once it is
        self._freed = False
        self._crowded_until = 0
        self._refused = self._withdrawn = 0
        self._trials = 0  # that run now
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
        if timeout is None and self._direct and arrived > self._crowded_until:
            worker, turn = None, 0
            self._check_own_lock()
            try:
                with self._lock:
                    self._check_open()
                    # A worker that was taken for those who wait may not have come to it yet.
                    if self._idle and not self._waiting:
                        worker, turn = self._idle[-1], self._idle[-1].turn
                        del self._idle[-1]  # no call, as `pop`, in which the handler of a signal could raise
                if worker is not None:
                    if not worker.cores:
                        return worker.run(arrays, outputs, arrived)
                    with bound(worker.cores):
                        return worker.run(arrays, outputs, arrived)
            finally:
                if worker is not None:
                    try:
                        self._give_back(worker, turn)
                    except BaseException:  # the handler of a signal has raised
                        self._give_back(worker, turn)
                        raise
        if threading.current_thread() is threading.main_thread():
            self._check_own_workers()
        request = Blocking(arrays, outputs if timeout is None else None, arrived)
        self.enqueue(request)
        try:
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

    def try_out(self, arrays: Sequence[Array]) -> list[Array] | None:
        """As `run`, on a state that is thrown away and uncounted; None where the engine fails."""
        begun = False
        try:
            with self._lock:
                self._check_open()
                execution = self.executable.execution()
                self._trials += 1
                begun = True
            return execution.run(arrays)
        except EngineError:
            return None
        finally:
            if begun:
                with self._lock:
                    self._trials -= 1
                    self._changed.notify_all()

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
        if self._is_within():
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
        return self._trials > 0 or len(self._idle) < len(self._workers)

    def _is_within(self) -> bool:
        """Whether this thread has come here from one of our methods, whose locks and worker it may hold."""
        frame: FrameType | None = sys._getframe(2)  # who has called `close`
        while frame is not None and frame.f_locals.get("self") is not self:
            frame = frame.f_back
        return frame is not None

    def inherit(self) -> None:
        """Go on in a child after a fork; not where requests ran, whose engine may be in any state."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        for worker in self._workers:
            worker.thread, worker.wake = None, SimpleQueue()
        if self._is_busy():
            self._idle, self._trials, self._freed = list(self._workers), 0, True
            self._closed = (
                "this process was forked while the model ran a prediction: build the model here, or start "
                "the process by spawn"
            )

    def _give_back(self, worker: Worker, turn: int) -> None:
        """Let a worker go on with the queue, in its own thread, or be idle.

        `turn` is what its `turn` was when it was taken: it may have been given back already.
        """
        with self._lock:
            if worker.turn != turn:
                return
            if not self._waiting:
                self._rest(worker)
                return
        if not self._start(worker):
            self._serve(worker)  # no thread can be had: this one has to do

    def _rest(self, worker: Worker) -> None:
        worker.adopt(self._executables[worker.group])
        # No call, as `append` is: the handler of a signal could raise before the next line.
        self._idle += [worker]
        worker.turn += 1
        if self._closed:
            self._changed.notify_all()

    def enqueue(self, request: Request) -> None:
        """Put a request into the queue. Raises as `submit`."""
        own = self._own()
        # Called from a future's callback: to wait here would be to wait for oneself.
        if own is not None and (own.within < _WITHIN or isinstance(request, Blocking)):
            self._check_open()
            own.within += 1
            self._perform(own, [request])
            return
        worker, turn = None, 0
        self._check_own_lock()
        try:
            with self._lock:
                self._check_open()
                if self._idle:
                    worker, turn = self._idle[-1], self._idle[-1].turn
                    del self._idle[-1]
                elif self._limit and len(self._waiting) >= self._limit:
                    self._refused += 1
                    raise QueueFullError(
                        f"the queue is full: {len(self._waiting)} predictions wait for {len(self._workers)} "
                        f"workers, and [runner] max_queue is {self._limit}; try again later"
                    )
                if len(self._waiting) >= _CROWD * len(self._workers):
                    self._crowded_until = request.arrived + _CROWDED
                self._waiting.append(request)
                if self._batching is not None:
                    self._changed.notify_all()
        finally:
            if worker is not None:
                try:
                    self._give_back(worker, turn)
                except BaseException:  # the handler of a signal has raised
                    self._give_back(worker, turn)
                    raise

    def withdraw(self, request: Request) -> bool:
        """Take a request off the queue; False where it is not there any more."""
        with self._lock:
            try:
                self._waiting.remove(request)
            except ValueError:
                return False
            self._withdrawn += 1
            return True

    def hurry(self, request: Request) -> None:
        """Run a request that waits here, where it is a callback of the worker that waits for its end."""
        own = self._own()
        if own is None:
            return
        with self._lock:
            if request not in self._waiting:
                return
            self._waiting.remove(request)
        self._perform(own, [request])

    def _check_open(self) -> None:
        if self._closed:
            raise ModelStateError(self._closed)

    def _check_own_lock(self) -> None:
        """Raise where the handler of a signal asks that has interrupted us where nobody else may come in."""
        if self._lock._is_owned():  # type: ignore[attr-defined]
            raise ModelStateError(_INTERRUPTED)

    def _check_own_workers(self) -> None:
        """Raise where the handler of a signal asks that has interrupted who has all the workers."""
        held: set[Worker] = set()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            here = frame.f_locals
            worker = here.get("worker") if here.get("self") is self else None
            if worker is not None and worker.turn == here.get("turn"):
                held.add(worker)
            frame = frame.f_back
        if len(held) == len(self._workers):
            raise ModelStateError(_INTERRUPTED)

    def _own(self) -> Worker | None:
        """The worker whose thread this is."""
        here = threading.current_thread()
        return next((worker for worker in self._workers if worker.thread is here), None)

    def _start(self, worker: Worker) -> bool:
        """Let a worker's thread serve the queue; False where the system has no thread for it."""
        if worker.thread is None:
            thread = threading.Thread(
                target=_work, args=(weakref.ref(self), worker), name="pinnace-worker", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                return False
            worker.thread = thread
        worker.turn += 1
        worker.wake.put(None)
        return True

    def _serve(self, worker: Worker) -> None:
        """Run what is in the queue, and rest."""
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
