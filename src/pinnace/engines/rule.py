"""Default engine of models for which none was configured or measured; docs/engines.md has the reasons."""

from __future__ import annotations

from importlib.util import find_spec

from pinnace.machine.processor import sixteen_bit_type
from pinnace.options.table import MEMORY
from pinnace.options.target import Target


def by_rule(target: Target) -> str:
    """Return the default engine for a target.

    onnxruntime is as fast in fp32 and keeps weights where all processes share them. OpenVINO is chosen if
    16 bits are preferred and the CPU computes in them; onnxruntime would stay in fp32. A target that
    prefers memory gets onnxruntime.
    """
    if target.prefer == MEMORY:
        return "onnxruntime"
    half = target.precision == "preferred_fp16" and sixteen_bit_type()
    return "openvino" if half and find_spec("openvino") else "onnxruntime"
