"""The axis along which scales of a quantized weight differ, by the primitive that reads it.

What the converter of MindSpore Lite 2.0.0 does with weights whose dimensions all differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pinnace.program import Layout


def quantized_axis(
    primitive: str, position: int, attributes: Mapping[str, Any], layout: Layout, gathered: int = 0
) -> int:
    """The axis of the weight that a node has as an input; `gathered` is that of a Gather."""
    if primitive == "MatMulFusion" and position < 2:
        transposed = bool(attributes.get(("transpose_a", "transpose_b")[position]))
        return -1 if transposed == (position == 0) else -2
    if primitive == "Gather":
        return gathered
    if primitive == "Conv2dTransposeFusion":
        return 1 if layout is Layout.NCHW else -1
    return 0
