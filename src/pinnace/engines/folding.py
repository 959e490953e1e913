"""Bounds of what engines compute ahead of the run, of constants alone.

A few bytes declare constants of any size, and products, sums and copies of them. So what comes of constants
is estimated node by node, from above: by ONNX's inference where it is large, else by the elements that go in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import onnx
import onnx_ir as ir

from pinnace import bounds
from pinnace.ops.inference import infer_node, opset_of

_ONE = 1 << 26
"""Bytes of one result; more where the weights are larger."""
_ENOUGH = 1 << 23
"""Bytes of one result that no model misses, but for its weights."""
_VALUES = 64
"""Elements of a tensor that says a shape."""
_OF_WEIGHTS = 4
"""Factor by which the weights may be computed anew: transposed, cast, scaled."""
_PRODUCTS_OF_WEIGHTS = 64
"""Multiplications for each byte of the weights: DeBERTa's products of positions take half of it."""

_SIZED = ("ConstantOfShape", "Expand", "Tile")
"""Operators whose results are as large as the values of their last input say, times the others."""
_SIZED_OTHERWISE = ("OneHot", "Pad", "Range", "Resize", "Upsample")
_NOT_LARGER = ("Cast", "Clip", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose results have no more elements than their first input."""
_CONTROL = ("If", "Loop", "Scan", "SequenceMap")
_PRODUCTS = ("Gemm", "MatMul", "MatMulInteger", "QLinearMatMul")
_WINDOWS = ("Conv", "Pool", "Einsum", "LSTM", "GRU", "RNN", "DFT", "STFT", "GridSample", "RoiAlign")
"""Parts of names of operators that take an element many times."""


class Allowance(NamedTuple):
    """Results that may be computed ahead: up to `room` bytes each, and none unless `folds`.

    `whole` says that nothing which a real model has is left for the run, `fits` that nothing at all is.
    """

    room: int
    folds: bool
    whole: bool
    fits: bool


class _Made(NamedTuple):
    """A result of constants: at most so many bytes, `exact` where that is what they are."""

    bytes: float
    exact: bool


def allowance(model: ir.Model) -> Allowance:
    """The part of a model that may be computed ahead within the bounds of a build."""
    estimate = _Estimate(model, thorough=False)
    if estimate.is_small():
        return Allowance(_ONE, True, True, True)
    quick = _allowed(estimate)
    return quick if quick.whole and quick.fits else _allowed(_Estimate(model, thorough=True))


def _allowed(estimate: _Estimate) -> Allowance:
    most = bounds.FOLDED + _OF_WEIGHTS * estimate.weights
    room = first = max(_ONE, estimate.weights)
    while room and sum(_taken(made, room) for made in estimate.made) > most:
        room //= 2
    folds = estimate.products(room) <= bounds.PRODUCTS + _PRODUCTS_OF_WEIGHTS * estimate.weights
    whole = folds and room >= min(first, max(_ENOUGH, estimate.largest))
    return Allowance(room, folds, whole, not any(estimate.is_beyond(made, room) for made in estimate.made))


def _taken(made: _Made, room: int) -> float:
    return made.bytes if made.bytes <= room else 0 if made.exact else room


class _Estimate:
    """The results of a model's constants, and the factors of each product."""

    def __init__(self, model: ir.Model, thorough: bool) -> None:
        """ONNX's inference is asked if `thorough`."""
        self.made: list[_Made] = []
        self._factors: list[tuple[bool, tuple[float, ...]]] = []
        self._model, self._opset, self._thorough = model, opset_of(model), thorough
        self._tensors: dict[
            ir.Value, ir.TensorProtocol
        ] = {}  # in the file; to ask for their sizes takes a while
        self._elements: dict[ir.Value, float | ir.TensorProtocol] = {}  # of what is constant
        self.graph(model.graph)

    def is_beyond(self, made: _Made, room: int) -> bool:
        """Whether a result is larger than the room, as far as the estimate can tell."""
        return made.bytes > room and (made.exact or not self._thorough)

    def is_small(self) -> bool:
        """Whether this is within all bounds, whatever the weights are."""
        sizes = [made.bytes for made in self.made]
        small = max(sizes, default=0) <= _ONE and sum(sizes) <= bounds.FOLDED
        return small and self.products(_ONE) <= bounds.PRODUCTS

    @cached_property
    def _sizes(self) -> list[int]:
        sizes = [0]
        for tensor in self._tensors.values():
            with suppress(
                TypeError, ValueError
            ):  # of an element type that there is not: the engine will say it
                sizes.append(tensor.nbytes)
        return sizes

    @property
    def weights(self) -> int:
        """Bytes of the constants in the file."""
        return sum(self._sizes)

    @property
    def largest(self) -> int:
        """Bytes of the largest one."""
        return max(self._sizes)

    def products(self, room: int) -> float:
        """Multiplications, where no result has more than `room` bytes."""
        most = max(room, 1)
        return sum(
            math.sqrt(math.prod(min(n, most) for n in factors)) if is_product else math.prod(factors)
            for is_product, factors in self._factors
        )

    def graph(self, graph: ir.Graph | ir.Function) -> None:
        """Go through the nodes of a graph, of those nested in it and of the functions that it calls."""
        for value in graph.initializers.values() if isinstance(graph, ir.Graph) else ():
            if value.const_value is not None:
                self._take(value, value.const_value)
        for node in graph:
            self._node(node)

    def _node(self, node: ir.Node) -> None:
        called = self._model.functions.get(node.op_identifier()) if self._model.functions else None
        if called is not None:
            self._call(node, called)
        elif node.op_type in _CONTROL:
            inner = [a.as_graph() for a in node.attributes.values() if a.type is ir.AttributeType.GRAPH]
            for graph in inner:
                self.graph(graph)
            if node.op_type == "If":  # one whose condition is constant is its branch
                for results in zip(node.outputs, *(g.outputs for g in inner), strict=False):
                    self._set(results[0], max(map(self._size, results[1:])))
        elif node.op_type in ("Shape", "Size"):
            self._set(node.outputs[0], _VALUES)
        elif node.op_type == "Constant":
            given = node.attributes.get("value")
            if given is not None and given.type is ir.AttributeType.TENSOR:
                self._take(node.outputs[0], given.value)
            else:
                self._set(node.outputs[0], _VALUES)
        elif not node.op_type.startswith("Random"):
            known = []
            for value in node.inputs:
                if value is not None:
                    elements = self._size(value)
                    if elements < 0:
                        return
                    known.append(elements)
            self._compute(node, known)

    def _take(self, value: ir.Value, tensor: ir.TensorProtocol) -> None:
        self._tensors[value] = self._elements[value] = tensor

    def _size(self, value: ir.Value) -> float:
        """Elements of a constant, -1 for what is none."""
        known = self._elements.get(value, -1)
        if isinstance(known, (int, float)):
            return known
        try:
            elements = float(known.size)  # a product of many is infinite then, and no int beyond floats
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
        for inside, given in zip(
            function.inputs, (*node.inputs, *[None] * len(function.inputs)), strict=False
        ):
            self._elements.pop(inside, None)
            self._set(inside, 0 if given is None else self._size(given))
        self.graph(function)
        for output, inside in zip(node.outputs, function.outputs, strict=False):
            self._set(output, self._size(inside))

    def _compute(self, node: ir.Node, given: list[float]) -> None:
        most = _most(node, given)
        for output in node.outputs:
            exact, size, width = False, most, 8.0
            if self._thorough:
                with suppress(onnx.shape_inference.InferenceError):
                    infer_node(node, self._opset)
                if output.shape is not None and output.shape.is_static():
                    size, exact = float(math.prod(output.shape.numpy())), True
                width = output.dtype.itemsize if output.dtype is not None else 8
            self._elements[output] = size
            self.made.append(_Made(size * width, exact))
        largest = max(map(self._size, node.outputs), default=0.0)
        if node.op_type in _PRODUCTS:
            self._factors.append((True, (*given[:2], largest)))
        elif (node.domain == "com.microsoft" and "Quantize" not in node.op_type) or _is_window(node):
            window = math.prod(map(float, node.attributes.get_ints("kernel_shape", ())))
            self._factors.append((False, (*given, window)))


def _is_window(node: ir.Node) -> bool:
    return any(part in node.op_type for part in _WINDOWS)


def _most(node: ir.Node, given: Iterable[float]) -> float:
    """Elements that a result has at most."""
    sizes = [max(n, 1.0) for n in given]
    if node.op_type in _SIZED:
        said = _values(node.inputs[-1])
        return math.inf if said is None else math.prod([*said, *sizes[:-1]])
    if node.op_type in _SIZED_OTHERWISE or _is_window(node):
        return math.inf
    if node.op_type in _NOT_LARGER:
        return sizes[0] if sizes else math.inf
    return max(sum(sizes), math.prod(sizes)) if sizes else math.inf


def _values(value: ir.Value | None) -> list[float] | None:
    """The numbers of a shape that is written in the file."""
    if value is None:
        return None
    tensor, node = value.const_value, value.producer()
    if tensor is None and node is not None and node.op_type == "Constant" and "value" in node.attributes:
        tensor = node.attributes["value"].value
    return (
        None
        if tensor is None or tensor.size > _VALUES
        else [max(float(n), 1.0) for n in tensor.numpy().reshape(-1)]
    )
