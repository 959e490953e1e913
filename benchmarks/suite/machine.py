"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8",
         "fma", "f16c", "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve")  # fmt: skip
"""What of a processor's abilities matters to kernels, as Linux names it."""


def describe() -> dict[str, str]:
    facts = _processor()
    flags = set(facts.get("flags", facts.get("Features", "")).split())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": facts.get("model name", platform.machine()),
        "abilities": " ".join(flag for flag in FLAGS if flag in flags),
        "cores": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "memory": f"{memory:.0f} GB",
        "system": _system(),
        "load before": f"{os.getloadavg()[0]:.2f}",
        "Python": platform.python_version(),
    }


def _processor() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    return {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())
    }


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        name = platform.system()
    return f"{name}, {platform.release()}"
