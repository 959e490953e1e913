"""`pinnace devices`: the devices of this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pinnace.cli.options import AsJson

if TYPE_CHECKING:
    from pinnace.engines.devices import Device


def devices(
    as_json: AsJson = False,
) -> None:
    """Show the CPU and the other devices.

    Devices have number, name, memory and provider, or why they cannot be used; the CPU its cores, the quota
    of its control group (a container's limit, in cores), instruction sets and caches.
    PINNACE_SIMULATE="ascend:2,gpu:2" in the environment simulates devices with the machine's cores.
    """
    from pinnace.engines.devices import devices

    found = devices()
    if as_json:
        print(json.dumps(_as_json(found), indent=2))
        return
    _show(found)


def _as_json(found: Sequence[Device]) -> list[dict[str, Any]]:
    from pinnace.machine import processor
    from pinnace.machine.caches import caches
    from pinnace.machine.cgroup import cpu_quota

    cpu = {
        "name": processor.name(),
        "quota": cpu_quota() or None,
        "instruction_sets": processor.instruction_sets(),
        "caches": [asdict(cache) for cache in caches()],
    }
    first, *others = (device.as_json() for device in found)
    return [first | {"processor": cpu}, *others]


def _show(found: Sequence[Device]) -> None:
    from pinnace.cli.console import table
    from pinnace.machine import processor
    from pinnace.machine.caches import caches

    rows = [
        (
            f"{device.kind}:{device.id}",
            device.name,
            f"{device.memory / 2**30:.1f} GiB" if device.memory else "memory unknown",
            f"{device.provider}, not usable: {device.problem}" if device.problem else device.provider,
        )
        for device in found
    ]
    table("devices", rows)
    facts = [
        ("computes in", ", ".join(processor.instruction_sets()) or "not known"),
        ("caches", ", ".join(map(str, caches())) or "not known"),
    ]
    table(processor.name(), facts)
