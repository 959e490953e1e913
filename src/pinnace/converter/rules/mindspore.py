"""Rules of MindSpore's own dialect (see `rules`)."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.converter.primitives import Primitives, number_of
from pinnace.converter.rules import Rules, rules
from pinnace.converter.rules.shapes import broadcast, target
from pinnace.ops.formulas import function
from pinnace.ops.values import Unsupported

__all__ = ["RULES", "broadcast", "target"]


@function
def _number(b: Primitives, to: int) -> int:
    """MindSpore's number of an element type, from ONNX's."""
    return number_of(ir.DataType(to))


@function
def _folded(b: Primitives, primitive: str, *x: ir.Value) -> ir.Value:
    """A primitive of two operands over all."""
    result = x[0]
    for other in x[1:]:
        result = b.op(primitive, result, other)
    return result


@function
def _pads(b: Primitives, auto_pad: str, pads: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """What is added before and after each dimension: before and after the first, then the second, ..."""
    if auto_pad not in ("NOTSET", "VALID"):
        raise Unsupported(f"auto_pad is {auto_pad}")
    given = pads or (0,) * 2 * rank
    return tuple(given[i + side * rank] for i in range(rank) for side in (0, 1))


_ELEMENTWISE: Rules = rules(
    __name__,
    """
    Abs("Abs") Acos("ACos") Acosh("Acosh") Asin("Asin") Asinh("Asinh") Atan("Atan") Atanh("Atanh") Ceil("Ceil") Cos("Cos") Cosh("Cosh") Erf("Erf") Exp("Exp") Floor("Floor") HardSwish("HSwish") IsNaN("IsNan") Log("Log") Mish("Mish") Neg("Neg") Not("LogicalNot") Reciprocal("Reciprocal") Relu("ReLU") Round("Round") Sigmoid("Sigmoid") Sign("Sign") Sin("Sin") Sinh("Sinh") Softplus("Softplus") Softsign("Softsign") Sqrt("Sqrt") Tan("Tan") Tanh("Tanh") BitwiseNot("Invert"): primitive, X ->
        op(primitive, X)
    Add("Add") Sub("Sub") Mul("Mul") And("LogicalAnd") Or("LogicalOr") Xor("LogicalXor") Equal("Equal") Greater("Greater") GreaterOrEqual("GreaterEqual") Less("Less") LessOrEqual("LessEqual") BitwiseAnd("BitwiseAnd") BitwiseOr("BitwiseOr") BitwiseXor("BitwiseXor"): primitive, A, B ->
        op(primitive, A, B)
    Pow: X, Y -> Pow(X, cast(Y, dtype(X)))
    Div: A, B -> Div(A, B) if is_float(A) else TruncateDiv(A, B)
    Mod: A, B, fmod: int = 0 -> TruncateMod(A, B) if fmod else FloorMod(A, B)
    Max("Maximum") Min("Minimum") Sum("Add"): primitive, *inputs -> folded(primitive, *inputs)
    Where: condition, X, Y -> Select(condition, X, Y)
    Identity: x -> x
    Dropout; seed ratio: data, ratio: Value = None, training_mode: bool = False ->
        if training_mode:
            raise Unsupported("draws at random")
        data
    Cast; saturate: input, to: int -> Cast(input, number(to))
    Elu: X, alpha: float = 1.0 -> Elu(X, alpha)
    LeakyRelu: X, alpha: float = 0.01 -> LeakyReLUExt(X, alpha)
    Gelu: X, approximate: str = "none" -> GeluExt(X, 1 if approximate == "tanh" else 0)
    Softmax: input, axis: int = -1 -> Softmax(input, (axis,))
    LogSoftmax: input, axis: int = -1 -> LogSoftmax(input, axis)
    """,
)
_SHAPES: Rules = rules(
    __name__,
    """
    Shape: data, start: int = 0, end: int | None = None ->
        if start or end is not None:
            raise Unsupported("takes a part of the shape")
        TensorShape(data)
    Reshape: data, shape, allowzero: int = 0 -> Reshape(data, target(data, shape, allowzero))
    Flatten: input, axis: int = 1 -> Reshape(input, (room(shape(input)[:axis]), -1))
    Squeeze: data, axes: Ints | None = None -> Squeeze(data, axes or ())
    Unsqueeze: data, axes: Ints ->
        for axis in sorted([a % (rank(data) + len(axes)) for a in axes]):
            data = ExpandDims(data, axis)
        data
    Transpose: data, perm: Ints | None = None ->
        Transpose(data, perm or tuple(range(rank(data)))[::-1])
    Concat: *inputs, axis: int -> Concat(inputs, axis)
    Expand: input, shape: Ints -> BroadcastTo(input, broadcast(input, shape))
    Tile: input, repeats: Ints -> Tile(input, repeats)
    Gather: data, indices, axis: int = 0 -> Gather(data, indices, axis)
    GatherElements: data, indices, axis: int = 0 -> GatherD(data, axis, indices)
    """,
)
_NETWORKS: Rules = rules(
    __name__,
    """
    MatMul: A, B -> MatMulExt(A, B)
    Conv: X, W, B = None, auto_pad: str = "NOTSET", dilations: Ints = (), group: int = 1, kernel_shape: Ints = (), pads: Ints = (), strides: Ints = () ->
        pads = pads(auto_pad, pads, 2)
        if rank(X) != 4:
            raise Unsupported("is not over two dimensions")
        y = Conv2D(X, W, out_channel=shape(W)[0], kernel_size=shape(W)[2:], mode=1, pad_mode="pad", pad=pads, pad_list=pads, stride=(1, 1, *(strides or (1, 1))), dilation=(1, 1, *(dilations or (1, 1))), group=group, groups=group)
        y if B is None else BiasAdd(y, B)
    """,
)
RULES: Rules = {**_ELEMENTWISE, **_SHAPES, **_NETWORKS}
