"""Values of a graph that have elements in every run whose inputs have, by the operators that compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.constants import array, constant
from pinnace.graph.failures import Unsupported
from pinnace.graph.inference import opset_of
from pinnace.graph.traits import MICROSOFT, Trait, having
from pinnace.graph.walk import nodes
from pinnace.graph.windows import windows

_BY_ALL, _BY_FIRST = having(Trait.FILLED_BY_ALL), having(Trait.FILLED)
_OF_MICROSOFT = having(Trait.FILLED, MICROSOFT)
SELECTING = having(Trait.MOVING)
_COMBINING = frozenset(("Concat", "Mul", "Where"))
_GROWING = frozenset(("Add", "Max", "Min"))
_POSITIVE, _NOT_ZERO, _ANY = 2, 1, 0
"""Bounds of all elements of integers."""


class NonEmpty:
    """The values of a model that have elements if its inputs have, and the signs of its integers."""

    def __init__(self, model: ir.Model) -> None:
        self.b = Builder(opset=opset_of(model))
        self._filled: set[ir.Value] = set()
        self._signs: dict[ir.Value, int] = {}
        self._model: ir.Model | None = model

    def __contains__(self, value: ir.Value) -> bool:
        known = constant(value)
        if known is not None:
            return known.size > 0
        if self._model is not None:  # few models ask
            model, self._model = self._model, None
            self._look(model)
        return value in self._filled

    def _look(self, model: ir.Model) -> None:
        self._filled.update(model.graph.inputs)
        for node in nodes(model.graph):
            if not node.domain and node.outputs:
                self._signs[node.outputs[0]] = self._sign(node)
            if node.op_type == "Reshape":
                self._reshaped(node)
            if self._gives_elements(node):
                self._filled.update(node.outputs)

    def _reshaped(self, node: ir.Node) -> None:
        """Note the fixed dimensions of a shape that is joined from numbers: inference does not."""
        joined = node.inputs[1].producer() if len(node.inputs) > 1 and node.inputs[1] is not None else None
        if node.outputs[0].shape is None and joined is not None and joined.op_type == "Concat":
            parts = [self._part(part) for part in joined.inputs]
            if all(len(part) == 1 for part in parts):
                node.outputs[0].shape = ir.Shape([size if size > 0 else None for (size,) in parts])

    def _part(self, value: ir.Value | None) -> list[int]:
        """Return the elements of a constant, [0] for one unknown number, else []."""
        known = array(value)
        if known is not None:
            return [int(number) for number in known.reshape(-1)]
        with suppress(Unsupported):
            return [0] if value is not None and self.b.shape(value) == (1,) else []
        return []

    def _gives_elements(self, node: ir.Node) -> bool:
        given = [value for value in node.inputs if value is not None]
        if node.op_type in (_OF_MICROSOFT if node.domain == MICROSOFT else _BY_FIRST):
            return bool(given) and given[0] in self
        if node.domain:
            return False
        if node.op_type in _BY_ALL:
            return all(value in self for value in given)
        gives = _GIVES.get(node.op_type)
        with suppress(IndexError, Unsupported):  # the node lacks inputs, or no shape is known
            if gives is not None and gives(self, node, given):
                return True
        return all(is_fixed(self.b, y) for y in node.outputs if y.name)

    def keeps(self, node: ir.Node, axes: Sequence[float]) -> bool:
        """Return True if the results of a node have known sizes along axes, which are not 0."""
        return all(self.b.shape(y)[int(axis)] for y in node.outputs for axis in axes)

    def sign(self, value: ir.Value | None) -> int:
        known = constant(value)
        if known is not None:
            return _sign(known)
        return _ANY if value is None else self._signs.get(value, _ANY)

    def _sign(self, node: ir.Node) -> int:
        if node.op_type in ("Shape", "Size"):
            return _POSITIVE if node.inputs[0] in self._filled else _ANY
        if node.op_type == "ConstantOfShape":
            value = node.attributes.get("value")
            return _ANY if value is None else _sign(value.as_tensor())
        if node.op_type in SELECTING or (node.op_type == "Cast" and node.attributes["to"].value == 7):
            return self.sign(node.inputs[0])
        if node.op_type in _COMBINING:
            return min(map(self.sign, node.inputs[node.op_type == "Where" :]), default=_ANY)
        if node.op_type in _GROWING:
            return min(map(self.sign, node.inputs), default=_ANY) & _POSITIVE
        return _ANY


def _sign(tensor: ir.TensorProtocol) -> int:
    if not tensor.dtype.is_integer() or tensor.size > 64:
        return _ANY
    numbers = tensor.numpy()
    return _POSITIVE if (numbers > 0).all() else _NOT_ZERO if numbers.all() else _ANY


def is_fixed(b: Builder, value: ir.Value) -> bool:
    """Return True if a value has a shape without free dimensions, none of which is 0."""
    try:
        return all(b.shape(value))
    except Unsupported:
        return False


def _const(value: ir.Value | None) -> list[float]:
    known = array(value)
    return [] if known is None else known.reshape(-1).tolist()


def _slice(nonempty: NonEmpty, node: ir.Node, given: list[ir.Value]) -> bool:
    """Return True for a Slice from the front to an end that is positive, or of known size."""
    if given[0] not in nonempty:
        return False
    if len(given) > 2 and nonempty.sign(given[2]) == _POSITIVE and set(_const(given[1])) == {0}:
        return len(given) < 5 or nonempty.sign(given[4]) == _POSITIVE
    axes = _const(given[3]) if len(given) > 3 else node.attributes.get_ints("axes", ())
    return bool(axes) and nonempty.keeps(node, axes)


def _split(nonempty: NonEmpty, node: ir.Node, given: list[ir.Value]) -> bool:
    sizes = len(given) > 1 and nonempty.sign(given[1]) == _POSITIVE
    return given[0] in nonempty and (sizes or nonempty.keeps(node, [node.attributes.get_int("axis", 0)]))


def _range(nonempty: NonEmpty, node: ir.Node, given: list[ir.Value]) -> bool:
    return _const(given[0]) == [0] and _const(given[2]) == [1] and nonempty.sign(given[1]) == _POSITIVE


def _repeats(nonempty: NonEmpty, node: ir.Node, given: list[ir.Value]) -> bool:
    return given[0] in nonempty and len(given) > 1 and nonempty.sign(given[1]) > _ANY


def _pads(nonempty: NonEmpty, node: ir.Node, given: list[ir.Value]) -> bool:
    pads = _const(given[1]) if len(given) > 1 else node.attributes.get_ints("pads", [-1])
    return given[0] in nonempty and bool(pads) and min(pads) >= 0


def _resize(nonempty: NonEmpty, node: ir.Node, given: list[ir.Value]) -> bool:
    last = _const(given[-1])
    return given[0] in nonempty and (nonempty.sign(given[-1]) > _ANY or (bool(last) and min(last) >= 1))


def _window(nonempty: NonEmpty, node: ir.Node, given: list[ir.Value]) -> bool:
    """Return True for windows that fit into an image of one pixel with its padding."""
    return given[0] in nonempty and not windows_may_exceed(nonempty.b, node)


def windows_may_exceed(b: Builder, node: ir.Node) -> bool:
    """Return True if the windows of a pool or Conv may be larger than its image of at least one pixel."""
    if node.attributes.get_string("auto_pad", "NOTSET").startswith("SAME"):
        return False
    try:
        over = windows(b, node)
    except Unsupported:
        return True
    count = len(over.reach)
    try:
        _, _, *size = b.shape(node.inputs[0]) if node.inputs[0] is not None else ()
    except (Unsupported, ValueError):
        size = [None] * count
    along = zip(over.reach, over.pads, over.pads[count:], size, strict=False)
    return any(r > (1 if n is None else n) + p + q for r, p, q, n in along)


_Gives = Callable[[NonEmpty, ir.Node, list[ir.Value]], bool]

_GIVES: Mapping[str, _Gives] = {
    **dict.fromkeys(("AveragePool", "Conv", "LpPool", "MaxPool"), _window),
    **dict.fromkeys(("Expand", "Tile", "TopK"), _repeats),
    "Concat": lambda nonempty, _, given: any(value in nonempty for value in given),
    "ConstantOfShape": lambda nonempty, _, given: nonempty.sign(given[0]) > _ANY,
    "OneHot": lambda nonempty, _, given: given[0] in nonempty and nonempty.sign(given[1]) == _POSITIVE,
    "Pad": _pads,
    "Range": _range,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
}
"""Operators whose results have elements under a condition."""
