"""Computation of single nodes by ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from pinnace.types import Array

_RIGHT = """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BitCast BitShift BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Compress Concat Constant
    ConstantOfShape Cos Cosh CumProd CumSum DepthToSpace Div Einsum Elu Equal Erf Exp Expand EyeLike
    Flatten Floor Gather GatherElements GatherND Gelu Gemm Greater GreaterOrEqual HardSigmoid HardSwish
    Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log MatMul Max Mean MelWeightMatrix Min Mish Mod Mul
    Neg NonZero Not OneHot OptionalHasElement Or Pad Pow QuantizeLinear Range Reciprocal ReduceL1
    ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu
    Reshape ReverseSequence Round ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size
    Slice Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu Tile TopK
    Transpose Trilu Unique Unsqueeze Where Xor
"""
EVALUATED = frozenset(_RIGHT.split())
"""Operators that ONNX's reference computes as onnxruntime does, which a test compares.

It is wrong for others: GlobalMaxPool of one dimension, Softmax before set 13, LSTM with lengths,
ConvTranspose with `output_shape`, Softplus of great numbers.
"""


def evaluated(node: ir.Node, opset: int, given: Sequence[Any]) -> list[Any] | None:
    """Return the results of a node for the values of its inputs in order, None for an input that it lacks.

    Returns None where the reference implementation refuses, and for operators that it may compute wrongly.
    """
    if node.op_type not in EVALUATED or node.domain not in ("", "ai.onnx"):
        return None
    from onnx.reference import ReferenceEvaluator  # takes 25 ms, which only a resize or a conversion needs

    try:
        if node.op_type == "GatherElements" and not node.domain:
            return [_gathered(given[0], given[1], node.attributes.get_int("axis", 0))]
        proto = ir.serde.serialize_node(node)
        # By names of their own: a node may read one value twice.
        values = {f"input{i}": value for i, value in enumerate(given) if value is not None}
        proto.input[:] = [f"input{i}" if f"input{i}" in values else "" for i in range(len(given))]
        ports = [onnx.ValueInfoProto(name=name) for name in values]
        results = [onnx.ValueInfoProto(name=name) for name in proto.output]
        graph = onnx.helper.make_graph([proto], "folded", ports, results)
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports)
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(model).run(None, values))
    except Exception:  # it refuses what it does not know in many ways
        return None


def _gathered(data: Array, indices: npt.NDArray[np.integer], axis: int) -> Array:
    """Return GatherElements, whose data may have more rows than its indices; ONNX's refuses these."""
    axis %= data.ndim
    rows = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))
    found: Array = np.take_along_axis(data[rows], indices, axis)
    return found
