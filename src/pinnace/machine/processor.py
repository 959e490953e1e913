"""The processor: its kind, its features, what it computes in 16 and 8 bits; all that reads /proc/cpuinfo."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_OF_KIND = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "Features")

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
    there = features()
    return tuple(dict.fromkeys(kind for feature, kind in _TYPES.items() if feature in there))


def sixteen_bit_type() -> str | None:
    """The type to prefer; None where the processor has none."""
    return next(iter(sixteen_bit_types()), None)


def sums_of_bytes_overflow() -> bool:
    """Whether products of bytes are added in 16 bits, cut off at the ends: x86 before VNNI and AMX."""
    return platform.machine() == "x86_64" and not features() & {"avx512_vnni", "avx_vnni", "amx_int8"}


def block_of_channels() -> int:
    """Channels of a float32 image that onnxruntime's kernels compute at once on this processor."""
    return 16 if platform.machine() != "x86_64" or "avx512f" in features() else 8


@cache
def identity() -> str:
    """A name for the processor's kind and features, by which kernels and layouts of weights are chosen."""
    facts = _facts()
    if not facts:
        return f"{platform.machine()} {platform.processor()}"
    return " ".join((platform.machine(), *(value for name, value in facts.items() if name in _OF_KIND)))


@cache
def features() -> frozenset[str]:
    """The features of the first processor, under the names that Linux gives them."""
    facts = _facts()
    return frozenset((facts.get("flags") or facts.get("Features", "")).split())


@cache
def _facts() -> Mapping[str, str]:
    """The lines of the first processor in /proc/cpuinfo; {} where that cannot be read."""
    try:
        first = _CPUINFO.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    lines = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value for name, _, value in lines}
