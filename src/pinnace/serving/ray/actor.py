"""The Ray actor: a process on a node with a model, on one device or a share of one."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray

from pinnace.building.planning import to_target
from pinnace.engines.protocol import Execution
from pinnace.machine.cores import bound
from pinnace.machine.simulation import counts
from pinnace.options.context import Context, main_device
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.serving.channel import Message, encode_error
from pinnace.serving.device_process import build_replica
from pinnace.serving.ray.models import Manifest, Shipment, find, receive
from pinnace.types import Array

LACKING = {"lacks": "model"}
"""The answer of `Actor.build` if the node does not have the model's files."""


@dataclass(frozen=True)
class Order:
    """The model that an actor builds. `threads` compute one request; 0 leaves it to the device.

    `workers` actors share one device.
    """

    manifest: Manifest
    context: Context
    settings: Settings
    threads: int
    workers: int


class Actor:
    """A replica of a model. Ray runs its methods one at a time."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._description: Message | None = None
        self._cores: tuple[int, ...] = ()

    def node(self) -> str:
        """Return the address of the node; this shows that the actor runs."""
        return str(ray.util.get_node_ip_address())

    def build(self, shipment: Shipment | None) -> Message:
        """Build the model once, and return its description, or LACKING without its files."""
        try:
            return self._description or self._build(shipment)
        except Exception as error:
            return {"error": encode_error(error)}

    def run(self, arrays: Sequence[Array]) -> list[Array] | Message:
        """Return the results, an error, or LACKING if this is a restarted process without a model."""
        if self._description is None:
            return LACKING
        try:
            with bound(self._cores[:1]):
                return self._execution.run(arrays)
        except Exception as error:
            return {"error": encode_error(error)}

    def _build(self, shipment: Shipment | None) -> Message:
        order = self._order
        path = find(order.manifest, order.settings)
        if path is None:
            if shipment is None:
                return LACKING
            path = receive(order.manifest, shipment, order.settings)
        target = self._target()
        executable, description = build_replica(path, target, order.settings)
        self._execution: Execution = executable.execution()
        self._cores = target.cores
        self._description = {
            "device": f"{target.simulates or _card(target)} of node {self.node()}",
            "pid": os.getpid(),
            **description,
            "keeps": len(self._execution.state),
        }
        return self._description

    def _target(self) -> Target:
        order, kind = self._order, main_device(self._order.context)
        devices = counts().get(kind, 0)
        number = self._claimed(kind, devices) if devices else 0  # Ray hides other real devices
        target = to_target(order.context, 1, device_id=number)
        return target._replace(threads=order.threads or target.threads)

    def _claimed(self, kind: str, devices: int) -> int:
        """Claim a simulated device of this node for this actor; any device if all are claimed.

        The claim is an abstract socket name, which the kernel frees when the process ends.
        """
        node = ray.get_runtime_context().get_node_id()
        for share in range(devices * self._order.workers):
            claim = socket.socket(socket.AF_UNIX)
            try:
                claim.bind(f"\0pinnace-{node}-{kind}-{share}")
            except OSError:
                claim.close()
                continue
            self._claim = claim
            return share % devices
        return os.getpid() % devices


def _card(target: Target) -> str:
    """Return the device's name on the node."""
    found: dict[str, list[Any]] = ray.get_runtime_context().get_accelerator_ids()
    ids = found.get({"gpu": "GPU", "ascend": "NPU"}.get(target.device, ""), [])
    return f"{target.device}:{ids[0] if ids else target.device_id}"
