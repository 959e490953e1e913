"""The work of a graph: what its nodes compute, in classes whose speed differs between engines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import onnx_ir as ir

from pinnace.compiler.failures import MISFITS
from pinnace.compiler.nodes import inner_graphs
from pinnace.engines.speed.sizes import Dims, Sizes

CONVOLUTIONS = frozenset(("conv", "pointwise", "depthwise", "grouped", "unblocked", "volume"))
"""Kinds of work that are convolutions."""
_READS_WEIGHTS = ("product", "vector")
"""Kinds of work whose speed depends on the weights of all products."""
_FEW_ROWS = 4
"""Rows up to which a product is limited by reading its weights."""


class NodeWork(NamedTuple):
    """The work of one node: multiplications of a convolution or product, else elements read and written.

    Its speed depends on `kind` and `size`: channels and pixels of a convolution; rows, inner dimension and
    the weights of all products of the graph; else elements. `weights` are those of a product. `integers` is
    True for what reads nothing but quantised tensors.
    """

    kind: str
    amount: float
    size: tuple[float, ...]
    weights: int = 0
    integers: bool = False


def works(graph: ir.Graph) -> list[NodeWork]:
    """Return the work of all nodes of a graph, of those in loops once.

    Nodes that engines fuse with the one before are left out.
    """
    found = list(_works(graph, Sizes()))
    weights = float(sum(work.weights for work in found))  # do they stay in the processor's caches?
    return [
        work._replace(size=(*work.size, weights)) if work.kind in _READS_WEIGHTS else work for work in found
    ]


def _works(graph: ir.Graph, sizes: Sizes) -> Iterator[NodeWork]:
    for node in graph:
        if node.op_type == "Constant":  # half of the nodes of some files
            continue
        for inner in inner_graphs(node):
            yield from _works(inner, sizes)
        given = [sizes.of(value) for value in node.inputs if value is not None]
        try:
            work = _work(node, given, sizes.results(node, given))
        except MISFITS:  # a rank is unknown, or the node is invalid, which the engine reports
            continue
        if work is not None:
            yield work


_KINDS = {
    operator: kind
    for kind, operators in {
        "elementwise": "Abs Add And Ceil Clip Div Equal Floor Greater LeakyRelu Less Max Min Mul Neg Not Or "
        "Pow PRelu Reciprocal Relu Sqrt Sub Where",
        "erf": "Erf Gelu Log Mish Softplus Tanh",
        "sigmoid": "Elu Exp HardSigmoid HardSwish Sigmoid Swish",
        "norm": "GroupNormalization InstanceNormalization LayerNormalization RMSNormalization",
        "pool": "AveragePool MaxPool",
        "recurrent": "GRU LSTM RNN",
        "reduction": "GlobalAveragePool GlobalMaxPool ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum",
        "softmax": "LogSoftmax Softmax",
        "view": "Flatten Reshape Shape Squeeze Unsqueeze",
        "": "BatchNormalization Constant Dropout Identity",
    }.items()
    for operator in operators.split()
}
"""Classes by operator; "" is nothing, as it is fused or removed. Other operators move elements."""

_PRODUCTS = ("BatchNormalization", "Conv", "ConvTranspose", "Gemm", "MatMul")
_ELEMENTWISE = ("elementwise", "erf", "sigmoid")


def _work(node: ir.Node, given: Sequence[Dims], taken: Sequence[Dims]) -> NodeWork | None:
    kind = _KINDS.get(node.op_type, "move")
    if not kind or not given or not taken:
        return None
    if kind in ("elementwise", "reduction") and _is_fused(node, kind):
        return None
    if node.op_type.startswith("Conv"):
        work = _convolution(given, taken[0], node.attributes.get_int("group", 1))
        return work._replace(integers=_reads_integers(node))
    if node.op_type in ("MatMul", "Gemm"):
        return _matrices(node, given, taken[0])._replace(integers=_reads_integers(node))
    written = float(sum(map(math.prod, taken)))
    read = written if kind == "move" else float(max(map(math.prod, given)))  # tables are read in part
    moved = 0.0 if kind == "view" else written + read
    if kind == "softmax":
        return NodeWork(kind, moved, (float(taken[0][-1]),))
    if kind == "reduction" and _normalises(node):
        return NodeWork("norm", moved, (moved,))
    if node.op_type in ("Slice", "Split") and len(taken[0]) == 4:
        kind = "cut"  # of images
    return NodeWork(kind, moved, (moved,))


def _is_fused(node: ir.Node, kind: str) -> bool:
    """Return True if engines compute a node with the one before: elementwise ones, a variance."""
    makers = [maker for value in node.inputs if value is not None and (maker := value.producer()) is not None]
    if kind == "reduction":
        return any(one.op_type in ("Pow", "Mul") and _of_differences(one) for one in makers)
    return any(one.op_type in _PRODUCTS or _KINDS.get(one.op_type) in _ELEMENTWISE for one in makers)


def _of_differences(square: ir.Node) -> bool:
    maker = None if square.inputs[0] is None else square.inputs[0].producer()
    return maker is not None and maker.op_type == "Sub"


def _normalises(mean: ir.Node) -> bool:
    """Return True for the mean of a normalisation that is spelled out."""
    return any(use.node.op_type == "Sub" for use in mean.outputs[0].uses())


def _dequantises(value: ir.Value | None) -> ir.Node | None:
    maker = None if value is None else value.producer()
    return maker if maker is not None and maker.op_type == "DequantizeLinear" else None


def _reads_integers(node: ir.Node) -> bool:
    return all(_dequantises(value) is not None for value in node.inputs[:2])


def _convolution(given: Sequence[Dims], taken: Dims, group: int) -> NodeWork:
    kernel = given[1]
    inner = math.prod(kernel[1:])
    amount = float(math.prod(taken) * inner)
    size = float(min(kernel[0], kernel[1] * group)), float(math.prod(taken[2:]))
    if len(kernel) == 5:
        kind = "volume"
    elif group > 1:
        kind = "grouped" if kernel[1] > 1 else "depthwise" if kernel[0] % 16 == 0 else "unblocked"
        size = (float(kernel[1]), size[1]) if kernel[1] > 1 else size
    else:
        kind = "pointwise" if math.prod(kernel[2:]) == 1 else "conv"
    return NodeWork(kind, amount, size)


def _matrices(node: ir.Node, given: Sequence[Dims], taken: Dims) -> NodeWork:
    inner = given[0][-1] if node.op_type == "MatMul" else math.prod(given[1]) // max(taken[-1], 1)
    amount, rows = float(math.prod(taken) * inner), math.prod(taken[:-1])
    maker = _dequantises(node.inputs[1])
    right = node.inputs[1] if maker is None else maker.inputs[0]
    if right is None or ir.convenience.get_const_tensor(right) is None:
        return NodeWork("attention", amount, (float(taken[-2] if len(taken) > 1 else 1), float(inner)))
    weights = inner * taken[-1]
    if rows <= _FEW_ROWS:
        return NodeWork("vector", float(weights), (), weights)
    return NodeWork("product", amount, (float(rows), float(min(inner, taken[-1]))), weights)
