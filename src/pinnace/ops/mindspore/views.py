"""Views: tensors that share the memory of another, so that what is written to one is read from both.

What is written to a view is put into the tensor that it looks at, in the places that the view has of a
tensor of all its places' numbers; a view of what has changed since is made again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from pinnace.graph.failures import room
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.mindspore import index
from pinnace.ops.mindspore.array import places
from pinnace.ops.table import TABLE, Lowering, Primitive, Tensor, primitive
from pinnace.ops.values import Effects, Value
from pinnace.program import Dialect


def _viewing(plain: Primitive) -> Lowering:
    def lowering(b: LoweringBuilder, x: Tensor, *rest: Value) -> Value:
        arguments = [v for v in rest if not isinstance(v, Effects)]
        parts = plain.lower(b, [b.memory.read(x), *arguments], {})
        for i, part in enumerate(parts if isinstance(parts, tuple) else (parts,)):
            again = partial(_part, b, plain, arguments, i)
            b.memory.view(part, x, again, partial(_put, b, again))
        return parts

    lowering.__doc__ = f"As {plain.name}, in the memory of the tensor."
    return lowering


def _part(b: LoweringBuilder, plain: Primitive, arguments: Sequence[Value], i: int, x: Tensor) -> Tensor:
    """A view of what a tensor holds."""
    parts = plain.lower(b, [x, *arguments], {})
    part: Tensor = parts[i] if isinstance(parts, tuple) else parts
    return part


def _put(b: LoweringBuilder, view: Callable[[Tensor], Tensor], held: Tensor, value: Tensor) -> Tensor:
    """The value of a tensor after one is assigned to a view of it."""
    shape = room(*b.static_shape(held))
    numbers = b.constant(np.arange(math.prod(shape)).reshape(shape), np.int64)
    written = index.put(b, held, view(numbers), value)
    written.shape = ir.Shape(shape)  # which a view of it may need, where the file's shapes do not count
    return written


def transpose_ext(b: LoweringBuilder, x: Tensor, dim0: int, dim1: int) -> Value:
    perm = list(range(b.rank(x)))
    if not perm:
        return x
    first, second = b.axis(dim0, x), b.axis(dim1, x)
    perm[first], perm[second] = perm[second], perm[first]
    return b.transpose(x, perm)


def _select(op: LoweringBuilder, x: Tensor, dim: int, index_: Value) -> Value:
    return op.Gather(x, places(op, op.tensor(index_)), axis=dim)


_VIEWS: Mapping[str, str | Lowering] = {
    "BroadcastToView": "BroadcastTo",
    "ChunkView": "Chunk",
    "DiagonalView": "Diagonal",
    "ExpandDimsView": "ExpandDims",
    "NarrowView": "Narrow",
    "SelectExtView": _select,
    "SliceExtView": "SliceExt",
    "SplitTensorView": "SplitTensor",
    "SplitWithSizeView": "SplitWithSize",
    "TransposeExtView": transpose_ext,
    "TransposeView": "Transpose",
    "UnstackExtView": "Unstack",
}
for _name, _plain in _VIEWS.items():
    _own = None if isinstance(_plain, str) else Primitive(_name, Dialect.MINDSPORE, _plain)
    primitive(_name)(_viewing(_own or TABLE[Dialect.MINDSPORE, str(_plain)]))
