"""The ways in which the ranks can share the work of a node.

A product with a weight turns a whole input into split columns, or split columns into parts of a sum;
attention heads, which are columns, stay split through reshapes, products and softmax. (The scheme of
Megatron-LM, arXiv 1909.08053.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import onnx_ir as ir

from pinnace.distributed.shard.sections import (
    ends_of,
    ints,
    pieces_of,
    section_of,
    sections_of,
    sliced,
    volume_of,
)
from pinnace.distributed.shard.states import Parts, Rows, Split, State, Way, along, axis_of
from pinnace.graph.inference import OPSET
from pinnace.graph.walk import inner_graphs

_NORMALIZING = ("Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization")
_UNARY = {
    *("Abs", "Cast", "Ceil", "Clip", "Cos", "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid"),
    *("HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal"),
    *("Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh"),
}
_BROADCASTING = {
    *("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod"),
    *("Mul", "Or", "PRelu", "Pow", "Sub", "Where"),
}
_WEIGHED = ("MatMul", "Gemm", "Conv", "Gather")
_LINEAR = {
    "Concat",
    "Expand",
    "Gather",
    "Identity",
    "Neg",
    "ReduceSum",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
}
_LINEAR |= {"Tile", "Transpose", "Unsqueeze"}
"""Nodes whose result for a sum is the sum of the results."""
_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


class Ways:
    """Finds the ways of the nodes of a graph, in order, for a number of ranks."""

    def __init__(self, graph: ir.Graph, size: int, opset: int = OPSET) -> None:
        self._size, self._opset = size, opset
        self._found: dict[ir.Value, dict[State, None]] = {}
        self._sections = sections_of(graph, size)
        self._numbers = _numbers_of(graph)

    def states(self, value: ir.Value | None) -> Iterable[State]:
        """Return the states in which the nodes so far can leave a value, or a weight can be read."""
        if value is None or (value.const_value is None and value not in self._found):
            return (None,)
        if value not in self._found:
            axes = range(len(value.shape or ())) if value.is_initializer() else ()
            self._found[value] = dict.fromkeys(
                [None, *(s for axis in axes for s in self._splits(value, axis))]
            )
        return self._found[value]

    def of(self, node: ir.Node) -> list[Way]:
        """Return the ways of a node; the first takes everything whole."""
        ways = dict.fromkeys([Way((None,) * len(node.inputs))])
        known = all(v is None or v.shape is not None for v in (*node.inputs, *node.outputs))
        if node.domain == "" and known and node not in self._numbers and not inner_graphs(node):
            ways |= dict.fromkeys(way for way in self._shared(node) if self._fits(node, way))
        if node.op_type == "Concat" and node.outputs[0].is_graph_output():
            ways |= dict.fromkeys(replace(way, again=True) for way in ways if way.gives is not None)
        for output in node.outputs:
            self._found[output] = dict.fromkeys(way.gives for way in ways)
        return list(ways)

    def _fits(self, node: ir.Node, way: Way) -> bool:
        """Return True if the ranks can have equal parts of all inputs and outputs, and sum them."""
        held = [*zip(node.inputs, way.takes, strict=True), *((output, way.gives) for output in node.outputs)]
        for value, state in held:
            if isinstance(state, Split) and (value is None or state not in self._splits(value, state.axis)):
                return False
            if isinstance(state, Parts) and (value is None or value.dtype not in _FLOATS):
                return False
        return True

    def _splits(self, value: ir.Value, axis: int) -> list[Split]:
        width = value.shape[axis] if value.shape is not None else None
        if not isinstance(width, int) or not width or width % self._size:
            return []
        return [Split(axis), *(Split(axis, sections) for sections in self._sections.get(width, ()))]

    def _shared(self, node: ir.Node) -> Iterator[Way]:
        kind, first = node.op_type, node.inputs[0] if node.inputs else None
        others = len(node.inputs) - 1
        if first is None:
            return
        if kind == "MatMul":
            yield from self._products(node)
        elif kind in _BROADCASTING:
            yield from self._elementwise(node)
        elif kind == "Shape":
            yield from (Way((state,)) for state in self.states(first))
        elif kind == "Concat":
            yield from self._joined(node)
        else:
            if kind == "Gather" and is_table(node, self._size):
                yield Way((Rows(), None), Parts())
            for state in self.states(first):
                if isinstance(state, Split) and (found := self._carried(node, state)):
                    yield found
                elif isinstance(state, Parts) and kind in _LINEAR:
                    yield Way((state, *[None] * others), state)

    # -- several inputs ----------------------------------------------------------------------------

    def _products(self, node: ir.Node) -> Iterator[Way]:
        a, b = node.inputs
        assert a is not None
        assert b is not None
        rows, columns = len(a.shape or ()), len(b.shape or ())
        if min(rows, columns) < 2:
            return
        rank = max(rows, columns)
        for state in self.states(b):
            if isinstance(state, Split) and state.axis == columns - 1:
                yield Way((None, state), Split(rank - 1, state.sections))
            if isinstance(state, Split) and state.axis == columns - 2:
                yield Way((Split(rows - 1, state.sections), state), Parts())
            if isinstance(state, Parts):
                yield Way((None, state), state)
        for state in self.states(a):
            if isinstance(state, Split) and state.axis == rows - 2:
                yield Way((state, None), Split(rank - 2, state.sections))
            if isinstance(state, Split) and state.axis == rows - 1:
                yield Way((state, Split(columns - 2, state.sections)), Parts())
            if isinstance(state, Parts):
                yield Way((state, None), state)
        yield from (way for way in self._aligned(node) if axis_of(way.gives) < rank - 2)

    def _elementwise(self, node: ir.Node) -> Iterator[Way]:
        yield from self._aligned(node)
        parts = [Parts() in self.states(value) for value in node.inputs]
        if node.op_type in ("Add", "Sub") and all(parts):
            yield Way((Parts(),) * len(parts), Parts())
        if node.op_type in ("Mul", "Div") and parts[0]:
            yield Way((Parts(), None), Parts())
        if node.op_type == "Mul" and parts[1]:
            yield Way((None, Parts()), Parts())

    def _aligned(self, node: ir.Node) -> Iterator[Way]:
        """Split all inputs that have a dimension, counted from the last, where one of them can be split."""
        inputs = [value for value in node.inputs if value is not None]
        rank = len(node.outputs[0].shape or ())
        targets = dict.fromkeys(
            (state.axis - len(value.shape or ()), state.sections)
            for value in inputs
            if value.const_value is None or not any(v.const_value is None for v in inputs)
            for state in self.states(value)
            if isinstance(state, Split)
        )
        for axis, sections in targets:
            takes = [along(value, axis, sections) for value in node.inputs]
            yield Way(tuple(takes), Split(rank + axis, sections))

    def _joined(self, node: ir.Node) -> Iterator[Way]:
        if all(Parts() in self.states(value) for value in node.inputs):
            yield Way((Parts(),) * len(node.inputs), Parts())
        rank = len(node.outputs[0].shape or ())
        axis = node.attributes.get_int("axis", 1) % rank
        for way in self._aligned(node):
            if axis_of(way.gives) != axis and len(set(way.takes)) == 1:
                yield way

    # -- one input ---------------------------------------------------------------------------------

    def _carried(self, node: ir.Node, held: Split) -> Way | None:
        """Return the way of a node that works on each part of its first input alone."""
        if node.op_type == "DequantizeLinear":
            return _dequantized(node, held)
        if node.op_type == "Attention":
            return self._attention(node, held)
        gives = self._left(node, held)
        return None if gives is None else Way((held, *[None] * (len(node.inputs) - 1)), gives)

    def _left(self, node: ir.Node, held: Split) -> State:
        given, kind = node.attributes, node.op_type
        first = node.inputs[0]
        assert first is not None
        before, after = list(first.shape or ()), list(node.outputs[0].shape or ())
        rank, axis = len(before), held.axis
        if kind in _UNARY:
            return held
        if kind in _NORMALIZING:
            return held if self._is_apart(node, axis, rank) else None
        if kind == "Trilu":
            return held if axis < rank - 2 else None
        if kind == "Transpose":
            order = list(given.get_ints("perm", tuple(reversed(range(rank)))))
            return Split(order.index(axis), held.sections)
        if kind == "Reshape":
            return _reshaped(before, after, held, self._size)
        if kind == "Expand":
            place = axis + len(after) - rank
            return Split(place, held.sections) if after[place] == before[axis] else None
        if kind == "Tile":
            repeats = ints(node, 1)
            return held if repeats and repeats[axis] == 1 else None
        if kind == "Gather":
            of, new = given.get_int("axis", 0) % rank, len(after) - rank
            return None if axis == of else Split(axis + (new if axis > of else 0), held.sections)
        if kind == "Split":
            return held if given.get_int("axis", 0) % rank != axis else section_of(pieces_of(node), held)
        if kind == "Slice":
            found = sliced(node)
            if found is None or axis not in found:
                return held if found is not None else None
            return Split(axis) if found[axis] in list(ends_of(held.sections)) else None
        if kind in ("Squeeze", "Unsqueeze"):
            return _moved(before, after, held, ints(node, 1, "axes"), kind == "Unsqueeze")
        if kind.startswith("Reduce"):
            return _reduced(node, held, rank)
        return None

    def _is_apart(self, node: ir.Node, axis: int, rank: int) -> bool:
        """Return True if a normalization computes each slice along an axis by itself."""
        from_axis_on = "Softmax" not in node.op_type or self._opset < 13
        default = 1 if "Softmax" in node.op_type and self._opset < 13 else -1
        of = node.attributes.get_int("axis", default) % rank
        return axis < of if from_axis_on else axis != of

    def _attention(self, node: ir.Node, held: Split) -> Way | None:
        """Split heads: dimension 1 of four, or columns, which are heads, of three."""
        query = node.inputs[0]
        rank = len((query.shape if query is not None else None) or ())
        heads = [node.attributes.get_int(f"{name}_num_heads", 0) for name in ("q", "kv")]
        axis = 1 if rank == 4 else rank - 1
        if held != Split(axis) or len(node.inputs) > 4 or len(node.outputs) > 1:
            return None
        if rank == 3 and any(count % self._size for count in heads):
            return None
        mask = node.inputs[3] if len(node.inputs) > 3 else None
        return Way((held, held, held, *[along(mask, -3, ())] * (len(node.inputs) - 3)), held)


# -- what nodes say --------------------------------------------------------------------------------


def _numbers_of(graph: ir.Graph) -> set[ir.Node]:
    """Return the nodes that compute masks, rotations and the like: from constants, and not for products.

    To share them gains nothing, and the search would weigh the states of each with those of the others.
    """
    found: dict[ir.Node, None] = {}
    for node in graph:
        given = [value for value in node.inputs if value is not None]
        if node.op_type == "Slice":  # of a mask, to the length of a request
            given = given[:1]
        if node.op_type != "Gather" and all(
            v.const_value is not None or v.producer() in found for v in given
        ):
            found[node] = None
    weights: set[ir.Node] = set()
    for node in reversed(found):
        readers = [user for output in node.outputs for user in output.consumers()]
        if any(reader.op_type in _WEIGHED or reader in weights for reader in readers):
            weights.add(node)
    return found.keys() - weights


def is_table(node: ir.Node, size: int) -> bool:
    """Return True if a Gather looks up rows of a weight that has enough for all ranks."""
    table = node.inputs[0]
    if table is None or table.const_value is None or node.attributes.get_int("axis", 0) != 0:
        return False
    shape = table.const_value.shape
    return len(shape) > 1 and isinstance(shape[0], int) and shape[0] >= size and table.dtype in _FLOATS


def _dequantized(node: ir.Node, held: Split) -> Way:
    scale = node.inputs[1]
    shape = list((scale.shape if scale is not None else None) or ())
    first = node.inputs[0]
    rank = len((first.shape if first is not None else None) or ())
    state: State = None
    if len(shape) == rank > 1:
        state = held
    elif len(shape) == 1 and shape[0] != 1 and node.attributes.get_int("axis", 1) % rank == held.axis:
        state = Split(0, held.sections)
    return Way((held, *[state] * (len(node.inputs) - 1)), held)


def _reshaped(before: Sequence[object], after: Sequence[object], held: Split, size: int) -> State:
    """Keep a split through a reshape between columns and heads: it stays with the outer dimension.

    That is the one with the same number of elements from it on, or the next one where it counts sections.
    """
    wanted = volume_of(before[held.axis :])
    for place, dim in enumerate(after):
        if dim == 1 or wanted is None or volume_of(after[place:]) != wanted:
            continue
        if dim == before[held.axis]:
            return Split(place, held.sections)
        if held.sections:
            equal = dim == len(held.sections) and len(set(held.sections)) == 1
            return Split(place + 1) if equal and place + 1 < len(after) else None
        if isinstance(dim, int) and dim % size == 0:
            return Split(place)
    return None


def _moved(
    before: Sequence[object], after: Sequence[object], held: Split, axes: list[int] | None, adds: bool
) -> State:
    """Follow an axis through Squeeze or Unsqueeze."""
    if axes is None:
        return None
    longer = after if adds else before
    special = {axis % len(longer) for axis in axes}
    kept = [axis for axis in range(len(longer)) if axis not in special]
    if adds:
        return Split(kept[held.axis], held.sections)
    return Split(kept.index(held.axis), held.sections) if held.axis in kept else None


def _reduced(node: ir.Node, held: Split, rank: int) -> State:
    axes = ints(node, 1, "axes")
    if not axes:
        return None
    over = {axis % rank for axis in axes}
    if held.axis in over:
        return Parts() if node.op_type == "ReduceSum" else None
    gone = 0 if node.attributes.get_int("keepdims", 1) else sum(axis < held.axis for axis in over)
    return Split(held.axis - gone, held.sections)
