"""Devices simulated by slices of this machine's cores.

`PINNACE_SIMULATE="ascend:2,gpu:2"` in the environment makes two devices of each kind, so that programs for
machines with several devices can be developed and tested without them, like XLA's
`--xla_force_host_platform_device_count`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from pinnace.errors import ConfigError, DeviceUnavailableError

VARIABLE = "PINNACE_SIMULATE"
KINDS = ("gpu", "ascend")
MOST = 1024
"""Maximum number of devices of one kind; more is a typing error."""


class Simulated(NamedTuple):
    """Simulated device `id` of a kind, and the cores that it uses."""

    kind: str
    id: int
    cores: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.kind}:{self.id} (simulated on {_named(self.cores)})"


def counts() -> dict[str, int]:
    """Return the number of visible simulated devices by kind; {} without simulation. Raises `ConfigError`."""
    return {kind: len(_left(kind, count)) for kind, count in _asked().items()}


def _asked() -> dict[str, int]:
    """Return the number of simulated devices by kind, visible or not."""
    text = os.environ.get(VARIABLE, "")
    if not text.strip():
        return {}
    found: dict[str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\w+)\s*:\s*(\d+)\s*", part, re.ASCII)
        if not match or match[1].lower() not in KINDS or not 0 < int(match[2]) <= MOST:
            raise ConfigError(
                f"{VARIABLE}={text!r}: {part.strip()!r} is not KIND:COUNT, with {' or '.join(KINDS)} and a "
                f'count from 1 to {MOST}, as in "ascend:2,gpu:2"'
            )
        if match[1].lower() in found:
            raise ConfigError(f"{VARIABLE}={text!r}: {match[1].lower()} is given twice")
        found[match[1].lower()] = int(match[2])
    return found


def simulated(kind: str, device_id: int) -> Simulated | None:
    """Return a simulated device; None if devices of this kind are not simulated.

    Raises `DeviceUnavailableError` if they are and this one is not among them, and `ConfigError`.
    """
    count = _asked().get(kind, 0)
    if not count:
        return None
    left = _left(kind, count)
    if device_id >= len(left):
        there = f"makes {kind}:0 to {kind}:{count - 1}"
        from pinnace.machine.accelerators import VISIBLE

        if len(left) < count:
            there += f", of which {VISIBLE[kind]}={os.environ[VISIBLE[kind]]!r} leaves {len(left)}"
        raise DeviceUnavailableError(f"{kind}:{device_id} is not available: {VARIABLE} {there}")
    return Simulated(kind, device_id, slice_of(sorted(os.sched_getaffinity(0)), left[device_id], count))


def _left(kind: str, count: int) -> list[int]:
    """Return the simulated devices that the visibility variable selects, in its order."""
    from pinnace.machine.accelerators import VISIBLE, Card, visible  # few machines simulate devices

    devices = [Card(kind, number, str(number), 0) for number in range(count)]
    return [int(card.name) for card in visible(devices, os.environ.get(VISIBLE[kind]))]


def slice_of(cores: Sequence[int], place: int, count: int) -> tuple[int, ...]:
    """Return the cores of device `place` of `count`: neighbors, evenly divided; shared if there are
    too few.
    """
    if len(cores) < count:
        return (cores[place % len(cores)],)
    return tuple(cores[len(cores) * place // count : len(cores) * (place + 1) // count])


def _named(cores: Sequence[int]) -> str:
    return f"core {cores[0]}" if len(cores) == 1 else "cores " + ", ".join(map(str, cores))
