"""What runs on a node: a process with a model, on one device or a part of one."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray

from pinnace.building.origin import build
from pinnace.building.planning import to_target
from pinnace.engines.protocol import Array, Execution
from pinnace.machine.cores import bound
from pinnace.machine.simulation import counts
from pinnace.options.context import Context, main_device
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.serving.control import Message, as_message, ports_said
from pinnace.serving.ray.models import Manifest, Shipment, find, receive

LACKING = {"lacks": "model"}
"""What `Actor.build` says where the model is not on the node."""


@dataclass(frozen=True)
class Order:
    """What an actor is to build; `threads` compute one request, 0: as many as the device says.

    `workers` actors share one device.
    """

    manifest: Manifest
    context: Context
    settings: Settings
    threads: int
    workers: int


class Actor:
    """One place where a model runs. Ray runs its methods one after the other."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._said: Message | None = None
        self._cores: tuple[int, ...] = ()

    def node(self) -> str:
        """The address of the node: the actor runs."""
        return str(ray.util.get_node_ip_address())

    def build(self, shipment: Shipment | None) -> Message:
        """Build the model, once, and tell of it; LACKING where it is not here and was not sent."""
        try:
            return self._said or self._build(shipment)
        except Exception as error:
            return {"error": as_message(error)}

    def run(self, arrays: Sequence[Array]) -> list[Array] | Message:
        """The results, what went wrong, or LACKING where the process is a new one that has not built yet."""
        if self._said is None:
            return LACKING
        try:
            with bound(self._cores[:1]):
                return self._execution.run(arrays)
        except Exception as error:
            return {"error": as_message(error)}

    def _build(self, shipment: Shipment | None) -> Message:
        order = self._order
        path = find(order.manifest, order.settings)
        if path is None:
            if shipment is None:
                return LACKING
            path = receive(order.manifest, shipment, order.settings)
        target = self._target()
        if target.cores:
            os.sched_setaffinity(0, target.cores)  # all threads of a simulated device stay on its cores
        executable = build(path, None, target, order.settings)
        self._execution: Execution = executable.execution()
        self._cores = target.cores
        self._said = {
            "device": f"{target.simulates or _card(target)} of node {self.node()}",
            "pid": os.getpid(),
            "inputs": ports_said(executable.inputs),
            "outputs": ports_said(executable.outputs),
            "info": dict(executable.info),
            "keeps": len(self._execution.state),
        }
        return self._said

    def _target(self) -> Target:
        order, kind = self._order, main_device(self._order.context)
        devices = counts().get(kind, 0)
        number = self._claimed(kind, devices) if devices else 0  # of real ones Ray shows us ours alone
        target = to_target(order.context, 1, device_id=number)
        return replace(target, threads=order.threads or target.threads)

    def _claimed(self, kind: str, devices: int) -> int:
        """A simulated device of this node that no other actor has; any where all are taken.

        It is claimed by a name that the kernel gives to one socket at a time, and frees with the process.
        """
        node = ray.get_runtime_context().get_node_id()
        for place in range(devices * self._order.workers):
            claim = socket.socket(socket.AF_UNIX)
            try:
                claim.bind(f"\0pinnace-{node}-{kind}-{place}")
            except OSError:
                claim.close()
                continue
            self._claim = claim
            return place % devices
        return os.getpid() % devices


def _card(target: Target) -> str:
    """The device as the node calls it."""
    found: dict[str, list[Any]] = ray.get_runtime_context().get_accelerator_ids()
    ids = found.get({"gpu": "GPU", "ascend": "NPU"}.get(target.device, ""), [])
    return f"{target.device}:{ids[0] if ids else target.device_id}"
