"""Resources of one actor, and how many actors fit on the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pinnace.errors import DeviceUnavailableError
from pinnace.machine.simulation import counts, simulated
from pinnace.options.context import Context, main_device

_CARDS = {"gpu": "GPU", "ascend": "NPU"}
"""Ray's names of the devices."""


@dataclass(frozen=True)
class ActorResources:
    """The resources of a cluster that one actor gets.

    `options` are Ray's options of the actor, `threads` compute one of its requests (0: the device decides),
    `most` is the number of such actors that fit on the idle cluster.
    """

    options: Mapping[str, object]
    threads: int
    most: int

    @property
    def asked(self) -> str:
        """The resources in words."""
        return ", ".join(f"{value} {name}" for name, value in self.options.items())


def share(context: Context, threads: int, workers: int, wanted: int) -> ActorResources:
    """Compute the resources of each actor of a model.

    `threads` is per actor; 0 means as many as let the wanted number of actors fit, or one actor a node if
    `wanted` is 0 too. `workers` actors share a device that is no CPU. `wanted` is the total number of actors;
    0 means as many as fit. Raises `DeviceUnavailableError` if no node has a device of the kind, or if there
    is no room.
    """
    part = _share(context, threads, workers, wanted)
    if not part.most or wanted > part.most:
        raise DeviceUnavailableError(
            f"{wanted or 'any'} actors were requested, but the cluster has room for {part.most}, each "
            f"with {part.asked}"
        )
    return part


def _share(context: Context, threads: int, workers: int, wanted: int) -> ActorResources:
    kind = main_device(context)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    if kind == "cpu":
        return _of_processors(_counted(nodes, "CPU"), threads, wanted)
    nodes_with_devices = _simulated(kind, nodes)
    if nodes_with_devices:
        return _of_simulated(nodes_with_devices, threads, workers)
    cards = sum(_counted(nodes, _CARDS[kind]))
    if not cards:
        raise DeviceUnavailableError(
            f"no node of the cluster has a device of the kind {kind!r}: tell `ray start` there how many it "
            f'has, or simulate two with PINNACE_SIMULATE="{kind}:2" in its environment'
        )
    part = 1 / workers
    asked = {"num_gpus": part} if kind == "gpu" else {"resources": {_CARDS[kind]: part}}
    return ActorResources({**asked, "num_cpus": threads}, threads, cards * workers)


def _of_processors(cores: Sequence[int], threads: int, wanted: int) -> ActorResources:
    """Choose the number of threads that lets the wanted number of actors fit, if the user left it open."""
    if not threads:
        sizes = range(max(cores, default=1), 1, -1)
        threads = next((size for size in sizes if _fitting(cores, size) >= (wanted or len(cores))), 1)
    return ActorResources({"num_cpus": threads}, threads, _fitting(cores, threads))


def _of_simulated(nodes: Sequence[tuple[int, Sequence[int]]], threads: int, workers: int) -> ActorResources:
    """`nodes` has for each node its cores, and the cores of each simulated device there."""
    of_each = min(cores for _, devices in nodes for cores in devices)
    threads = threads or max(1, of_each // workers)
    most = sum(min(len(devices) * workers, known // threads) for known, devices in nodes)
    return ActorResources({"num_cpus": threads}, threads, most)


def _fitting(cores: Sequence[int], threads: int) -> int:
    return sum(count // threads for count in cores)


def _counted(nodes: Sequence[Mapping[str, Any]], what: str) -> list[int]:
    """Return the amount of a resource on each node that has some."""
    found = (int(node["Resources"].get(what, 0)) for node in nodes)
    return [count for count in found if count]


def _simulated(kind: str, nodes: Sequence[Mapping[str, Any]]) -> list[tuple[int, list[int]]]:
    """Return the nodes that simulate devices of a kind, as their own environment says."""
    task = ray.remote(_simulated_here)
    known = [(node["NodeID"], int(node["Resources"].get("CPU", 0))) for node in nodes]
    asked = [
        task.options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(name, soft=False)).remote(
            kind
        )
        for name, _ in known
    ]
    answers: list[list[int]] = ray.get(asked)
    return [(cores, devices) for (_, cores), devices in zip(known, answers, strict=True) if devices and cores]


def _simulated_here(kind: str) -> list[int]:
    """Return the number of cores of each simulated device of this machine."""
    devices = (simulated(kind, number) for number in range(counts().get(kind, 0)))
    return [len(device.cores) for device in devices if device is not None]
