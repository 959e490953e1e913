"""Activation functions."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.ops.arithmetic import bound_for_nan
from pinnace.ops.builder import Builder
from pinnace.ops.math import floating, promoted
from pinnace.ops.table import Dtype, Ints, Tensor, primitive, same
from pinnace.ops.values import Value

same(
    __name__,
    {
        "Sigmoid": "Sigmoid",
        "Softsign": "Softsign",
        "Tanh": "Tanh",
    },
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


@primitive("ReLU6")
def relu6(b: Builder, x: Tensor) -> Value:
    """Clip to [0, 6]."""
    return b.op("Clip", x, b.like(0, x), b.like(6, x))


@primitive("Hardtanh")
def hardtanh(b: Builder, x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    """Clip; the lower bound for NaN."""
    return bound_for_nan(b, b.op("Clip", x, b.like(min_val, x), b.like(max_val, x)), min_val)


@primitive("HSigmoid")
def hsigmoid(b: Builder, x: Tensor) -> Value:
    """HardSigmoid; of float64, which has more digits than its attribute, Clip of x / 6 + 1 / 2."""
    if b.dtype(x) is not ir.DataType.DOUBLE:
        return b.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)
    return b.op("Clip", b.op("Add", b.op("Div", x, 6), 0.5), b.like(0, x), b.like(1, x))


@primitive("HSwish")
def hswish(b: Builder, x: Tensor) -> Value:
    """HardSwish; of float64, which has more digits than its factor, the product with HSigmoid."""
    if b.dtype(x) is ir.DataType.DOUBLE:
        low = b.op("LessOrEqual", x, b.like(-3, x))
        return b.op("Where", low, b.like(0, x), b.op("Mul", x, hsigmoid(b, x)))
    return b.cast(b.op("HardSwish", floating(b, x)), b.dtype(x))


@primitive("Softplus")
def softplus(b: Builder, x: Tensor) -> Value:
    """Softplus."""
    return b.op("Softplus", x)


@primitive("Mish", "MishExt")
def mish(b: Builder, x: Tensor) -> Value:
    """Mish, in float32 where not in float64."""
    dtype = b.dtype(x)
    return b.cast(b.op("Mish", x if dtype is ir.DataType.DOUBLE else b.cast(x, ir.DataType.FLOAT)), dtype)


@primitive("SiLU")
def silu(b: Builder, x: Tensor) -> Value:
    """Sigmoid and Mul."""
    return b.op("Mul", x, b.op("Sigmoid", x))


@primitive("LogSigmoid")
def log_sigmoid(b: Builder, x: Tensor) -> Value:
    """Neg of Softplus of Neg, and the buffer that training would read."""
    y = b.op("Neg", softplus(b, b.op("Neg", x)))
    return y, y


@primitive("GeLU")
def gelu(b: Builder, x: Tensor) -> Value:
    """Gelu, the tanh form."""
    return b.op("Gelu", x, approximate="tanh")


@primitive("GeluExt")
def gelu_ext(b: Builder, x: Tensor, approximate: int = 0) -> Value:
    """Gelu."""
    return b.op("Gelu", x, approximate="tanh" if approximate else "none")


@primitive("FastGeLU", "FastGelu")
def fast_gelu(b: Builder, x: Tensor) -> Value:
    """Sigmoid of 1.702 x, and Mul."""
    return b.op("Mul", x, b.op("Sigmoid", b.op("Mul", x, 1.702)))


@primitive("Elu", "EluExt")
def elu(b: Builder, x: Tensor, alpha: float = 1.0) -> Value:
    """Elu."""
    return b.op("Elu", x, alpha=alpha)


@primitive("CeLU")
def celu(b: Builder, x: Tensor, alpha: float = 1.0) -> Value:
    """Elu of a part, and Mul."""
    if alpha == 1:
        return b.op("Elu", x)
    part = b.op("Div", x, alpha)
    if alpha > 0:
        return b.op("Mul", b.op("Elu", part), alpha)
    grown = b.op("Mul", b.op("Sub", b.op("Exp", part), 1.0), alpha)
    return b.op("Where", b.op("Less", x, 0.0), grown, x)


@primitive("SeLU", "SeLUExt")
def selu(b: Builder, x: Tensor) -> Value:
    """Selu; Relu of ints, whose negative values MindSpore makes 0."""
    return b.op("Selu" if b.dtype(x).is_floating_point() else "Relu", x)


@primitive("LeakyRelu", "LeakyReLUExt")
def leaky_relu(b: Builder, x: Tensor, negative_slope: float = 0.01) -> Value:
    """LeakyRelu."""
    return b.op("LeakyRelu", x, alpha=negative_slope)


@primitive("PReLU")
def prelu(b: Builder, x: Tensor, weight: Tensor) -> Value:
    """PRelu, a slope for each channel."""
    if b.rank(x) > 2 and b.static_shape(weight) not in ((1,), ()):
        weight = b.reshape(weight, [-1, *[1] * (b.rank(x) - 2)])
    own = b.result(x)
    x, weight = promoted(b, x, weight)
    return b.cast(b.op("PRelu", x, b.reshape(weight, []) if b.rank(x) == 0 else weight), own)


@primitive("HShrink")
def hshrink(b: Builder, x: Tensor, lambd: float = 0.5) -> Value:
    """Where: 0 between the bounds."""
    return b.op("Where", b.op("LessOrEqual", b.op("Abs", x), lambd), b.like(0, x), x)


@primitive("SoftShrink")
def soft_shrink(b: Builder, x: Tensor, lambd: float = 0.5) -> Value:
    """Shrink."""
    return b.op("Shrink", x, lambd=lambd, bias=lambd)


@primitive("Threshold")
def threshold(b: Builder, x: Tensor, threshold: float, value: float) -> Value:
    """Where: the value where the threshold is not passed."""
    return b.op("Where", b.op("Greater", x, b.like(threshold, x)), x, b.like(value, x))


@primitive("SoftplusExt")
def softplus_ext(b: Builder, x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """Softplus of beta times x over beta, and x itself over the threshold."""
    scaled = x if beta == 1 else b.op("Mul", x, beta)
    soft = softplus(b, scaled)
    soft = soft if beta == 1 else b.op("Div", soft, beta)
    return b.op("Where", b.op("Greater", scaled, threshold), x, soft)


@primitive("Softmax")
def softmax(b: Builder, x: Tensor, axis: Ints = (-1,)) -> Value:
    """Softmax; over several dimensions as Exp over its sum."""
    if b.rank(x) == 0:
        return b.op("Squeeze", b.op("Softmax", b.op("Unsqueeze", x, [0]), axis=0), [0])
    if len(axis) == 1:
        return b.op("Softmax", x, axis=axis[0])
    peak = b.op("ReduceMax", x, list(axis), keepdims=1)
    grown = b.op("Exp", b.op("Sub", x, peak))
    return b.op("Div", grown, b.op("ReduceSum", grown, list(axis), keepdims=1))


@primitive("LogSoftmax", "LogSoftmaxExt")
def log_softmax(b: Builder, x: Tensor, axis: int = -1, dtype: Dtype | None = None) -> Value:
    """LogSoftmax."""
    x = b.cast(x, dtype or b.dtype(x))
    if b.rank(x) == 0:
        return b.op("Squeeze", b.op("LogSoftmax", b.op("Unsqueeze", x, [0]), axis=0), [0])
    return b.op("LogSoftmax", x, axis=axis)


@primitive("GLU")
def glu(b: Builder, x: Tensor, dim: int = -1) -> Value:
    """Split, Sigmoid, Mul."""
    value, gate = _halves(b, x, dim)
    return b.op("Mul", value, b.op("Sigmoid", gate))


def _halves(b: Builder, x: Tensor, axis: int) -> tuple[Tensor, ...]:
    size = b.shape(x)[axis]
    if size is None:
        return b.ops("Split", 2, x, axis=axis, num_outputs=2)
    return b.ops("Split", 2, x, [size // 2] * 2, axis=axis)


@primitive("Swiglu")
def swiglu(b: Builder, x: Tensor, dim: int = -1) -> Value:
    """Split, Sigmoid, Mul."""
    gate, value = _halves(b, x, dim)
    return b.op("Mul", silu(b, gate), value)
