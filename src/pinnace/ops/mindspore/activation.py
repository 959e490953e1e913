"""Activation functions."""

from __future__ import annotations

from pinnace.graph.builder import Builder
from pinnace.ops.mindspore.arithmetic import bound_for_nan
from pinnace.ops.mindspore.math import floating, is_float, promoted
from pinnace.ops.table import Dtype, Ints, Tensor, formulas, primitive, primitives
from pinnace.ops.values import DOUBLE, FLOAT, FLOAT16, Value


@primitive("CeLU")
def _celu(op: Builder, x: Tensor, alpha: float = 1.0) -> Value:
    """Elu of a part, and Mul; of a negative alpha Exp in Elu's place."""
    if alpha == 1:
        return op.Elu(x)
    # The inverse of a small alpha is no float16.
    kind = FLOAT if op.dtype(x) is FLOAT16 else op.dtype(x)
    part = op.cast(x, kind) / alpha
    if alpha > 0:
        return op.cast(op.Elu(part) * alpha, op.dtype(x))
    grown = (op.Exp(part) - 1.0) * alpha
    return op.Where(op.Less(x, 0.0), op.cast(grown, op.dtype(x)), x)


@primitives({"GLU": False, "Swiglu": True})
def _glu(op: Builder, first_is_gate: bool, x: Tensor, dim: int = -1) -> Value:
    size = op.shape(x)[dim]
    halves = None if size is None else [size // 2] * 2
    first, second = op.ops("Split", 2, x, halves, axis=dim, num_outputs=None if halves else 2)
    return first * op.Sigmoid(first) * second if first_is_gate else first * op.Sigmoid(second)


def _h_swish(op: Builder, x: Tensor) -> Value:
    """HardSwish; of float64, which has more digits than its factor, the product with HSigmoid."""
    if op.dtype(x) is DOUBLE:
        return op.Where(op.LessOrEqual(x, -3), 0, x * hsigmoid(op, x))
    return op.cast(op.HardSwish(floating(op, x)), op.dtype(x))


@primitive("LogSoftmax", "LogSoftmaxExt")
def _log_softmax(op: Builder, x: Tensor, axis: int = -1, dtype: Dtype | None = None) -> Value:
    return _along(op, "LogSoftmax", op.cast(x, dtype or op.dtype(x)), axis)


@primitive("Softmax")
def _softmax(op: Builder, x: Tensor, axis: Ints = (-1,)) -> Value:
    """Softmax; over several dimensions as Exp over its sum."""
    if len(axis) == 1 or op.rank(x) == 0:
        return _along(op, "Softmax", x, axis[0])
    peak = op.ReduceMax(x, axis, keepdims=1)
    grown = op.Exp(x - peak)
    return grown / op.ReduceSum(grown, axis, keepdims=1)


@primitive("SoftplusExt")
def _softplus_ext(op: Builder, x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """Softplus of beta times x over beta, and x itself over the threshold."""
    scaled = x if beta == 1 else x * beta
    soft = op.Softplus(scaled)
    soft = soft if beta == 1 else soft / beta
    return op.Where(op.Greater(scaled, threshold), x, soft)


@primitive("Threshold")
def _threshold(op: Builder, x: Tensor, threshold: float, value: float) -> Value:
    return op.Where(op.Greater(x, threshold), x, value)


def relu(op: Builder, x: Tensor) -> Tensor:
    """Relu; of ints Max; of Abs, where it only makes NaN 0, Where."""
    if not is_float(op, x):
        return op.Max(x, 0)
    node = x.producer()
    return op.Relu(x) if node is None or node.op_type != "Abs" else op.Where(op.IsNaN(x), op.like(0, x), x)


def hsigmoid(op: Builder, x: Tensor) -> Value:
    """HardSigmoid; of float64, which has more digits than its attribute, Clip of x / 6 + 1 / 2."""
    if op.dtype(x) is not DOUBLE:
        return op.HardSigmoid(x, alpha=1 / 6, beta=0.5)
    return op.Clip(x / 6 + 0.5, op.like(0, x), op.like(1, x))


@primitive("PReLU")
def prelu(op: Builder, x: Tensor, weight: Tensor) -> Value:
    """PRelu, a slope for each channel."""
    if op.rank(x) > 2 and op.static_shape(weight) not in ((1,), ()):
        weight = op.reshape(weight, [-1, *[1] * (op.rank(x) - 2)])
    own = op.result(x)
    x, weight = promoted(op, x, weight)
    return op.cast(op.PRelu(x, op.reshape(weight, []) if op.rank(x) == 0 else weight), own)


def _selu(op: Builder, x: Tensor) -> Tensor:
    """Selu; an integer below 0 becomes exp(x) - 1 in float32, rounded towards 0."""
    if is_float(op, x):
        return op.Selu(x)
    below = op.cast(op.Exp(op.cast(x, FLOAT)) - 1.0, op.dtype(x))
    return op.Where(op.Greater(x, 0), x, below)


def _along(op: Builder, op_type: str, x: Tensor, axis: int) -> Tensor:
    """An operator along an axis; a scalar is one element."""
    if op.rank(x) == 0:
        return op.Squeeze(op.op(op_type, op.Unsqueeze(x, [0]), axis=0), [0])
    return op.op(op_type, x, axis=axis)


formulas(
    {
        "FastGeLU FastGelu": lambda op, x: x * op.Sigmoid(x * 1.702),
        "Elu EluExt": lambda op, x, alpha=1.0: op.Elu(x, alpha=alpha),
        "GeLU": lambda op, x: op.Gelu(x, approximate="tanh"),
        "GeluExt": lambda op, x, approximate=0: op.Gelu(x, approximate="tanh" if approximate else "none"),
        "Hardtanh": lambda op, x, min_val=-1.0, max_val=1.0: bound_for_nan(
            op, op.Clip(x, min_val, max_val), min_val
        ),
        "HShrink": lambda op, x, lambd=0.5: op.Where(op.LessOrEqual(op.Abs(x), lambd), 0, x),
        "HSigmoid": hsigmoid,
        "HSwish": _h_swish,
        "LeakyRelu LeakyReLUExt": lambda op, x, negative_slope=0.01: op.LeakyRelu(x, alpha=negative_slope),
        "LogSigmoid": lambda op, x: (-op.Softplus(-x),) * 2,  # with the buffer that training would read
        "Mish MishExt": lambda op, x: op.cast(
            op.Mish(x if op.dtype(x) is DOUBLE else op.cast(x, FLOAT)), op.dtype(x)
        ),
        "ReLU": relu,
        "ReLU6": lambda op, x: op.Clip(x, 0, 6),
        "SeLU SeLUExt": _selu,
        "Sigmoid": lambda op, x: op.Sigmoid(x),
        "SiLU": lambda op, x: x * op.Sigmoid(x),
        "Softplus": lambda op, x: op.Softplus(x),
        "SoftShrink": lambda op, x, lambd=0.5: op.Shrink(x, lambd=lambd, bias=lambd),
        "Softsign": lambda op, x: op.Softsign(x),
        "Tanh": lambda op, x: op.Tanh(x),
    }
)
