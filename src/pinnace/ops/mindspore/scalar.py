"""Python's numbers and tuples in the graph: computed now where they are known, else as scalar tensors."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops import binding
from pinnace.ops.mindspore.math import promoted
from pinnace.ops.table import Dtype, Items, Tensor, lowered, primitive, primitives
from pinnace.ops.values import BOOL, Value, flatten


@primitives(
    {
        "ScalarAdd scalar_add": (operator.add, "Add"),
        "ScalarSub scalar_sub": (operator.sub, "Sub"),
        "ScalarMul scalar_mul": (operator.mul, "Mul"),
        "ScalarDiv scalar_div": (operator.truediv, "Div"),
        "ScalarFloorDiv scalar_floordiv": (operator.floordiv, "FloorDiv"),
        "ScalarMod scalar_mod": (operator.mod, "FloorMod"),
        "ScalarPow scalar_pow": (operator.pow, "Pow"),
        "ScalarEq scalar_eq": (operator.eq, "Equal"),
        "ScalarNe scalar_ne": (operator.ne, "NotEqual"),
        "ScalarGt scalar_gt": (operator.gt, "Greater"),
        "ScalarGe scalar_ge": (operator.ge, "GreaterEqual"),
        "ScalarLt scalar_lt": (operator.lt, "Less"),
        "ScalarLe scalar_le": (operator.le, "LessEqual"),
        "ScalarMax": (max, "Maximum"),
        "ScalarMin": (min, "Minimum"),
        "ScalarUsub scalar_usub": (operator.neg, "Neg"),
        "ScalarLog scalar_log": (math.log, "Log"),
        "BoolNot bool_not": (operator.not_, "LogicalNot"),
        "BoolAnd bool_and": (lambda x, y: x and y, "LogicalAnd"),
        "BoolOr bool_or": (lambda x, y: x or y, "LogicalOr"),
        "BoolEq bool_eq": (operator.eq, "Equal"),
        "bit_and": (operator.and_, "BitwiseAnd"),
        "bit_or": (operator.or_, "BitwiseOr"),
        "bit_xor": (operator.xor, "BitwiseXor"),
        "string_eq": (operator.eq, "Equal"),
    }
)
def computed(op: Builder, now: Callable[..., Any], later: str, *operands: Value) -> Value:
    """Nothing where the numbers are known, else as {later}."""
    known = [_number(op, operand) for operand in operands]
    if any(k is None for k in known):
        return lowered(op, later, *operands)
    try:
        return now(*known)
    except TypeError:
        raise Unsupported("takes numbers, but gets other values or too few") from None


def _number(op: Builder, value: Value) -> Any:
    known = op.known(value)
    return known.item() if isinstance(known, np.ndarray) and known.size == 1 else known


@primitive("make_range")
def _make_range(op: Builder, *bounds: int) -> Value:
    return tuple(range(*bounds))


@primitive("ScalarBool", "scalar_bool")
def _scalar_bool(op: Builder, x: Value) -> Value:
    """Nothing where the number is known, else Cast."""
    now = _number(op, x)
    return op.cast(op.tensor(x), BOOL) if now is None else bool(now)


@primitive("SequenceAdd")
def _sequence_add(op: Builder, x: Items, y: Items) -> Value:
    return x + y


@primitive("SequenceMul", "sequence_mul")
def _sequence_mul(op: Builder, items: Items, times: int) -> Value:
    return items * times


@primitive("SequenceSlice", "sequence_slice")
def _sequence_slice(op: Builder, items: Items, start: int, stop: int, step: int = 1) -> Value:
    return items[start:stop:step]


@primitive("TensorToScalar")
def _tensor_to_scalar(op: Builder, x: Tensor) -> Value:
    """Nothing where the tensor is known, else Reshape."""
    now = op.known(x)
    return op.scalar(x) if now is None else now.reshape(-1)[0].item()


@primitive("tuple_setitem", "list_setitem")
def _tuple_setitem(op: Builder, items: Items, index: int, value: Value) -> Value:
    """Nothing: a tuple exists only while lowering."""
    return tuple([value if i == index % len(items) else item for i, item in enumerate(items)])


@primitive("ScalarCast", "scalar_cast")
def scalar_cast(op: Builder, x: Value, dtype: Dtype) -> Value:
    """Nothing where the number is known, else Cast."""
    if op.known(x) is None:
        return op.cast(op.tensor(x), dtype)
    if dtype is BOOL:
        return binding.bool_(op, x)
    return binding.float_(op, x) if dtype.is_floating_point() else binding.int_(op, x)


@primitive("ScalarToTensor", "TupleToTensor", "ListToTensor", "tuple_to_array")
def scalar_to_tensor(op: Builder, x: Value, dtype: Dtype | None = None) -> Value:
    """A constant, or Concat and Cast."""
    tensor = op.tensor(x)
    if dtype is None:
        return tensor
    known = op.known(tensor)
    return op.cast(tensor, dtype) if known is None else op.constant(known, dtype.numpy())


@primitive("TensorToTuple", "TensorToList")
def tensor_to_tuple(op: Builder, x: Tensor) -> Value:
    """Nothing where the tensor is known, else Gather for each element."""
    known = op.known(x)
    return binding.dims(op, x) if known is None else tuple(known.reshape(-1).tolist())


@primitive("is_")
def is_(op: Builder, x: Value, y: Value) -> Value:
    """Nothing: whether both are None, or the same truth, is known."""
    if x is None or y is None:
        return x is y
    first, second = _number(op, x), _number(op, y)
    if not isinstance(first, bool) or not isinstance(second, bool):
        raise Unsupported("compares the identity of values other than None, True and False")
    return first is second


@primitive("tuple_equal", "list_equal")
def tuple_equal(op: Builder, x: Value, y: Value) -> Value:
    """Nothing where the tuples are known or the same, else Equal of all elements."""
    if not isinstance(x, tuple) or not isinstance(y, tuple) or len(x) != len(y):
        return False
    result: Value = True
    for first, second in zip(flatten(x), flatten(y), strict=True):
        equal = first is second or _equal(op, first, second)
        if equal is False:
            return False
        if equal is not True:
            result = equal if result is True else op.And(result, equal)
    return result


def _equal(op: Builder, x: Value, y: Value) -> Value:
    first, second = _number(op, x), _number(op, y)
    if first is not None and second is not None:
        return bool(first == second)
    if isinstance(x, ir.Value) and isinstance(y, ir.Value) and _dimension(x) == _dimension(y) is not None:
        return True
    return op.Equal(op.tensor(x), op.tensor(y))


def _dimension(x: ir.Value) -> tuple[int, int] | None:
    """The tensor and the axis of which a scalar is the dimension."""
    squeeze = x.producer()
    shape = squeeze.inputs[0].producer() if squeeze is not None and squeeze.inputs[0] is not None else None
    if shape is None or shape.op_type != "Shape":
        return None
    return id(shape.inputs[0]), shape.attributes["start"].as_int()


@primitive("sequence_len", "tuple_len", "array_len")
def sequence_len(op: Builder, items: Value) -> Value:
    """Nothing: the length is known; the first dimension of a tensor."""
    return op.dim(items, 0) if isinstance(items, ir.Value) else len(items)


@primitive("InSequence")
def in_sequence(op: Builder, x: Value, items: Items) -> Value:
    """Nothing where the elements are known, else Equal with each, and Or."""
    wanted = _number(op, x)
    if isinstance(wanted, int) and wanted < 0:  # no dimension is
        items = tuple(i for i in items if not isinstance(i, ir.Value) or _dimension(i) is None)
    numbers = [_number(op, item) for item in items]
    if wanted is not None and None not in numbers:
        return wanted in numbers
    if not items:
        return False
    found = [op.Equal(*promoted(op, x, item)) for item in items]
    return functools.reduce(lambda one, other: op.Or(one, other), found)


@primitives(
    {"shape_mul": ("ScalarMul", (1,)), "SequenceMax": ("ScalarMax", ()), "SequenceMin": ("ScalarMin", ())}
)
def folded(op: Builder, pair: str, first: Items, items: Items) -> Value:
    """Nothing where the elements are known, else as {pair}."""
    return functools.reduce(lambda x, y: lowered(op, pair, x, y), (*first, *items))
