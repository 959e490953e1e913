"""What there is to run on."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

from pinnace.engines import memory, missing
from pinnace.machine.accelerators import cards
from pinnace.machine.cores import allowed_cores
from pinnace.machine.simulation import KINDS, counts, simulated
from pinnace.options.target import Target
from pinnace.tensors.memory import DeviceMemory


@dataclass(frozen=True)
class Device:
    """A place to run: `kind` and `id` as `Context` names them.

    `memory` is in bytes, that of the whole device, 0 where nobody tells. `provider` says what runs models
    there. `problem` says why it cannot be used; "" where it can. `simulated`: cores of this machine play it.
    """

    kind: str
    id: int
    name: str
    memory: int
    provider: str
    problem: str = ""
    simulated: bool = False

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}, {self.name}" + (
            f", not usable: {self.problem}" if self.problem else ""
        )

    @property
    def usable(self) -> bool:
        """Whether models can run there."""
        return not self.problem

    def as_json(self) -> dict[str, Any]:
        """All of it, for a program."""
        return {**asdict(self), "usable": self.usable}


def devices() -> list[Device]:
    """All devices of this machine, the CPU first; those of a kind that is simulated are the simulated ones.

    Where there is no device of a kind nothing stands for it. Raises `ConfigError` for a PINNACE_SIMULATE
    that cannot be read.
    """
    return [_cpu(), *(device for kind in KINDS for device in devices_of(kind))]


def devices_of(kind: str) -> list[Device]:
    """The devices of one kind, "cpu", "gpu" or "ascend"."""
    if kind == "cpu":
        return [_cpu()]
    simulated_counts = counts()
    if kind in simulated_counts:
        return [_simulated_device(kind, number) for number in range(simulated_counts[kind])]
    providers = {"gpu": "CUDA", "ascend": "CANN"}
    return [
        Device(
            kind, card.id, card.name, card.memory, f"onnxruntime {providers[kind]}",
            missing(Target(device=kind, device_id=card.id)),
        )
        for card in cards(kind)
    ]  # fmt: skip


def place(kind: str, number: int) -> DeviceMemory:
    """The memory of an accelerator or a simulated one, for tensors. Raises `DeviceUnavailableError`."""
    card = simulated(kind, number)
    return memory(Target(simulates=str(card)) if card else Target(device=kind, device_id=number))


def _cpu() -> Device:
    cores = len(allowed_cores())
    return Device("cpu", 0, f"{cores} core{'s' * (cores > 1)}", _memory(), "onnxruntime CPU")


def _simulated_device(kind: str, number: int) -> Device:
    """A simulated device: its memory is the machine's, which it shares with the others."""
    where = str(simulated(kind, number)).partition(" ")[2].strip("()")
    return Device(kind, number, where, _memory(), "onnxruntime CPU", simulated=True)


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
