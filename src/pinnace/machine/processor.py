"""The CPU: its model and its features, as engines use them. Only this module reads /proc/cpuinfo."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_OF_KIND = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "Features")

_TYPES = {
    # x86: both types have the same speed, and bfloat16 has the range of float32.
    "avx512_bf16": "bfloat16",
    "amx_bf16": "bfloat16",
    "avx512_fp16": "float16",
    # Arm: float16 vectors support all arithmetic, bfloat16 only matrix products.
    "asimdhp": "float16",
    "bf16": "bfloat16",
}
"""The type that each CPU feature, by its Linux name, computes in; the fastest first.

The names are those of Documentation/arch/arm64/elf_hwcaps.rst and arch/x86/include/asm/cpufeatures.h of
Linux.
"""

_INSTRUCTIONS = {
    "avx2": "AVX2",
    "avx_vnni": "AVX-VNNI",
    "avx512f": "AVX-512",
    "avx512_vnni": "AVX-512 VNNI",
    "avx512_bf16": "AVX-512 BF16",
    "avx512_fp16": "AVX-512 FP16",
    "amx_int8": "AMX INT8",
    "amx_bf16": "AMX BF16",
    "amx_fp16": "AMX FP16",
    "asimd": "NEON",
    "asimdhp": "FP16",
    "asimddp": "DotProd",
    "i8mm": "I8MM",
    "bf16": "BF16",
    "sve": "SVE",
    "sve2": "SVE2",
    "sme": "SME",
}
"""Instruction sets that kernels compute in, by their Linux names."""


_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
"""Variables of the environment that limit oneDNN, and so OpenVINO, to an instruction set."""

_UP_TO = {
    **dict.fromkeys(("SSE41", "AVX"), ""),
    "AVX2": "avx2",
    "AVX2_VNNI": "avx2 avx_vnni",
    "AVX512_CORE": "avx2 avx_vnni avx512f",
    "AVX512_CORE_VNNI": "avx2 avx_vnni avx512f avx512_vnni",
    "AVX512_CORE_BF16": "avx2 avx_vnni avx512f avx512_vnni avx512_bf16",
    "AVX512_CORE_FP16": "avx2 avx_vnni avx512f avx512_vnni avx512_bf16 avx512_fp16",
}
"""The part of `_INSTRUCTIONS` that a limit leaves; other limits leave all.

Source: https://uxlfoundation.github.io/oneDNN/dev_guide_cpu_dispatcher_control.html
"""

_VECTORS = {"AVX2": "avx2", "AVX512F": "avx512f"}
"""Features by their names in numpy, which asks the CPU and not the kernel, as onnxruntime does."""


def name() -> str:
    """Return the name of the CPU; the kernel tells none on Arm, only numbers of maker and part."""
    facts = _facts()
    numbers = " ".join(
        f"{key} {facts[key].strip()}" for key in ("CPU implementer", "CPU part") if key in facts
    )
    return facts.get("model name", numbers or platform.machine()).strip()


def instruction_sets() -> tuple[str, ...]:
    there = features()
    return tuple(name for feature, name in _INSTRUCTIONS.items() if feature in there)


def sixteen_bit_types() -> tuple[str, ...]:
    """Return the 16-bit types ("bfloat16", "float16") of this CPU, the preferred one first."""
    there = features()
    return tuple(dict.fromkeys(kind for feature, kind in _TYPES.items() if feature in there))


def sixteen_bit_type() -> str | None:
    """Return the preferred 16-bit type; None if the CPU has none."""
    return next(iter(sixteen_bit_types()), None)


def sums_of_bytes_overflow() -> bool:
    """Return True if products of bytes are summed in 16 bits with saturation: x86 before VNNI and AMX."""
    return platform.machine() == "x86_64" and not features() & {"avx512_vnni", "avx_vnni", "amx_int8"}


def block_of_channels() -> int:
    """Return the number of channels of a float32 image that onnxruntime's kernels compute at once."""
    return 16 if platform.machine() != "x86_64" or "avx512f" in features_of_cpuid() else 8


@cache
def identity() -> str:
    """Return an identity of the CPU's model and features, on which kernels and weight layouts
    depend.
    """
    facts = _facts()
    if not facts:
        return f"{platform.machine()} {platform.processor()}"
    own = (value for name, value in facts.items() if name in _OF_KIND)
    return " ".join((platform.machine(), *own, *_limit()))


@cache
def features() -> frozenset[str]:
    """Return the features of the first CPU by their Linux names, without those that oneDNN must not use."""
    facts = _facts()
    found = frozenset((facts.get("flags") or facts.get("Features", "")).split())
    known = [left for value, left in _UP_TO.items() if [value] == _limit()]
    return (found - _INSTRUCTIONS.keys()) | (found & set(known[0].split())) if known else found


@cache
def features_of_cpuid() -> frozenset[str]:
    """Return the features that onnxruntime uses: it asks the CPU, and nothing limits it."""
    if platform.machine() != "x86_64":
        return features()
    asked = getattr(import_module("numpy._core._multiarray_umath"), "__cpu_features__", {})
    vectors = {feature for name, feature in _VECTORS.items() if asked.get(name)}
    return features() - set(_VECTORS.values()) | vectors if asked else features()


def _limit() -> list[str]:
    """Return the instruction set that the environment limits oneDNN to, if any."""
    return [os.environ[name].upper() for name in _LIMITS if os.environ.get(name)][:1]


@cache
def _facts() -> Mapping[str, str]:
    """Read the entry of the first CPU in /proc/cpuinfo; {} if it cannot be read."""
    try:
        first = _CPUINFO.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    lines = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value for name, _, value in lines}
