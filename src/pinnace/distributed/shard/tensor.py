"""Tensor parallelism: large products are split among the ranks, by columns first, then by rows.

Each value of the graph is held in one of three states: whole in every rank, split along an axis, or as
partial sums. A product with a weight turns a whole input into split columns, or split columns into partial
sums, which one AllReduce makes whole. Attention heads, which are columns, stay split through reshapes,
products and softmax. Inputs of nodes that cannot work on splits are made whole first. (The scheme of
Megatron-LM, arXiv 1909.08053.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from pinnace.compiler.nodes import inner_graphs
from pinnace.distributed.plan import reads, replace_reads
from pinnace.ops.collective import DOMAIN
from pinnace.ops.inference import OPSET
from pinnace.types import Array

SMALL = 1 << 16
"""Maximum bytes of weights that every rank holds, as they are not worth a collective."""

_UNARY = {
    *(
        "Abs",
        "Cast",
        "Ceil",
        "Cos",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "Identity",
    ),
    *("LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin"),
    *("Softplus", "Softsign", "Sqrt", "Swish", "Tanh"),
}
_BROADCASTING = {
    "Add",
    "And",
    "Div",
    "Equal",
    "Greater",
    "Less",
    "Max",
    "Min",
    "Mul",
    "Or",
    "Pow",
    "Sub",
    "Where",
}


@dataclass(frozen=True)
class Split:
    """A value of which each rank has an equal part along an axis."""

    axis: int


@dataclass(frozen=True)
class Parts:
    """A value that is the sum of the ranks' values."""


State = Split | Parts | None
"""State of a value; None is whole."""


def cut(model: ir.Model, rank: int, size: int) -> int:
    """Reduce `model`, whose values have types and shapes, to a rank's part. Returns the number of split
    weights.
    """
    count = _TensorSharder(model, rank, size).run()
    RemoveUnusedNodesPass()(model)  # also weights of which only slices are read
    return count


