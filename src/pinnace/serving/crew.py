"""A crew: the places outside of this process where one model runs, behind the face of one executable.

A place is a process of this machine, or an actor of a cluster. One that is gone is started anew, and a
request that it was computing is computed once more by another one, or by itself when it is back.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import TypeVar

import numpy as np

from pinnace.engines.protocol import State
from pinnace.engines.steps import Step
from pinnace.errors import DeviceUnavailableError, ModelStateError, PinnaceError
from pinnace.serving.batching import Batching
from pinnace.serving.control import Message, ports_of
from pinnace.serving.pool import Workers
from pinnace.serving.splitting import Piece
from pinnace.serving.worker import Worker
from pinnace.types import Array

T = TypeVar("T")
Take = Callable[[Sequence[Array]], T]
"""A function of results that are not valid after it returns."""

_TRIES = 2  # places that may die over one request
_STARTS = 5  # in a row, of a place that is gone
_PAUSE = 0.1  # seconds before the second of them, doubled each time


class PlaceLostError(Exception):
    """A place is gone; the message says how. `harmless` if it had not begun with the request."""

    def __init__(self, how: str, harmless: bool = False) -> None:
        super().__init__(how)
        self.harmless = harmless


class Place(ABC):
    """A place outside of this process. `device` and `pid` say where it is, or was last.

    It is `up` from having built the model until it is seen to be gone; `failure` says why it stays away.
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
        """Start, or wait until it is back, and return what it says of the model that it has built.

        Raises what goes wrong there, and `DeviceUnavailableError`.
        """

    @abstractmethod
    def run(self, arrays: Sequence[Array], take: Take[T]) -> T:
        """Compute, and return what `take` makes of the results. Raises `PlaceLostError`, and errors there."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until it is gone, and free what was held for it."""

    @abstractmethod
    def leave(self) -> None:
        """Take it as gone: let `wait` return."""

    @abstractmethod
    def end(self) -> None:
        """End it, also while it starts."""


class Crew:
    """The places of one model: an `Executable`, whose executions run on the place that has least to do.

    `depth` requests may be at a place at the same time: one is computed, others travel.
    """

    def __init__(
        self,
        places: Sequence[Place],
        depth: int = 1,
        patience: float = float("inf"),
        farewell: Callable[[], None] | None = None,
    ) -> None:
        """Start all places, and wait until they are ready. Raises what goes wrong in one of them.

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
        self.info: Mapping[str, str] = self._said["info"]
        self.keeps: int = self._said.get("keeps", 0)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def devices(self) -> list[str]:
        """The devices of the places, in words."""
        return [place.device for place in self._places]

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes that run now, each on its node."""
        return [place.pid for place in self._places if place.up]

    @property
    def busy(self) -> int:
        """How many places have something to do."""
        return sum(place.running > 0 for place in self._places)

    @property
    def takes_device_memory(self) -> bool:
        """False: no memory of a device passes between processes."""
        return False

    def execution(self, state: State | None = None) -> CrewExecution:
        """An execution on any place."""
        return CrewExecution(self)

    def profile(self) -> list[list[Step]]:
        """[]: nothing is noted."""
        return []

    def turn_away(self) -> None:
        """Let no request wait any longer for a place that is away."""
        with self._changed:
            self._leaving = True
            self._changed.notify_all()

    def run(self, arrays: Sequence[Array], take: Take[T]) -> T:
        """Compute on one of the places, and return what `take` makes of the results.

        Raises errors of the place, `DeviceUnavailableError` where places died over the request or none is
        left, and `ModelStateError`.
        """
        if os.getpid() != self._owner:
            raise ModelStateError("the devices belong to the process that started them, not to its forks")
        tried = 0
        while True:
            place = self._taken()
            try:
                return place.run(arrays, take)
            except PlaceLostError as lost:
                self._miss(place)
                tried += not lost.harmless
                if tried == _TRIES:
                    raise DeviceUnavailableError(f"{lost} while it computed this request") from None
            finally:
                self._give_back(place)
            with self._changed:
                self.retried += 1

    def _taken(self) -> Place:
        """The place with least to do; waits for one."""
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
                elif self._leaving:
                    raise ModelStateError("the model was closed while this request waited for a device")
                elif all(place.failure for place in self._places):
                    raise DeviceUnavailableError(f"no device is left: {self._places[0].failure}")
                elif monotonic() > since + self._patience:
                    raise DeviceUnavailableError(f"no device has come back in {self._patience:.0f} s")
                self._changed.wait(1)

    def _give_back(self, place: Place) -> None:
        with self._changed:
            place.running -= 1
            self._changed.notify_all()

    # -- places that come and go --------------------------------------------------------------------------

    def _start(self) -> None:
        for place in self._places:
            place.keeper = threading.Thread(
                target=_keep, args=(weakref.ref(self), place), name="pinnace-place", daemon=True
            )
            try:
                place.keeper.start()
            except RuntimeError as error:
                place.keeper = None
                raise DeviceUnavailableError(f"{', '.join(self.devices)}: their threads: {error}") from None
        with self._changed:
            self._changed.wait_for(lambda: all(p.up or p.failure for p in self._places))
        for place in self._places:
            if place.failure is not None:
                raise place.failure

    def _miss(self, place: Place) -> None:
        """A place is gone: no request goes there until it is back."""
        with self._changed:
            was_up, place.up = place.up, False
        if was_up:
            place.leave()

    def _begins(self, place: Place) -> bool:
        """A place is gone, and all requests that it had are told; False where it is not to come back."""
        with self._changed:
            place.up = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: not place.running)
        place.was_up = True
        return not place.ended.is_set()

    def _arrives(self, place: Place, said: Message | Exception) -> None:
        """A place has built the model, or cannot."""
        with self._changed:
            if isinstance(said, Exception):
                place.failure = said
            else:
                self._said = self._said or said
                place.up = True
                self.restarts += place.was_up
            self._changed.notify_all()


