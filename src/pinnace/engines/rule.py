"""Which engine runs a model where nobody has chosen one, and nobody has measured.

What the rule rests on stands in docs/engines.md.
"""

from __future__ import annotations

from importlib.util import find_spec

from pinnace.machine.processor import sixteen_bit_type
from pinnace.options.target import Target


def by_rule(target: Target) -> str:
    """The engine for a target.

    onnxruntime, which is as fast in fp32 and leaves the weights where all processes share them. OpenVINO
    where 16 bits are preferred and the processor computes in them: onnxruntime would stay in fp32.
    """
    half = target.precision == "preferred_fp16" and sixteen_bit_type()
    return "openvino" if half and find_spec("openvino") else "onnxruntime"
