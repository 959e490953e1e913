"""Parts of a transposed tensor that are concatenated again, as in the boxes of detectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from pinnace.compiler.plan import PLANNED
from pinnace.engines.onnxruntime.rules.match import attributes, constant, ints
from pinnace.ops.builder import Builder
from pinnace.ops.values import Unsupported

_MAX_NODES = 64
"""Nodes between the Transpose and the Concat; detectors have 8 to 20."""

_Moved = dict[ir.Value, ir.Value]
"""Values, and the same values with the dimensions in the order before the Transpose."""


def transposed_parts(b: Builder, node: ir.Node) -> ir.Value | None:
    """Transpose, parts of the last dimension, elementwise operators, Concat -> the Transpose last.

    A part of the last dimension consists of many short runs of elements; before the Transpose it is one block
    of memory.
    """
    between: dict[ir.Node, None] = {}
    transposes = _sources(node, between)
    if len(transposes) != 1 or all(one.op_type not in _CUTS for one in between):
        return None
    (transpose,) = transposes
    x, perm = transpose.inputs[0], tuple(transpose.attributes["perm"].as_ints())
    last = len(perm) - 1  # ranks are inferred only for graphs that match so far
    if node.attributes.get_int("axis", 0) not in (-1, last) or b.rank(node.outputs[0]) != len(perm):
        return None
    if x is None or perm[last] == last or not _are_private((transpose, *between), node):
        return None
    moved = {transpose.outputs[0]: x}
    for one in between:
        moved |= dict(zip(one.outputs, _MOVES[one.op_type](b, one, moved, perm), strict=True))
    return b.transpose(moved[node.outputs[0]], perm)


def _sources(node: ir.Node, between: dict[ir.Node, None]) -> set[ir.Node]:
    """Return the Transposes from which `node` is computed, and add the nodes `between` in order.

    Raises `Unsupported` for a node before which dimensions cannot be reordered.
    """
    if node in between:
        return set()
    if node.op_type not in _MOVES or node.domain or PLANNED in node.meta or len(between) == _MAX_NODES:
        raise Unsupported(f"{node.op_type} cannot be moved")
    between[node] = None  # counted now, which bounds the recursion
    found = set()
    for value in node.inputs:
        if value is None or constant(value) is not None:
            continue
        before = value.producer()
        if before is None:
            raise Unsupported("an input of the graph")
        if before.op_type == "Transpose" and not before.domain and PLANNED not in before.meta:
            found.add(before)
        else:
            found |= _sources(before, between)
    between[node] = between.pop(node)  # after all that it reads
    return found


def _are_private(nodes: Sequence[ir.Node], last: ir.Node) -> bool:
    """Return True if only these nodes read their results, except those of the last one."""
    values = [value for node in nodes if node is not last for value in node.outputs]
    return all(not v.is_graph_output() and all(use.node in nodes for use in v.uses()) for v in values)


def _elementwise(b: Builder, node: ir.Node, moved: _Moved, perm: Sequence[int]) -> Sequence[ir.Value]:
    if node.attributes:  # old operators had some for broadcasting
        raise Unsupported("attributes")
    operands = [moved[i] if i in moved else _reordered(b, i, perm) for i in node.inputs if i is not None]
    return b.ops(node.op_type, 1, *operands)


def _reordered(b: Builder, value: ir.Value, perm: Sequence[int]) -> ir.Value:
    """Return a constant operand with reordered dimensions."""
    assert value.const_value is not None  # else `_sources` had visited its node
    array = value.const_value.numpy()
    if array.ndim > len(perm):
        raise Unsupported("a constant adds dimensions")
    if array.size == 1:
        return value
    whole = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
    return b.weight(ir.tensor(np.ascontiguousarray(whole.transpose(np.argsort(perm)))))


def _along(b: Builder, node: ir.Node, moved: _Moved, perm: Sequence[int]) -> Sequence[ir.Value]:
    """Move Split and Concat, which have an axis."""
    if any(i not in moved for i in (node.inputs if node.op_type == "Concat" else node.inputs[:1])):
        raise Unsupported("a constant part")
    axis = perm[node.attributes.get_int("axis", 0) % len(perm)]
    operands = [i if i is None else moved.get(i, i) for i in node.inputs]
    return b.ops(node.op_type, len(node.outputs), *operands, **attributes(node) | {"axis": axis})


def _slice(b: Builder, node: ir.Node, moved: _Moved, perm: Sequence[int]) -> Sequence[ir.Value]:
    if len(node.inputs) < 4:  # without axes it slices the first dimensions
        raise Unsupported("no axes")
    x, starts, ends, axes, *steps = node.inputs
    along = ints(axes)
    if x is None or starts is None or along is None:
        raise Unsupported("axes are not constant")
    placed = b.constant([perm[axis % len(perm)] for axis in along], b.dtype(starts).numpy())
    return b.ops("Slice", 1, moved[x], starts, ends, placed, *steps)


_UNARY = ("Abs", "Exp", "Log", "Neg", "Relu", "Sigmoid", "Softplus", "Sqrt", "Tanh")
_BINARY = ("Add", "Div", "Max", "Min", "Mul", "Pow", "Sub")
_CUTS = ("Slice", "Split")

_MOVES: dict[str, Callable[[Builder, ir.Node, _Moved, Sequence[int]], Sequence[ir.Value]]] = {
    **dict.fromkeys((*_UNARY, *_BINARY), _elementwise),
    "Concat": _along,
    "Slice": _slice,
    "Split": _along,
}
