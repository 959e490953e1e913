"""The devices of this machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pinnace.engines import check_available, missing
from pinnace.machine.accelerators import cards
from pinnace.machine.cgroup import cpu_quota, usable_memory
from pinnace.machine.cores import allowed_cores
from pinnace.machine.simulation import KINDS, counts, simulated
from pinnace.options.target import Target
from pinnace.tensors.device_memory import DeviceMemory


@dataclass(frozen=True)
class Device:
    """A device: `kind` and `id` as `Context` names them.

    `memory` is that of the whole device in bytes, 0 if unknown. `provider` is the engine and provider that
    run models there. `problem` says why it cannot be used; "" if it can. Cores of this machine run the models
    of a `simulated` device.
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
        return not self.problem

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "usable": self.usable}


def devices() -> list[Device]:
    """Return all devices, the CPU first; a kind that is simulated has only its simulated devices.

    Raises `ConfigError` if PINNACE_SIMULATE is invalid.
    """
    return [_cpu(), *(device for kind in KINDS for device in devices_of(kind))]


def devices_of(kind: str) -> list[Device]:
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
    """Return the memory of an accelerator or a simulated one. Raises `DeviceUnavailableError`."""
    from pinnace.engines.onnxruntime.device_memory import OrtDeviceMemory

    if card := simulated(kind, number):
        return OrtDeviceMemory.of(Target(simulates=str(card)))
    target = Target(device=kind, device_id=number)
    check_available(target, "", ", or omit device to keep the data in host memory")
    return OrtDeviceMemory.of(target)


def _cpu() -> Device:
    cores, quota = len(allowed_cores()), cpu_quota()
    limit = f", quota of {quota:.3g}" if quota else ""
    return Device("cpu", 0, f"{cores} core{'s' * (cores > 1)}{limit}", usable_memory(), "onnxruntime CPU")


def _simulated_device(kind: str, number: int) -> Device:
    """Return a simulated device; its memory is the machine's, shared with all others."""
    where = str(simulated(kind, number)).partition(" ")[2].strip("()")
    return Device(kind, number, where, usable_memory(), "onnxruntime CPU", simulated=True)
