"""Elementwise operators as primitives (see `rules`)."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from pinnace.converter.primitives import Primitives, number_of
from pinnace.converter.rules import operators, rule, shapes
from pinnace.converter.rules.int32 import as_type, from_int32
from pinnace.converter.rules.layout import elementwise, nchw, nhwc
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.math import is_float
from pinnace.ops.table import Tensor
from pinnace.ops.values import INT32, INT64, Value
from pinnace.program import Dialect

_BOOL, _FLOAT = ir.DataType.BOOL, ir.DataType.FLOAT
_UNSIGNED = (ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64)
_RELU6, _ELU, _LEAKY_RELU, _HSIGMOID, _SWISH, _GELU = 3, 4, 5, 13, 18, 19  # ActivationType


@operators("Abs Add Ceil Cos Equal Erf Exp Floor Greater Less Log Mul Neg Reciprocal Round Sin Sqrt Sub")
@operators(And="LogicalAnd", Not="LogicalNot", Or="LogicalOr")
@operators(GreaterOrEqual="GreaterEqual", LessOrEqual="LessEqual")
@operators("Acosh Asin Asinh Atan Atanh BitwiseAnd BitwiseOr BitwiseXor", only=Dialect.MINDSPORE)
@operators("Cosh Mish Sigmoid Sign Sinh Softplus Softsign Tan Tanh", only=Dialect.MINDSPORE)
@operators(only=Dialect.MINDSPORE, Acos="ACos", BitwiseNot="Invert", Det="MatrixDeterminant")
@operators(only=Dialect.MINDSPORE, HardSwish="HSwish", IsNaN="IsNan", Relu="ReLU", Xor="LogicalXor")
def _of_other_name(op: Primitives, primitive: str, *x: Tensor) -> Tensor:
    if any(operand.dtype is ir.DataType.STRING for operand in x):
        raise Unsupported("computes with text")
    return elementwise(op, primitive, *x)


@operators(Max="Maximum", Min="Minimum", Sum="Add")
def _folded(op: Primitives, primitive: str, first: Tensor, *others: Tensor) -> Tensor:
    for other in others:
        first = elementwise(op, primitive, *_bound_first(op, first, other))
    return first


def _bound_first(op: Primitives, x: Tensor, bound: Tensor) -> tuple[Tensor, Tensor]:
    """Operands, a known one first: MindSpore's Maximum and Minimum give the second if either is NaN."""
    return (bound, x) if op.mindspore and op.known(bound) is not None else (x, bound)


def Pow(op: Primitives, x: Tensor, y: Tensor) -> Tensor:
    """A power in the type of its base; that of an integer by a float may be one of its roots."""
    dtype, exponents = op.dtype(x), op.known(y)
    whole = exponents is not None and (exponents == np.trunc(exponents)).all()
    if is_float(op, y) and not (is_float(op, x) or whole):
        wide = _FLOAT if op.lite else ir.DataType.DOUBLE
        return op.cast(elementwise(op, "Pow", op.cast(x, wide), op.cast(y, wide)), dtype)
    return elementwise(op, "Pow", x, op.cast(y, dtype))


def Div(op: Primitives, a: Tensor, b: Tensor) -> Tensor:
    return elementwise(op, "Div" if op.lite or is_float(op, a) else "TruncateDiv", a, b)


def Mod(op: Primitives, a: Tensor, b: Tensor, fmod: int = 0) -> Tensor:
    if is_float(op, a) and not fmod:
        raise Unsupported(
            "is of floats with the sign of the divisor, and FloorMod is of integers: set fmod to 1"
        )
    truncated = fmod or (not op.lite and op.dtype(a) in _UNSIGNED)
    return elementwise(op, "TruncateMod" if truncated else "FloorMod", a, b)


@rule(Dialect.MINDSPORE)
def BitShift(op: Primitives, x: Tensor, by: Tensor, direction: str) -> Tensor:
    """Bits shifted by a number that is no place in an element are gone, but for the sign."""
    left, width, known = direction == "LEFT", op.dtype(x).bitwidth, op.known(by)
    shift = "LeftShift" if left else "RightShift"
    if not op.dtype(x).is_signed() or (known is not None and ((known >= 0) & (known < width)).all()):
        return op.op(shift, x, by)
    within = op.LogicalAnd(op.GreaterEqual(by, op.like(0, by)), op.Less(by, op.like(width, by)))
    moved = op.op(shift, x, op.Select(within, by, op.like(width - 1, by)))
    return op.Select(within, moved, op.like(0, x)) if left else moved


def Where(op: Primitives, *x: Tensor) -> Tensor:
    """A choice between operands of one shape: MindSpore Lite takes that of its result from them."""
    declared = shapes.declared_dims(op)
    if op.mindspore:
        whole = shapes.declared_shape(op)
        return op.Select(*(v if whole is None else shapes.broadcast_to(op, v, whole) for v in x))
    if declared is None or any(v.shape is None for v in x):
        return op.Where(*x)
    if None not in declared:
        return op.Where(*(v if op.shape(v) == declared else op.BroadcastTo(v, shape=declared) for v in x))
    if len({_named_dims(v) for v in x}) == 1:
        return op.Where(*x)
    shape = shapes.common(op, [v for v in x if set(op.shape(v)) - {1}], len(declared))
    return op.Where(*(op.BroadcastTo(v, shape) for v in x))


