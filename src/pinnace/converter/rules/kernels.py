"""What kernels of MindSpore Lite 2.0 want of their inputs (see `rules`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pinnace.converter.primitives import Primitives
from pinnace.converter.rules.narrow import ints32
from pinnace.ops.table import Tensor

_ROW, _NORMED = 256, 1024
"""Elements of a row, and of all, from which on LayerNormFusion computes all of them."""


def Where(op: Primitives, *x: Tensor) -> Tensor:
    """A Where of operands of one shape, from which Lite takes that of its result."""
    declared = op.declared[0].shape if op.declared and op.declared[0] else None
    if declared is None or any(v.shape is None for v in x):
        return op.Where(*x)
    if None not in declared:
        wide = [v if op.shape(v) == declared else op.BroadcastTo(v, shape=declared) for v in x]
        return op.Where(*wide)
    if len({_named_dims(v) for v in x}) == 1:
        return op.Where(*x)
    shape = _common_shape(op, [v for v in x if set(op.shape(v)) - {1}], len(declared))
    return op.Where(*(op.BroadcastTo(v, shape) for v in x))


def _named_dims(x: Tensor) -> object:
    """The dimensions of a tensor by numbers and names, what equals nothing else if any has none."""
    assert x.shape is not None
    dims = [d if isinstance(d, int) else d.value for d in x.shape]
    return x if None in dims else tuple(dims)


def _common_shape(op: Primitives, x: Sequence[Tensor], rank: int) -> Tensor:
    """The shape to which tensors are broadcast, known only at run time."""
    whole: Tensor | None = None
    for v in x:
        sizes = op.Shape(v) if op.known(v) is None else ints32(op, op.static_shape(v))
        if op.rank(v) < rank:
            sizes = op.Concat(ints32(op, [1] * (rank - op.rank(v))), sizes, axis=0)
        whole = sizes if whole is None else op.Maximum(whole, sizes)
    assert whole is not None
    return whole


def whole_norm(op: Primitives, x: Tensor, axis: int) -> bool:
    """True for rows of which MindSpore Lite 2.0 normalizes all, with 1 to 32 threads.

    It plans for more threads than it starts where there is little to do: from 576 elements on it was right.
    """
    dims = op.shape(x)
    row, most = (math.prod(d or 1 for d in part) for part in (dims[axis:], dims))
    rows = math.prod(d or 2 for d in dims[: axis % len(dims)])
    return rows == 1 or row >= _ROW or most >= _NORMED
