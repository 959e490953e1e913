"""A crew: the places outside of this process that run one model, as one executable.

A place is a process of this machine, or an actor of a cluster. A lost place is restarted; its request is
computed once more by another place, or by itself after its restart.
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

from pinnace.engines.protocol import State
from pinnace.engines.steps import Step
from pinnace.errors import DeviceUnavailableError, EngineError, ModelStateError, PinnaceError
from pinnace.log import INFO, WARNING, Log
from pinnace.serving.batching import Batching
from pinnace.serving.control import Message, ports_of
from pinnace.serving.pool import Workers
from pinnace.serving.splitting import Piece
from pinnace.serving.worker import Worker
from pinnace.types import Array

T = TypeVar("T")
_log = Log("pinnace.serving")
_builds = Log("pinnace.build")
_FACTS = ("engine", "precision", "model_type", "threads", "tuned", "why", "cache", "build")
Take = Callable[[Sequence[Array]], T]
"""A function of results, which are valid only during the call."""

_TRIES = 2  # places that may die over one request
_STARTS = 5  # attempts in a row to restart a lost place
_PAUSE = 0.1  # seconds before the second attempt; doubled each time


class PlaceLostError(Exception):
    """A place is gone; the message says how. `harmless` if it had not begun the request."""

    def __init__(self, how: str, harmless: bool = False) -> None:
        super().__init__(how)
        self.harmless = harmless


class Halt:
    """The wish to stop a request, which may come before it is at a place."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: a signal handler may cancel a request
        self._way: Callable[[], None] | None = None
        self.asked = False

    def by(self, way: Callable[[], None] | None) -> None:
        """Stop the request by this function, at once if that was asked for before; None after its end."""
        with self._lock:
            self._way = way
            if self.asked and way is not None:
                way()

    def ask(self) -> None:
        """Stop the request."""
        with self._lock:
            self.asked = True
            if self._way is not None:
                self._way()


class Place(ABC):
    """A place outside of this process. `device` and `pid` are its current ones, or its last.

    It is `up` while it has the model built; `failure` is the reason why it is gone for good.
    """

    def __init__(self, device: str = "") -> None:
        self.device, self.pid = device, 0
        self.running = 0
        self.up = self.was_up = False
        self.failure: Exception | None = None
        self.ended = threading.Event()
        self.keeper: threading.Thread | None = None

    @abstractmethod
    def start(self) -> Message:
        """Start, or wait for the restart. Returns the place's description of its model.

        Raises the errors of the build, and `DeviceUnavailableError`.
        """

    def free(self) -> None:  # noqa: B027 - places without memory here need not
        """Free what this process shares with the place, which has ended."""

    @abstractmethod
    def run(self, arrays: Sequence[Array], take: Take[T], halt: Halt) -> T:
        """Compute, and return `take(results)`. Raises `PlaceLostError`, and errors of the place.

        Where it can be stopped, `halt` is told how.
        """

    @abstractmethod
    def wait(self) -> None:
        """Wait until the place is gone, and free its resources."""

    @abstractmethod
    def leave(self) -> None:
        """Consider the place gone: `wait` returns."""

    @abstractmethod
    def end(self) -> None:
        """End the place, also while it starts."""


