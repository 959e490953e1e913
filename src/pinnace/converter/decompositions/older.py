"""Operators as they were before an operator set gave them another meaning (see `rules.CHANGED`)."""

from __future__ import annotations

from typing import Any

from pinnace.converter.decompositions.common import Normalization, of_groups
from pinnace.converter.rules import operators
from pinnace.graph.builder import Builder
from pinnace.ops.table import Arguments, Tensor


@operators(SoftmaxBefore13="Softmax", LogSoftmaxBefore13="LogSoftmax", HardmaxBefore13="Hardmax")
def _of_the_rest(op: Builder, name: str, x: Tensor, axis: int = 1) -> Tensor:
    """One row of all dimensions from an axis on."""
    if axis % op.rank(x) == op.rank(x) - 1:
        return op.op(name, x, axis=-1)
    return op.Reshape(op.op(name, op.Flatten(x, axis=axis), axis=-1), op.Shape(x))


def ResizeBefore11(op: Builder, x: Tensor, scales: Tensor, mode: str = "nearest") -> Tensor:
    return op.Upsample(x, scales, mode=mode)


def GroupNormalizationBefore21(
    op: Builder, x: Tensor, scale: Tensor, shift: Tensor, *, given: Normalization
) -> Tensor:
    """GroupNormalization with a scale and shift for each group."""
    factor, offset = (op.Unsqueeze(v, [1]) for v in (scale, shift))
    return op.Reshape(of_groups(op, x, given) * factor + offset, op.Shape(x))


class _Pooling(Arguments):
    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0


def RoiAlignBefore16(op: Builder, x: Tensor, rois: Tensor, of: Tensor, *, how: _Pooling) -> Tensor:
    given: dict[str, Any] = vars(how)
    return op.RoiAlign(x, rois, of, coordinate_transformation_mode="output_half_pixel", **given)
