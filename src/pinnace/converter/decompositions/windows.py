"""Convolutions and pools as ones that pad nothing and spread nothing (see `rules`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from pinnace.converter.decompositions.places import FAR
from pinnace.converter.rules import operators
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.windows import elements, overhang, reach, same_pads, shared
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.mindspore.pool import above_zero
from pinnace.ops.table import Arguments, Ints, Tensor
from pinnace.ops.values import Value
from pinnace.weights.placed import lazy


class Windows(Arguments):
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    count_include_pad: int = 0
    dilations: Ints = ()
    group: int = 1
    kernel_shape: Ints = ()
    output_padding: Ints = ()
    output_shape: Ints = ()
    pads: Ints = ()
    storage_order: int = 0
    strides: Ints = ()
    itself = False
    """True where the padding is computed in the run, by the primitive."""

    def over(self, size: int) -> Self:
        """The same of `size` dimensions, with what is not given; VALID is a padding of nothing."""
        given = self.pads and self.auto_pad == "NOTSET"
        return self.but(
            auto_pad="NOTSET" if self.auto_pad == "VALID" else self.auto_pad,
            dilations=self.dilations or (1,) * size,
            pads=self.pads if given else (0,) * 2 * size,
            strides=self.strides or (1,) * size,
        )

    @property
    def padding(self) -> dict[str, Any]:
        """The attribute of the padding. With both, ONNX's inference of shapes takes `pads`."""
        return {"pads": self.pads} if self.auto_pad == "NOTSET" else {"auto_pad": self.auto_pad}

    def in_run(self, op: Builder, x: Tensor) -> Self:
        """The same for a primitive that pads itself, if it has to because the size of the image is free."""
        itself = self.auto_pad == "SAME_UPPER" and None in op.shape(x)[2:]
        return self.but(auto_pad="NOTSET", itself=True) if itself else self

    def in_pairs(self) -> Ints:
        """The padding before and after the first dimension, then the second, ..."""
        if self.auto_pad != "NOTSET":
            raise Unsupported(f"has auto_pad {self.auto_pad}, and primitives want the padding itself")
        size = len(self.pads) // 2
        return tuple(self.pads[i + side * size] for i in range(size) for side in (0, 1))

    def explicit(self, op: Builder, x: Tensor, kernel: Sequence[int]) -> Ints:
        """The padding before each dimension, then after each."""
        if self.auto_pad == "NOTSET":
            return self.pads
        return tuple(same_pads(_lengths(op, x), reach(kernel, self.dilations), self.strides, self.auto_pad))


def _lengths(op: Builder, x: Tensor) -> Ints:
    """The sizes of an image's dimensions after batch and channels."""
    sizes = tuple(d for d in op.shape(x)[2:] if d is not None)
    if len(sizes) < op.rank(x) - 2:
        raise Unsupported(f"needs {op.shape(x)[2:]} fixed: fix them by shapes of the inputs")
    return sizes


def _padded(op: Builder, x: Tensor, pads: Sequence[int], value: float = 0) -> Tensor:
    """A tensor with `value` before and after its last dimensions."""
    if not any(pads):
        return x
    size = len(pads) // 2
    whole = [0, 0, *pads[:size], 0, 0, *pads[size:]]
    return op.Pad(x, whole, op.like(value, x)) if value else op.Pad(x, whole)


# -- convolutions ----------------------------------------------------------------------------------


def Conv(op: Builder, x: Tensor, weight: Tensor, bias: Tensor | None = None, *, given: Windows) -> Tensor:
    size = op.rank(x) - 2
    over = given.over(size)
    if size == 1:
        wide: dict[str, Any] = {"dilations": (1, *over.dilations), "strides": (1, *over.strides)}
        wide |= over.but(pads=(0, over.pads[0], 0, over.pads[1])).padding
        image, kernel = op.Unsqueeze(x, [2]), op.Unsqueeze(weight, [2])
        y = op.Conv(image, kernel, bias, group=over.group, **wide)
        return op.Squeeze(y, [2])
    pads = over.explicit(op, x, op.static_shape(weight)[2:])
    if over.auto_pad == "NOTSET" and size == 3:
        return _by_depth(op, x, weight, bias, over)
    if over.auto_pad == "NOTSET":
        raise Unsupported(f"is over {size} dimensions, and 1, 2 and 3 can be written")
    sizes: dict[str, Any] = {"dilations": over.dilations, "pads": pads, "strides": over.strides}
    return op.Conv(x, weight, bias, group=over.group, **sizes)


