"""`pinnace devices`: the devices of this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinnace.cli.options import AsJson

if TYPE_CHECKING:
    from pinnace.engines.devices import Device


def devices(
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the memory bandwidth, with copies by all cores.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the CPU and the other devices.

    Devices have number, name, memory and provider, or why they cannot be used; the CPU its instruction sets
    and caches. PINNACE_SIMULATE="ascend:2,gpu:2" in the environment simulates devices with the machine's
    cores.
    """
    from pinnace.bench.bandwidth import memory_bandwidth
    from pinnace.cli.console import progress
    from pinnace.engines.devices import devices

    found = devices()
    bandwidth = None
    if measure:
        with progress("Copying memory"):
            bandwidth = memory_bandwidth()
    if as_json:
        print(json.dumps(_as_json(found, bandwidth), indent=2))
    else:
        _show(found, bandwidth)


def _as_json(found: Sequence[Device], bandwidth: float | None) -> list[dict[str, Any]]:
    """Return the devices, the first of which is the CPU."""
    from pinnace.machine import processor
    from pinnace.machine.caches import caches

    cpu = {
        "name": processor.name(),
        "instruction_sets": processor.instruction_sets(),
        "caches": [asdict(cache) for cache in caches()],
        "memory_bandwidth": bandwidth,
    }
    first, *others = (device.as_json() for device in found)
    return [first | {"processor": cpu}, *others]


def _show(found: Sequence[Device], bandwidth: float | None) -> None:
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
        *([("memory bandwidth", f"{bandwidth:.1f} GB/s")] if bandwidth else []),
    ]
    table(processor.name(), facts)
