"""What one actor asks of Ray, and how many actors the nodes of a cluster have room for."""

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
"""What Ray calls the devices."""


@dataclass(frozen=True)
class ActorResources:
    """The part of a cluster that one actor gets.

    `options` are Ray's for the actor, `threads` those that compute one of its requests, 0 where the device
    says so; `most` is how many such actors the cluster holds when nothing else runs there.
    """

    options: Mapping[str, Any]
    threads: int
    most: int


def share(context: Context, threads: int, workers: int, wanted: int) -> ActorResources:
    """What each actor of a model asks for.

    `threads` are those of an actor, 0: as many as let the wanted number of actors fit, or one a device where
    that is left open with a 0, too. `workers` actors share a device that is no CPU. `wanted` is how many
    actors are wanted in all, 0: as many as fit. Raises `DeviceUnavailableError` where the cluster has no
    device of the context's kind.
    """
    kind = main_device(context)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    if kind == "cpu":
        return _of_processors(_counted(nodes, "CPU"), threads, wanted)
    played = _simulated(kind, nodes)
    if played:
        return _of_simulated(played, threads, workers)
    cards = sum(_counted(nodes, _CARDS[kind]))
    if not cards:
        raise DeviceUnavailableError(
            f"no node of the cluster has a device of the kind {kind!r}: `ray start` there says how many it "
            f'has, and PINNACE_SIMULATE="{kind}:2" in its environment plays two'
        )
    part = 1 / workers
    asked = {"num_gpus": part} if kind == "gpu" else {"resources": {_CARDS[kind]: part}}
    return ActorResources({**asked, "num_cpus": threads}, threads, cards * workers)


def _of_processors(cores: Sequence[int], threads: int, wanted: int) -> ActorResources:
    """As many threads as let the wanted number of actors fit, where the user leaves that open."""
    if not threads:
        sizes = range(max(cores, default=1), 1, -1)
        threads = next((size for size in sizes if _fitting(cores, size) >= (wanted or len(cores))), 1)
    return ActorResources({"num_cpus": threads}, threads, _fitting(cores, threads))


def _of_simulated(played: Sequence[tuple[int, Sequence[int]]], threads: int, workers: int) -> ActorResources:
    """`played` are the cores that Ray knows of each node, and the cores of each simulated device there."""
    of_each = min(cores for _, devices in played for cores in devices)
    threads = threads or max(1, of_each // workers)
    most = sum(min(len(devices) * workers, known // threads) for known, devices in played)
    return ActorResources({"num_cpus": threads}, threads, most)


def _fitting(cores: Sequence[int], threads: int) -> int:
    return sum(count // threads for count in cores)


def _counted(nodes: Sequence[Mapping[str, Any]], what: str) -> list[int]:
    """How much of a resource each node has, of those that have some."""
    found = (int(node["Resources"].get(what, 0)) for node in nodes)
    return [count for count in found if count]


def _simulated(kind: str, nodes: Sequence[Mapping[str, Any]]) -> list[tuple[int, list[int]]]:
    """The nodes that simulate devices of a kind: their environment says so, not ours."""
    task = ray.remote(_played_here)
    known = [(node["NodeID"], int(node["Resources"].get("CPU", 0))) for node in nodes]
    asked = [
        task.options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(name, soft=False)).remote(
            kind
        )
        for name, _ in known
    ]
    answers: list[list[int]] = ray.get(asked)
    return [(cores, devices) for (_, cores), devices in zip(known, answers, strict=True) if devices and cores]


def _played_here(kind: str) -> list[int]:
    """How many cores each simulated device of this machine has; [] where there are none."""
    devices = (simulated(kind, number) for number in range(counts().get(kind, 0)))
    return [len(device.cores) for device in devices if device is not None]
