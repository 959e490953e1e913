"""The shardings with which the ranks can share the work of a node.

A product with a weight turns a whole input into split columns, or split columns into parts of a sum;
attention heads, which are columns, stay split through reshapes, products and softmax. (The scheme of
Megatron-LM, arXiv 1909.08053.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import onnx_ir as ir

from pinnace.distributed.shard.placements import (
    Partial,
    Placement,
    RowShard,
    Shard,
    Sharding,
    along,
    axis_of,
    dimensions,
)
from pinnace.distributed.shard.sections import (
    ends_of,
    pieces_of,
    section_of,
    sections_of,
    sliced,
    volume_of,
)
from pinnace.graph.constants import given_ints, ints
from pinnace.graph.inference import OPSET
from pinnace.graph.traits import Trait, having
from pinnace.graph.walk import inner_graphs

_ELEMENTWISE, _BROADCASTING = having(Trait.ELEMENTWISE), having(Trait.BROADCASTING)
_LINEAR, _NORMALIZING = having(Trait.LINEAR), having(Trait.NORMALIZING)
_WEIGHED = ("MatMul", "Gemm", "Conv", "Gather")
_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


class Shardings:
    """Finds the shardings of the nodes of a graph, in order, for a number of ranks."""

    def __init__(self, graph: ir.Graph, size: int, opset: int = OPSET) -> None:
        self._size, self._opset = size, opset
        self._found: dict[ir.Value, dict[Placement, None]] = {}
        self._sections = sections_of(graph, size)
        self._constant_nodes = _made_of_constants(graph)

    def placements(self, value: ir.Value | None) -> Iterable[Placement]:
        """Return the placements in which the nodes so far can leave a value, or a weight can be read."""
        if value is None or (value.const_value is None and value not in self._found):
            return (None,)
        if value not in self._found:
            axes = range(len(value.shape or ())) if value.is_initializer() else ()
            self._found[value] = dict.fromkeys(
                [None, *(s for axis in axes for s in self._splits(value, axis))]
            )
        return self._found[value]

    def of(self, node: ir.Node) -> list[Sharding]:
        """Return the shardings of a node; the first takes everything whole."""
        shardings = dict.fromkeys([Sharding((None,) * len(node.inputs))])
        known = all(v is None or v.shape is not None for v in (*node.inputs, *node.outputs))
        if node.domain == "" and known and node not in self._constant_nodes and not inner_graphs(node):
            shardings |= dict.fromkeys(
                sharding for sharding in self._shared(node) if self._fits(node, sharding)
            )
        if node.op_type == "Concat" and node.outputs[0].is_graph_output():
            shardings |= dict.fromkeys(
                replace(one, again=True) for one in shardings if isinstance(one.gives, Shard)
            )
        for output in node.outputs:
            self._found[output] = dict.fromkeys(sharding.gives for sharding in shardings)
        return list(shardings)

    def _fits(self, node: ir.Node, sharding: Sharding) -> bool:
        """Return True if the ranks can have equal parts of all inputs and outputs, and sum them."""
        held = [
            *zip(node.inputs, sharding.takes, strict=True),
            *((output, sharding.gives) for output in node.outputs),
        ]
        for value, placement in held:
            if isinstance(placement, Shard) and (
                value is None or placement not in self._splits(value, placement.axis)
            ):
                return False
            if isinstance(placement, Partial) and (value is None or value.dtype not in _FLOATS):
                return False
        return True

    def _splits(self, value: ir.Value, axis: int) -> list[Shard]:
        width = value.shape[axis] if value.shape is not None else None
        if not isinstance(width, int) or not width or width % self._size:
            return []
        return [Shard(axis), *(Shard(axis, sections) for sections in self._sections.get(width, ()))]

    def _shared(self, node: ir.Node) -> Iterator[Sharding]:
        kind, first = node.op_type, node.inputs[0] if node.inputs else None
        others = len(node.inputs) - 1
        if first is None:
            return
        if kind == "MatMul":
            yield from self._products(node)
        elif kind in _BROADCASTING:
            yield from self._elementwise(node)
        elif kind == "Shape":
            yield from (Sharding((placement,)) for placement in self.placements(first))
        elif kind == "Concat":
            yield from self._joined(node)
        else:
            if kind == "Gather" and is_table(node, self._size):
                yield Sharding((RowShard(), None), Partial())
            for placement in self.placements(first):
                if isinstance(placement, Shard) and (found := self._of_first_input(node, placement)):
                    yield found
                elif isinstance(placement, Partial) and kind in _LINEAR:
                    yield Sharding((placement, *[None] * others), placement)

    # -- several inputs ----------------------------------------------------------------------------

    def _products(self, node: ir.Node) -> Iterator[Sharding]:
        a, b = node.inputs
        rows, columns = len(dimensions(a)), len(dimensions(b))
        if min(rows, columns) < 2:
            return
        rank = max(rows, columns)
        for placement in self.placements(b):
            if isinstance(placement, Shard) and placement.axis == columns - 1:
                yield Sharding((None, placement), Shard(rank - 1, placement.sections))
            if isinstance(placement, Shard) and placement.axis == columns - 2:
                yield Sharding((Shard(rows - 1, placement.sections), placement), Partial())
            if isinstance(placement, Partial):
                yield Sharding((None, placement), placement)
        for placement in self.placements(a):
            if isinstance(placement, Shard) and placement.axis == rows - 2:
                yield Sharding((placement, None), Shard(rank - 2, placement.sections))
            if isinstance(placement, Shard) and placement.axis == rows - 1:
                yield Sharding((placement, Shard(columns - 2, placement.sections)), Partial())
            if isinstance(placement, Partial):
                yield Sharding((placement, None), placement)
        yield from (sharding for sharding in self._aligned(node) if axis_of(sharding.gives) < rank - 2)

    def _elementwise(self, node: ir.Node) -> Iterator[Sharding]:
        yield from self._aligned(node)
        parts = [Partial() in self.placements(value) for value in node.inputs]
        if node.op_type in ("Add", "Sub") and all(parts):
            yield Sharding((Partial(),) * len(parts), Partial())
        if node.op_type in ("Mul", "Div") and parts[0]:
            yield Sharding((Partial(), None), Partial())
        if node.op_type == "Mul" and parts[1]:
            yield Sharding((None, Partial()), Partial())

    def _aligned(self, node: ir.Node) -> Iterator[Sharding]:
        """Split all inputs that have a dimension, counted from the last, where one of them can be split."""
        inputs = [value for value in node.inputs if value is not None]
        rank = len(node.outputs[0].shape or ())
        targets = dict.fromkeys(
            (placement.axis - len(value.shape or ()), placement.sections)
            for value in inputs
            if value.const_value is None or not any(v.const_value is None for v in inputs)
            for placement in self.placements(value)
            if isinstance(placement, Shard)
        )
        for axis, sections in targets:
            takes = [along(value, axis, sections) for value in node.inputs]
            yield Sharding(tuple(takes), Shard(rank + axis, sections))

    def _joined(self, node: ir.Node) -> Iterator[Sharding]:
        if all(Partial() in self.placements(value) for value in node.inputs):
            yield Sharding((Partial(),) * len(node.inputs), Partial())
        rank = len(node.outputs[0].shape or ())
        axis = node.attributes.get_int("axis", 1) % rank
        for sharding in self._aligned(node):
            if axis_of(sharding.gives) != axis and len(set(sharding.takes)) == 1:
                yield sharding

    # -- one input ---------------------------------------------------------------------------------

    def _of_first_input(self, node: ir.Node, held: Shard) -> Sharding | None:
        """Return the sharding of a node that works on each part of its first input alone."""
        if node.op_type == "DequantizeLinear":
            return _dequantized(node, held)
        if node.op_type == "Attention":
            return self._attention(node, held)
        gives = self._output_placement(node, held)
        return None if gives is None else Sharding((held, *[None] * (len(node.inputs) - 1)), gives)

    def _output_placement(self, node: ir.Node, held: Shard) -> Placement:
        given, kind = node.attributes, node.op_type
        before, after = dimensions(node.inputs[0]), dimensions(node.outputs[0])
        rank, axis = len(before), held.axis
        if kind in _ELEMENTWISE:
            return held
        if kind in _NORMALIZING:
            return held if self._keeps_slices_apart(node, axis, rank) else None
        if kind == "Trilu":
            return held if axis < rank - 2 else None
        if kind == "Transpose":
            order = list(given.get_ints("perm", tuple(reversed(range(rank)))))
            return Shard(order.index(axis), held.sections)
        if kind == "Reshape":
            return _reshaped(before, after, held, self._size)
        if kind == "Expand":
            place = axis + len(after) - rank
            return Shard(place, held.sections) if after[place] == before[axis] else None
        if kind == "Tile":
            repeats = ints(node.inputs[1])
            return held if repeats and repeats[axis] == 1 else None
        if kind == "Gather":
            of, new = given.get_int("axis", 0) % rank, len(after) - rank
            return None if axis == of else Shard(axis + (new if axis > of else 0), held.sections)
        if kind == "Split":
            return held if given.get_int("axis", 0) % rank != axis else section_of(pieces_of(node), held)
        if kind == "Slice":
            found = sliced(node)
            if found is None or axis not in found:
                return held if found is not None else None
            return Shard(axis) if found[axis] in list(ends_of(held.sections)) else None
        if kind in ("Squeeze", "Unsqueeze"):
            return _moved(before, after, held, given_ints(node, 1, "axes"), kind == "Unsqueeze")
        if kind.startswith("Reduce"):
            return _reduced(node, held, rank)
        return None

    def _keeps_slices_apart(self, node: ir.Node, axis: int, rank: int) -> bool:
        """Return True if a normalization computes each slice along an axis by itself."""
        from_axis_on = "Softmax" not in node.op_type or self._opset < 13
        default = 1 if "Softmax" in node.op_type and self._opset < 13 else -1
        of = node.attributes.get_int("axis", default) % rank
        return axis < of if from_axis_on else axis != of

    def _attention(self, node: ir.Node, held: Shard) -> Sharding | None:
        """Split heads: dimension 1 of four, or columns, which are heads, of three."""
        rank = len(dimensions(node.inputs[0]))
        heads = [node.attributes.get_int(f"{name}_num_heads", 0) for name in ("q", "kv")]
        axis = 1 if rank == 4 else rank - 1
        if held != Shard(axis) or len(node.inputs) > 4 or len(node.outputs) > 1:
            return None
        if rank == 3 and any(count % self._size for count in heads):
            return None
        mask = node.inputs[3] if len(node.inputs) > 3 else None
        return Sharding((held, held, held, *[along(mask, -3, ())] * (len(node.inputs) - 3)), held)


# -- what nodes say --------------------------------------------------------------------------------


def _made_of_constants(graph: ir.Graph) -> set[ir.Node]:
    """Return the nodes that compute masks, rotations and the like: from constants, and not for products.

    To share them gains nothing, and the search would weigh the placements of each with those of the others.
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


