"""Rules of MindSpore's own dialect (see `rules`): products, windows, normalization, images.

What they write of padding, MindSpore Lite 2.0 reads, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.converter.primitives import Primitives, number_of
from pinnace.converter.rules import shapes
from pinnace.converter.rules.kernels import whole_norm
from pinnace.converter.rules.mindspore import typed
from pinnace.converter.rules.resize import Resizing, exact_size
from pinnace.converter.rules.windows import Windows
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import Ints, Tensor
from pinnace.ops.values import Value

_MOST = 1 << 18
"""Elements of a border that a file holds: one megabyte."""
_BORDERS_OF_PADS = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "circular"}
_RESIZES = {
    ("nearest", "asymmetric", "floor"): ("ResizeNearestNeighborV2", False, False),
    ("linear", "half_pixel", ""): ("ResizeBilinearV2", False, True),
    ("linear", "pytorch_half_pixel", ""): ("ResizeBilinearV2", False, True),
    ("linear", "align_corners", ""): ("ResizeBilinearV2", True, False),
    ("linear", "asymmetric", ""): ("ResizeBilinearV2", False, False),
}
"""Primitives of Resize's forms, whether corners are aligned, and pixels have their centers at halves."""
_BORDERS = {"zeros": 0, "border": 1, "reflection": 2}


# -- products --------------------------------------------------------------------------------------


def MatMul(op: Primitives, a: Tensor, b: Tensor) -> Tensor:
    """A MatMul, which MindSpore Lite 2.0 has for matrices, and for as many of them on either side."""
    if op.dtype(a) in (ir.DataType.UINT32, ir.DataType.UINT64) or min(op.rank(a), op.rank(b)) < 2:
        return op.MatMulExt(a, b)
    (*many, rows, depth), (*others, _, width) = op.shape(a), op.shape(b)
    if many == others and op.rank(a) == op.rank(b) and None not in many:
        return op.BatchMatMul(a, b) if many else op.MatMul(a, b)
    if not others and None not in (depth, width) and (*many, rows).count(None) < 2:
        return _product_of_rows(op, a, b)
    if None in (*op.shape(a), *op.shape(b)):
        return op.MatMulExt(a, b)
    whole = np.broadcast_shapes(op.static_shape(a)[:-2], op.static_shape(b)[:-2])
    return op.BatchMatMul(*(_repeated(op, x, (*whole, *op.static_shape(x)[-2:])) for x in (a, b)))


def _product_of_rows(op: Primitives, a: Tensor, b: Tensor) -> Tensor:
    """The product of all rows of a tensor, of which one dimension may be free, with one matrix."""
    (*dims, depth), (_, width), dtype = op.shape(a), op.shape(b), op.dtype(a)
    rows = None if None in dims else math.prod(d for d in dims if d is not None)
    flat = typed(op, op.Reshape(a, (-1 if rows is None else rows, depth)), (dtype, (rows, depth)))
    made = typed(op, op.MatMul(flat, b), (dtype, (rows, width)))
    return op.Reshape(made, (*(-1 if d is None else d for d in dims), width))


