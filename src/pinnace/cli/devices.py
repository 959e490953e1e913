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
    from pinnace.engines.speed.profile import MachineProfile


def devices(
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Measure the engines, which decides between them, and the memory bandwidth: a minute.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the CPU and the other devices.

    Devices have number, name, memory and provider, or why they cannot be used; the CPU its cores, the quota
    of its control group (a container's limit, in cores), instruction sets and caches.
    PINNACE_SIMULATE="ascend:2,gpu:2" in the environment simulates devices with the machine's cores.
    """
    from pinnace.bench.bandwidth import memory_bandwidth
    from pinnace.cli import speed
    from pinnace.cli.console import progress, table
    from pinnace.engines.devices import devices

    found = devices()
    bandwidth = profile = None
    if measure:
        with progress("Copying memory"):
            bandwidth = memory_bandwidth()
        profile = speed.measured()
    if as_json:
        print(json.dumps(_as_json(found, bandwidth, profile), indent=2))
        return
    _show(found, bandwidth)
    if profile:
        table("billions of multiplications or elements per second", speed.rows(profile), speed.head())
        table("time with a rule of onnxruntime over that without", speed.gains(profile))


def _as_json(
    found: Sequence[Device], bandwidth: float | None, profile: MachineProfile | None
) -> list[dict[str, Any]]:
    """Return the devices, the first of which is the CPU."""
    from pinnace.engines.speed.profile import as_record
    from pinnace.machine import processor
    from pinnace.machine.caches import caches
    from pinnace.machine.cgroup import cpu_quota

    cpu = {
        "name": processor.name(),
        "quota": cpu_quota() or None,
        "instruction_sets": processor.instruction_sets(),
        "caches": [asdict(cache) for cache in caches()],
        "memory_bandwidth": bandwidth,
        "speed": None if profile is None else as_record(profile)["rates"],
        "rules": None if profile is None else profile.rules,
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
