"""Replicas: processes and actors that each have the whole model, together one executable.

A replica is a process of this machine, or an actor of a cluster. A lost replica is restarted; its request is
computed once more by another replica, or by itself after its restart.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TypeVar

import numpy as np

from pinnace.engines.protocol import OTHER_PROCESS, State
from pinnace.engines.steps import Step
from pinnace.errors import DeviceUnavailableError, EngineError, ModelStateError, PinnaceError
from pinnace.log import INFO, WARNING, Log
from pinnace.serving.batching import Batching
from pinnace.serving.channel import Message
from pinnace.serving.pool import WorkerPool
from pinnace.serving.splitting import RequestPart
from pinnace.serving.worker import Worker
from pinnace.types import Array, Port

T = TypeVar("T")
_log = Log("pinnace.serving")
_builds = Log("pinnace.build")
_FACTS = ("engine", "precision", "model_type", "threads", "tuned", "why", "cache", "build")
Take = Callable[[Sequence[Array]], T]
"""A function of results, which are valid only during the call."""

_STARTS = 5  # attempts in a row to restart a lost replica
_PAUSE = 0.1  # seconds before the second attempt; doubled each time


class ReplicaLostError(Exception):
    """A replica is gone; the message says how. `harmless` if it had not begun the request."""

    def __init__(self, how: str, harmless: bool = False) -> None:
        super().__init__(how)
        self.harmless = harmless


class Replica(ABC):
    """A copy of a model outside of this process. `device` and `pid` are its current ones, or its last.

    It is `up` while it has the model built; `failure` is the reason why it is gone for good.
    """

    def __init__(self, device: str) -> None:
        self.device, self.pid = device, 0
        self.running = 0
        self.up = self.was_up = False
        self.failure: Exception | None = None
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None

    @abstractmethod
    def start(self) -> Message:
        """Start, or wait for the restart. Returns the replica's description of its model.

        Raises the errors of the build, and `DeviceUnavailableError`.
        """

    def free(self) -> None:  # noqa: B027 - replicas without memory here need not
        """Free what this process shares with the replica, which has ended."""

    @abstractmethod
    def run(self, arrays: Sequence[Array], take: Take[T], execution: ReplicaExecution) -> T:
        """Compute, and return `take(results)`. Raises `ReplicaLostError`, and errors of the replica.

        If it can be stopped, it tells `execution` how, by `stop_by`.
        """

    @abstractmethod
    def wait(self) -> None:
        """Wait until the replica is gone, and free its resources."""

    @abstractmethod
    def leave(self) -> None:
        """Consider the replica gone: `wait` returns."""

    @abstractmethod
    def end(self) -> None:
        """End the replica, also while it starts."""


class ReplicaSet:
    """The replicas of one model: an `Executable` whose executions run on the least busy replica.

    Up to `depth` requests may be at a replica: one is computed while the others are sent.
    """

    takes_device_memory = writes_free = False  # memory cannot be used across processes
    queues = is_light = False
    runs_in = OTHER_PROCESS
    lost_by_fork = "the devices belong to the process that started them, not to its forks"

    def __init__(
        self,
        replicas: Sequence[Replica],
        depth: int = 1,
        patience: float = float("inf"),
        on_close: Callable[[], None] | None = None,
        tries: int = 2,
    ) -> None:
        """Start all replicas and wait until they are ready. Raises the first error.

        A request waits at most `patience` seconds while no replica is up, and fails if it loses `tries` of
        them. `on_close` is called after the end.
        """
        self.depth, self._patience, self._tries, self._replicas = depth, patience, tries, replicas
        self._changed = threading.Condition()
        self._owner = os.getpid()
        self._leaving = False
        self.restarts = self.retried = 0
        self._description: Message = {}
        self.info: dict[str, str] = {}
        self.close = weakref.finalize(self, _end, self._owner, replicas, on_close)
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        self.inputs, self.outputs = (
            tuple(map(Port.of_record, self._description[name])) for name in ("inputs", "outputs")
        )
        self.info = self._description["info"]
        self.keeps: int = self._description.get("keeps", 0)
        facts = {name: self.info[name] for name in _FACTS} | {"devices": ", ".join(self.devices)}
        message = ", ".join(f"{name} {value}" for name, value in facts.items())
        file, shapes = self.info["file"], {port.name: port.shape for port in self.inputs}
        _builds.event(INFO, "built", f"{file}: {message}", model=file, shapes=shapes, **facts)

    def __len__(self) -> int:
        return len(self._replicas)

    @property
    def devices(self) -> list[str]:
        return [replica.device for replica in self._replicas]

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes, each on its node."""
        return [replica.pid for replica in self._replicas if replica.up]

    @property
    def memory(self) -> str:
        """The fact "memory" of all replicas."""
        private = len(self) * self._description["private"]
        return f"private {private}, files {self._description['files']}"

    @property
    def busy(self) -> int:
        return sum(replica.running > 0 for replica in self._replicas)

    def execution(self, state: State | None = None) -> ReplicaExecution:
        return ReplicaExecution(self)

    def profile(self) -> list[list[Step]]:
        """Return nothing: replicas record no steps."""
        return []

    def turn_away(self) -> None:
        with self._changed:
            self._leaving = True
            self._changed.notify_all()

    def run(self, arrays: Sequence[Array], take: Take[T], execution: ReplicaExecution) -> T:
        """Compute on one of the replicas, and return `take(results)`.

        Raises errors of the replica, `DeviceUnavailableError` if replicas died over the request or none is
        left, `ModelStateError`, and `EngineError` if `execution` is stopped.
        """
        tried = 0
        while True:
            replica = self._taken(execution)
            try:
                return replica.run(arrays, take, execution)
            except ReplicaLostError as lost:
                self._lose(replica)
                tried += not lost.harmless
                if tried == self._tries:
                    raise DeviceUnavailableError(f"{lost} while it computed this request") from None
            finally:
                execution.stop_by(None)
                with self._changed:
                    replica.running -= 1
                    self._changed.notify_all()
            with self._changed:
                self.retried += 1

    def _taken(self, execution: ReplicaExecution) -> Replica:
        since = monotonic()
        with self._changed:
            while True:
                up = [replica for replica in self._replicas if replica.up]
                replica = min(up, key=lambda replica: replica.running, default=None)
                if replica is not None and replica.running < self.depth:
                    replica.running += 1
                    return replica
                if up:
                    since = monotonic()
                elif execution.is_stopped:
                    raise EngineError("the request was stopped while it waited for a device")
                elif self._leaving:
                    raise ModelStateError("the model was closed while this request waited for a device")
                elif all(replica.failure for replica in self._replicas):
                    raise DeviceUnavailableError(f"no device is left: {self._replicas[0].failure}")
                elif monotonic() > since + self._patience:
                    raise DeviceUnavailableError(f"no device has restarted within {self._patience:.0f} s")
                self._changed.wait(1)

    # -- restarting replicas -----------------------------------------------------------------------------

    def _start(self) -> None:
        for replica in self._replicas:
            replica.thread = threading.Thread(
                target=_keep, args=(weakref.ref(self), replica), name="pinnace-replica", daemon=True
            )
            try:
                replica.thread.start()
            except RuntimeError as error:
                replica.thread = None
                raise DeviceUnavailableError(
                    f"{', '.join(self.devices)}: threads cannot be started: {error}"
                ) from None
        with self._changed:
            self._changed.wait_for(lambda: all(replica.up or replica.failure for replica in self._replicas))
        for replica in self._replicas:
            if replica.failure is not None:
                raise replica.failure

    def _lose(self, replica: Replica) -> None:
        """Send no requests to a lost replica until it is back."""
        with self._changed:
            was_up, replica.up = replica.up, False
        if was_up:
            replica.leave()

    def _may_restart(self, replica: Replica) -> bool:
        """Wait until all requests of a lost replica have returned. Returns False if it must not be
        restarted.
        """
        with self._changed:
            replica.up = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: not replica.running)
        replica.was_up = True
        return not replica.ended.is_set()

    def _built(self, replica: Replica, result: Message | Exception) -> None:
        """Note that a replica has built the model, or cannot."""
        with self._changed:
            if isinstance(result, Exception):
                replica.failure = result
                if all(one.failure for one in self._replicas):
                    self.info["failure"] = str(result)
            else:
                self._description = self._description or result
                replica.up = True
                self.restarts += replica.was_up
                if replica.was_up:
                    message = f"the process of {replica.device} ended unexpectedly and was restarted"
                    _log.event(WARNING, "restarted", message, device=replica.device)
            self._changed.notify_all()


