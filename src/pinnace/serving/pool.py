"""A pool of workers over one executable, behind one queue."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import get_ident
from time import monotonic, perf_counter_ns
from typing import TYPE_CHECKING, TypeVar

from pinnace.engines.protocol import ALL_RANKS, Executable
from pinnace.errors import DataMismatchError, EngineError, ModelStateError, QueueFullError, warn
from pinnace.machine.cores import bound
from pinnace.serving.base_pool import BasePool, WorkerGroup
from pinnace.serving.request import BlockingRequest, Request, timed_out
from pinnace.serving.thread_pool import ThreadPool
from pinnace.serving.worker import Worker, elements

T = TypeVar("T")

if TYPE_CHECKING:  # importing an engine is slow, and every process imports this module
    from concurrent.futures import Future

    from pinnace.serving.batching import Batching
    from pinnace.serving.stats import Stats
    from pinnace.types import Array

_CROWD = 4
"""Waiting requests per worker above which all requests go through the queue for `_CROWDED` ns.

Otherwise the thread that Python happens to run finds a worker idle again and again while the others wait:
with requests of some microseconds the slowest of 32 clients had 2 to 3 times the mean latency of the fastest.
Going through the queue costs one thread wake-up.
"""
_CROWDED = 20_000_000

_AHEAD = 4
"""Requests per worker that an engine with a queue of its own gets at once.