def _repeated(op: Primitives, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if op.shape(x) == shape else typed(op, op.BroadcastTo(x, shape), (op.dtype(x), shape))


# -- windows ---------------------------------------------------------------------------------------


def Conv(
    op: Primitives, x: Tensor, weight: Tensor, bias: Tensor | None = None, *, group: int = 1, given: Windows
) -> Tensor:
    size = op.rank(x) - 2
    if size not in (2, 3):
        raise Unsupported(f"is over {size} dimensions, and MindSpore's primitives over 2 or 3")
    return convolved(op, x, weight, bias, given.over(size).in_run(op, x), group)


def convolved(
    op: Primitives, x: Tensor, weight: Tensor, bias: Tensor | None, over: Windows, group: int
) -> Tensor:
    """A convolution over 2 or 3 dimensions."""
    channels, _, *kernel = op.static_shape(weight)
    pads = over.in_pairs()
    unit = (1,) * (4 - len(kernel) if len(kernel) == 2 else 0)
    more: dict[str, Any] = {}
    if not unit:
        more = {"strides": (1, 1, *over.strides), "dilations": (1, 1, *over.dilations)}
    y = op.op(
        f"Conv{len(kernel)}D",
        x,
        weight,
        out_channel=channels,
        kernel_size=tuple(kernel),
        mode=1,
        pad_mode="same" if over.itself else "pad",
        pad=pads,
        pad_list=pads,
        stride=(*unit, *over.strides),
        dilation=(*unit, *over.dilations),
        group=group,
        groups=group,
        **more,
    )
    typed(op, y, (op.dtype(x), None))
    if bias is None:
        return y
    if unit:
        return op.BiasAdd(y, bias, 0)
    return op.Add(y, op.Reshape(bias, (-1, 1, 1, 1)))  # MindSpore loads no BiasAdd of volumes


def DeformConv(
    op: Primitives,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    group: int = 1,
    offset_group: int = 1,
    given: Windows,
) -> Tensor:
    """A convolution of one image with the elements at the places of a kernel and their offsets."""
    if op.rank(x) != 4:
        raise Unsupported(f"is over {op.rank(x) - 2} dimensions, and MindSpore's DeformableOffsets over 2")
    over, kernel = given.over(2), op.static_shape(weight)[2:]
    batch, _, rows, columns = op.static_shape(offset)
    count = offset_group * math.prod(kernel)
    pairs = op.Reshape(offset, (batch, count, 2, rows, columns))
    down, right = (op.Gather(pairs, op.constant(i, np.int64), 2) for i in (0, 1))
    if mask is None:
        mask = op.constant(np.ones((batch, count, rows, columns)), op.dtype(x).numpy())
    taken = op.DeformableOffsets(
        x,
        op.Concat((right, down, mask), 1),
        strides=(1, 1, *over.strides),
        pads=over.in_pairs(),
        ksize=kernel,
        dilations=(1, 1, *over.dilations),
        deformable_groups=offset_group,
    )
    typed(op, taken, (op.dtype(x), None))
    return convolved(op, taken, weight, bias, Windows(strides=kernel).over(2), group)


def MaxPool(
    op: Primitives, x: Tensor, ceil_mode: int = 0, storage_order: int = 0, *, given: Windows
) -> Value:
    over, pads = given.over(2).in_run(op, x), given.over(2).pads
    if op.rank(x) != 4 or over.auto_pad != "NOTSET":
        raise Unsupported("is not over two dimensions, or has an auto_pad that depends on the size")
    if len(op.declared) > 1:
        return _with_places(op, x, bool(ceil_mode), bool(storage_order), over)
    if not is_float(op, x):
        raise Unsupported("is of integers, and MindSpore's MaxPool of floats")
    same = over.itself or (any(pads) and _is_same(op, x, over))
    if (any(pads) and not same) or ceil_mode or max(over.dilations) > 1:
        raise Unsupported("pads, rounds up, or has gaps in its windows, and MindSpore's MaxPool does not")
    sizes: dict[str, Any] = {"kernel_size": (1, 1, *over.kernel_shape), "strides": (1, 1, *over.strides)}
    return op.MaxPool(x, **sizes, pad_mode="SAME" if same else "VALID")


def _is_same(op: Primitives, x: Tensor, over: Windows) -> bool:
    """True for the padding of SAME_UPPER, which MindSpore's MaxPool computes itself."""
    same = over.but(auto_pad="SAME_UPPER", dilations=(1, 1))
    return None not in op.shape(x)[2:] and over.pads == same.explicit(op, x, over.kernel_shape)


def _with_places(
    op: Primitives, x: Tensor, ceil_mode: bool, by_columns: bool, over: Windows
) -> tuple[Tensor, Tensor]:
    """A MaxPool, and where in the whole tensor each element comes from."""
    pads = over.pads
    batch, channels, height, width = op.static_shape(x)
    if pads[:2] != pads[2:] or any(2 * p > k for p, k in zip(pads, over.kernel_shape, strict=False)):
        raise Unsupported(
            f"pads by {pads}, and MaxPoolWithArgmaxV2 by the same on both sides, at most half a window"
        )
    sizes: dict[str, Any] = {"kernel_size": (1, 1, *over.kernel_shape), "strides": (1, 1, *over.strides)}
    sizes |= {"pads": (1, 1, *pads[:2]), "dilation": (1, 1, *over.dilations)}
    int64 = number_of(ir.DataType.INT64)
    y, at = op.ops("MaxPoolWithArgmaxV2", 2, x, ceil_mode=ceil_mode, argmax_type=int64, **sizes)
    if by_columns:
        size = op.constant(width, np.int64)
        at = op.Add(op.Mul(op.FloorMod(at, size), op.constant(height, np.int64)), op.FloorDiv(at, size))
    first = np.arange(batch * channels).reshape(batch, channels, 1, 1) * height * width
    return y, op.Add(at, op.constant(first, np.int64))


def AveragePool(
    op: Primitives, x: Tensor, ceil_mode: int = 0, count_include_pad: int = 0, *, given: Windows
) -> Tensor:
    over = given.over(2).in_run(op, x)
    rounded = ceil_mode or max(over.dilations) > 1 or (over.itself and count_include_pad)
    if op.rank(x) != 4 or over.auto_pad != "NOTSET" or any(over.pads) or rounded:
        raise Unsupported(
            "pads, rounds up, has gaps in its windows, or is not over two dimensions, as AvgPool is"
        )
    return op.AvgPool(x, over.kernel_shape, over.strides, *["SAME"] * over.itself)


# -- normalization ---------------------------------------------------------------------------------


def BatchNormalization(
    op: Primitives,
    *inputs: Tensor,
    epsilon: float = 1e-5,
    _momentum: float = 0.9,
    training_mode: int = 0,
    _spatial: int = 1,
) -> Tensor:
    x, scale = inputs[:2]
    if training_mode or op.rank(x) not in (2, 4) or op.dtype(x) is not ir.DataType.FLOAT:
        raise Unsupported("trains, or is not of float32 and 2 or 4 dimensions, as BatchNorm is")
    found = op.ops("BatchNorm", 5, *inputs, False, epsilon, 0.1, 0)
    typed(op, found, (op.dtype(x), None), *[(op.dtype(scale), op.shape(scale))] * 4)
    return found[0]


def LayerNormalization(
    op: Primitives,
    x: Tensor,
    scale: Tensor,
    shift: Tensor | None = None,
    axis: int = -1,
    epsilon: float = 1e-5,
    _stash_type: int = 1,
) -> Tensor:
    axis, dims = axis % op.rank(x), op.shape(x)
    if shift is None or not op.shape(scale) == op.shape(shift) == dims[axis:] or len(op.declared) > 1:
        raise Unsupported(
            "has no B, a Scale that is broadcast, or several results, and LayerNorm has all three"
        )
    if not whole_norm(op, x, axis):
        raise Unsupported(
            "is of few elements, of which MindSpore Lite's LayerNorm leaves some out with several threads"
        )
    found = op.ops("LayerNorm", 3, x, scale, shift, axis, axis, epsilon)
    rows = (ir.DataType.FLOAT, [*dims[:axis], *[1] * (len(dims) - axis)])
    typed(op, found, (op.dtype(x), None), rows, rows)
    return found[0]


def LRN(
    op: Primitives, x: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    if size % 2 == 0 or op.rank(x) != 4:
        raise Unsupported(
            f"has size {size} over {op.rank(x)} dimensions, and MindSpore's LRN odd sizes over 4"
        )
    return op.LRN(x, depth_radius=size // 2, bias=bias, alpha=alpha / size, beta=beta)


# -- images ----------------------------------------------------------------------------------------


def Pad(
    op: Primitives,
    data: Tensor,
    pads: Tensor,
    constant_value: Tensor | None = None,
    axes: Ints | None = None,
    mode: str = "constant",
    value: float = 0.0,
) -> Tensor:
    filler = op.like(value, data) if constant_value is None else constant_value
    known, number, rank = op.known(pads), op.known(filler), op.rank(data)
    if known is None:
        if axes is not None:
            raise Unsupported(
                "has a padding of some axes known only at run time, and PadV3 wants that of all"
            )
        order = op.constant(shapes.last_first(range(2 * rank)), np.int64)
        return op.PadV3(data, op.Gather(pads, order, 0), filler, mode=_BORDERS_OF_PADS[mode])
    both = shapes.both_sides(known, axes, rank)
    if min(both) < 0:
        raise Unsupported("has a padding below zero, and PadV3 only adds: use Slice")
    if mode != "constant":
        raise Unsupported(f"has mode {mode}, and PadV3 of known sizes is written for constant alone")
    sides = tuple((int(n), int(m)) for n, m in zip(both[:rank], both[rank:], strict=True))
    if number is None or not is_float(op, data):
        return op.PadV3(data, shapes.last_first(both), filler)
    return op.op("Pad", data, paddings=sides) if number == 0 else _with_border(op, data, both, sides, filler)


def _with_border(
    op: Primitives, x: Tensor, both: Sequence[int], sides: Sequence[tuple[int, int]], filler: Tensor
) -> Tensor:
    """Return zeros and a sum for another number: MindSpore Lite 2.0 leaves PadV3 out in silence."""
    dims, number = op.shape(x), op.known(filler)
    inside = [n if any(pair) else 1 for n, pair in zip(dims, sides, strict=True)]
    sizes = [n + sum(pair) for n, pair in zip(inside, sides, strict=True) if n is not None]
    if len(sizes) < len(dims) or math.prod(sizes) > _MOST:
        return op.PadV3(x, shapes.last_first(both), filler)
    border = np.pad(np.zeros([n or 0 for n in inside]), sides, constant_values=number.item())
    return op.Add(op.op("Pad", x, paddings=sides), op.constant(border, op.dtype(x).numpy()))


def Resize(
    op: Primitives,
    x: Tensor,
    _roi: Value = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
    *,
    given: Resizing,
) -> Tensor:
    form = (
        given.mode,
        given.coordinate_transformation_mode,
        given.nearest_mode if given.mode == "nearest" else "",
    )
    plain = not given.antialias and given.keep_aspect_ratio_policy == "stretch"
    if not plain or form not in _RESIZES or op.dtype(x) is not ir.DataType.FLOAT:
        raise Unsupported(
            f"has mode {form[0]} and coordinate_transformation_mode {form[1]}, which no primitive has"
        )
    primitive, aligned, halves = _RESIZES[form]
    return op.op(primitive, x, exact_size(op, x, scales, sizes, given.axes), aligned, halves)


def GridSample(
    op: Primitives,
    x: Tensor,
    grid: Tensor,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    # Between two elements, MindSpore's nearest is the one that is further from zero.
    if mode not in ("linear", "bilinear"):
        raise Unsupported(f"has mode {mode}, and GridSampler is written for linear")
    return op.op(f"GridSampler{op.rank(x) - 2}D", x, grid, 0, _BORDERS[padding_mode], bool(align_corners))