class _TensorSharder:
    def __init__(self, model: ir.Model, rank: int, size: int) -> None:
        self._graph, self._rank, self._size = model.graph, rank, size
        self._opsets = model.opset_imports
        self._opset = self._opsets.get("", OPSET)
        self._states: dict[ir.Value, State] = {}
        self._whole: dict[ir.Value, ir.Value] = {}
        self._slices: dict[tuple[ir.Value, int], ir.Value] = {}
        self._cut = 0

    def run(self) -> int:
        for node in list(self._graph):
            state = self._taken(node)
            for output in node.outputs:
                self._states[output] = state
                if isinstance(state, Split):
                    self._shrink(output, state.axis)
        for place, output in enumerate(list(self._graph.outputs)):
            whole = self._made_whole(output)
            if whole is not output:
                name, output.name = output.name, f"{output.name}.part"
                whole.name = name
                self._graph.outputs[place] = whole
        self._opsets[DOMAIN] = 1
        return self._cut

    # -- nodes -------------------------------------------------------------------------------------

    def _taken(self, node: ir.Node) -> State:
        """Let a node work on split inputs if it can, else make them whole. Returns the state of its
        outputs.
        """
        state: State = None
        inputs = [value for value in node.inputs if value is not None]
        if node.domain == "" and not inner_graphs(node) and _is_known([*inputs, *node.outputs]):
            if node.op_type == "MatMul":
                return self._matmul(node)
            if node.op_type == "Gather" and self._is_table(node):
                return self._embedding(node)
            if any(isinstance(self._states.get(value), Split) for value in inputs):
                state = self._carried(node)
        if state is None:
            # Captured values of nested graphs are included; collectives need the same order in all ranks.
            taken = sorted(reads(node), key=lambda value: value.name or "")
            whole = {value: self._made_whole(value) for value in taken}
            replace_reads(node, whole.get)
        return state

    def _carried(self, node: ir.Node) -> State:
        """Return the state of the output if the node works on each part alone, else None."""
        first = node.inputs[0]
        held = None if first is None else self._states.get(first)
        if node.op_type in _BROADCASTING:
            return self._broadcasting(node)
        if not isinstance(held, Split) or first is None or first.shape is None:
            return None
        others = [value for value in node.inputs[1:] if value is not None]
        if any(self._states.get(value) is not None for value in others):
            return None
        rank = len(first.shape)
        match node.op_type:
            case kind if kind in _UNARY:
                return held
            case "Softmax" | "LogSoftmax":
                if self._opset < 13:  # it normalises over all dimensions from the axis on
                    return held if held.axis < node.attributes.get_int("axis", 1) % rank else None
                return held if node.attributes.get_int("axis", -1) % rank != held.axis else None
            case "LayerNormalization" | "RMSNormalization":
                return held if held.axis < node.attributes.get_int("axis", -1) % rank else None
            case "Transpose":
                order = list(node.attributes.get_ints("perm", tuple(reversed(range(rank)))))
                return Split(order.index(held.axis))
            case "Reshape":
                return self._reshaped(node, held)
            case _:
                return None

    def _matmul(self, node: ir.Node) -> State:
        a, b = node.inputs
        assert a is not None
        assert b is not None
        held, other = self._states.get(a), self._states.get(b)
        if self._is_large(b) and b.shape is not None and len(b.shape) == 2:
            contraction = a.shape is not None and held == Split(len(a.shape) - 1)
            if contraction and self._divides(b, 0):
                node.replace_input_with(1, self._slice(b, 0))
                return Parts()
            if self._divides(b, 1) and a.shape is not None:
                node.replace_input_with(0, self._made_whole(a))
                node.replace_input_with(1, self._slice(b, 1))
                return Split(len(a.shape) - 1)
        rank = len(a.shape or ())
        same = held == other and rank == len(b.shape or ())
        if same and isinstance(held, Split) and held.axis < rank - 2:
            return held
        for place, value in enumerate((a, b)):
            node.replace_input_with(place, self._made_whole(value))
        return None

    def _embedding(self, node: ir.Node) -> State:
        table, indices = node.inputs
        assert table is not None
        assert indices is not None
        assert indices.shape is not None
        node.replace_input_with(0, self._slice(table, 1))
        node.replace_input_with(1, self._made_whole(indices))
        return Split(len(indices.shape))

    def _is_table(self, node: ir.Node) -> bool:
        table = node.inputs[0]
        return (
            table is not None
            and self._is_large(table)
            and table.shape is not None
            and len(table.shape) == 2
            and node.attributes.get_int("axis", 0) == 0
            and self._divides(table, 1)
        )

    def _broadcasting(self, node: ir.Node) -> State:
        """Combine inputs split along equal axes; weights with that axis are split, others are used whole."""
        inputs = [value for value in node.inputs if value is not None]
        rank = max(len(v.shape or ()) for v in inputs)
        from_end = {
            held.axis - len(value.shape or ())
            for value in inputs
            if isinstance(held := self._states.get(value), Split)
        }
        if len(from_end) != 1 or any(isinstance(self._states.get(v), Parts) for v in inputs):
            return None
        (axis,) = from_end
        replaced: list[ir.Value] = []
        for value in inputs:
            shape = value.shape or ir.Shape(())
            if self._states.get(value) is not None or -axis > len(shape) or shape[axis] == 1:
                replaced.append(value)
            elif value.const_value is not None and self._divides(value, len(shape) + axis):
                replaced.append(self._slice(value, len(shape) + axis))
            else:
                return None
        for place, value in enumerate(replaced):
            node.replace_input_with(place, value)
        return Split(rank + axis)

    def _reshaped(self, node: ir.Node, held: Split) -> State:
        """Keep the split through a reshape between columns and heads: it stays with the outer dimension."""
        before, wanted = node.inputs[0], node.inputs[1]
        after = node.outputs[0]
        if before is None or wanted is None or before.shape is None or after.shape is None:
            return None
        if wanted.const_value is None:
            return None
        full = list(before.shape)
        part = full[held.axis]
        if not isinstance(part, int):
            return None
        full[held.axis] = part * self._size
        axis = _follows(full, list(after.shape), held.axis, self._size)
        if axis is None:
            return None
        dims = wanted.const_value.numpy().astype(np.int64)
        # 0 copies the dimension of the input, which may be the split one.
        found = [
            n if d == 0 and isinstance(n, int) else int(d) for d, n in zip(dims, after.shape, strict=True)
        ]
        if found[axis] > 0:
            found[axis] //= self._size
        node.replace_input_with(1, self._constant(f"shape/{after.name}", np.array(found, np.int64)))
        return Split(axis)

    # -- values ------------------------------------------------------------------------------------

    def _made_whole(self, value: ir.Value) -> ir.Value:
        """Return the whole of a value, adding a collective after its node if needed."""
        state = self._states.get(value)
        if state is None:
            return value
        if value in self._whole:
            return self._whole[value]
        dims = list(value.shape or ())
        new: list[ir.Node] = []

        def add(node: ir.Node, suffix: str, kind: ir.TypeProtocol | None) -> ir.Value:
            new.append(node)
            (made,) = node.outputs
            made.name, made.type, made.shape = f"{value.name}.{suffix}", kind, ir.Shape(dims)
            return made

        def cast(given: ir.Value, dtype: ir.DataType, suffix: str) -> ir.Value:
            node = ir.Node("", "Cast", [given], [ir.AttrInt64("to", dtype)])
            return add(node, suffix, ir.TensorType(dtype))

        is_bool = value.dtype is ir.DataType.BOOL  # bool has no sum
        part = cast(value, ir.DataType.INT32, "number") if is_bool else value
        kind = part.type
        if isinstance(state, Split):
            # The sum of parts padded with zeros is exact.
            width = dims[state.axis]
            assert isinstance(width, int)
            dims[state.axis] = width * self._size
            part = add(self._pad(part, state.axis, len(dims), width), "padded", kind)
        node = ir.Node(DOMAIN, "AllReduce", [part], [ir.AttrString("op", "sum")], name=f"{value.name}")
        whole = add(node, "sum" if is_bool else "whole", kind)
        if is_bool:
            whole = cast(whole, ir.DataType.BOOL, "whole")
        producer = value.producer()
        assert producer is not None
        # Add it as early as possible, so that independent nodes run concurrently.
        self._graph.insert_after(producer, new)
        self._whole[value] = whole
        return whole

    def _pad(self, value: ir.Value, axis: int, rank: int, width: int) -> ir.Node:
        """Return a node that puts a part of some width into its place among zeros."""
        pads = np.zeros(2 * rank, np.int64)
        pads[axis], pads[rank + axis] = self._rank * width, (self._size - 1 - self._rank) * width
        if self._opset < 11:
            return ir.Node("", "Pad", [value], [ir.AttrInt64s("pads", pads.tolist())])
        return ir.Node("", "Pad", [value, self._constant(f"pads/{value.name}", pads)])

    def _slice(self, weight: ir.Value, axis: int) -> ir.Value:
        """Return this rank's part of a weight."""
        if (weight, axis) not in self._slices:
            tensor = weight.const_value
            assert tensor is not None
            width = self._width(weight, axis) // self._size
            place = [slice(None)] * len(tensor.shape)
            place[axis] = slice(self._rank * width, (self._rank + 1) * width)
            array = tensor.numpy()[tuple(place)]
            self._slices[weight, axis] = self._constant(f"slice{axis}/{weight.name}", array, tensor.dtype)
            self._cut += tensor.nbytes > SMALL
        return self._slices[weight, axis]

    @staticmethod
    def _width(value: ir.Value, axis: int) -> int:
        width = (value.shape or ())[axis]
        assert isinstance(width, int)
        return width

    def _constant(self, name: str, array: Array, dtype: ir.DataType | None = None) -> ir.Value:
        name = f"pinnace/{name}"  # the prefix avoids names of the file
        tensor = ir.Tensor(array, dtype=dtype, name=name) if dtype else ir.tensor(array, name=name)
        value = ir.Value(
            name=name, const_value=tensor, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype)
        )
        self._graph.initializers[name] = value
        return value

    def _shrink(self, value: ir.Value, axis: int) -> None:
        dims = list(value.shape or ())
        width = dims[axis]
        assert isinstance(width, int)
        dims[axis] = width // self._size
        value.shape = ir.Shape(dims)

    def _is_large(self, value: ir.Value) -> bool:
        return (
            value.const_value is not None
            and value.name in self._graph.initializers
            and value.const_value.nbytes > SMALL
        )

    def _divides(self, value: ir.Value, axis: int) -> bool:
        width = (value.shape or ())[axis]
        return isinstance(width, int) and width % self._size == 0


def _is_known(values: Sequence[ir.Value]) -> bool:
    return all(value.shape is not None for value in values)


def _follows(before: Sequence[object], after: Sequence[object], axis: int, size: int) -> int | None:
    """Return the dimension after a reshape that is split like `axis` before it; None if there is none.

    It is the one with the same number of elements from it on.
    """
    wanted = _volume(before[axis:])
    for place, dim in enumerate(after):
        if isinstance(dim, int) and dim % size == 0 and wanted and _volume(after[place:]) == wanted:
            return place
    return None


def _volume(dims: Sequence[object]) -> tuple[int, list[str]] | None:
    """Return the product of fixed dimensions and the names of free ones. None if one is unknown."""
    names = [dim.value for dim in dims if isinstance(dim, ir.SymbolicDim)]
    known = [name for name in names if name is not None]
    fixed = math.prod(dim for dim in dims if isinstance(dim, int))
    return (fixed, sorted(known)) if fixed and len(known) == len(names) else None
