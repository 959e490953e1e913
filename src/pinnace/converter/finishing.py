"""The end of raising to MindSpore Lite's dialect.

Unread nodes are left out, activations and biases fused. A primitive that reads int8 between
`QuantDTypeCast`s, and whose result becomes int8, computes in integers in the place of all of them. Weights
that float primitives read are only stored in integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.formats.packing import STORAGE_ONLY
from pinnace.program import Layout, Node, Quantized, TypeInfo
from pinnace.program_structure import quantized_axis

_ACTIVATION, _CHOICE = "Activation", "Where"
_FUSED = (1, 3)  # RELU and RELU6 of ActivationType
_PRODUCT = "MatMulFusion"
_TAKES = ("Conv2DFusion", "Conv2dTransposeFusion", "AddFusion", _PRODUCT)
"""Primitives that compute an activation of their result in the same step."""


_TRUTHS = (
    *("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"),
    *("LogicalAnd", "LogicalOr", "LogicalNot", "IsFinite"),
)
"""Primitives with results of bool."""
_WHOLE_RESULTS = ("Shape", "Size", "Rank", "ArgMaxFusion", "ArgMinFusion", "NonMaxSuppression")
"""Primitives with results of int32."""


def finish(
    nodes: Sequence[Node],
    outputs: Sequence[str],
    inputs: Mapping[str, ir.DataType],
    constants: Mapping[str, ir.TensorProtocol],
) -> list[Node]:
    """Return the nodes, in order, that the outputs need.

    MindSpore Lite wants the element types of all results; `inputs` has those of the function's inputs.
    """
    kept = _fused(needed(nodes, outputs), outputs, constants)
    known = {**inputs, **{name: tensor.dtype for name, tensor in constants.items()}}
    for node in kept:
        types = list(node.types) or [None] * len(node.outputs)
        guesses = _results(node, known, len(types))
        node.types = [t or TypeInfo(dtype, None) for t, dtype in zip(types, guesses, strict=True)]
        known.update((n, t.dtype) for n, t in zip(node.outputs, node.types, strict=False) if t is not None)
    return kept


def _results(node: Node, known: Mapping[str, ir.DataType], count: int) -> list[ir.DataType]:
    """Return the element types of what a node computes, by those of what it reads."""
    if node.primitive in _TRUTHS:
        return [ir.DataType.BOOL] * count
    if node.primitive in _WHOLE_RESULTS or (node.primitive == _CHOICE and len(node.inputs) == 1):
        return [ir.DataType.INT32] * count
    like = known.get(node.inputs[1 if node.primitive == _CHOICE else 0], ir.DataType.FLOAT)
    if node.primitive == "TopKFusion":
        return [like, ir.DataType.INT32]
    return [like] * count


def needed(nodes: Sequence[Node], outputs: Sequence[str]) -> list[Node]:
    asked, kept = set(outputs), []
    for node in reversed(nodes):
        if not asked.isdisjoint(node.outputs):
            asked.update(node.inputs)
            kept.append(node)
    return kept[::-1]


def _fused(
    nodes: Sequence[Node], outputs: Sequence[str], constants: Mapping[str, ir.TensorProtocol]
) -> list[Node]:
    """Return nodes in which activations and biases are part of what computes their input, for them alone."""
    uses = Counter(name for node in nodes for name in node.inputs) + Counter(outputs)
    made: dict[str, Node] = {}
    for node in nodes:
        for place, name in enumerate(node.inputs[:2]):
            before = made.get(name)
            both = _as_one(before, node, place, constants) if before is not None and uses[name] == 1 else None
            if both is not None:
                del made[name]
                node = both
                break
        made[node.outputs[0]] = node
    return list(made.values())


def _as_one(before: Node, node: Node, place: int, constants: Mapping[str, ir.TensorProtocol]) -> Node | None:
    """Return what computes a node and its input at a place in one step, None if no primitive does."""
    kind = node.attributes.get("activation_type", 0)
    if before.primitive not in _TAKES or before.attributes.get("activation_type", 0):
        return None
    if node.primitive == _ACTIVATION and kind in _FUSED:
        attributes = {**before.attributes, "activation_type": kind}
        return replace(before, outputs=node.outputs, attributes=attributes, types=node.types)
    if (before.primitive, len(before.inputs), node.primitive) != (_PRODUCT, 2, "AddFusion") or kind:
        return None
    bias = node.inputs[1 - place]
    shape = before.types[0].shape if before.types and before.types[0] is not None else None
    if bias not in constants or not shape or constants[bias].shape.numpy() != shape[-1:]:
        return None
    return replace(before, inputs=(*before.inputs, bias), outputs=node.outputs, types=node.types)


# -- integers --------------------------------------------------------------------------------------

_CAST = "QuantDTypeCast"
_KIND = "quantType"
_COMPUTED, _STORED, _DYNAMIC = 5, STORAGE_ONLY[1], 6  # QuantType
_KERNELS = ("Conv2DFusion", "MatMulFusion", "AddFusion", "AvgPoolFusion", "MaxPoolFusion")
"""Primitives that compute in integers."""
_WHOLE = 8
"""The bits of integers that kernels read."""
_FLOAT = ir.DataType.FLOAT
_BIAS = 2
"""The place of a bias among inputs."""


class Dequantized(ir.LazyTensor):
    """A constant whose floats integers stand for; `order` is that of its dimensions in those."""

    def __init__(self, whole: ir.TensorProtocol, meaning: Quantized, order: Sequence[int] = ()) -> None:
        self.whole, self.meaning = whole, meaning
        self.order = tuple(order) or tuple(range(len(whole.shape)))
        dims = whole.shape.numpy()
        super().__init__(self._floats, _FLOAT, ir.Shape([dims[i] for i in self.order]), name=whole.name)

    def turned(self, perm: Sequence[int]) -> Dequantized:
        return Dequantized(self.whole, self.meaning, [self.order[i] for i in perm])

    @property
    def axis(self) -> int | None:
        """The axis that has a scale for each index."""
        axis = self.meaning.axis
        return None if axis is None else self.order.index(axis % len(self.order))

    def stored(self) -> tuple[ir.TensorProtocol, Quantized]:
        """Return the integers, signed, and what they stand for, with the bits that they need."""
        whole = self._signed()
        most = max(int(whole.max(initial=0)), -1 - int(whole.min(initial=0)))
        bits = most.bit_length() + 1
        return ir.Tensor(whole, name=self.name), replace(self.meaning, axis=self.axis, bits=bits)

    def _signed(self) -> npt.NDArray[np.signedinteger]:
        whole = self.whole.numpy().transpose(self.order)
        if whole.dtype == np.uint8:
            return np.ascontiguousarray((whole ^ 128).view(np.int8))
        return np.ascontiguousarray(whole.astype(np.int8) if self.whole.dtype is ir.DataType.INT4 else whole)

    def _floats(self) -> ir.TensorProtocol:
        shape = [-1 if i == self.axis else 1 for i in range(len(self.order))]
        scale = np.array(self.meaning.scale, np.float32).reshape(shape)
        zero = np.array(self.meaning.zero_point, np.float32).reshape(shape)
        return ir.Tensor((self._signed().astype(np.float32) - zero) * scale, name=self.name)


def finish_integers(
    nodes: Sequence[Node],
    outputs: Sequence[str],
    parameters: Mapping[str, ir.TensorProtocol],
    quantized: Mapping[str, Quantized | None],
) -> tuple[list[Node], dict[str, ir.TensorProtocol], dict[str, Quantized]]:
    """Return nodes that compute in integers where they can, the constants as stored, and what these mean."""
    held = {name: x for name, x in parameters.items() if isinstance(x, Dequantized)}
    known = {name: meaning for name, meaning in quantized.items() if meaning is not None}
    whole = needed(list(_computed(nodes, outputs, parameters, quantized)), outputs)
    nodes = [_marked(node, held, quantized) for node in whole]
    uses = [(name, node, place) for node in nodes for place, name in enumerate(node.inputs) if name in held]
    wide = {name for name, node, place in uses if not _fits(node, place, held[name])}
    stored = dict(parameters)
    computed = {name for name, node, _ in uses if node.attributes.get(_KIND) != _STORED}
    for name in held.keys() - wide:
        stored[name], meaning = held[name].stored()
        known[name] = replace(meaning, bits=_WHOLE) if name in computed else meaning
    return nodes, stored, known


def _computed(
    nodes: Sequence[Node],
    outputs: Sequence[str],
    parameters: Mapping[str, ir.TensorProtocol],
    quantized: Mapping[str, Quantized | None],
) -> Iterator[Node]:
    """Yield the nodes, those between casts without these if there is a kernel of integers."""
    up = {n.outputs[0]: n.inputs[0] for n in nodes if n.primitive == _CAST and n.outputs[0] not in quantized}
    uses = Counter(name for node in nodes for name in node.inputs) + Counter(outputs)
    down = {n.inputs[0]: n for n in nodes if n.primitive == _CAST and uses[n.inputs[0]] == 1}
    made: set[str] = set()
    for node in nodes:
        after = down.get(node.outputs[0])
        if after is not None and node.primitive in _KERNELS and _all_whole(node, up, parameters):
            made.add(after.outputs[0])
            inputs = tuple(up.get(name, name) for name in node.inputs)
            attributes = {**node.attributes, _KIND: _COMPUTED}
            yield replace(
                node, inputs=inputs, outputs=after.outputs, types=after.types, attributes=attributes
            )
        elif node.outputs[0] not in made:
            yield node


def _all_whole(node: Node, up: Mapping[str, str], parameters: Mapping[str, ir.TensorProtocol]) -> bool:
    """Return True if all that a node reads is in integers."""
    for place, name in enumerate(node.inputs):
        held = parameters.get(name)
        if held is None and name not in up:
            return False
        if held is not None and not (isinstance(held, Dequantized) and _fits(node, place, held, _COMPUTED)):
            return False
    return True


def _marked(node: Node, held: Mapping[str, Dequantized], quantized: Mapping[str, Quantized | None]) -> Node:
    if _KIND in node.attributes:
        return node
    if node.primitive == _CAST:
        kind = _COMPUTED
    elif any(quantized.get(name, node) is None for name in node.inputs):
        kind = _DYNAMIC
    elif any(name in held and _fits(node, place, held[name]) for place, name in enumerate(node.inputs)):
        kind = _STORED
    else:
        return node
    return replace(node, attributes={**node.attributes, _KIND: kind})


def _fits(node: Node, place: int, held: Dequantized, kind: int = 0) -> bool:
    """Return True if a node can read a constant in integers: readers know where the channels are."""
    if held.whole.dtype is ir.DataType.INT32 or place == _BIAS:
        return held.whole.dtype is ir.DataType.INT32 and (kind or node.attributes.get(_KIND)) == _COMPUTED
    layout = Layout.NHWC if node.attributes.get("format") else Layout.NCHW
    axis = quantized_axis(node.primitive, place, node.attributes, layout)
    return held.axis is None or held.axis == axis % len(held.order)
