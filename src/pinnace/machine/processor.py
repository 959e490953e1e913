"""What the processor computes in 16 and 8 bits, as the kernel tells its features."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")

_TYPES = {
    # x86: both are multiplied at the same speed, and bfloat16 has the range of float32.
    "avx512_bf16": "bfloat16",
    "amx_bf16": "bfloat16",
    "avx512_fp16": "float16",
    # Arm: vectors of float16 take part in all arithmetic, those of bfloat16 in products of matrices only.
    "asimdhp": "float16",
    "bf16": "bfloat16",
}
"""What a feature, under the name that Linux gives it, lets a processor compute in; the fastest first.

Documentation/arch/arm64/elf_hwcaps.rst and arch/x86/include/asm/cpufeatures.h of Linux tell the names.
"""


def sixteen_bit_types() -> tuple[str, ...]:
    """The types ("bfloat16", "float16") that this processor computes in, the one to prefer first."""
    there = _features()
    return tuple(dict.fromkeys(kind for feature, kind in _TYPES.items() if feature in there))


def sixteen_bit_type() -> str | None:
    """The type to prefer; None where the processor has none."""
    return next(iter(sixteen_bit_types()), None)


def sums_of_bytes_overflow() -> bool:
    """Whether products of bytes are added in 16 bits, cut off at the ends: x86 before VNNI and AMX."""
    return platform.machine() == "x86_64" and not _features() & {"avx512_vnni", "avx_vnni", "amx_int8"}


def parse_features(cpuinfo: str) -> frozenset[str]:
    """The features of the first processor in the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


@cache
def _features() -> frozenset[str]:
    try:
        return parse_features(_CPUINFO.read_text(encoding="utf-8"))
    except OSError:
        return frozenset()
