"""Activation functions."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function
from pinnace.ops.math import promoted
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value

formulas(
    __name__,
    """
    CeLU: x, alpha: float = 1.0 ->
        # Elu of a part, and Mul; of a negative alpha Exp in Elu's place.
        if alpha == 1:
            return Elu(x)
        kind = FLOAT if dtype(x) is FLOAT16 else dtype(x)  # the inverse of a small alpha is no float16
        part = cast(x, kind) / alpha
        if alpha > 0:
            return cast(Elu(part) * alpha, dtype(x))
        grown = (Exp(part) - 1.0) * alpha
        Where(x < 0.0, cast(grown, dtype(x)), x)
    Elu EluExt: x, alpha: float = 1.0 -> Elu(x, alpha=alpha)
    FastGeLU FastGelu: x -> x * Sigmoid(x * 1.702)
    GeLU: x -> Gelu(x, approximate="tanh")
    GeluExt: x, approximate: int = 0 -> Gelu(x, approximate="tanh" if approximate else "none")
    GLU(False) Swiglu(True): first_is_gate, x, dim: int = -1 ->
        # Split, Sigmoid, Mul.
        size = shape(x)[dim]
        halves = None if size is None else [size // 2] * 2
        first, second = ops("Split", 2, x, halves, axis=dim, num_outputs=None if halves else 2)
        first * Sigmoid(first) * second if first_is_gate else first * Sigmoid(second)
    Hardtanh: x, min_val: float = -1.0, max_val: float = 1.0 ->
        bound_for_nan(Clip(x, min_val, max_val), min_val)
    HShrink: x, lambd: float = 0.5 -> Where(Abs(x) <= lambd, 0, x)
    HSwish: x ->
        # HardSwish; of float64, which has more digits than its factor, the product with HSigmoid.
        if dtype(x) is DOUBLE:
            return Where(x <= -3, 0, x * hsigmoid(x))
        cast(HardSwish(floating(x)), dtype(x))
    LeakyRelu LeakyReLUExt: x, negative_slope: float = 0.01 -> LeakyRelu(x, alpha=negative_slope)
    LogSigmoid: x ->
        # Neg of Softplus of Neg, and the buffer that training would read.
        y = -Softplus(-x)
        (y, y)
    LogSoftmax LogSoftmaxExt: x, axis: int = -1, dtype: Dtype | None = None ->
        # LogSoftmax.
        along("LogSoftmax", cast(x, dtype or dtype(x)), axis)
    Mish MishExt: x ->
        # Mish, in float32 where not in float64.
        cast(Mish(x if dtype(x) is DOUBLE else cast(x, FLOAT)), dtype(x))
    ReLU6: x -> Clip(x, 0, 6)
    SeLU SeLUExt: x -> op("Selu" if is_float(x) else "Relu", x)
    Sigmoid: x -> Sigmoid(x)
    SiLU: x -> x * Sigmoid(x)
    Softmax: x, axis: Ints = (-1,) ->
        # Softmax; over several dimensions as Exp over its sum.
        if len(axis) == 1 or rank(x) == 0:
            return along("Softmax", x, axis[0])
        peak = ReduceMax(x, axis, keepdims=1)
        grown = Exp(x - peak)
        grown / ReduceSum(grown, axis, keepdims=1)
    Softplus: x -> Softplus(x)
    SoftplusExt: x, beta: float = 1.0, threshold: float = 20.0 ->
        # Softplus of beta times x over beta, and x itself over the threshold.
        scaled = x if beta == 1 else x * beta
        soft = Softplus(scaled)
        soft = soft if beta == 1 else soft / beta
        Where(scaled > threshold, x, soft)
    SoftShrink: x, lambd: float = 0.5 -> Shrink(x, lambd=lambd, bias=lambd)
    Softsign: x -> Softsign(x)
    Tanh: x -> Tanh(x)
    Threshold: x, threshold: float, value: float -> Where(x > threshold, x, value)
    """,
)


@primitive("ReLU")
def relu(b: Builder, x: Tensor) -> Value:
    """Relu; of ints Max; of Abs, where it only makes NaN 0, Where."""
    if not b.dtype(x).is_floating_point():
        return b.op("Max", x, 0)
    node = x.producer()
    if node is None or node.op_type != "Abs":
        return b.op("Relu", x)
    return b.op("Where", b.op("IsNaN", x), b.like(0, x), x)


@function
@primitive("HSigmoid")
def hsigmoid(b: Builder, x: Tensor) -> Value:
    """HardSigmoid; of float64, which has more digits than its attribute, Clip of x / 6 + 1 / 2."""
    if b.dtype(x) is not ir.DataType.DOUBLE:
        return b.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)
    return b.op("Clip", b.op("Add", b.op("Div", x, 6), 0.5), b.like(0, x), b.like(1, x))


@primitive("PReLU")
def prelu(b: Builder, x: Tensor, weight: Tensor) -> Value:
    """PRelu, a slope for each channel."""
    if b.rank(x) > 2 and b.static_shape(weight) not in ((1,), ()):
        weight = b.reshape(weight, [-1, *[1] * (b.rank(x) - 2)])
    own = b.result(x)
    x, weight = promoted(b, x, weight)
    return b.cast(b.op("PRelu", x, b.reshape(weight, []) if b.rank(x) == 0 else weight), own)


@function
def _along(b: Builder, op_type: str, x: Tensor, axis: int) -> Tensor:
    """An operator along an axis; a scalar is one element."""
    if b.rank(x) == 0:
        return b.op("Squeeze", b.op(op_type, b.op("Unsqueeze", x, [0]), axis=0), [0])
    return b.op(op_type, x, axis=axis)