def _by_depth(op: Builder, x: Tensor, weight: Tensor, bias: Tensor | None, over: Windows) -> Tensor:
    """A Conv over three dimensions as the sum of one over two for each depth of its kernel."""
    x = _padded(op, x, [over.pads[0], 0, 0, over.pads[3], 0, 0])
    depth, *sizes = _lengths(op, x)
    outputs, inputs, kernel, *_ = op.static_shape(weight)
    gap, stride = over.dilations[0], over.strides[0]
    count = (depth - (kernel - 1) * gap - 1) // stride + 1
    flat: dict[str, Any] = {"dilations": over.dilations[1:], "group": over.group, "strides": over.strides[1:]}
    flat |= {"pads": [over.pads[i] for i in (1, 2, 4, 5)]}
    parts = []
    for i in range(kernel):
        layers = op.Slice(x, [i * gap], [i * gap + (count - 1) * stride + 1], [2], [stride])
        rows = op.reshape(op.transpose(layers, [0, 2, 1, 3, 4]), [-1, inputs * over.group, *sizes])
        parts.append(op.Conv(rows, _at_depth(op, weight, i), None if i else bias, **flat))
    total = op.Sum(*parts)
    whole = op.reshape(total, [-1, count, outputs, *_lengths(op, total)])
    return op.transpose(whole, [0, 2, 1, 3, 4])


def _at_depth(op: Builder, weight: Tensor, i: int) -> Tensor:
    """A kernel over two dimensions of one over three; of a constant, made when it is written."""
    tensor = weight.const_value
    if tensor is None:
        return op.Gather(weight, op.constant(i, np.int64), axis=2)
    outputs, inputs, _, *sizes = tensor.shape.numpy()
    part = lazy(
        lambda: np.ascontiguousarray(tensor.numpy()[:, :, i]), tensor.dtype, (outputs, inputs, *sizes)
    )
    return op.weight(part)