def _keep(replica_set: weakref.ref[ReplicaSet], replica: Replica) -> None:
    """Start a replica, and restart it when it is lost, in a thread that does not keep the set alive."""
    starts = 1
    while (result := _started(replica, starts)) is not None:
        here = replica_set()
        if here is None or replica.ended.is_set():
            break
        here._built(replica, result)
        if isinstance(result, Exception):
            break
        del here
        replica.wait()
        here = replica_set()
        if here is None or not here._may_restart(replica):
            break
        del here
        starts = _STARTS
    replica.end()
    replica.wait()


def _started(replica: Replica, starts: int) -> Message | Exception | None:
    """Start a replica. Returns its description of the model, or the error; None if it was ended meanwhile."""
    error: Exception | None = None
    for attempt in range(starts):
        if replica.ended.wait(_PAUSE * 2**attempt if attempt else 0):
            return None
        try:
            return replica.start()
        except (PinnaceError, OSError) as failure:
            error = failure
    return error


def _end(owner: int, replicas: Sequence[Replica], on_close: Callable[[], None] | None) -> None:
    """End the replicas, unless this process is a fork of their owner."""
    if os.getpid() != owner:
        return
    for replica in replicas:
        replica.ended.set()
    for replica in replicas:
        replica.end()
    for replica in replicas:
        if replica.thread is not None and replica.thread is not threading.current_thread():
            replica.thread.join()
            replica.free()
    if on_close is not None:
        on_close()


