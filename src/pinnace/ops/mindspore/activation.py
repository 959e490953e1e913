"""Activation functions."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.ops.mindspore.arithmetic import bound_for_nan
from pinnace.ops.mindspore.math import floating, is_float, promoted
from pinnace.ops.table import Dtype, Ints, Tensor, primitive, primitives
from pinnace.ops.values import Value


@primitive("CeLU")
def _celu(op: Builder, x: Tensor, alpha: float = 1.0) -> Value:
    """Elu of a part, and Mul; of a negative alpha Exp in Elu's place."""
    if alpha == 1:
        return op.Elu(x)
    # The inverse of a small alpha is no float16.
    kind = ir.DataType.FLOAT if op.dtype(x) is ir.DataType.FLOAT16 else op.dtype(x)
    part = op.cast(x, kind) / alpha
    if alpha > 0:
        return op.cast(op.Elu(part) * alpha, op.dtype(x))
    grown = (op.Exp(part) - 1.0) * alpha
    return op.Where(op.Less(x, 0.0), op.cast(grown, op.dtype(x)), x)


@primitive("Elu", "EluExt")
def _elu(op: Builder, x: Tensor, alpha: float = 1.0) -> Value:
    return op.Elu(x, alpha=alpha)


@primitive("FastGeLU", "FastGelu")
def _fast_gelu(op: Builder, x: Tensor) -> Value:
    return x * op.Sigmoid(x * 1.702)


@primitive("GeLU")
def _gelu(op: Builder, x: Tensor) -> Value:
    return op.Gelu(x, approximate="tanh")


@primitive("GeluExt")
def _gelu_ext(op: Builder, x: Tensor, approximate: int = 0) -> Value:
    return op.Gelu(x, approximate="tanh" if approximate else "none")


@primitives({"GLU": False, "Swiglu": True})
def _glu(op: Builder, first_is_gate: bool, x: Tensor, dim: int = -1) -> Value:
    """Split, Sigmoid, Mul."""
    size = op.shape(x)[dim]
    halves = None if size is None else [size // 2] * 2
    first, second = op.ops("Split", 2, x, halves, axis=dim, num_outputs=None if halves else 2)
    return first * op.Sigmoid(first) * second if first_is_gate else first * op.Sigmoid(second)


@primitive("Hardtanh")
def _hardtanh(op: Builder, x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    return bound_for_nan(op, op.Clip(x, min_val, max_val), min_val)


@primitive("HShrink")
def _h_shrink(op: Builder, x: Tensor, lambd: float = 0.5) -> Value:
    return op.Where(op.LessOrEqual(op.Abs(x), lambd), 0, x)


@primitive("HSwish")
def _h_swish(op: Builder, x: Tensor) -> Value:
    """HardSwish; of float64, which has more digits than its factor, the product with HSigmoid."""
    if op.dtype(x) is ir.DataType.DOUBLE:
        return op.Where(op.LessOrEqual(x, -3), 0, x * hsigmoid(op, x))
    return op.cast(op.HardSwish(floating(op, x)), op.dtype(x))


@primitive("LeakyRelu", "LeakyReLUExt")
def _leaky_relu(op: Builder, x: Tensor, negative_slope: float = 0.01) -> Value:
    return op.LeakyRelu(x, alpha=negative_slope)


@primitive("LogSigmoid")
def _log_sigmoid(op: Builder, x: Tensor) -> Value:
    """Neg of Softplus of Neg, and the buffer that training would read."""
    y = -op.Softplus(-x)
    return (y, y)


@primitive("LogSoftmax", "LogSoftmaxExt")
def _log_softmax(op: Builder, x: Tensor, axis: int = -1, dtype: Dtype | None = None) -> Value:
    """LogSoftmax."""
    return _along(op, "LogSoftmax", op.cast(x, dtype or op.dtype(x)), axis)


@primitive("Mish", "MishExt")
def _mish(op: Builder, x: Tensor) -> Value:
    """Mish, in float32 where not in float64."""
    return op.cast(
        op.Mish(x if op.dtype(x) is ir.DataType.DOUBLE else op.cast(x, ir.DataType.FLOAT)), op.dtype(x)
    )


@primitive("ReLU6")
def _relu6(op: Builder, x: Tensor) -> Value:
    return op.Clip(x, 0, 6)


@primitive("SeLU", "SeLUExt")
def _selu(op: Builder, x: Tensor) -> Value:
    return op.op("Selu" if is_float(op, x) else "Relu", x)


@primitives({"Sigmoid": "Sigmoid", "Softplus": "Softplus", "Softsign": "Softsign", "Tanh": "Tanh"})
def _one_operator(op: Builder, op_type: str, x: Tensor) -> Value:
    """{op_type}."""
    return op.op(op_type, x)


@primitive("SiLU")
def _silu(op: Builder, x: Tensor) -> Value:
    return x * op.Sigmoid(x)


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


@primitive("SoftShrink")
def _soft_shrink(op: Builder, x: Tensor, lambd: float = 0.5) -> Value:
    return op.Shrink(x, lambd=lambd, bias=lambd)


@primitive("Threshold")
def _threshold(op: Builder, x: Tensor, threshold: float, value: float) -> Value:
    return op.Where(op.Greater(x, threshold), x, value)


@primitive("ReLU")
def relu(op: Builder, x: Tensor) -> Value:
    """Relu; of ints Max; of Abs, where it only makes NaN 0, Where."""
    if not op.dtype(x).is_floating_point():
        return op.Max(x, 0)
    node = x.producer()
    if node is None or node.op_type != "Abs":
        return op.Relu(x)
    return op.Where(op.IsNaN(x), op.like(0, x), x)


@primitive("HSigmoid")
def hsigmoid(op: Builder, x: Tensor) -> Value:
    """HardSigmoid; of float64, which has more digits than its attribute, Clip of x / 6 + 1 / 2."""
    if op.dtype(x) is not ir.DataType.DOUBLE:
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


def _along(op: Builder, op_type: str, x: Tensor, axis: int) -> Tensor:
    """An operator along an axis; a scalar is one element."""
    if op.rank(x) == 0:
        return op.Squeeze(op.op(op_type, op.Unsqueeze(x, [0]), axis=0), [0])
    return op.op(op_type, x, axis=axis)
