"""MindSpore Lite: shapes, slices and selection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, span
from pinnace.ops import binding
from pinnace.ops.layout import permuted
from pinnace.ops.lite.math import lite, lite_formulas, lites
from pinnace.ops.mindspore import slicing
from pinnace.ops.mindspore.array import mirrored
from pinnace.ops.mindspore.slicing import Masks
from pinnace.ops.table import Dims, Dtype, Floats, Ints, Tensor
from pinnace.ops.values import BOOL, FLOAT, INT32, INT64, Value

_NCHW, _NHWC = 0, 1
_ORDERS = {(_NHWC, _NCHW): (0, 3, 1, 2), (_NCHW, _NHWC): (0, 2, 3, 1)}


@lite("Assert", unused="data summarize")
def _assert(op: Builder, condition: Value, *data: Value) -> Value:
    return condition


@lite("Cast")
def _cast(op: Builder, x: Tensor, dst_type: Dtype) -> Value:
    return op.cast(x, dst_type)


@lite("Crop")
def _crop(op: Builder, x: Tensor, like: Tensor, axis: int = 0, offsets: Ints = ()) -> Value:
    """Slice of dimensions from axis on, to the size of the other tensor."""
    first = op.axis(axis, x)
    count = op.rank(x) - first
    start = ((offsets or (0,)) * count)[:count]  # one for all, or one for each
    size = op.Shape(like, start=first)
    return op.Slice(x, start, size + np.asarray(start, np.int64), range(first, op.rank(x)))


@lite("FormatTranspose")
def _format_transpose(op: Builder, x: Tensor, src_format: int = _NHWC, dst_format: int = _NHWC) -> Value:
    """Transpose from channels last to channels first, or back."""
    if src_format == dst_format:
        return x
    if (src_format, dst_format) not in _ORDERS:
        raise Unsupported(f"goes from format {src_format} to {dst_format}, which is not supported")
    return permuted(op, x, _ORDERS[src_format, dst_format])


@lite("LinSpace")
def _lin_space(op: Builder, start: Tensor, stop: Tensor, num: int) -> Value:
    """Add of a multiple of the step for each of num numbers."""
    places = op.constant(np.arange(span(num)), op.dtype(start).numpy())
    first = op.scalar(start)
    step = (op.scalar(stop) - first) / float(max(1, num - 1))
    return first + places * step


@lite("NonMaxSuppression")
def _non_max_suppression(
    op: Builder,
    boxes: Tensor,
    scores: Tensor,
    most: Tensor | None = None,
    overlap: Tensor | None = None,
    score: Tensor | None = None,
    center_point_box: int = 0,
) -> Value:
    count = None if most is None else op.cast(most, INT64)
    kept = op.NonMaxSuppression(boxes, scores, count, overlap, score, center_point_box=center_point_box)
    return op.cast(kept, INT32)


@lite("OneHot")
def _one_hot(
    op: Builder, x: Tensor, depth: Tensor, values: Tensor, off: Tensor | None = None, *, axis: int = -1
) -> Value:
    """OneHot; values holds off and on, or on where off follows."""
    values = op.Concat(*[op.Reshape(v, [1]) for v in (off, values)], axis=0) if off is not None else values
    if op.dtype(values) == FLOAT:
        return op.OneHot(op.cast(x, INT64), op.scalar(depth), values, axis=axis)
    # Engines lack OneHot of integers.
    hot = op.OneHot(
        op.cast(x, INT64), op.cast(op.scalar(depth), INT64), op.constant([0, 1], np.int64), axis=axis
    )
    return op.Gather(values, hot, axis=0)


@lite("Reshape")
def _reshape(op: Builder, x: Tensor, shape: Tensor | None = None) -> Value:
    """Reshape; 0 keeps a dimension."""
    if shape is None:
        raise Unsupported("has no shape")
    return op.Reshape(x, op.cast(shape, INT64))


@lites({"Shape": "Shape", "Size": "Size"})
def _sizes(op: Builder, op_type: str, x: Tensor) -> Value:
    return op.cast(op.op(op_type, x), INT32)


@lite("SliceFusion")
def _slice_fusion(op: Builder, x: Tensor, begin: Tensor, size: Tensor, axes: Ints = ()) -> Value:
    """Slice; a size of -1 is all that is left."""
    start, count = op.cast(begin, INT64), op.cast(size, INT64)
    last = op.constant(np.iinfo(np.int64).max, np.int64)
    end = op.Where(op.Less(count, 0), last, start + count)
    return op.Slice(x, start, end, axes or None)


@lite("TopKFusion", unused="largest")
def _top_k_fusion(op: Builder, x: Tensor, k: Tensor, axis: int = -1, sorted_: bool = True) -> Value:
    """TopK, the largest, whatever `largest` says: the converter loses it, and the runtime does not look."""
    values, places = op.ops("TopK", 2, x, op.Reshape(op.cast(k, INT64), [1]), axis=axis, sorted=sorted_)
    return (values, op.cast(places, INT32))


@lite("Transpose")
def _transpose(op: Builder, x: Tensor, perm: Ints = ()) -> Value:
    """Transpose; nothing where the permutation is for tensors of another rank."""
    perm = perm or tuple(reversed(range(op.rank(x))))
    return permuted(op, x, perm) if len(perm) == op.rank(x) else x


@lite("Unsqueeze", "ExpandDims")
def _unsqueeze(op: Builder, x: Tensor, axis: Ints) -> Value:
    return op.Unsqueeze(x, axis)


@lite("Where")
def _where(op: Builder, condition: Tensor, x: Tensor | None = None, y: Tensor | None = None) -> Value:
    """The choice by Where; of a condition alone NonZero."""
    choice = None if x is None or y is None else op.Where(op.cast(condition, BOOL), x, y)
    return op.cast(op.transpose(op.NonZero(condition), (1, 0)), INT32) if choice is None else choice


@lite("Split")
def split(
    op: Builder,
    x: Tensor,
    sizes: Tensor | None = None,
    *,
    axis: int = 0,
    size_splits: Ints = (),
    output_num: int = 0,
) -> Value:
    """Split; of ONNX's operator set 13 and newer, sizes is an input."""
    outputs = len(op.declared) or output_num or len(size_splits)
    given = list(size_splits) or None if sizes is None else op.cast(sizes, INT64)
    return op.ops("Split", outputs, x, given, axis=axis, num_outputs=outputs if given is None else None)


