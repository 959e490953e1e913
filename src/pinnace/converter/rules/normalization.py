"""Normalization as primitives (see `rules`)."""

from __future__ import annotations

import math

import onnx_ir as ir

from pinnace.converter.decompositions.common import Normalization
from pinnace.converter.primitives import Primitives
from pinnace.converter.rules import rule
from pinnace.converter.rules.layout import IMAGE, nchw, nhwc
from pinnace.converter.rules.shapes import typed
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Tensor
from pinnace.program import Dialect

_ROW, _NORMED = 256, 1024
"""Elements of a row, and of all, from which on LayerNormFusion computes all of them."""


def BatchNormalization(op: Primitives, *inputs: Tensor, given: Normalization) -> Tensor:
    x, *numbers = inputs
    of_matrix = op.mindspore and op.rank(x) == 2
    if given.training_mode or (op.rank(x) != IMAGE and not of_matrix):
        raise Unsupported("trains, or is not over images, as the primitive is")
    if op.lite:
        return nchw(op, op.FusedBatchNorm(nhwc(op, x), *numbers, epsilon=given.epsilon))
    if op.dtype(x) is not ir.DataType.FLOAT:
        raise Unsupported("is not of float32, as BatchNorm is")
    found = op.ops("BatchNorm", 5, *inputs, False, given.epsilon, 0.1, 0)
    scale = numbers[0]
    typed(op, found, (op.dtype(x), None), *[(op.dtype(scale), op.shape(scale))] * 4)
    return found[0]


@rule(Dialect.LITE)
def InstanceNormalization(
    op: Primitives, x: Tensor, scale: Tensor, shift: Tensor, epsilon: float = 1e-5
) -> Tensor:
    if op.rank(x) != IMAGE:
        raise Unsupported("is not over images, as the primitive is")
    return op.InstanceNorm(x, scale, shift, epsilon=epsilon)


def LayerNormalization(
    op: Primitives, x: Tensor, scale: Tensor, shift: Tensor | None = None, *, given: Normalization
) -> Tensor:
    axis, epsilon = given.axis, given.epsilon
    first, dims = axis % op.rank(x), op.shape(x)
    if shift is None or not op.shape(scale) == op.shape(shift) == dims[first:]:
        raise Unsupported("has no B, or a Scale that is broadcast, and LayerNorm has both")
    if not _is_whole(op, x, first):
        raise Unsupported(
            "is of few elements, of which MindSpore Lite's LayerNorm leaves some out with several threads"
        )
    if op.lite:
        axes = {"begin_norm_axis": axis, "begin_params_axis": axis}
        return op.LayerNormFusion(x, scale, shift, **axes, epsilon=epsilon, elementwise_affine=True)
    found = op.ops("LayerNorm", 3, x, scale, shift, first, first, epsilon)
    rows = (ir.DataType.FLOAT, [*dims[:first], *[1] * (len(dims) - first)])
    typed(op, found, (op.dtype(x), None), rows, rows)
    return found[0]


def _is_whole(op: Primitives, x: Tensor, axis: int) -> bool:
    """True for rows of which MindSpore Lite 2.0 normalizes all, with 1 to 32 threads.

    It plans for more threads than it starts where there is little to do: from 576 elements on it was right.
    """
    dims = op.shape(x)
    row, most = (math.prod(d or 1 for d in part) for part in (dims[axis:], dims))
    rows = math.prod(d or 2 for d in dims[:axis])
    return rows == 1 or row >= _ROW or most >= _NORMED


def LRN(
    op: Primitives, x: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    if size % 2 == 0 or op.rank(x) != IMAGE:
        raise Unsupported(f"has size {size} over {op.rank(x)} dimensions, and the primitive odd sizes over 4")
    numbers = {"depth_radius": size // 2, "bias": bias, "alpha": alpha / size, "beta": beta}
    return nchw(op, op.LRN(nhwc(op, x), **numbers, norm_region="ACROSS_CHANNELS"))
