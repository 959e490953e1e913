"""All actors of one model: an executable that runs on any free actor.

Ray restarts an actor that dies, on another node if its own is gone, and a thread here makes it build the
model again. The actor's request is computed by another one, or by the same one after its restart.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from time import monotonic
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError

from pinnace.building.opening import Buffer
from pinnace.engines.protocol import State
from pinnace.engines.steps import Step
from pinnace.errors import DeviceUnavailableError, ModelStateError, PinnaceError
from pinnace.options.context import Context
from pinnace.options.settings import Settings
from pinnace.serving.control import Message, as_error, ports_of
from pinnace.serving.ray.actor import LACKING, Actor, Order
from pinnace.serving.ray.membership import membership
from pinnace.serving.ray.models import Cargo
from pinnace.serving.ray.nodes import ActorResources, share
from pinnace.types import Array

_TRIES = 3  # actors that may die over one request
_STARTS = 5  # builds in a row during which an actor may die
_PATIENCE = 60.0  # seconds for Ray to place actors, and for one to come back when none is left


def start(
    model: str | Buffer,
    context: Context,
    address: str,
    settings: Settings,
    threads: int,
    each: int,
    wanted: int,
) -> Fleet:
    """Join the cluster at `address` and start `wanted` actors; 0 means as many as fit.

    `threads` is per actor, `each` is the number of actors that share a device; see `share`. Raises as `Fleet`
    and `Membership.join` do, and ModelFormatError.
    """
    cargo = Cargo(model, settings)
    membership.join(address)
    try:
        part = share(context, threads, each, wanted)
        if not part.most or wanted > part.most:
            raise DeviceUnavailableError(
                f"{wanted or 'any'} actors were asked for, and the cluster has room for {part.most}, each "
                f"with {_words(part.options)}"
            )
    except BaseException:
        membership.leave()
        raise
    order = Order(cargo.manifest, context, settings, part.threads, each)
    return Fleet(cargo, order, part, wanted or part.most)


class _ActorHandle:
    """One actor. It is `up` while it has the model built; `lost` is the reason why it is gone for good."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.device = ""
        self.pid = 0
        self.running = 0
        self.up = False
        self.lost: BaseException | None = None
        self.builder: threading.Thread | None = None

    def arrived(self, said: Message) -> None:
        """Note that the actor has built the model."""
        self.device, self.pid, self.up = said["device"], said["pid"], True


class Fleet:
    """The actors of one model: an `Executable` whose executions run on any of them.

    Up to `depth` requests may be on their way to an actor: one is computed while the others are sent.
    """

    depth = 1

    def __init__(self, cargo: Cargo, order: Order, share: ActorResources, count: int) -> None:
        """Start `count` actors and wait until they are ready.

        Closing the fleet leaves the cluster. Raises the error of a failed build, and `DeviceUnavailableError`
        if Ray cannot place the actors.
        """
        self._cargo = cargo
        self._changed = threading.Condition()
        self._leaving = False
        self.restarts = self.retried = 0
        actor = ray.remote(Actor).options(
            **share.options, max_restarts=-1, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        self._places = [_ActorHandle(actor.remote(order)) for _ in range(count)]
        self.close = weakref.finalize(self, _free, os.getpid(), self._places)
        try:
            self._await_placement(share)
            with ThreadPoolExecutor(count) as pool:
                answers = list(pool.map(_build, self._places, repeat(cargo)))
            for place, said in zip(self._places, answers, strict=True):
                place.arrived(said)
            said = answers[0]
            self.inputs, self.outputs = ports_of(said["inputs"]), ports_of(said["outputs"])
            self.info: Mapping[str, str] = said["info"]
            self.keeps: int = said["keeps"]
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._places)

    @property
    def devices(self) -> list[str]:
        """Names of the actors' devices, now or last."""
        return [place.device for place in self._places]

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes, each on its node."""
        return [place.pid for place in self._places if place.up]

    @property
    def busy(self) -> int:
        """Number of actors with work."""
        return sum(place.running > 0 for place in self._places)

    @property
    def takes_device_memory(self) -> bool:
        """False: device memory cannot be used across machines."""
        return False

    def execution(self, state: State | None = None) -> _FleetExecution:
        """Return an execution that runs on any actor."""
        return _FleetExecution(self)

    def profile(self) -> list[list[Step]]:
        """Return nothing: actors record no steps."""
        return []

    def turn_away(self) -> None:
        """Let no request wait any longer for an actor to come back."""
        with self._changed:
            self._leaving = True
            self._changed.notify_all()

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Run a request. The results are read-only: they are in Ray's memory.

        Raises the actor's error, `DeviceUnavailableError` if actors died over the request or none is left,
        and `ModelStateError`.
        """
        arrays = [np.asarray(array, order="C") for array in arrays]  # others are pickled and copied twice
        tried = 0
        while True:
            place = self._taken()
            try:
                found = ray.get(place.actor.run.remote(arrays))
            except RayError as error:
                self._miss(place)
                tried += 1
                if tried == _TRIES:
                    raise DeviceUnavailableError(
                        f"{tried} actors died while they computed this request, the last one that of "
                        f"{place.device}: {_cause(error)}"
                    ) from None
            else:
                if not isinstance(found, dict):
                    return list(found)
                if found != LACKING:
                    raise as_error(found["error"], place.device)
                self._miss(place)
            finally:
                self._give_back(place)
            with self._changed:
                self.retried += 1

    # -- which actor --------------------------------------------------------------------------------------

    def _taken(self) -> _ActorHandle:
        """Take the least busy actor, or wait for one."""
        end = monotonic() + _PATIENCE
        with self._changed:
            while True:
                up = [place for place in self._places if place.up]
                place = min(up, key=lambda place: place.running, default=None)
                if place is not None and place.running < self.depth:
                    place.running += 1
                    return place
                if up:
                    end = monotonic() + _PATIENCE
                elif self._leaving:
                    raise ModelStateError("the model was closed while this request waited for a device")
                elif all(place.lost for place in self._places):
                    raise DeviceUnavailableError(f"no device is left: {self._places[0].lost}")
                elif monotonic() > end:
                    why = f"no actor has come back in {_PATIENCE:.0f} s: {_free_resources()}"
                    raise DeviceUnavailableError(why)
                self._changed.wait(1)

    def _give_back(self, place: _ActorHandle) -> None:
        with self._changed:
            place.running -= 1
            self._changed.notify_all()

    # -- restarting actors --------------------------------------------------------------------------------

    def _await_placement(self, share: ActorResources) -> None:
        asked = [place.actor.node.remote() for place in self._places]
        ready, waiting = ray.wait(asked, num_returns=len(asked), timeout=_PATIENCE)
        if waiting:
            raise DeviceUnavailableError(
                f"Ray has found a place for {len(ready)} of {len(asked)} actors in {_PATIENCE:.0f} s; each "
                f"asks for {_words(share.options)}, {_free_resources()}"
            )
        try:
            ray.get(asked)
        except RayError as error:
            raise DeviceUnavailableError(f"an actor cannot be started: {_cause(error)}") from None

    def _miss(self, place: _ActorHandle) -> None:
        """Note that an actor is gone, and rebuild the model when it is back."""
        with self._changed:
            if not place.up:
                return
            place.up = False
        place.builder = threading.Thread(
            target=_rebuild, args=(weakref.ref(self), self._cargo, place), name="pinnace-build", daemon=True
        )
        place.builder.start()

    def _back(self, place: _ActorHandle, said: Message | PinnaceError) -> None:
        with self._changed:
            if isinstance(said, PinnaceError):
                place.lost = said
            else:
                self.restarts += 1
                place.arrived(said)
            self._changed.notify_all()