def _dequantized(node: ir.Node, held: Shard) -> Sharding:
    shape, rank = dimensions(node.inputs[1]), len(dimensions(node.inputs[0]))
    placement: Placement = None
    if len(shape) == rank > 1:
        placement = held
    elif len(shape) == 1 and shape[0] != 1 and node.attributes.get_int("axis", 1) % rank == held.axis:
        placement = Shard(0, held.sections)
    return Sharding((held, *[placement] * (len(node.inputs) - 1)), held)


def _reshaped(before: Sequence[object], after: Sequence[object], held: Shard, size: int) -> Placement:
    """Keep a split through a reshape between columns and heads: it stays with the outer dimension.

    That is the one with the same number of elements from it on, or the next one where it counts sections.
    """
    wanted = volume_of(before[held.axis :])
    for place, dim in enumerate(after):
        if dim == 1 or wanted is None or volume_of(after[place:]) != wanted:
            continue
        if dim == before[held.axis]:
            return Shard(place, held.sections)
        if held.sections:
            equal = dim == len(held.sections) and len(set(held.sections)) == 1
            return Shard(place + 1) if equal and place + 1 < len(after) else None
        if isinstance(dim, int) and dim % size == 0:
            return Shard(place)
    return None


def _moved(
    before: Sequence[object], after: Sequence[object], held: Shard, axes: Sequence[int] | None, adds: bool
) -> Placement:
    """Follow an axis through Squeeze or Unsqueeze."""
    if axes is None:
        return None
    longer = after if adds else before
    special = {axis % len(longer) for axis in axes}
    kept = [axis for axis in range(len(longer)) if axis not in special]
    if adds:
        return Shard(kept[held.axis], held.sections)
    return Shard(kept.index(held.axis), held.sections) if held.axis in kept else None


def _reduced(node: ir.Node, held: Shard, rank: int) -> Placement:
    axes = given_ints(node, 1, "axes")
    if not axes:
        return None
    over = {axis % rank for axis in axes}
    if held.axis in over:
        return Partial() if node.op_type == "ReduceSum" else None
    gone = 0 if node.attributes.get_int("keepdims", 1) else sum(axis < held.axis for axis in over)
    return Shard(held.axis - gone, held.sections)
