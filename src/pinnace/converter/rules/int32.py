"""Sizes and places as int32 in MindSpore Lite's dialect.

ONNX has them in int64, of which MindSpore Lite has few kernels; none is beyond the range of int32, because
the sizes of its tensors are not. What is computed of them alone is computed in int32, too, and given on as
int64; but not their products with large numbers, nor ends of slices that may be beyond all sizes.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
import onnx_ir as ir

from pinnace.converter.primitives import Primitives
from pinnace.ops.table import Tensor
from pinnace.program import TypeInfo

_OPERATORS = frozenset(
    (
        *("Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose", "Expand", "Tile", "Concat", "Split"),
        *("Gather", "GatherND", "GatherElements", "ScatterElements", "ScatterND", "Slice", "Where", "Range"),
        *("Add", "Sub", "Mul", "Div", "Neg", "Abs", "Max", "Min", "Mod"),
        *("ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "CumSum"),
        *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Cast", "Identity", "OneHot", "TopK"),
        *("Sum", "Clip", "Pad", "ArgMax", "ArgMin", "Trilu"),
    )
)
_TAKING = frozenset(("Gather", "GatherElements"))
"""Operators whose second input are places."""
_BOUNDS = frozenset((("Slice", 1), ("Slice", 2)))
"""Inputs in which numbers beyond all sizes mean what the greatest of int32 does."""
_CHOOSING = frozenset(("Concat", "Where", "Min", "Max", "Squeeze", "Unsqueeze", "Identity"))
"""Operators that give elements of their inputs, whichever these are."""
_PLACES = frozenset(
    (
        *(("Gather", 1), ("GatherElements", 1), ("GatherND", 1), ("ScatterElements", 1), ("ScatterND", 1)),
        *(("Reshape", 1), ("Expand", 1), ("ConstantOfShape", 0)),
    )
)
"""Inputs that are sizes and places, within int32 in every run."""
_WRAPPING = frozenset(
    (
        *("Add", "Sub", "Mul", "Neg", "Sum", "CumSum", "ReduceSum"),
        *("Concat", "Where", "Squeeze", "Unsqueeze", "Identity", "Reshape", "Transpose", "Expand", "Gather"),
    )
)
"""Operators whose result, if it is within int32, is right whatever bits above were lost before."""
_FACTOR = 1 << 16
"""Factors from which a product of places may be beyond int32."""
_FOLLOWED = 64
"""Values, or nodes, that are followed."""
_LIMITS = np.iinfo(np.int32)
WHOLE = INT32, INT64 = ir.DataType.INT32, ir.DataType.INT64


def inputs(op: Primitives, node: ir.Node) -> Sequence[Tensor | None]:
    """Return the inputs of a node, as int32 where all that are int64 are sizes or places."""
    given = list(node.inputs)
    if op.mindir or node.domain or node.op_type not in _OPERATORS:
        return given
    wide = [i for i, x in enumerate(given) if x is not None and x.dtype in WHOLE]
    wide = wide[:1] if node.op_type == "Slice" else wide  # whose bounds may be beyond all sizes
    takes = node.op_type in _TAKING and len(wide) == 1  # places as they are
    limit: int | None = _LIMITS.max
    if node.op_type == "Mul" and not _goes_to(_PLACES, node, _WRAPPING):
        limit = _FACTOR
    elif node.op_type in _CHOOSING and _goes_to(_BOUNDS, node, _CHOOSING):
        limit = None
    small = {i: _small(op, x, not takes, limit) for i in wide if (x := given[i]) is not None}
    if None in small.values() or all(x.const_value is not None for x in small.values() if x is not None):
        return given
    for i, x in small.items():
        if x is not None and x.const_value is None and (wide_one := given[i]) is not None:
            x.meta.update(wide_one.meta)  # what is known of its elements
    return [small.get(i, x) for i, x in enumerate(given)]


def _goes_to(inputs: Set[tuple[str, int]], node: ir.Node, through: Set[str]) -> bool:
    """Return True if only these inputs read a node, also by way of other operators."""
    seen, left = {node}, [node]
    while left:
        results = left.pop().outputs
        uses = [use for result in results for use in result.uses()]
        if not uses or len(seen) > _FOLLOWED or any(result.is_graph_output() for result in results):
            return False
        readers = {reader for reader, place in uses if (reader.op_type, place) not in inputs or reader.domain}
        if any(reader.domain or reader.op_type not in through for reader in readers):
            return False
        left += readers - seen
        seen |= readers
    return True


def _small(op: Primitives, x: Tensor, places: bool, limit: int | None) -> Tensor | None:
    """Return a tensor as int32, cut off without a limit; None if it may be beyond."""
    known = op.known(x)
    if known is None:
        return op.narrow.get(op.names.get(x, "")) or (_place(op, x) if places and _is_place(x) else None)
    fits = limit is None or known.size == 0 or (known.min() >= -limit - 1 and known.max() <= limit)
    return op.constant(np.clip(known, _LIMITS.min, _LIMITS.max), np.int32) if fits else None


def _is_place(x: Tensor) -> bool:
    """Return True for integers that take elements from a tensor: beyond its size they are an error."""
    maker = x.producer()
    first = maker.inputs[0] if maker is not None and maker.op_type == "Cast" else None
    return any(
        node.op_type in _TAKING and place == 1
        for value in (x, first)
        if value is not None and value.dtype in WHOLE
        for node, place in value.uses()
    )


def _place(op: Primitives, x: Tensor) -> Tensor:
    small = op.cast(x, INT32)
    small.type, small.shape = ir.TensorType(INT32), x.shape
    op.declare(small)
    if x.dtype is INT64:
        op.narrow[op.name(x)] = small
    return small


def declared(type_info: TypeInfo | None) -> TypeInfo | None:
    """Return the declared type of a result, of int32 if it is of int64."""
    if type_info is None or type_info.dtype is not INT64:
        return type_info
    return type_info._replace(dtype=INT32)


def from_int32(op: Primitives, x: Tensor, dtype: ir.DataType) -> Tensor:
    """A size or place of int32 as the type that ONNX has for it."""
    x.type = ir.TensorType(INT32)
    y = op.cast(x, dtype)
    op.narrow |= {op.name(x): x, op.name(y): x}
    return y


def as_type(op: Primitives, x: Tensor, dtype: ir.DataType) -> Tensor:
    """A tensor in an element type; a size or place stays known as one."""
    if dtype is INT64 and x.dtype is not None and x.dtype.is_floating_point() and _is_of_sizes(x):
        x = op.cast(x, INT32)
        return from_int32(op, x, INT64)
    return from_int32(op, x, dtype) if dtype is INT64 and op.names.get(x) in op.narrow else op.cast(x, dtype)


def _is_of_sizes(x: Tensor) -> bool:
    """Return True for floats that are computed of constants, and of sizes and places, alone."""
    seen, left = {x}, [x]
    while left:
        value = left.pop()
        maker = value.producer()
        if value.const_value is not None or not value.dtype or not value.dtype.is_floating_point():
            continue  # integers of which floats are made are as small as these
        if maker is None or len(seen) > _FOLLOWED:
            return False
        new = {i for i in maker.inputs if i is not None} - seen
        seen |= new
        left += new
    return True


def shape(op: Primitives, x: Tensor) -> None:
    """Give the int32 of a result the shape that is known of it."""
    small = op.narrow.get(op.names.get(x, ""))
    if small is not None:
        small.shape = x.shape
        op.declare(small)


def in_int32(op: Primitives, x: Tensor) -> Tensor:
    """Places or sizes as int32, which all kernels take."""
    known = op.known(x)
    if known is not None:
        return op.constant(np.clip(known, _LIMITS.min, _LIMITS.max), np.int32)
    return op.narrow[op.names[x]] if op.names.get(x) in op.narrow else op.cast(x, INT32)


def reshaped(op: Primitives, x: Tensor, dims: Sequence[int]) -> Tensor:
    """A tensor with other dimensions; MindSpore Lite waits forever for a Reshape to none."""
    if dims or op.mindspore:
        return op.Reshape(x, tuple(dims))
    if op.dtype(x) is not INT64:
        return op.Squeeze(x, axis=tuple(range(op.rank(x)))) if op.rank(x) else x
    for _ in range(op.rank(x)):
        x = op.Gather(x, 0, 0)
    return x