class Crew:
    """The places of one model: an `Executable` whose executions run on the least busy place.

    Up to `depth` requests may be at a place: one is computed while the others are sent.
    """

    takes_device_memory = writes_free = False  # memory cannot be used across processes
    queues = False
    lost_by_fork = "the devices belong to the process that started them, not to its forks"

    def __init__(
        self,
        places: Sequence[Place],
        depth: int = 1,
        patience: float = float("inf"),
        farewell: Callable[[], None] | None = None,
    ) -> None:
        """Start all places and wait until they are ready. Raises the first error.

        A request waits at most `patience` seconds while no place is up. `farewell` is called after the end.
        """
        self.depth, self._patience, self._places = depth, patience, places
        self._changed = threading.Condition()
        self._owner = os.getpid()
        self._leaving = False
        self.restarts = self.retried = 0
        self._said: Message = {}
        self.close = weakref.finalize(self, _end, self._owner, places, farewell)
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        self.inputs, self.outputs = ports_of(self._said["inputs"]), ports_of(self._said["outputs"])
        self.info: dict[str, str] = self._said["info"]
        self.keeps: int = self._said.get("keeps", 0)
        facts = {name: self.info[name] for name in _FACTS} | {"devices": ", ".join(self.devices)}
        message = ", ".join(f"{name} {value}" for name, value in facts.items())
        file, shapes = self.info["file"], {port.name: port.shape for port in self.inputs}
        _builds.event(INFO, "built", f"{file}: {message}", model=file, shapes=shapes, **facts)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def devices(self) -> list[str]:
        """Names of the places' devices."""
        return [place.device for place in self._places]

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes, each on its node."""
        return [place.pid for place in self._places if place.up]

    @property
    def busy(self) -> int:
        """Number of places with work."""
        return sum(place.running > 0 for place in self._places)

    def execution(self, state: State | None = None) -> CrewExecution:
        """Return an execution that runs on any place."""
        return CrewExecution(self)

    def profile(self) -> list[list[Step]]:
        """Return nothing: places record no steps."""
        return []

    def turn_away(self) -> None:
        """Let no request wait any longer for a place to come back."""
        with self._changed:
            self._leaving = True
            self._changed.notify_all()

    def run(self, arrays: Sequence[Array], take: Take[T], halt: Halt) -> T:
        """Compute on one of the places, and return `take(results)`.

        Raises errors of the place, `DeviceUnavailableError` if places died over the request or none is left,
        `ModelStateError`, and `EngineError` after a `halt`.
        """
        tried = 0
        while True:
            place = self._taken(halt)
            try:
                return place.run(arrays, take, halt)
            except PlaceLostError as lost:
                self._miss(place)
                tried += not lost.harmless
                if tried == _TRIES:
                    raise DeviceUnavailableError(f"{lost} while it computed this request") from None
            finally:
                halt.by(None)
                self._give_back(place)
            with self._changed:
                self.retried += 1

    def _taken(self, halt: Halt) -> Place:
        """Take the least busy place, or wait for one."""
        since = monotonic()
        with self._changed:
            while True:
                up = [place for place in self._places if place.up]
                place = min(up, key=lambda place: place.running, default=None)
                if place is not None and place.running < self.depth:
                    place.running += 1
                    return place
                if up:
                    since = monotonic()
                elif halt.asked:
                    raise EngineError("the request was stopped while it waited for a device")
                elif self._leaving:
                    raise ModelStateError("the model was closed while this request waited for a device")
                elif all(place.failure for place in self._places):
                    raise DeviceUnavailableError(f"no device is left: {self._places[0].failure}")
                elif monotonic() > since + self._patience:
                    raise DeviceUnavailableError(f"no device has restarted within {self._patience:.0f} s")
                self._changed.wait(1)

    def _give_back(self, place: Place) -> None:
        with self._changed:
            place.running -= 1
            self._changed.notify_all()

    # -- restarting places -------------------------------------------------------------------------------

    def _start(self) -> None:
        for place in self._places:
            place.keeper = threading.Thread(
                target=_keep, args=(weakref.ref(self), place), name="pinnace-place", daemon=True
            )
            try:
                place.keeper.start()
            except RuntimeError as error:
                place.keeper = None
                raise DeviceUnavailableError(
                    f"{', '.join(self.devices)}: threads cannot be started: {error}"
                ) from None
        with self._changed:
            self._changed.wait_for(lambda: all(p.up or p.failure for p in self._places))
        for place in self._places:
            if place.failure is not None:
                raise place.failure

    def _miss(self, place: Place) -> None:
        """Send no requests to a lost place until it is back."""
        with self._changed:
            was_up, place.up = place.up, False
        if was_up:
            place.leave()

    def _begins(self, place: Place) -> bool:
        """Wait until all requests of a lost place have returned. Returns False if it must not be
        restarted.
        """
        with self._changed:
            place.up = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: not place.running)
        place.was_up = True
        return not place.ended.is_set()

    def _arrives(self, place: Place, said: Message | Exception) -> None:
        """Note that a place has built the model, or cannot."""
        with self._changed:
            if isinstance(said, Exception):
                place.failure = said
            else:
                self._said = self._said or said
                place.up = True
                self.restarts += place.was_up
                if place.was_up:
                    message = f"the process of {place.device} ended unexpectedly and was restarted"
                    _log.event(WARNING, "restarted", message, device=place.device)
            self._changed.notify_all()


def _keep(crew: weakref.ref[Crew], place: Place) -> None:
    """Start a place, and restart it when it is lost, in a thread that does not keep the crew alive."""
    starts = 1
    while (said := _started(place, starts)) is not None:
        here = crew()
        if here is None or place.ended.is_set():
            break
        here._arrives(place, said)
        if isinstance(said, Exception):
            break
        del here
        place.wait()
        here = crew()
        if here is None or not here._begins(place):
            break
        del here
        starts = _STARTS
    place.end()
    place.wait()


def _started(place: Place, starts: int) -> Message | Exception | None:
    """Start a place. Returns its description of the model, or the error; None if it was ended meanwhile."""
    error: Exception | None = None
    for turn in range(starts):
        if place.ended.wait(_PAUSE * 2**turn if turn else 0):
            return None
        try:
            return place.start()
        except (PinnaceError, OSError) as failure:
            error = failure
    return error


def _end(owner: int, places: Sequence[Place], farewell: Callable[[], None] | None) -> None:
    """End the places, unless this process is a fork of their owner."""
    if os.getpid() != owner:
        return
    for place in places:
        place.ended.set()
    for place in places:
        place.end()
    for place in places:
        if place.keeper is not None and place.keeper is not threading.current_thread():
            place.keeper.join()
            place.free()
    if farewell is not None:
        farewell()


class CrewExecution:
    """See `Execution`. The state of the model stays with the places."""

    def __init__(self, crew: Crew) -> None:
        self._crew, self._halt = crew, Halt()
        self.state: State = [np.empty(0)] * crew.keeps

    def run(self, arrays: Sequence[Array], outputs: Sequence[Array] | None = None) -> list[Array]:
        """Compute the outputs on one of the places."""

        def take(results: Sequence[Array]) -> list[Array]:
            if outputs is None:
                return [np.array(result) for result in results]
            for output, result in zip(outputs, results, strict=True):
                np.copyto(output, result)
            return list(outputs)

        return self.compute(arrays, take)

    def compute(self, arrays: Sequence[Array], take: Take[T]) -> T:
        """Compute on one of the places, and return `take(results)`."""
        return self._crew.run(arrays, take, self._halt)

    def stop(self, for_good: bool = False) -> None:
        """See `Execution`."""
        self._halt.ask()


class PieceWorker(Worker):
    """A worker for pieces of requests, which copy results from the place's memory."""

    _execution: CrewExecution

    def perform(self, piece: Piece) -> None:  # type: ignore[override]
        """Run a piece, and pass the results or the error to its request."""
        try:
            tell = self.watched(lambda: not piece.done(), lambda: self.compute(piece))
        except BaseException as error:
            piece.fail(error)
        else:
            tell()

    def compute(self, piece: Piece) -> Callable[[], None]:
        """Compute a piece and copy its results; see `Piece.take`."""
        return self._execution.compute(piece.arrays, piece.take)


class CrewWorkers(Workers):
    """Workers that each run at any place of a crew; there are as many as its places take requests."""

    def __init__(
        self,
        crew: Crew,
        limit: int = 0,
        batching: Batching | None = None,
        worker: type[Worker] | None = None,
    ) -> None:
        """See `Workers`."""
        super().__init__(crew, len(crew) * crew.depth, (), limit, batching, worker=worker)
        self.crew = crew

    def _end(self) -> None:
        self.crew.turn_away()
        super()._end()
