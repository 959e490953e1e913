"""The actors of one model, as replicas."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError

from pinnace.errors import DeviceUnavailableError
from pinnace.options.context import Context, Parallel
from pinnace.options.settings import Settings
from pinnace.serving.channel import Message, decode_error
from pinnace.serving.ray.actor import LACKING, Actor, Order
from pinnace.serving.ray.membership import membership
from pinnace.serving.ray.models import Cargo
from pinnace.serving.ray.nodes import ActorResources, share
from pinnace.serving.replicas import Replica, ReplicaExecution, ReplicaLostError, ReplicaSet, T, Take
from pinnace.types import Array, Buffer

_PATIENCE = 60.0  # seconds for Ray to place actors, and for one to come back when none is left


def start(
    model: str | Buffer,
    context: Context,
    parallel: Parallel,
    settings: Settings,
    threads: int,
    each: int,
    wanted: int,
    depth: int,
) -> ReplicaSet:
    """Join the cluster of `parallel` and start `wanted` actors; 0 means as many as fit.

    `threads` is per actor, `each` is the number of actors that share a device (see `share`), `depth` the
    number of requests at an actor. Raises as `ReplicaSet` and `Membership.join` do, and ModelFormatError.
    """
    cargo = Cargo(model, settings)
    membership.join(parallel.address)
    replicas: list[ActorReplica] = []
    try:
        part = share(context, threads, each, wanted)
        order = Order(cargo.manifest, context, settings, part.threads, each)
        actor = ray.remote(Actor).options(
            **part.options, max_restarts=-1, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        replicas += [ActorReplica(actor.remote(order), cargo) for _ in range(wanted or part.most)]
        _await_placement(replicas, part)
    except BaseException:
        for replica in replicas:
            replica.end()
        membership.leave()
        raise
    return ReplicaSet(replicas, depth, _PATIENCE, membership.leave)


class ActorReplica(Replica):
    """See `Replica`. Ray restarts an actor that dies, on another node if its own is gone."""

    def __init__(self, actor: Any, cargo: Cargo) -> None:
        super().__init__("an actor")
        self.actor, self._cargo = actor, cargo
        self._gone = threading.Event()

    def start(self) -> Message:
        """See `Replica`; the model is sent if the node lacks it."""
        self._gone.clear()
        try:
            # Ray restarts a dead actor: this call waits until it is placed, however long that takes.
            ray.get(self.actor.node.options(max_task_retries=-1).remote())
            description: Message = ray.get(self.actor.build.remote(None))
            if description == LACKING:
                description = ray.get(self.actor.build.remote(self._cargo.ship()))
        except RayError as error:
            raise DeviceUnavailableError(f"an actor died while it built the model: {_cause(error)}") from None
        if "error" in description:
            raise decode_error(description["error"], self.device)
        self.device, self.pid = description["device"], description["pid"]
        return description

    def run(self, arrays: Sequence[Array], take: Take[T], execution: ReplicaExecution) -> T:
        """See `Replica`; the results are read-only, in Ray's memory. Ray stops no method that runs."""
        arrays = [np.asarray(array, order="C") for array in arrays]  # others are pickled and copied twice
        try:
            found = ray.get(self.actor.run.remote(arrays))
        except RayError as error:
            raise ReplicaLostError(f"{self.device} died: {_cause(error)}") from None
        if found == LACKING:
            raise ReplicaLostError(f"{self.device} is new", harmless=True)
        if isinstance(found, dict):
            raise decode_error(found["error"], self.device)
        return take(found)

    def wait(self) -> None:
        self._gone.wait()

    def leave(self) -> None:
        self._gone.set()

    def end(self) -> None:
        self._gone.set()
        if ray.is_initialized():
            ray.kill(self.actor)


def _await_placement(replicas: Sequence[ActorReplica], share: ActorResources) -> None:
    asked = [replica.actor.node.remote() for replica in replicas]
    ready, waiting = ray.wait(asked, num_returns=len(asked), timeout=_PATIENCE)
    if waiting:
        raise DeviceUnavailableError(
            f"Ray found a place for {len(ready)} of {len(asked)} actors in {_PATIENCE:.0f} s; each "
            f"asks for {share.asked}, {_free_resources()}"
        )
    try:
        ray.get(asked)
    except RayError as error:
        raise DeviceUnavailableError(f"an actor cannot be started: {_cause(error)}") from None


def _free_resources() -> str:
    free = ray.available_resources()
    found = (f"{free.get(name, 0):g} {name}" for name in ("CPU", "GPU", "NPU") if name in free)
    return f"and the cluster has {', '.join(found) or 'nothing'} to give"


def _cause(error: BaseException) -> str:
    """Return the message of a Ray error as one line."""
    return " ".join(str(error).split())[-900:]
