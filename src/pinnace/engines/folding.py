"""Bounds of constant folding, the computation from constants alone before the first run.

A few bytes can declare constants of any size, and products, sums and copies of them. So the sizes of folded
results are estimated from above, node by node: by ONNX's inference if they are large, else by the number of
input elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple, cast

import onnx
import onnx_ir as ir

from pinnace import bounds
from pinnace.graph.inference import infer_node, opset_of
from pinnace.graph.walk import inner_graphs
from pinnace.weights.source import size_of

_MAX_RESULT = 1 << 26
"""Bytes of one result; more if the weights are larger."""
_LARGE_RESULT = 1 << 23
"""Bytes of one result that real models do not exceed, except by transformed weights."""
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
    """Return the constant folding of a model that is within the bounds of a build."""
    estimate = _Estimate(model, thorough=False)
    if estimate.is_small():
        return Allowance(_MAX_RESULT, True, True, True)
    quick = _allowed(estimate)
    return quick if quick.whole and quick.fits else _allowed(_Estimate(model, thorough=True))


def _allowed(estimate: _Estimate) -> Allowance:
    total = bounds.FOLDED + _COPIES_OF_WEIGHTS * estimate.weights
    limit = first = max(_MAX_RESULT, estimate.weights)
    while limit and sum(_size_within(folded, limit) for folded in estimate.folded) > total:
        limit //= 2
    folds = estimate.products(limit) <= bounds.PRODUCTS + _PRODUCTS_PER_BYTE * estimate.weights
    whole = folds and limit >= min(first, max(_LARGE_RESULT, estimate.largest))
    fits = not any(estimate.is_beyond(folded, limit) for folded in estimate.folded)
    return Allowance(limit, folds, whole, fits)


def _size_within(folded: _Folded, limit: int) -> float:
    """Return the maximum bytes of a result if larger ones than `limit` are not folded."""
    return folded.bytes if folded.bytes <= limit else 0 if folded.exact else limit


class _Estimate:
    """The folded results of a model's constants, and the factors of each product."""

    def __init__(self, model: ir.Model, thorough: bool) -> None:
        """Use ONNX's inference if `thorough`."""
        self.folded: list[_Folded] = []
        self._factors: list[tuple[bool, tuple[float, ...]]] = []
        self._model, self._opset, self._thorough = model, opset_of(model), thorough
        self._tensors: dict[ir.Value, ir.TensorProtocol] = {}  # in the file; their sizes take a while to get
        self._elements: dict[ir.Value, float | ir.TensorProtocol] = {}  # of constants
        self.add(model.graph)

    def is_beyond(self, folded: _Folded, limit: int) -> bool:
        """Return True if a result is larger than `limit`, as far as the estimate shows."""
        return folded.bytes > limit and (folded.exact or not self._thorough)

    def is_small(self) -> bool:
        """Return True if this is within all bounds, whatever the weights are."""
        sizes = [folded.bytes for folded in self.folded]
        small = max(sizes, default=0) <= _MAX_RESULT and sum(sizes) <= bounds.FOLDED
        return small and self.products(_MAX_RESULT) <= bounds.PRODUCTS

    @cached_property
    def _sizes(self) -> list[int]:
        return [0, *map(size_of, self._tensors.values())]

    @property
    def weights(self) -> int:
        """Total bytes of the constants in the file."""
        return sum(self._sizes)

    @property
    def largest(self) -> int:
        """Bytes of the largest constant in the file."""
        return max(self._sizes)

    def products(self, limit: int) -> float:
        """Return the number of multiplications if no result has more than `limit` bytes."""
        most = max(limit, 1)
        return sum(
            math.sqrt(math.prod(min(n, most) for n in factors)) if is_product else math.prod(factors)
            for is_product, factors in self._factors
        )

    def add(self, graph: ir.Graph | ir.Function) -> None:
        """Estimate the nodes of a graph, of its nested graphs and of the functions that it calls."""
        for value in graph.initializers.values() if isinstance(graph, ir.Graph) else ():
            if value.const_value is not None:
                self._take(value, value.const_value)
        for node in graph:
            self._node(node)

    def _node(self, node: ir.Node) -> None:
        called = self._model.functions.get(node.op_identifier()) if self._model.functions else None
        if called is not None:
            self._call(node, called)
        elif inner := inner_graphs(node):
            for graph in inner:
                self.add(graph)
            if node.op_type == "If":  # engines replace one with a constant condition by its branch
                for results in zip(node.outputs, *(g.outputs for g in inner), strict=False):
                    self._set(results[0], max(map(self._size, results[1:])))
        elif node.op_type in ("Shape", "Size"):
            self._set(node.outputs[0], _MAX_RANK)
        elif node.op_type == "Constant":
            given = node.attributes.get("value")
            if given is not None and given.type is ir.AttributeType.TENSOR:
                self._take(node.outputs[0], given.value)
            else:
                self._set(node.outputs[0], _MAX_RANK)
        elif not node.op_type.startswith("Random"):
            sizes = []
            for value in node.inputs:
                if value is not None:
                    elements = self._size(value)
                    if elements < 0:
                        return
                    sizes.append(elements)
            self._compute(node, sizes)

    def _take(self, value: ir.Value, tensor: ir.TensorProtocol) -> None:
        self._tensors[value] = self._elements[value] = tensor

    def _size(self, value: ir.Value) -> float:
        """Return the number of elements of a constant; -1 for any other value."""
        known = self._elements.get(value, -1)
        if isinstance(known, (int, float)):
            return known
        try:
            elements = float(known.size)  # products of many overflow to infinity
        except (TypeError, ValueError):
            elements = -1
        self._elements[value] = elements
        return elements

    def _set(self, value: ir.Value, elements: float) -> None:
        if elements >= 0:
            self._elements[value] = float(elements)

    def _call(self, node: ir.Node, function: ir.Function) -> None:
        for inside in (v for n in function for v in n.outputs):
            self._elements.pop(inside, None)  # of another call
        for inside, given in zip_longest(function.inputs, node.inputs[: len(function.inputs)]):
            self._elements.pop(inside, None)
            self._set(inside, 0 if given is None else self._size(given))
        self.add(function)
        for output, inside in zip(node.outputs, function.outputs, strict=False):
            self._set(output, self._size(inside))

    def _compute(self, node: ir.Node, inputs: list[float]) -> None:
        most = _max_elements(node, inputs)
        for output in node.outputs:
            exact, size, width = False, most, 8.0
            if self._thorough:
                with suppress(onnx.shape_inference.InferenceError):
                    infer_node(node, self._opset)
                if output.shape is not None and output.shape.is_static():
                    size, exact = float(math.prod(output.shape.numpy())), True
                known = output.dtype not in (None, ir.DataType.STRING)
                width = cast(ir.DataType, output.dtype).itemsize if known else 8
            self._elements[output] = size
            self.folded.append(_Folded(size * width, exact))
        largest = max(map(self._size, node.outputs), default=0.0)
        if node.op_type in _PRODUCTS:
            self._factors.append((True, (*inputs[:2], largest)))
        elif (node.domain == "com.microsoft" and "Quantize" not in node.op_type) or _is_window(node):
            window = math.prod(map(float, node.attributes.get_ints("kernel_shape", ())))
            self._factors.append((False, (*inputs, window)))


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
    if value is None:
        return None
    tensor, node = value.const_value, value.producer()
    if tensor is None and node is not None and node.op_type == "Constant" and "value" in node.attributes:
        tensor = node.attributes["value"].value
    if tensor is None or tensor.size > _MAX_RANK or not tensor.dtype.is_integer():
        return None
    return [max(float(n), 1.0) for n in tensor.numpy().reshape(-1)]