_PADDING = {0: "constant", 1: "reflect"}
_SYMMETRIC = 2  # PaddingMode


@lite("PadFusion")
def pad(
    op: Builder,
    x: Tensor,
    paddings: Tensor,
    fill: Tensor | None = None,
    padding_mode: int = 0,
    constant_value: float = 0.0,
) -> Value:
    """Pad, or Gather where the border is repeated too; paddings hold before and after for each dimension."""
    if padding_mode == _SYMMETRIC:
        return mirrored(op, x, binding.pairs(op, paddings))
    if padding_mode not in _PADDING:
        raise Unsupported(f"has padding_mode {padding_mode}, which is not supported")
    pairs = op.Reshape(op.cast(paddings, INT64), [-1, 2])
    pads = op.Reshape(op.transpose(pairs, (1, 0)), [-1])
    if padding_mode:
        return op.Pad(x, pads, mode=_PADDING[padding_mode])
    return op.Pad(x, pads, op.like(constant_value, x) if fill is None else op.scalar(fill))


@lite("StridedSlice")
def strided_slice(
    op: Builder,
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    axes: Tensor,
    strides: Tensor | None = None,
    *,
    masks: Masks,
) -> Value:
    """Slice; with four inputs, the last of which holds strides, as MindSpore's own."""
    if strides is None:
        return slicing.strided_slice(
            op, x, binding.dims(op, begin), binding.dims(op, end), binding.dims(op, axes), masks
        )
    if any(vars(masks).values()):
        parts = [binding.dims(op, part) for part in (begin, end, strides)]
        return _masked_slice(op, x, binding.ints(op, axes), parts, masks)
    return op.Slice(x, *(op.cast(v, INT64) for v in (begin, end, axes, strides)))


def _masked_slice(op: Builder, x: Tensor, axes: Ints, parts: Sequence[Dims], masks: Masks) -> Value:
    """StridedSlice of all dimensions, which the bits of masks count, whole where `axes` leaves them out."""
    rank = op.rank(x)
    given = dict(zip((op.axis(a, x) for a in axes), zip(*parts, strict=True), strict=True))
    begin, end, strides = zip(*(given.get(i, (0, 0, 1)) for i in range(rank)), strict=True)
    whole = sum(1 << i for i in range(rank) if i not in given)
    return slicing.strided_slice(op, x, begin, end, strides, masks.but(end_mask=masks.end_mask | whole))


@lite("TileFusion")
def tile(op: Builder, x: Tensor, multiples: Tensor, dims: Ints = ()) -> Value:
    repeats = op.cast(multiples, INT64)
    if dims and dims != tuple(range(op.rank(x))):
        places = [dims.index(i) if i in dims else len(dims) for i in range(op.rank(x))]
        repeats = op.Gather(op.Concat(repeats, op.constant([1], np.int64), axis=0), places)
    return op.Tile(x, repeats)


@lite("ConstantOfShape", unused="element_size")
def constant_of_shape(
    op: Builder, sizes: Tensor | None, data_type: Dtype, value: Floats, shape: Ints = ()
) -> Value:
    """ConstantOfShape; where no input has the sizes, those that the converter knew."""
    fill = np.asarray(value[:1] or (0,), data_type.numpy())
    if sizes is None and not shape:
        raise Unsupported("has neither an input with the sizes nor the attribute shape")
    sizes = op.vector(shape) if sizes is None else op.cast(sizes, INT64)
    return op.ConstantOfShape(sizes, value=ir.tensor(fill))


@lite("SplitWithOverlap")
def split_with_overlap(
    op: Builder,
    x: Tensor,
    split_dim: int,
    number_split: int,
    ratio: Ints,
    extend_top: Ints = (),
    extend_bottom: Ints = (),
) -> Value:
    size = op.static_shape(x)[split_dim]
    borders = [size * sum(ratio[:i]) // sum(ratio) for i in range(number_split + 1)]
    parts = []
    for i in range(number_split):
        start = max(0, borders[i] - (extend_top[i] if extend_top else 0))
        end = min(size, borders[i + 1] + (extend_bottom[i] if extend_bottom else 0))
        parts.append(op.Slice(x, [start], [end], [split_dim]))
    return tuple(parts)


lite_formulas(
    {
        "Concat": lambda op, *x, axis=0: op.Concat(*x, axis=axis),
        "Fill": lambda op, value, shape: op.Expand(op.scalar(value), op.cast(shape, INT64)),
        "Rank": lambda op, x: op.constant(op.rank(x), "int32"),
        "ScatterElements": lambda op, x, places, updates, axis=0: op.ScatterElements(
            x, places, updates, axis=axis
        ),
        "Stack": lambda op, *x, axis=0: op.Concat(*[op.Unsqueeze(v, [axis]) for v in x], axis=axis),
    }
)