class _FleetExecution:
    """See `Execution`. The state of the model stays with the actors."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.state: State = [np.empty(0)] * fleet.keeps

    def run(self, arrays: Sequence[Array], outputs: Sequence[Array] | None = None) -> list[Array]:
        """Compute the outputs on one of the actors."""
        results = self._fleet.run(arrays)
        if outputs is None:
            return [np.array(result) for result in results]
        for output, result in zip(outputs, results, strict=True):
            np.copyto(output, result)
        return list(outputs)


def _build(place: _ActorHandle, cargo: Cargo) -> Message:
    """Let an actor build the model, and send the files if its node lacks them. Returns its description.

    Raises the actor's error, and `DeviceUnavailableError` if it dies repeatedly while building.
    """
    for _ in range(_STARTS):
        try:
            # Ray restarts a dead actor: this call waits until it is placed, however long that takes.
            ray.get(place.actor.node.options(max_task_retries=-1).remote())
            said: Message = ray.get(place.actor.build.remote(None))
            if said == LACKING:
                said = ray.get(place.actor.build.remote(cargo.ship()))
        except RayError as failure:
            error = failure
            continue
        if "error" in said:
            raise as_error(said["error"], place.device or "an actor")
        return said
    raise DeviceUnavailableError(f"an actor died while it built the model, {_STARTS} times: {_cause(error)}")


def _rebuild(fleet: weakref.ref[Fleet], cargo: Cargo, place: _ActorHandle) -> None:
    """Rebuild the model of an actor, in a thread that does not keep the fleet alive."""
    try:
        found: Message | PinnaceError = _build(place, cargo)
    except PinnaceError as error:
        found = error
    here = fleet()
    if here is not None:
        here._back(place, found)


def _free(owner: int, places: Sequence[_ActorHandle]) -> None:
    """End the actors, unless this process is a fork of their owner."""
    if os.getpid() != owner:
        return
    if ray.is_initialized():
        for place in places:
            ray.kill(place.actor)
        for place in places:
            if place.builder is not None and place.builder is not threading.current_thread():
                place.builder.join()
    membership.leave()


def _words(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{value} {name}" for name, value in options.items())


def _free_resources() -> str:
    """Describe the free resources of the cluster."""
    free = ray.available_resources()
    found = (f"{free.get(name, 0):g} {name}" for name in ("CPU", "GPU", "NPU") if name in free)
    return f"and the cluster has {', '.join(found) or 'nothing'} to give"


def _cause(error: BaseException) -> str:
    """Return the message of a Ray error as one line."""
    return " ".join(str(error).split())[-900:]
