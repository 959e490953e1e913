"""`pinnace devices`: the devices of this machine."""

from __future__ import annotations

import json

from pinnace.cli.options import AsJson


def devices(as_json: AsJson = False) -> None:
    """Show the devices of this machine: number, name, memory, provider, or why they cannot be used.

    PINNACE_SIMULATE="ascend:2,gpu:2" in the environment simulates devices with the machine's cores.
    """
    from pinnace.cli.console import table
    from pinnace.engines.devices import devices

    found = devices()
    if as_json:
        print(json.dumps([device.as_json() for device in found], indent=2))
        return
    rows = [
        (
            f"{device.kind}:{device.id}",
            device.name,
            f"{device.memory / 2**30:.1f} GiB" if device.memory else "memory not told",
            device.provider,
            f"not usable: {device.problem}" if device.problem else "",
        )
        for device in found
    ]
    table("devices", rows)
