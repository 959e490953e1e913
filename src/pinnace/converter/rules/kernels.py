"""What kernels of MindSpore Lite 2.0 want of their inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from pinnace.converter.primitives import Primitives
from pinnace.converter.rules.narrow import ints32
from pinnace.ops.formulas import function

_ROW, _NORMED = 256, 1024
"""Elements of a row, and of all, from which on LayerNormFusion computes all of them."""


@function
def choice(b: Primitives, *x: ir.Value) -> ir.Value:
    """ONNX's Where; Lite takes the shape of its result from operands of one shape."""
    declared = b.declared[0].shape if b.declared and b.declared[0] else None
    if declared is None or any(v.shape is None for v in x):
        return b.op("Where", *x)
    if None not in declared:
        wide = [v if b.shape(v) == declared else b.op("BroadcastTo", v, shape=declared) for v in x]
        return b.op("Where", *wide)
    if len({_named_dims(v) for v in x}) == 1:
        return b.op("Where", *x)
    shape = _common_shape(b, [v for v in x if set(b.shape(v)) - {1}], len(declared))
    return b.op("Where", *(b.op("BroadcastTo", v, shape) for v in x))


def _named_dims(x: ir.Value) -> object:
    """The dimensions of a tensor by numbers and names, what equals nothing else if any has none."""
    assert x.shape is not None
    dims = [d if isinstance(d, int) else d.value for d in x.shape]
    return x if None in dims else tuple(dims)


def _common_shape(b: Primitives, x: Sequence[ir.Value], rank: int) -> ir.Value:
    """The shape to which tensors are broadcast, known only at run time."""
    whole: ir.Value | None = None
    for v in x:
        sizes = b.op("Shape", v) if b.known(v) is None else ints32(b, b.static_shape(v))
        if b.rank(v) < rank:
            sizes = b.op("Concat", ints32(b, [1] * (rank - b.rank(v))), sizes, axis=0)
        whole = sizes if whole is None else b.op("Maximum", whole, sizes)
    assert whole is not None
    return whole


@function
def whole_norm(b: Primitives, x: ir.Value, axis: int) -> bool:
    """True for rows of which MindSpore Lite 2.0 normalises all, with 1 to 32 threads.

    It plans for more threads than it starts where there is little to do: from 576 elements on it was right.
    """
    dims = b.shape(x)
    row, most = (math.prod(d or 1 for d in part) for part in (dims[axis:], dims))
    rows = math.prod(d or 2 for d in dims[: axis % len(dims)])
    return rows == 1 or row >= _ROW or most >= _NORMED
