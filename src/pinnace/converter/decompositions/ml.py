"""Operators of `ai.onnx.ml` as ONNX's own (see `rules`); those of text have none."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Floats, Tensor
from pinnace.ops.values import Value

DOMAIN = "ai.onnx.ml"
_FLOAT = ir.DataType.FLOAT


def Binarizer(op: Builder, x: Tensor, threshold: float = 0.0) -> Value:
    return op.cast(op.Greater(x, threshold), op.dtype(x))


def ArrayFeatureExtractor(op: Builder, x: Tensor, y: Tensor) -> Value:
    return op.Gather(x, op.Reshape(y, [-1]), axis=-1)


def Scaler(op: Builder, x: Tensor, offset: Floats = (0.0,), scale: Floats = (1.0,)) -> Value:
    return (op.cast(x, _FLOAT) - op.constant(offset, np.float32)) * op.constant(scale, np.float32)


def LinearRegressor(
    op: Builder,
    x: Tensor,
    coefficients: Floats,
    intercepts: Floats = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Value:
    if post_transform != "NONE":
        raise Unsupported(f"has post_transform {post_transform}, and only NONE can be written")
    weights = np.asarray(coefficients, np.float32).reshape(targets, -1).T
    y = op.MatMul(op.cast(x, _FLOAT), op.constant(weights))
    return y + op.constant(intercepts, np.float32) if intercepts else y


def Normalizer(op: Builder, x: Tensor, norm: str = "MAX") -> Value:
    x = op.cast(x, _FLOAT)
    if norm == "MAX":
        return x / op.ReduceMax(x, [-1])
    return op.LpNormalization(x, axis=-1, p=1 if norm == "L1" else 2)