def ConvTranspose(
    op: Builder, x: Tensor, weight: Tensor, bias: Tensor | None = None, *, given: Windows
) -> Tensor:
    """A Conv of the input with zeros between its elements, and the kernel turned around."""
    inputs, outputs, *kernel = op.static_shape(weight)
    size = len(kernel)
    over, group, output_shape = given.over(size), given.group, given.output_shape
    more = given.output_padding or (0,) * size
    beyond = [r - 1 for r in reach(kernel, over.dilations)]
    cut = over.pads
    if output_shape or over.auto_pad != "NOTSET":
        gone = [m + r + 1 - s for m, r, s in zip(more, beyond, over.strides, strict=True)]
        if output_shape:  # else the result is as long as the strides
            wanted = zip(gone, over.strides, _lengths(op, x), output_shape[-size:], strict=True)
            gone = [n + step * length - whole for n, step, length, whole in wanted]
        cut = tuple(shared(gone, over.auto_pad))
    before = [r - n for r, n in zip(beyond, cut[:size], strict=True)]
    rest = zip(beyond, cut[size:], more, over.strides, strict=True)
    added = [*before, *(r - n + m - (step - 1) for r, n, m, step in rest)]
    wide = _padded(op, _with_gaps(op, x, over.strides), [max(0, n) for n in added])
    axes = list(range(2, 2 + size))
    if min(added) < 0:
        starts, ends = [max(0, -n) for n in added[:size]], [min(0, n) or FAR for n in added[size:]]
        wide = op.Slice(wide, starts, ends, axes)
    turned = op.Slice(weight, [-1] * size, [-FAR] * size, axes, [-1] * size)
    apart = op.reshape(turned, [group, inputs // group, outputs, *kernel])
    swapped = op.transpose(apart, [0, 2, 1, *range(3, 3 + size)])
    together = op.reshape(swapped, [group * outputs, inputs // group, *kernel])
    return op.Conv(wide, together, bias, dilations=over.dilations, group=group)


def _with_gaps(op: Builder, x: Tensor, strides: Ints) -> Tensor:
    """A tensor with zeros after each element of its last dimensions."""
    for axis, stride in enumerate(strides, 2):
        if stride > 1:
            dims = op.shape(x)
            pads = [0] * 2 * (len(dims) + 1)
            pads[len(dims) + 1 + axis + 1] = stride - 1
            apart = op.Pad(op.Unsqueeze(x, [axis + 1]), pads)
            whole, length = op.dims(x), dims[axis]
            whole[axis] = -1 if length is None else length * stride
            x = op.reshape(apart, whole)
    return x


def Col2Im(op: Builder, x: Tensor, image_shape: Ints, block_shape: Ints, *, given: Windows) -> Tensor:
    """A ConvTranspose, whose kernels have a one for each place in a block."""
    places, size = math.prod(block_shape), len(block_shape)
    over = given.over(size)
    batch, rows = op.shape(x)[:2]
    if rows is None:
        raise Unsupported("has a free number of channels: fix it by shapes of the inputs")
    inside = [n + a + b for n, a, b in zip(image_shape, over.pads, over.pads[size:], strict=False)]
    steps = list(zip(inside, reach(block_shape, over.dilations), over.strides, strict=True))
    counts = [(n - r) // step + 1 for n, r, step in steps]
    ones = np.tile(np.eye(places), (rows // places, 1)).reshape(rows, 1, *block_shape)
    blocks = op.reshape(x, [-1 if batch is None else batch, rows, *counts])
    return op.ConvTranspose(
        blocks,
        op.constant(ones, op.dtype(x).numpy()),
        output_padding=[n - (c - 1) * step - r for c, (n, r, step) in zip(counts, steps, strict=True)],
        dilations=over.dilations,
        pads=over.pads,
        strides=over.strides,
        group=rows // places,
    )


# -- pools -----------------------------------------------------------------------------------------


@operators("MaxPool AveragePool")
def _pool(op: Builder, op_type: str, x: Tensor, *, given: Windows) -> Value:
    if len(op.declared) > 1:
        raise Unsupported(
            "gives places, which are written of windows over two dimensions padded alike on both sides"
        )
    return _pooled(op, op_type, x, given.count_include_pad, given)


def LpPool(op: Builder, x: Tensor, p: int = 2, *, given: Windows) -> Tensor:
    means = _pooled(op, "AveragePool", op.Pow(op.Abs(x), float(p)), 2, given)
    return op.Pow(means * math.prod(given.kernel_shape), 1 / p)


def _pooled(op: Builder, op_type: str, x: Tensor, counted: int, given: Windows) -> Value:
    """A pool after padding; `counted` 1 counts what was padded, 2 also what windows reach beyond that."""
    size = len(given.kernel_shape)
    over = given.over(size)
    added = over.explicit(op, x, over.kernel_shape)
    beyond = [0] * 2 * size
    if given.ceil_mode:
        reaches = reach(over.kernel_shape, over.dilations)
        along = zip(_lengths(op, x), reaches, over.strides, added[:size], added[size:], strict=True)
        beyond[size:] = [overhang(*one) for one in along]
    if op_type == "MaxPool":
        wide = _padded(op, x, [n + m for n, m in zip(added, beyond, strict=True)], _least(op, x))
        return _unpadded(op, op_type, wide, over)
    y = _unpadded(op, op_type, _padded(op, _padded(op, x, added), beyond), over)
    if not any((*added, *beyond)) or counted == 2:
        return y
    ones = op.constant(np.ones((1, 1, *_lengths(op, x))), op.dtype(x).numpy())
    there = _padded(op, _padded(op, ones, added, 1 if counted else 0), beyond)
    return y / _unpadded(op, op_type, there, over)


def _least(op: Builder, x: Tensor) -> float:
    """Return a number that no element of a tensor is less than."""
    if above_zero(x):
        return 0.0  # the padding that MindSpore Lite 2.0 knows, too
    kind = op.dtype(x).numpy()
    return float(np.finfo(kind).min if np.issubdtype(kind, np.floating) else np.iinfo(kind).min)


def _unpadded(op: Builder, op_type: str, x: Tensor, over: Windows) -> Tensor:
    """A pool that pads nothing; of windows with gaps, or over many dimensions, from slices."""
    kernel, strides = over.kernel_shape, over.strides
    if max(over.dilations) > 1 or len(kernel) > 2 or not is_float(op, x):
        parts = [part for _, part in elements(op, x, kernel, strides, over.dilations)]
        return op.Max(*parts) if op_type == "MaxPool" else op.Sum(*parts) / len(parts)
    if len(kernel) == 2:
        return op.op(op_type, x, kernel_shape=kernel, strides=strides)
    y = op.op(op_type, op.Unsqueeze(x, [2]), kernel_shape=(1, *kernel), strides=(1, *strides))
    return op.Squeeze(y, [2])


def MaxUnpool(op: Builder, x: Tensor, places: Tensor, *, given: Windows) -> Tensor:
    size, dims = len(given.kernel_shape), op.static_shape(x)
    over = given.over(size)
    sizes = zip(dims[2:], over.kernel_shape, over.pads, over.pads[size:], over.strides, strict=False)
    whole = (*dims[:2], *((n - 1) * step + k - before - after for n, k, before, after, step in sizes))
    nothing = op.cast(op.constant(np.zeros(math.prod(whole), np.float32)), op.dtype(x))
    y = op.ScatterElements(nothing, op.Reshape(places, [-1]), op.Reshape(x, [-1]), axis=0)
    return op.reshape(y, whole)


def GlobalAveragePool(op: Builder, x: Tensor) -> Tensor:
    return op.ReduceMean(x, range(2, op.rank(x)))


def GlobalMaxPool(op: Builder, x: Tensor) -> Tensor:
    return op.ReduceMax(x, range(2, op.rank(x)))


def GlobalLpPool(op: Builder, x: Tensor, p: int = 2) -> Tensor:
    total = op.ReduceSum(op.Pow(op.Abs(x), float(p)), range(2, op.rank(x)))
    return op.Pow(total, 1 / p)
