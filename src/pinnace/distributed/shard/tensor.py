"""Tensor parallelism: large products are split among the ranks, by the shardings that `costs` chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from pinnace.distributed.segments import reads, replace_reads
from pinnace.distributed.shard.costs import Choice, choose
from pinnace.distributed.shard.gathers import join_gathers
from pinnace.distributed.shard.pieces import collective, piece, split, width_of
from pinnace.distributed.shard.placements import Placement, RowShard, Shard, Sharding, dimensions
from pinnace.distributed.shard.sections import ends_of, sliced
from pinnace.graph.editor import Editor, replace_value
from pinnace.graph.inference import opset_of
from pinnace.graph.matching import attributes
from pinnace.graph.nodes import DOMAIN
from pinnace.graph.walk import inner_graphs


def plan(model: ir.Model, size: int) -> Choice:
    """Choose the shardings of the nodes of `model`, whose values have types and shapes."""
    return choose(model.graph, size, opset_of(model))


def cut(model: ir.Model, rank: int, size: int, shardings: Sequence[Sharding]) -> dict[str, list[int]]:
    """Reduce `model` to a rank's part, by the shardings of `plan`.

    Returns the bytes of the weights before they were cut, by how they were cut.
    """
    split = _TensorSharder(model, rank, size).run(shardings)
    RemoveUnusedNodesPass()(model)  # also weights of which only slices are read
    return split


class _TensorSharder(Editor):
    def __init__(self, model: ir.Model, rank: int, size: int) -> None:
        super().__init__(model, "%shard")
        self.graph, self.size, self._rank = model.graph, size, rank
        self._placements: dict[ir.Value, Placement] = {}
        self._placed: dict[tuple[ir.Value, Placement], ir.Value] = {}
        self._cut: dict[str, list[int]] = {}

    def run(self, shardings: Sequence[Sharding]) -> dict[str, list[int]]:
        for node, sharding in zip(list(self.graph), shardings, strict=True):
            self._take(node, sharding)
            for output in node.outputs:
                self._placements[output] = sharding.gives
                if isinstance(sharding.gives, Shard):
                    output.shape = self._part(output, sharding.gives)
        for place, output in enumerate(list(self.graph.outputs)):
            whole = self._in_placement(output, None)
            if whole is not output:
                name, output.name = output.name, f"{output.name}.part"
                whole.name = name
                self.graph.outputs[place] = whole
        join_gathers(self, self.size)
        self.finish()
        self.model.opset_imports[DOMAIN] = 1
        return self._cut

    # -- nodes -------------------------------------------------------------------------------------

    def _take(self, node: ir.Node, sharding: Sharding) -> None:
        """Give a node its inputs in the placements of its sharding, and make its numbers those of a part."""
        if inner_graphs(node):
            # Captured values are included; collectives need the same order in all ranks.
            taken = sorted(reads(node), key=lambda value: value.name or "")
            whole = {value: self._in_placement(value, None) for value in taken}
            replace_reads(node, whole.get)
            return
        if sharding.again:
            whole_inputs = [
                None if value is None else self._in_placement(value, None) for value in node.inputs
            ]
            made, output = self.op(node.op_type, *whole_inputs, **attributes(node)), node.outputs[0]
            made.type, made.shape = output.type, output.shape
            self.insert_after(node)
            self._placed[output, None] = made
        held = sharding.takes[0] if sharding.takes else None
        for place, (value, placement) in enumerate(zip(node.inputs, sharding.takes, strict=True)):
            if value is not None:
                node.replace_input_with(place, self._in_placement(value, placement))
        if isinstance(held, RowShard):
            self._look_up(node)
        elif isinstance(held, Shard):
            self._localize(node, held, sharding.gives)

    def _localize(self, node: ir.Node, held: Shard, gives: Placement) -> None:
        output = node.outputs[0]
        match node.op_type:
            case "Reshape" if isinstance(gives, Shard):
                width = width_of(output, gives.axis) // self.size
                node.replace_input_with(1, self._with_entry(node, gives.axis, width))
            case "Expand" if isinstance(gives, Shard):
                # A dimension of 1 takes what the input has there.
                given = node.inputs[1]
                assert given is not None
                assert given.shape is not None
                length, rank = width_of(given, 0), len(output.shape or ())
                if rank - length <= gives.axis:
                    node.replace_input_with(1, self._with_entry(node, gives.axis - rank + length, 1))
            case "Split" if held.sections and gives == Shard(held.axis):
                widths = [width // self.size for width in held.sections]
                self._set_ints(node, 1, "split", widths)
                node.attributes.pop("num_outputs", None)
            case "Slice" if held.sections and gives == Shard(held.axis):
                self._shorten(node, held)
            case "Attention" if len(output.shape or ()) == 3:
                for name in ("q_num_heads", "kv_num_heads"):
                    count = node.attributes.get_int(name, 0)
                    node.attributes[name] = ir.AttrInt64(name, count // self.size)
            case "Shape":
                self._count_all(node, held)

    def _look_up(self, node: ir.Node) -> None:
        """Look up rows of this rank's part of a table, to which a row of zeros for those of others is added.

        Indices that the table does not have are errors as before.
        """
        table, indices = node.inputs
        assert table is not None
        assert indices is not None
        whole = next(
            value
            for (value, placement), part in self._placed.items()
            if part is table and placement == RowShard()
        )
        count, op = width_of(whole, 0), self.op
        low, high = self._rows(count)
        at = op("Where", op("Less", indices, 0), op("Add", indices, count), indices)
        is_own = op("And", op("Not", op("Less", at, low)), op("Less", at, high))
        is_any = op("And", op("Not", op("Less", at, 0)), op("Less", at, count))
        zeros, beyond = (self.like(number, indices) for number in (high - low, high - low + 1))
        other = op("Where", is_any, zeros, beyond)
        node.replace_input_with(1, op("Where", is_own, op("Sub", at, low), other))
        self.insert_before(node)

    def _with_entry(self, node: ir.Node, entry: int, number: int) -> ir.Value:
        """Return the second input of a node, which is a shape, with another number for one dimension."""
        given = node.inputs[1]
        assert given is not None
        if given.const_value is not None:
            dims = [int(n) for n in given.const_value.numpy().reshape(-1)]
            dims[entry] = number
            return self.constant(dims, np.int64)
        length = width_of(given, 0)
        y = self.op("Where", np.arange(length) == entry, np.full(length, number, np.int64), given)
        self.insert_before(node)
        return y

    def _set_ints(self, node: ir.Node, place: int, attribute: str, numbers: Sequence[int]) -> None:
        if attribute in node.attributes:
            node.attributes[attribute] = ir.AttrInt64s(attribute, numbers)
            return
        if len(node.inputs) <= place:
            node.resize_inputs(place + 1)
        node.replace_input_with(place, self.constant(numbers, np.int64))

    def _shorten(self, node: ir.Node, held: Shard) -> None:
        """Let a Slice of one section take this rank's part of it."""
        dims = dimensions(node.inputs[0])
        dims[held.axis] = sum(held.sections)
        ranges = sliced(node, dims)
        assert ranges is not None
        ends = ranges[held.axis]
        assert ends is not None
        starts, stops = ([0 if pair is None else pair[which] for pair in ranges.values()] for which in (0, 1))
        place = list(ranges).index(held.axis)
        starts[place], stops[place] = (end // self.size for end in ends)
        self._set_ints(node, 1, "starts", starts)
        self._set_ints(node, 2, "ends", stops)

    def _count_all(self, node: ir.Node, held: Shard) -> None:
        """Let a Shape say the dimension of all ranks together."""
        rank = len(dimensions(node.inputs[0]))
        start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", rank)
        factors = np.ones(rank, np.int64)
        factors[held.axis] = self.size
        whole = self.op("Mul", node.outputs[0], factors[start:end])
        replace_value(node.outputs[0], whole, reader=whole.producer())
        self.insert_after(node)

    # -- values ------------------------------------------------------------------------------------

    def _in_placement(self, value: ir.Value, placement: Placement) -> ir.Value:
        """Return a value in a placement, adding a collective if needed."""
        own = self._placements.get(value)
        if own == placement:
            return value
        if (value, placement) not in self._placed:
            if value.const_value is not None:
                made = self._weight(value, placement)
            elif isinstance(placement, Shard):
                made = self._inserted(self._cut_out, self._in_placement(value, None), placement)
            elif isinstance(own, Shard):
                made = self._inserted(self._gathered, value, own)
            else:
                made = self._inserted(self._summed, value, own)
            self._placed[value, placement] = made
        return self._placed[value, placement]

    def _inserted(
        self, make: Callable[[ir.Value, Placement], ir.Value], value: ir.Value, placement: Placement
    ) -> ir.Value:
        """Insert new nodes as early as possible, so that independent nodes run concurrently."""
        made = make(value, placement)
        producer = value.producer()
        if producer is None:
            self.insert_before(self.graph[0])
        else:
            self.insert_after(producer)
        return made

    def _summed(self, value: ir.Value, _: Placement) -> ir.Value:
        return collective(self, "AllReduce", value, value.shape, op="sum")

    def _gathered(self, part: ir.Value, placement: Placement) -> ir.Value:
        """Gather the parts along the first dimension, and put them together along their own."""
        assert isinstance(placement, Shard)
        dims = dimensions(part)
        whole = ir.Shape(
            d * self.size if n == placement.axis and isinstance(d, int) else d for n, d in enumerate(dims)
        )
        stacked = ir.Shape([dims[0] * self.size if isinstance(dims[0], int) else None, *dims[1:]])
        all_parts = collective(self, "AllGather", part, stacked)
        if placement == Shard(0):
            return all_parts
        count = self.size if self.opset >= 18 else None
        parts = self.ops("Split", self.size, all_parts, axis=0, num_outputs=count)
        for one in parts:
            one.shape = part.shape
        if placement.sections:
            widths = [width // self.size for width in placement.sections]
            pieces = [split(self, one, placement.axis, widths) for one in parts]
            parts = tuple(one for section in zip(*pieces, strict=True) for one in section)
        return self._joined(parts, placement.axis, whole)

    def _joined(self, parts: Sequence[ir.Value], axis: int, shape: ir.Shape) -> ir.Value:
        y = self.op("Concat", *parts, axis=axis)
        y.shape = shape
        return y

    def _cut_out(self, whole: ir.Value, placement: Placement) -> ir.Value:
        """Cut this rank's part out of a value that all have."""
        assert isinstance(placement, Shard)
        parts = []
        for low, high in ends_of(placement.sections or (width_of(whole, placement.axis),)):
            width = (high - low) // self.size
            parts.append(piece(self, whole, placement.axis, low + self._rank * width, width))
        return (
            parts[0] if len(parts) == 1 else self._joined(parts, placement.axis, self._part(whole, placement))
        )

    def _weight(self, weight: ir.Value, placement: Placement) -> ir.Value:
        """Return this rank's part of a weight."""
        tensor = weight.const_value
        assert tensor is not None
        array = tensor.numpy()
        if isinstance(placement, RowShard):
            low, high = self._rows(array.shape[0])
            array = np.concatenate([array[low:high], np.zeros_like(array[:1])])
            how = "by rows of a table"
        else:
            assert isinstance(placement, Shard)
            ends = np.cumsum([0, *(placement.sections or array.shape[placement.axis : placement.axis + 1])])
            parts = []
            for low, width in zip(ends, np.diff(ends) // self.size, strict=False):
                start = low + self._rank * width
                parts.append(array[(slice(None),) * placement.axis + (slice(start, start + width),)])
            array = np.concatenate(parts, placement.axis) if len(parts) > 1 else parts[0]
            how = "by columns" if placement.axis == array.ndim - 1 else "by rows"
        self._cut.setdefault(how if array.ndim > 1 else "as vectors", []).append(tensor.nbytes)
        return self.weight(ir.Tensor(array, dtype=tensor.dtype, name=f"{weight.name}/part"))

    def _rows(self, count: int) -> tuple[int, int]:
        """Return the rows of a table that this rank has."""
        return count * self._rank // self.size, count * (self._rank + 1) // self.size

    def _part(self, value: ir.Value, placement: Shard) -> ir.Shape:
        """Return the shape of a rank's part of a value."""
        dims = dimensions(value)
        dims[placement.axis] = width_of(value, placement.axis) // self.size
        return ir.Shape(dims)
