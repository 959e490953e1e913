"""Which engine runs a model where nobody has chosen one, and nobody has measured.

What the rule rests on stands in docs/engines.md.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from pinnace.target import Target

_SIXTEEN_BIT = frozenset({"avx512_bf16", "amx_bf16", "asimdhp"})
"""Features of processors that OpenVINO computes in 16 bits with, as Linux calls them."""


def by_rule(target: Target) -> str:
    """The engine for a target.

    onnxruntime, which is as fast in fp32 and leaves the weights where all processes share them. OpenVINO
    where 16 bits are preferred and the processor computes in them: onnxruntime would stay in fp32.
    """
    half = target.precision == "preferred_fp16" and _features() & _SIXTEEN_BIT
    return "openvino" if half and find_spec("openvino") else "onnxruntime"


@cache
def _features() -> frozenset[str]:
    """Of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    said = (line.partition(":") for line in lines)
    return frozenset(
        next((value.split() for name, _, value in said if name.strip() in ("flags", "Features")), ())
    )
