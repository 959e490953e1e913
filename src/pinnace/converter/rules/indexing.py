"""Elements at places that indices tell, taken and set by primitives (see `rules`)."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.converter.primitives import Primitives
from pinnace.converter.rules import operators, rule
from pinnace.converter.rules.int32 import from_int32, in_int32
from pinnace.converter.rules.layout import elementwise, over_images, transposed
from pinnace.graph.failures import Unsupported
from pinnace.ops.table import Tensor
from pinnace.program import Dialect


@operators(Gather="Gather", GatherElements="GatherD")
def _gathered(op: Primitives, primitive: str, data: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    axis = axis % op.rank(data) if op.lite else axis
    operands = (data, indices, axis) if primitive == "Gather" else (data, axis, indices)
    return op.op(primitive, *operands)


def GatherND(op: Primitives, data: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    if batch_dims:
        raise Unsupported(f"has {batch_dims} batch dimensions, and GatherNd none")
    return op.GatherNd(data, indices)


def ScatterElements(
    op: Primitives, data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none"
) -> Tensor:
    if reduction not in (("none",) if op.lite else ("none", "add")):
        raise Unsupported(f"has reduction {reduction}, which the primitive lacks")
    if op.lite:
        return op.ScatterElements(data, indices, updates, axis=axis)
    return op.TensorScatterElements(data, indices, updates, axis, int(reduction == "add"))


Scatter = ScatterElements


def ScatterND(
    op: Primitives, data: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none"
) -> Tensor:
    if op.lite and reduction not in ("none", "add"):
        raise Unsupported(f"has reduction {reduction}, which the primitive lacks")
    if op.lite and reduction == "none":
        if op.dtype(data) is ir.DataType.BOOL:
            raise Unsupported("is of BOOL, of which Lite has no product that copies it")
        # The primitive changes its operand, which other nodes read, and a constant also for later requests.
        return op.ScatterNdUpdate(elementwise(op, "Mul", data, op.like(1, data)), indices, updates)
    kind = "Update" if reduction == "none" else reduction.capitalize()
    return op.op(f"TensorScatter{kind}", data, indices, updates)


@rule(Dialect.LITE)
def OneHot(op: Primitives, indices: Tensor, depth: Tensor, values: Tensor, axis: int = -1) -> Tensor:
    return op.OneHot(indices, in_int32(op, depth), values, axis=axis % (op.rank(indices) + 1))


def NonZero(op: Primitives, x: Tensor) -> Tensor:
    if op.lite:
        return from_int32(op, transposed(op, op.Where(x), (1, 0)), ir.DataType.INT64)
    return op.Transpose(op.NonZero(x), (1, 0))


@rule(Dialect.LITE)
def ReverseSequence(
    op: Primitives, x: Tensor, sequence_lens: Tensor, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    return op.ReverseSequence(x, sequence_lens, seq_dim=time_axis, batch_dim=batch_axis)


def Trilu(op: Primitives, x: Tensor, k: int = 0, upper: int = 1) -> Tensor:
    primitive = "Triu" if upper else "Tril"
    return op.op(primitive, x, op.constant(k, np.int64)) if op.lite else op.op(primitive, x, diagonal=k)


def DepthToSpace(op: Primitives, x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    if op.lite:
        return over_images(op, "DepthToSpace", [x], block_size=blocksize, mode=mode)
    if mode == "CRD":
        raise Unsupported("has mode CRD, and DepthToSpace DCR")
    return op.DepthToSpace(x, block_size=blocksize)


@rule(Dialect.LITE)
def SpaceToDepth(op: Primitives, x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    if mode != "DCR":
        raise Unsupported(f"has mode {mode}, and SpaceToDepth DCR")
    return over_images(op, "SpaceToDepth", [x], block_size=blocksize)
