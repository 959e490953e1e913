"""Limits of constant folding, the computation from constants alone before the first run.

A few bytes can declare constants of any size, and products, sums and copies of them. So the sizes of folded
results are estimated from above, node by node: by the number of input elements, and where that makes them
large, by ONNX's inference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import onnx_ir as ir

from pinnace import bounds
from pinnace.graph import shape_data
from pinnace.graph.inference import infer, opset_of
from pinnace.graph.walk import inner_graphs, nodes
from pinnace.weights.source import size_of

_MAX_RESULT = 1 << 26
"""Bytes of one result; more if the weights are larger."""
_LARGE_RESULT = 1 << 23
"""Bytes of one result that real models do not exceed, except by transformed weights."""
_SMALL = 1 << 14
"""Elements of one result up to which inference is not asked whether it is smaller."""
_MAX_RANK = 64
"""Elements of a tensor that holds a shape."""
_COPIES_OF_WEIGHTS = 4
"""Factor by which the weights may be folded: transposed, cast, scaled."""
_PRODUCTS_PER_BYTE = 64
"""Multiplications for each byte of the weights; DeBERTa's products of positions take half of it."""

_SIZED = ("ConstantOfShape", "Expand", "Tile")
"""Operators whose result size is the product of their last input's values and the size of the others."""
_UNBOUNDED = ("OneHot", "Pad", "Range", "Resize", "Upsample")
"""Operators whose result size is not estimated."""
_NOT_LARGER = ("Cast", "Clip", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose results have no more elements than their first input."""
_PRODUCTS = ("Gemm", "MatMul", "MatMulInteger", "QLinearMatMul")
_WINDOWS = ("Conv", "Pool", "Einsum", "LSTM", "GRU", "RNN", "DFT", "STFT", "GridSample", "RoiAlign")
"""Parts of the names of operators that read an element many times."""


class Allowance(NamedTuple):
    """The constant folding that is allowed: results of up to `max_result` bytes, and none unless `folds`.

    `whole` means that everything in real models is folded, `fits` that everything in this model is.
    """

    max_result: int
    folds: bool
    whole: bool
    fits: bool


class _Folded(NamedTuple):
    """A result of constants: its size, or the maximum of it unless `exact`."""

    bytes: float
    exact: bool


def allowance(model: ir.Model) -> Allowance:
    """Return the constant folding of a model without functions that is within the bounds of a build."""
    estimate = _Estimate(model)
    if estimate.is_small():
        return Allowance(_MAX_RESULT, True, True, True)
    weights = estimate.weights()
    total = bounds.FOLDED + _COPIES_OF_WEIGHTS * sum(weights)
    limit = first = max(_MAX_RESULT, sum(weights))
    while limit and sum(_size_within(folded, limit) for folded in estimate.folded) > total:
        limit //= 2
    folds = estimate.products(limit) <= bounds.PRODUCTS + _PRODUCTS_PER_BYTE * sum(weights)
    whole = folds and limit >= min(first, max(_LARGE_RESULT, *weights))
    fits = not any(folded.bytes > limit and folded.exact for folded in estimate.folded)
    return Allowance(limit, folds, whole, fits)


def _size_within(folded: _Folded, limit: int) -> float:
    """Return the maximum bytes of a result if larger ones than `limit` are not folded."""
    return folded.bytes if folded.bytes <= limit else 0 if folded.exact else limit


class _Estimate:
    """The folded results of a model's constants, and the factors of each product."""

    def __init__(self, model: ir.Model) -> None:
        self.folded: list[_Folded] = []
        self._factors: list[tuple[bool, tuple[float, ...]]] = []
        self._model = model
        self._tensors: dict[int, ir.TensorProtocol] = {}  # of nodes Constant, by id: inlining repeats them
        self._elements: dict[ir.Value, float] = {}  # of constants
        self._not_inferred: set[ir.Value | None] = set()  # what reads these is not tried either
        for node in nodes(model.graph):
            self._node(node)

    def is_small(self) -> bool:
        """Return True if this is within all bounds, whatever the weights are."""
        sizes = [folded.bytes for folded in self.folded]
        small = max(sizes, default=0) <= _MAX_RESULT and sum(sizes) <= bounds.FOLDED
        return small and self.products(_MAX_RESULT) <= bounds.PRODUCTS

    def weights(self) -> list[int]:
        """Bytes of the constants in the file."""
        held = (v.const_value for g in self._model.graphs() for v in g.initializers.values())
        tensors = self._tensors | {id(tensor): tensor for tensor in held if tensor is not None}
        return [0, *map(size_of, tensors.values())]

    def products(self, limit: int) -> float:
        """Return the number of multiplications if no result has more than `limit` bytes."""
        most = max(limit, 1)
        return sum(
            math.sqrt(math.prod(min(n, most) for n in factors)) if is_product else math.prod(factors)
            for is_product, factors in self._factors
        )

    def _node(self, node: ir.Node) -> None:
        if inner := inner_graphs(node):
            if node.op_type == "If":  # engines replace one with a constant condition by its branch
                for results in zip(node.outputs, *(g.outputs for g in inner), strict=False):
                    self._elements[results[0]] = max(map(self._size, results[1:]))
        elif node.op_type in ("Shape", "Size"):
            self._elements[node.outputs[0]] = _MAX_RANK
        elif node.op_type == "Constant":
            given = node.attributes.get("value")
            if given is not None and given.type is ir.AttributeType.TENSOR:
                self._tensors[id(given.value)] = given.value
                self._elements[node.outputs[0]] = _elements_of(given.value)
            else:
                self._elements[node.outputs[0]] = _MAX_RANK
        elif not node.op_type.startswith("Random"):
            sizes = []
            for value in node.inputs:
                if value is not None:
                    if (elements := self._size(value)) < 0:
                        return
                    sizes.append(elements)
            self._compute(node, sizes)

    def _size(self, value: ir.Value) -> float:
        """Return the number of elements of a constant; -1 for any other value."""
        if value not in self._elements:
            held = value.const_value if value.is_initializer() else None
            self._elements[value] = -1 if held is None else _elements_of(held)
        return self._elements[value]

    def _compute(self, node: ir.Node, inputs: list[float]) -> None:
        most = _max_elements(node, inputs)
        for output in node.outputs:
            if most > _SMALL and self._not_inferred.isdisjoint(node.inputs):
                infer(output, opset_of(self._model))
            if most > _SMALL and output.shape is None:
                self._not_inferred.add(output)
            static = output.shape.numpy() if output.shape is not None and output.shape.is_static() else None
            size = most if static is None else float(math.prod(static))
            width = 8 if output.dtype in (None, ir.DataType.STRING) else output.dtype.itemsize
            self._elements[output] = size
            self.folded.append(_Folded(size * width, static is not None))
        largest = max(map(self._size, node.outputs), default=0.0)
        if node.op_type in _PRODUCTS:
            self._factors.append((True, (*inputs[:2], largest)))
        elif (node.domain == "com.microsoft" and "Quantize" not in node.op_type) or _is_window(node):
            window = math.prod(map(float, node.attributes.get_ints("kernel_shape", ())))
            self._factors.append((False, (*inputs, window)))


def _elements_of(tensor: ir.TensorProtocol) -> float:
    try:
        return float(tensor.size)  # products of many overflow to infinity
    except (TypeError, ValueError):
        return -1


def _is_window(node: ir.Node) -> bool:
    return any(part in node.op_type for part in _WINDOWS)


def _max_elements(node: ir.Node, inputs: Sequence[float]) -> float:
    """Return the maximum number of elements of a result, by those of the inputs."""
    sizes = [max(n, 1.0) for n in inputs]
    if node.op_type in _SIZED:
        shape = _constant_shape(node.inputs[-1])
        return math.inf if shape is None else math.prod([*shape, *sizes[:-1]])
    if not sizes or node.op_type in _UNBOUNDED or _is_window(node):
        return math.inf
    return sizes[0] if node.op_type in _NOT_LARGER else max(sum(sizes), math.prod(sizes))


def _constant_shape(value: ir.Value | None) -> list[float] | None:
    """Return the elements of a shape that is a constant in the file, each at least 1; else None."""
    known = shape_data.exact(value)
    return None if known is None else [max(float(n), 1.0) for n in known.reshape(-1)]
