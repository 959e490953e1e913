"""Views: tensors that share the memory of another, so that what is written to one is read from both.

What is written to a view is put into the tensor that it looks at, in the places that the view has of a
tensor of all its places' numbers; a view of what has changed since is made again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pinnace.ops import array, index
from pinnace.ops.builder import Builder
from pinnace.ops.room import room
from pinnace.ops.table import Lowering, Primitive, Tensor, primitive
from pinnace.ops.values import Effects, Value
from pinnace.program import Dialect


def _views(lowerings: Mapping[str, Lowering]) -> None:
    for name, lowering in lowerings.items():
        primitive(name)(_viewing(Primitive(name, Dialect.MINDSPORE, lowering)))


def _viewing(plain: Primitive) -> Lowering:
    def lowering(b: Builder, x: Tensor, *rest: Value) -> Value:
        arguments = [v for v in rest if not isinstance(v, Effects)]
        parts = plain.lower(b, [b.memory.read(x), *arguments], {})
        for i, part in enumerate(parts if isinstance(parts, tuple) else (parts,)):
            again = _again(b, plain, arguments, i)
            b.memory.view(part, x, again, _writing(b, again))
        return parts

    lowering.__doc__ = plain.lowered_to
    return lowering


def _again(b: Builder, plain: Primitive, arguments: Sequence[Value], i: int) -> Callable[[Tensor], Tensor]:
    def again(x: Tensor) -> Tensor:
        parts = plain.lower(b, [x, *arguments], {})
        found: Tensor = parts[i] if isinstance(parts, tuple) else parts
        return found

    return again


def _writing(b: Builder, again: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def write(held: Tensor, value: Tensor) -> Tensor:
        shape = room(*b.static_shape(held))
        numbers = b.constant(np.arange(math.prod(shape)).reshape(shape), np.int64)
        return index.put(b, held, again(numbers), value)

    return write


_views(
    {
        "BroadcastToView": array.broadcast_to,
        "ChunkView": array.chunk,
        "DiagonalView": array.diagonal_of,
        "ExpandDimsView": array.expand_dims,
        "NarrowView": index.narrow,
        "SelectExtView": index.select_ext,
        "SliceExtView": index.slice_ext,
        "SplitTensorView": array.split_tensor,
        "SplitWithSizeView": array.split_with_size,
        "TransposeExtView": array.transpose_ext,
        "TransposeView": array.transpose,
        "UnstackExtView": array.unstack,
    }
)