class ReplicaExecution:
    """See `Execution`. The state of the model stays with the replicas.

    `stop` may come before a replica has the request.
    """

    def __init__(self, replicas: ReplicaSet) -> None:
        self._replicas = replicas
        self.state: State = [np.empty(0)] * replicas.keeps
        self._lock = threading.RLock()  # reentrant: a signal handler may cancel a request
        self._stop: Callable[[], None] | None = None
        self.is_stopped = False

    def run(self, arrays: Sequence[Array], outputs: list[Array] | None = None) -> list[Array]:
        def take(results: Sequence[Array]) -> list[Array]:
            if outputs is None:
                return [np.array(result) for result in results]
            for output, result in zip(outputs, results, strict=True):
                np.copyto(output, result)
            return outputs

        return self.compute(arrays, take)

    def compute(self, arrays: Sequence[Array], take: Take[T]) -> T:
        return self._replicas.run(arrays, take, self)

    def stop(self, for_good: bool = False) -> None:
        with self._lock:
            self.is_stopped = True
            if self._stop is not None:
                self._stop()

    def stop_by(self, stop: Callable[[], None] | None) -> None:
        """Let this function stop the request, at once if it is stopped already; None after its end."""
        with self._lock:
            self._stop = stop
            if self.is_stopped and stop is not None:
                stop()


class PartWorker(Worker):
    """A worker for parts of requests, which copy results from the replica's memory."""

    _execution: ReplicaExecution

    def compute(self, part: RequestPart) -> Callable[[], None]:  # type: ignore[override]
        return self._execution.compute(part.arrays, part.take)


class ReplicaWorkerPool(WorkerPool):
    """Workers that each run on any replica; there are as many as the replicas take requests."""

    def __init__(
        self,
        replicas: ReplicaSet,
        limit: int = 0,
        batching: Batching | None = None,
        worker: type[Worker] | None = None,
    ) -> None:
        super().__init__(replicas, len(replicas) * replicas.depth, (), limit, batching, worker=worker)
        self.replicas = replicas

    def _end(self) -> None:
        self.replicas.turn_away()
        super()._end()
