"""Primitives that readers and writers of files have to know: the structure of a program, and its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pinnace.program import Layout

TUPLE, ITEM, ORDERED = "MakeTuple", "TupleGetItem", "Depend"
"""The primitives through which results of a model get their names."""
UPDATED = "UpdateState"
"""The primitive of which a monad comes."""


def quantized_axis(
    primitive: str, position: int, attributes: Mapping[str, Any], layout: Layout, gathered: int = 0
) -> int:
    """The axis along which scales of a quantized weight differ, which a node has as an input.

    It is what the converter of MindSpore Lite 2.0.0 does with weights whose dimensions all differ. `gathered`
    is the axis of a Gather.
    """
    if primitive == "MatMulFusion" and position < 2:
        transposed = bool(attributes.get(("transpose_a", "transpose_b")[position]))
        return -1 if transposed == (position == 0) else -2
    if primitive == "Gather":
        return gathered
    if primitive == "Conv2dTransposeFusion":
        return 1 if layout is Layout.NCHW else -1
    return 0
