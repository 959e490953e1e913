"""Shapes that ONNX's operators tell by rules of their own, as MindSpore's primitives take them."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import function
from pinnace.ops.values import Unsupported, Value


@function
def target(b: Builder, data: ir.Value, shape: ir.Value, allowzero: int) -> Value:
    """The shape of a Reshape: 0 stands for the dimension at its place."""
    known = b.known(shape)
    if known is None:
        return shape
    dims = known.tolist()
    own = b.shape(data) if 0 in dims and not allowzero else ()
    whole = [d or own[i] if own else d for i, d in enumerate(dims)]
    if whole.count(None) == 1 and -1 not in whole:
        whole[whole.index(None)] = -1
    if None in whole:
        raise Unsupported("keeps dimensions that only the run knows")
    return tuple(whole)


@function
def broadcast(b: Builder, data: ir.Value, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an Expand, to which both its input and `shape` are broadcast."""
    own = b.shape(data)
    rank = max(len(own), len(shape))
    wide = [1] * (rank - len(own)) + list(own)
    dims = [1] * (rank - len(shape)) + list(shape)
    return tuple(-1 if w is None else max(w, d) if 0 not in (w, d) else 0 for w, d in zip(wide, dims, strict=True))
