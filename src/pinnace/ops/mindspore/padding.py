"""Padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.room import span
from pinnace.ops import binding
from pinnace.ops.table import Dims, Ints, Tensor, primitive, primitives
from pinnace.ops.values import Value

_Pair = tuple[int | Tensor, int | Tensor]


def padded(
    op: Builder, x: Tensor, pairs: Sequence[_Pair], mode: str = "constant", value: Value = None
) -> Tensor:
    """Pad, with a pair (before, after) for each dimension."""
    pads = op.vector([p[0] for p in pairs] + [p[1] for p in pairs])
    filler = None if value is None else op.scalar(op.cast(op.tensor(value), op.dtype(x)))
    return op.Pad(x, pads, filler, mode=mode)


@primitive("Pad")
def pad(op: Builder, x: Tensor, paddings: Value) -> Value:
    """Pad with zeros."""
    rows = paddings if isinstance(paddings, tuple) else (paddings,)
    return padded(op, x, _pairs([n for row in rows for n in binding.ints(op, row)]))


def _pairs(numbers: Sequence[int | Tensor]) -> list[_Pair]:
    return list(zip(numbers[::2], numbers[1::2], strict=True))


@primitive("PadV3")
def pad_v3(
    op: Builder,
    x: Tensor,
    paddings: Dims,
    constant_value: Value = None,
    mode: str = "constant",
    paddings_contiguous: bool = True,
) -> Value:
    """Pad; the pairs begin with the last dimension."""
    if paddings_contiguous:
        pairs = _pairs(paddings)
    else:
        half = len(paddings) // 2
        pairs = list(zip(paddings[:half], paddings[half:], strict=True))
    return padded(op, x, _from_last(op, x, pairs), _MODES.get(mode, mode), constant_value)


_MODES = {"circular": "wrap", "replicate": "edge"}


def _from_last(op: Builder, x: Tensor, pairs: Sequence[_Pair]) -> list[_Pair]:
    """A pair for each dimension, of pairs that begin with the last one."""
    return [(0, 0)] * (op.rank(x) - len(pairs)) + list(reversed(pairs))


@primitive("MirrorPad")
def mirror_pad(
    op: Builder, x: Tensor, paddings: Value, mode: Literal["REFLECT", "SYMMETRIC"] = "REFLECT"
) -> Value:
    """Pad, mode reflect; for SYMMETRIC Gather along each dimension."""
    numbers = binding.ints(op, paddings)
    return padded(op, x, _pairs(numbers), "reflect") if mode == "REFLECT" else mirrored(op, x, numbers)


def mirrored(op: Builder, x: Tensor, paddings: Ints) -> Tensor:
    """Each dimension between its mirror images, the border included."""
    for axis, (before, after) in enumerate(zip(paddings[::2], paddings[1::2], strict=True)):
        if before or after:
            size = op.static_shape(x)[axis]
            span(size + abs(before) + abs(after))
            places = np.pad(np.arange(size), (before, after), mode="symmetric")
            x = op.Gather(x, op.constant(places, np.int64), axis=axis)
    return x


@primitive("Padding")
def _padding(op: Builder, x: Tensor, pad_dim_size: int = 8) -> Value:
    return padded(op, x, [(0, 0)] * (op.rank(x) - 1) + [(0, pad_dim_size - 1)])


@primitives(
    {
        "ReflectionPad1D ReflectionPad2D ReflectionPad3D": "reflect",
        "ReplicationPad1D ReplicationPad2D ReplicationPad3D": "edge",
        "ConstantPadND": "constant",
    }
)
def _reflection_pad1_d(op: Builder, mode: str, x: Tensor, padding: Dims, value: Value = None) -> Value:
    """Pad, mode {mode}."""
    return padded(op, x, _from_last(op, x, _pairs(padding)), mode, value)