def _named_dims(x: Tensor) -> object:
    """The dimensions of a tensor by numbers and names, what equals nothing else if any has none."""
    assert x.shape is not None
    dims = [d if isinstance(d, int) else d.value for d in x.shape]
    return x if None in dims else tuple(dims)


def Clip(op: Primitives, x: Tensor, min: Value = None, max: Value = None) -> Tensor:
    """A Clip between bounds, which are numbers up to operator set 10."""
    low, high = (b if b is None or isinstance(b, Tensor) else _bound(op, b, x) for b in (min, max))
    if op.known(low) == 0 and op.known(high) == 6 and is_float(op, x):  # becomes part of a convolution
        return op.ReLU6(x) if op.mindspore else elementwise(op, "Activation", x, activation_type=_RELU6)
    for primitive, bound in (("Maximum", low), ("Minimum", high)):
        x = x if bound is None else elementwise(op, primitive, *_bound_first(op, x, bound))
    return x


def _bound(op: Primitives, number: float, beside: Tensor) -> Tensor:
    """A bound in the element type of a tensor, of which the greatest of float32 may be beyond."""
    with np.errstate(over="ignore"):
        return op.like(number, beside)


def Cast(op: Primitives, x: Tensor, to: int, _saturate: int = 1) -> Tensor:
    """Lite's Cast makes bool of floats only, and int32 and floats of bool."""
    dtype, own = ir.DataType(to), x.dtype
    number = number_of(dtype)
    if op.mindspore:
        return op.Cast(x, number)
    if own is _BOOL and dtype in (INT32, INT64):
        return from_int32(op, op.cast(x, INT32), dtype)
    if dtype is _BOOL and own is not _BOOL and not is_float(op, x):
        return op.cast(op.cast(x, _FLOAT), _BOOL)
    return as_type(op, x, dtype)


@rule(Dialect.MINDSPORE)
def IsInf(op: Primitives, x: Tensor, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    if not (detect_negative and detect_positive):
        raise Unsupported("detects infinities of one sign only, and IsInf those of both")
    return op.IsInf(x)


# -- activations -----------------------------------------------------------------------------------


@operators(only=Dialect.LITE, HardSwish=12, Relu=1, Sigmoid=2, Softplus=9, Tanh=10)
def _activation(op: Primitives, activation: int, x: Tensor) -> Tensor:
    if not is_float(op, x):
        raise Unsupported(f"is of {op.dtype(x).name}, and Activation of floating-point numbers")
    return elementwise(op, "Activation", x, activation_type=activation)


def Elu(op: Primitives, x: Tensor, alpha: float = 1.0) -> Tensor:
    if op.lite:
        return elementwise(op, "Activation", x, activation_type=_ELU, alpha=alpha)
    if alpha != 1:
        raise Unsupported(f"has alpha {alpha}, and MindSpore's Elu only 1")
    return op.Elu(x)


def Gelu(op: Primitives, x: Tensor, approximate: str = "none") -> Tensor:
    if op.lite:
        return elementwise(op, "Activation", x, activation_type=_GELU, approximate=approximate == "tanh")
    if approximate != "tanh":
        raise Unsupported("is exact, and GeLU is the approximation by tanh")
    return op.GeLU(x)


@rule(Dialect.LITE)
def LeakyRelu(op: Primitives, x: Tensor, alpha: float = 0.01) -> Tensor:
    return elementwise(op, "Activation", x, activation_type=_LEAKY_RELU, alpha=alpha)


@rule(Dialect.LITE)
def HardSigmoid(op: Primitives, x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    if abs(alpha - 1 / 6) > 1e-6 or beta != 0.5:
        raise Unsupported(f"has alpha {alpha} and beta {beta}, and Lite's HSIGMOID 1/6 and 0.5")
    return elementwise(op, "Activation", x, activation_type=_HSIGMOID)


@rule(Dialect.LITE)
def Swish(op: Primitives, x: Tensor, alpha: float = 1.0) -> Tensor:
    if alpha != 1:
        raise Unsupported(f"has alpha {alpha}, and Lite's SWISH 1")
    return elementwise(op, "Activation", x, activation_type=_SWISH)


@rule(Dialect.MINDSPORE)
def Selu(op: Primitives, x: Tensor, alpha: float = 1.6732632, gamma: float = 1.050701) -> Tensor:
    if abs(alpha - 1.6732632) > 1e-6 or abs(gamma - 1.050701) > 1e-6:
        raise Unsupported(f"has alpha {alpha} and gamma {gamma}, and SeLU has those of ONNX's defaults")
    return op.SeLU(x)


@rule(Dialect.LITE)
def PRelu(op: Primitives, x: Tensor, slope: Tensor) -> Tensor:
    dims = op.static_shape(slope)
    of_channels = dims[-3:-2] == op.shape(x)[1:2] == (math.prod(dims),)
    if op.rank(x) != 4 or not is_float(op, x) or not of_channels:
        raise Unsupported(
            "has a slope that is not a number for each channel of an image, as PReLUFusion wants it"
        )
    return nchw(op, op.PReLUFusion(nhwc(op, x), shapes.flat(op, slope)))


def Softmax(op: Primitives, x: Tensor, axis: int = -1) -> Tensor:
    return op.Softmax(x, axis=(axis,))


def LogSoftmax(op: Primitives, x: Tensor, axis: int = -1) -> Tensor:
    return op.LogSoftmax(x, axis=axis)
