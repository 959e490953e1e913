"""Traits of ONNX's operators: what holds of a result whatever the numbers are, a row for each operator.

What one engine computes right or fast is no trait, and stands with that engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Flag, auto


class Trait(Flag):
    """Properties of an operator; those of a result hold for its first input, where nothing else is said."""

    SHAPED = auto()
    """The shapes of the inputs bound the size of the result and the time of a run."""
    FILLED = auto()
    """The result has elements if the input has."""
    FILLED_BY_ALL = auto()
    """The result has elements if all inputs have."""
    ELEMENTWISE = auto()
    """Each element of the result follows from the element of the input in its place."""
    BROADCASTING = auto()
    """Each element of the result follows from those of all inputs in its place, which are broadcast."""
    MOVING = auto()
    """Each element of the result is one of the input."""
    LINEAR = auto()
    """The result for a sum is the sum of the results."""
    REDUCING = auto()
    """The result has one element for all along some axes of the input."""
    NORMALIZING = auto()
    """The result for what lies along an axis, or from it on, follows from that alone."""
    RANDOM = auto()
    """Each run gives another result."""


_T = Trait
_SHAPED, _FILLED, _OF_ALL = _T.SHAPED, _T.SHAPED | _T.FILLED, _T.SHAPED | _T.FILLED_BY_ALL
_ELEMENTWISE, _REDUCING = _FILLED | _T.ELEMENTWISE, _FILLED | _T.REDUCING
_MOVING = _T.MOVING | _T.LINEAR


def _rows() -> Iterator[tuple[Trait, str]]:
    """Yield traits, with the operators that have these and no others."""
    yield (
        _ELEMENTWISE,
        "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh",
    )
    yield _ELEMENTWISE, "Elu Erf Exp Floor Gelu HardSigmoid HardSwish IsInf IsNaN LeakyRelu Log Mish"
    yield _ELEMENTWISE, "Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt"
    yield _ELEMENTWISE, "Swish Tan Tanh ThresholdedRelu"
    yield _ELEMENTWISE | _T.RANDOM, "Dropout"  # for training
    yield _ELEMENTWISE | _T.LINEAR, "Neg"
    yield _ELEMENTWISE | _MOVING, "Identity"

    yield _OF_ALL | _T.BROADCASTING, "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater"
    yield _OF_ALL | _T.BROADCASTING, "GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul Or PRelu Pow Sub"
    yield _OF_ALL | _T.BROADCASTING, "Sum Where Xor"

    yield _FILLED | _MOVING, "DepthToSpace Flatten Reshape Squeeze Transpose Unsqueeze"
    yield _OF_ALL | _MOVING, "Gather GatherElements GatherND"
    yield _SHAPED | _MOVING, "Compress ReverseSequence Slice Split"
    yield _MOVING, "Expand SpaceToDepth Tile"
    yield _SHAPED | _T.LINEAR, "Concat"

    yield (
        _REDUCING,
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd",
    )
    yield _REDUCING, "ReduceSumSquare"
    yield _REDUCING | _T.LINEAR, "ReduceSum"
    yield _OF_ALL | _T.REDUCING, "ArgMax ArgMin"

    yield _FILLED | _T.NORMALIZING, "LogSoftmax Softmax"
    yield _OF_ALL | _T.NORMALIZING, "LayerNormalization RMSNormalization"
    yield _FILLED, "GlobalAveragePool GlobalMaxPool Hardmax LRN LpNormalization MeanVarianceNormalization"
    yield _FILLED, "ScatterElements ScatterND SimplifiedLayerNormalization Size Trilu"
    yield (
        _OF_ALL,
        "BatchNormalization CumSum DequantizeLinear DynamicQuantizeLinear Einsum GRU Gemm GridSample",
    )
    yield _OF_ALL, "GroupNormalization InstanceNormalization LSTM MatMul MatMulInteger QLinearMatMul"
    yield _OF_ALL, "QuantizeLinear RNN"
    yield (
        _SHAPED,
        "AveragePool Conv ConvTranspose GatherBlockQuantized MaxPool NonMaxSuppression NonZero TopK",
    )
    yield _SHAPED, "Unique"

    yield _T.RANDOM, "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"


def _rows_of_microsoft() -> Iterator[tuple[Trait, str]]:
    yield _FILLED, "Attention BiasGelu DynamicQuantizeMatMul FastGelu FusedGemm FusedMatMul Gelu"
    yield _FILLED, "GroupQueryAttention MatMulIntegerToFloat MatMulNBits MultiHeadAttention QAttention QGemm"
    yield _FILLED, "QLinearAdd QLinearMul QuickGelu RotaryEmbedding SkipLayerNormalization"
    yield _FILLED, "SkipSimplifiedLayerNormalization"


MICROSOFT = "com.microsoft"
_TABLES = {
    domain: {name: traits for traits, names in rows for name in names.split()}
    for domain, rows in (("", _rows()), (MICROSOFT, _rows_of_microsoft()))
}


def having(trait: Trait, domain: str = "") -> frozenset[str]:
    """Return the names of the operators of a domain that have one of these traits."""
    return frozenset(name for name, traits in _TABLES[domain].items() if trait & traits)