def _keep(crew: weakref.ref[Crew], place: Place) -> None:
    """Start a place, and again when it is gone, in a thread that does not keep the crew alive."""
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
    """What a place says when it is ready, or why it cannot be; None where it has been ended."""
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
    """End the places; not what a fork of this process has inherited."""
    if os.getpid() != owner:
        return
    for place in places:
        place.ended.set()
    for place in places:
        place.end()
    for place in places:
        if place.keeper is not None and place.keeper is not threading.current_thread():
            place.keeper.join()
    if farewell is not None:
        farewell()


class CrewExecution:
    """See `Execution`. What a model keeps between predictions stays with the places."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.state: State = [np.empty(0)] * crew.keeps

    def run(self, arrays: Sequence[Array], outputs: Sequence[Array] | None = None) -> list[Array]:
        """Compute the outputs on one of the places."""

        def take(results: Sequence[Array]) -> list[Array]:
            if outputs is None:
                return [np.array(result) for result in results]
            for output, result in zip(outputs, results, strict=True):
                np.copyto(output, result)
            return list(outputs)

        return self._crew.run(arrays, take)


class PieceWorker(Worker):
    """A worker for pieces of requests, which take results from where they lie."""

    executable: Crew

    def perform(self, piece: Piece) -> None:  # type: ignore[override]
        """Run a piece, and tell its request."""
        try:
            tell = self.executable.run(piece.arrays, piece.take)
        except BaseException as error:
            piece.fail(error)
        else:
            tell()


class CrewWorkers(Workers):
    """Workers that run on a crew, any of them at any place, as many as it takes requests."""

    def __init__(
        self,
        crew: Crew,
        limit: int = 0,
        batching: Batching | None = None,
        worker: type[Worker] = Worker,
    ) -> None:
        """See `Workers`."""
        super().__init__(crew, len(crew) * crew.depth, (), limit, batching, worker=worker)
        self.crew = crew

    def _end(self) -> None:
        self.crew.turn_away()
        super()._end()
