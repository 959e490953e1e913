"""Primitives of MindSpore Lite that mean what MindSpore's of the same name mean."""

from __future__ import annotations

NAMES = """
    Abs AllGather Assign AssignAdd BinaryCrossEntropy BroadcastTo Ceil Cos Depend Elu Equal Erf FillV2
    Flatten Floor FloorDiv FloorMod GLU Gather GatherD GatherNd Greater GreaterEqual IsFinite LeakyRelu Less
    LessEqual Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr NLLLoss Neg NonZero NotEqual OnesLike
    PartialFusion RaggedRange Range Reciprocal ReverseSequence ReverseV2 Round Rsqrt ScatterNd
    ScatterNdUpdate Select SigmoidCrossEntropyWithLogits Sin SmoothL1Loss SoftmaxCrossEntropyWithLogits
    SparseSoftmaxCrossEntropyWithLogits Sqrt Square Squeeze Switch TensorScatterAdd Tril Triu Unique
    UnsortedSegmentSum Unstack ZerosLike
"""
