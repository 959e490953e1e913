"""Nodes that take values apart along an axis, in the form of the graph's operator set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from pinnace.distributed.shard.placements import dimensions
from pinnace.graph.editor import Editor
from pinnace.graph.nodes import DOMAIN

SLICE = 10
"""Operator set from which on the limits of a Slice are inputs."""


def width_of(value: ir.Value, axis: int) -> int:
    """Return a dimension, which must be fixed."""
    width = (value.shape or ())[axis]
    assert isinstance(width, int)
    return width


def collective(
    b: Editor, op_type: str, value: ir.Value, shape: ir.Shape | None, **attributes: Any
) -> ir.Value:
    """Write a collective, named after the value that it takes and of its type."""
    y = b.op(op_type, value, domain=DOMAIN, **attributes)
    b.nodes[-1].name, y.type, y.shape = value.name, value.type, shape
    return y


def split(b: Editor, value: ir.Value, axis: int, widths: Sequence[int]) -> list[ir.Value]:
    """Split a value into pieces of these widths."""
    if b.opset < 13:
        pieces = b.ops("Split", len(widths), value, axis=axis, split=list(widths))
    else:
        pieces = b.ops("Split", len(widths), value, list(widths), axis=axis)
    for piece, width in zip(pieces, widths, strict=True):
        piece.shape = _with_width(value, axis, width)
    return list(pieces)


def piece(b: Editor, value: ir.Value, axis: int, start: int, width: int) -> ir.Value:
    """Return one piece of a value."""
    limits = [start], [start + width], [axis]
    if b.opset < SLICE:
        starts, ends, axes = limits
        y = b.op("Slice", value, starts=starts, ends=ends, axes=axes)
    else:
        y = b.op("Slice", value, *limits)
    y.shape = _with_width(value, axis, width)
    return y


def _with_width(value: ir.Value, axis: int, width: int) -> ir.Shape:
    given = dimensions(value)
    return ir.Shape([*given[:axis], width, *given[axis + 1 :]])