It starts the next one as soon as a core is free, where a worker passes the results on first and waits for
Python's lock. With 2, five clients of two workers got 0.95 to 0.99 of what they get with 4, of which each has
one.
"""

_MOST = 16
"""Callers of brief runs that run beside the workers, at most."""


class WorkerPool(BasePool):
    """`count` workers that run one executable, each with its own state.

    Among requests of one priority the first to come is the first to run.

    A caller that finds an idle worker runs on it in its own thread, unless the queue was crowded just before,
    or it is the main thread and the run may be long: only this thread handles signals, and not before the
    engine returns. Otherwise the request waits in the queue, and the worker threads run queued requests one
    after the other until the queue is empty. (Handing a worker from caller to caller leaves a core idle while
    the next caller wakes: that reached 0.81 of what the kernels allow, worker threads reach 0.98.)

    A caller of a brief run does not wait for a worker: it adds one, which only such callers use. (Five
    clients of two workers get 1.2 to 3 times as many runs of 5 microseconds. The p99 of eight clients is
    longer from 40 microseconds on, the slowest client's mean is not.)

    Each worker is bound to one of `cores` in turn. `limit` is the number of requests that may wait, 0 for no
    limit. `others` are more workers behind the same queue with executables of their own: the same model on
    other devices. If the engine queues requests too, `_AHEAD` times as many run; those beyond `count` count
    as waiting.
    """

    kind: type[Worker] = Worker

    def __init__(
        self,
        executable: Executable,
        count: int = 1,
        cores: Sequence[int] = (),
        limit: int = 0,
        batching: Batching | None = None,
        others: Sequence[WorkerGroup] = (),
        worker: type[Worker] | None = None,
        threads: ThreadPool | None = None,
    ) -> None:
        if batching is not None:
            batching.check(executable)
        self._count = count + sum(group.count for group in others)
        if executable.queues and batching is None:
            count = min(_AHEAD * count, count + (limit or sys.maxsize))
        super().__init__([WorkerGroup(executable, count, cores), *others], worker or self.kind, threads)
        self._adds = batching is None and not cores and not others  # workers for brief runs
        self._limit, self._batching = limit, batching
        self._direct = batching is None or not batching.delay
        self._crowded_until = 0
        self._began = monotonic()
        self._refused = self._withdrawn = self._joined = 0

    def run(
        self, arrays: Sequence[Array], outputs: list[Array] | None = None, timeout: float | None = None
    ) -> list[Array]:
        """Compute the outputs of a request, into `outputs` if given (see `Execution.run`).

        Raises `EngineError`, `ModelStateError` if closed, `QueueFullError`, and `PredictTimeoutError` after
        `timeout` seconds. If a signal handler raises, the request is given up, as after its timeout.
        """
        arrived = perf_counter_ns()
        if timeout is None and self._direct and arrived > self._crowded_until and not self._waiting:
            me = get_ident()
            for worker in self._active:
                if worker.lock.locked():
                    continue
                try:
                    with worker.lock:  # it waits only if another thread was faster
                        worker.user = me
                        try:
                            if not self._waiting and (
                                me != self._main
                                or worker.quick is math.inf
                                or elements(arrays) <= worker.quick
                            ):
                                if self._closed or worker.executable is not self._executables[worker.group]:
                                    self._check_open()
                                    worker.adopt(self._executables[worker.group])
                                if not worker.cores:
                                    return worker.run(arrays, outputs, arrived)
                                with bound(worker.cores):
                                    return worker.run(arrays, outputs, arrived)
                        finally:
                            worker.user = 0
                finally:  # what `_continue` looks at, without a call that nearly no request needs
                    if self._waiting or worker.executable is not self._executables[worker.group]:
                        self._continue(worker)
                break
            else:
                if (results := self._run_beside(arrays, outputs, arrived)) is not None:
                    return results
        return self._wait_for(BlockingRequest(arrays, outputs if timeout is None else None, arrived), timeout)

    @property
    def has_brief(self) -> bool:
        """True if requests of some size are known to be brief."""
        return any(worker.brief for worker in self._active)

    def run_brief(self, arrays: Sequence[Array]) -> list[Array] | None:
        """Return what `run` does, without a wait. Returns None if the run may be long, or requests wait."""
        arrived = perf_counter_ns()
        waits = self._waiting or arrived <= self._crowded_until
        return None if waits else self._run_beside(arrays, None, arrived)

    def _run_beside(
        self, arrays: Sequence[Array], outputs: list[Array] | None, arrived: int
    ) -> list[Array] | None:
        """Run a brief request on an idle worker, or on one more. Returns None if it may be long."""
        size = elements(arrays)
        if not (self._adds and self.executable.is_light and any(size <= w.brief for w in self._active)):
            return None
        worker = next((worker for worker in self._workers if worker.taken()), None) or self._added()
        if worker is None:
            return None
        try:
            self._check_open()
            worker.adopt(self.executable)
            return worker.run(arrays, outputs, arrived)
        finally:
            self._release(worker)

    def _added(self) -> Worker | None:
        with self._lock:
            if len(self._workers) - self.size == _MOST:
                return None
            self._check_open()
            worker = type(self._workers[0])(self.executable, frozenset())
            worker.taken()
            self._workers = [*self._workers, worker]
        return worker

    def _wait_for(self, request: BlockingRequest, timeout: float | None) -> list[Array]:
        if (worker := self._held()) is not None:  # waiting for a worker could be waiting for this one
            self._check_open()
            if not self._threads.is_here:
                raise ModelStateError(
                    "this prediction interrupted another one of the same model and thread, which cannot "
                    "continue before it ends: predict in another thread, not in a signal handler or a "
                    "finalizer"
                )
            return worker.run(request.arrays, request.outputs, request.arrived)
        try:
            self.enqueue(request)
            done = request.wait(timeout)
        except BaseException:  # KeyboardInterrupt
            request.given_up = True
            self.give_up(request)
            raise
        if not done and not request.wait(0):
            request.given_up = True
            raise timed_out(timeout, began=not self.give_up(request))
        return request.results()

    def submit(
        self,
        arrays: Sequence[Array],
        present: Callable[[list[Array]], T],
        timeout: float | None = None,
        priority: int = 0,
    ) -> Future[T]:
        """Queue a request, before those of greater `priority`; the future gets `present(results)`.

        Raises as `run` does, except for errors of the run itself and `PredictTimeoutError`, which the future
        gets.
        """
        from pinnace.serving.futures import SubmittedRequest

        request = SubmittedRequest(self, arrays, present, priority)
        self.enqueue(request)
        request.expire_after(timeout)
        return request

    def try_out(self, arrays: Sequence[Array]) -> list[Array] | None:
        """Run a request on a temporary state, without counting it. Returns None if the engine fails."""
        with self._trial:
            self._check_open()
            try:
                return self.executable.execution().run(arrays)
            except EngineError:
                return None

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
            if _states(executables[0]) != _states(self.executable):
                raise DataMismatchError("the model would keep values of other shapes between predictions")
            self._executables = executables
            self._active = self._workers[: self.size if executables[0].queues else self._count]
            self._adopt()

    def stats(self) -> Stats:
        from pinnace.serving.stats import Stats, latency

        with self._lock:
            counts = [worker.counts for worker in self._workers]
            taken = sum(worker.lock.locked() for worker in self._workers)
            busy = min(taken, self._count)
            return Stats(
                workers=self._count,
                busy=busy,
                queued=len(self._waiting) + taken - busy,
                served=sum(c.served for c in counts),
                failed=sum(c.failed for c in counts),
                refused=self._refused,
                withdrawn=self._withdrawn + sum(c.withdrawn for c in counts),
                batches=sum(c.batches for c in counts),
                batched=sum(c.batched for c in counts),
                latency=latency(counts),
                seconds=monotonic() - self._began,
            )

    # -- the queue ---------------------------------------------------------------------------------------

    def enqueue(self, request: Request) -> None:
        """Queue a request and wake an idle worker for it. Raises as `submit` does."""
        with self._lock:
            self._check_open()
            waiting, ahead = len(self._waiting), len(self._active) - self._count
            if self._limit and waiting - len(self._idle()) + ahead >= self._limit:
                self._refused += 1
                raise QueueFullError(
                    f"the queue is full: {waiting + ahead} predictions wait for {self._count} workers, and "
                    f"[runner] max_queue is {self._limit}; try again later"
                )
            if waiting >= _CROWD * self._count:
                self._crowded_until = request.arrived + _CROWDED
            self._insert(request)
            idle = self._idle()  # after the request is there
            # The first idle workers were woken for the requests that wait already.
            worker = idle[min(waiting + 1, len(idle)) - 1] if idle else None
            if self._batching is not None:
                self._changed.notify_all()
        if worker is not None:
            self._threads.serve(self, worker)

    def _insert(self, request: Request) -> None:
        place = len(self._waiting)
        for other in reversed(self._waiting):
            if other.priority <= request.priority:
                break
            place -= 1
        self._waiting.insert(place, request)

    def give_up(self, *requests: Request) -> bool:
        """Remove requests from the queue, or stop their runs if they are `done`. Returns True if all
        waited.
        """
        waited = [self._withdraw(request) for request in requests]
        if all(waited):
            return True
        for worker in self._workers:
            worker.stop_unwanted()
        return False

    def _withdraw(self, request: Request, is_over: bool = True) -> bool:
        """Remove a request from the queue. Returns False if it is not there any more, or must be run.

        All ranks must run the same requests: one that only this rank leaves out would give the others wrong
        numbers. Its caller may change its inputs from now on.
        """
        with self._lock:
            if self.executable.runs_in == ALL_RANKS and is_over and request in self._waiting:
                request.arrays = [array.copy() for array in request.arrays]
                return False
            try:
                self._waiting.remove(request)
            except ValueError:
                return False
            self._withdrawn += is_over
            return True

    def run_now(self, *requests: Request) -> None:
        """Run waiting requests here, if this thread has a worker and is about to wait for them."""
        if (worker := self._held()) is not None:
            for request in requests:
                if self._withdraw(request, is_over=False):
                    self._perform(worker, [request])

    # -- the workers -------------------------------------------------------------------------------------

    def serve(self, worker: Worker) -> None:
        with self._lock:
            if not self._waiting or not worker.taken():
                return
        if worker.cores:
            with bound(worker.cores):
                self._serve_on(worker)
        else:
            self._serve_on(worker)

    def _serve_on(self, worker: Worker) -> None:
        while batch := self._next(worker):
            self._perform(worker, batch)
            if self._threads.are_wanted_by_another(self):
                self._release(worker)
                return

    def _next(self, worker: Worker) -> list[Request]:
        """Return the next request, with those to be batched with it; [] once the worker is released."""
        with self._lock:
            worker.adopt(self._executables[worker.group])
            if not self._waiting or worker not in self._active:
                worker.release()
                return []
            batch = [self._waiting.popleft()]
            batching = self._batching
            if batching is not None:  # the executables may be exchanged meanwhile
                end = batch[0].arrived + batching.delay
                while batching.extend(batch, self._waiting) and not self._closed:
                    left = end - perf_counter_ns()
                    if left <= 0 or not self._changed.wait(left / 1e9):
                        break
                worker.adopt(self._executables[worker.group])
            return batch

    def _perform(self, worker: Worker, batch: Sequence[Request]) -> None:
        """Run requests, without those that were given up after they left the queue."""
        begun = [request for request in batch if request.begin() or self.executable.runs_in == ALL_RANKS]
        if len(begun) < len(batch):
            with self._lock:
                self._withdrawn += len(batch) - len(begun)
        if len(begun) == 1:
            worker.perform(begun[0])
        elif begun:
            self._perform_together(worker, begun)

    def _perform_together(self, worker: Worker, batch: Sequence[Request]) -> None:
        """Run requests as a batch. If that fails, run each alone, so that only faulty ones get errors."""
        parts = None
        with suppress(Exception):  # not enough memory for the batch, or warnings raise
            parts = worker.watched(
                lambda: not all(request.done() for request in batch), lambda: self._together(worker, batch)
            )
        if parts is not None:
            worker.finish(batch, parts)
            return
        for request in batch:
            self._perform(worker, [request])

    def _together(self, worker: Worker, batch: Sequence[Request]) -> list[list[Array]] | None:
        """Return the results of each request; None if the engine fails, or if they are not what each gets
        alone.

        That is tried out in batches 1, 2, 4, 8 and so on: whether rows are independent may depend on values.
        """
        from pinnace.serving.batching import check_independent, joined, split

        results = worker.attempt(joined(batch))
        if results is None:
            return None
        try:
            parts = split(results, batch)
            self._joined += 1
            if self._joined & (self._joined - 1) == 0:
                for request, part in ((batch[0], parts[0]), (batch[-1], parts[-1])):
                    alone = worker.attempt(request.arrays)
                    if alone is None:
                        return None
                    check_independent(part, alone, self.executable.info.get("precision", ""))
            return parts
        except EngineError as error:
            self._batching = None
            warn(f"[runner] max_batch_size: requests run one by one from now on: {error}")
            return None


def _states(executable: Executable) -> list[tuple[object, object]]:
    return [(value.shape, value.dtype) for value in executable.execution().state]
