"""Guards of operators that are not known to be right without elements (`engines.elements`).

Where elements may be lacking inside of a model although its inputs have them, Reshapes that copy nothing
raise an error before the operator runs: with -1 for one dimension, the others must not be 0.

Concat takes inputs without elements of any shape, counts their sizes, and returns memory that nobody wrote
in their place (seen in 1.32). So a Reshape after it fails if the result has more elements than the inputs. If
another input has elements, and in models with a cache, which begins without elements, a cheaper Reshape of
the input fails if another dimension than the joined one is 0.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.engines.elements import GUARDED, unproven
from pinnace.engines.filled import Filled, is_fixed
from pinnace.graph.editor import Editor, remove_unread, replace_value
from pinnace.graph.failures import Unsupported
from pinnace.graph.nodes import origins
from pinnace.graph.walk import nodes

ENGINE = "onnxruntime"

_NO_TENSORS = {"ConcatFromSequence", "If", "Loop", "Optional", "OptionalGetElement", "OptionalHasElement"}
_NO_TENSORS |= {"SequenceAt", "SequenceErase", "SequenceLength", "SequenceMap"}
"""Operators that may take sequences; the nodes of nested graphs have guards of their own."""


def guard_elements(b: Editor) -> None:
    """Insert the guards into a model and its nested graphs."""
    filled, graph = Filled(b.model), b.model.graph
    for node in list(nodes(graph)):
        places = unproven(b, node, ENGINE, lambda value: value not in filled and not is_fixed(b, value))
        if places and node.op_type != "Concat":
            _check_inputs(b, node, places)
        elif places and not (any(x in filled for x in node.inputs if x) and _check_others(b, node, places)):
            _check_size(b, node)
    if any(map(_joins_cache, nodes(graph))):
        for node in list(nodes(graph)):
            places = unproven(b, node, ENGINE, lambda value: not is_fixed(b, value))
            if places and node.op_type != "Concat":
                _check_inputs(b, node, places)
            elif places:
                _check_others(b, node, places)


def insert(b: Editor, node: ir.Node) -> None:
    """Insert what was written before a node."""
    for new in b.nodes:
        new.name = f"{new.outputs[0].name}, guard of {node.op_type} {origins(node)[0]}"  # an error says it
    b.insert_before(node)


def _check_inputs(b: Editor, node: ir.Node, places: list[int]) -> None:
    for place in () if node.op_type in _NO_TENSORS else places:
        x = node.inputs[place]
        if x is not None and (node.op_type, place) != ("SequenceInsert", 0):
            row = b.op("Reshape", x, [1, -1])
            node.replace_input_with(place, b.op("Reshape", b.op("Reshape", row, [-1, 0]), b.op("Shape", x)))
            node.meta[GUARDED] = {*node.meta.get(GUARDED, ()), place}
    insert(b, node)


def _check_size(b: Editor, node: ir.Node) -> None:
    """Replace a Concat by one whose result is checked."""
    joined = b.op("Concat", *node.inputs, axis=node.attributes.get_int("axis", 1))
    b.nodes[0].meta[GUARDED] = {*range(len(node.inputs))}
    lost = b.op("Size", joined)
    for x in node.inputs:
        lost = b.op("Sub", lost, b.op("Size", x))
    any_lost = b.op("Cast", b.op("Cast", lost, to=ir.DataType.BOOL.value), to=ir.DataType.INT64.value)
    impossible = b.op("Mul", any_lost, b.constant(1 << 62, np.int64))
    checked = b.op("Reshape", joined, b.op("Sub", b.op("Shape", joined), impossible))
    b.nodes[0].metadata_props.update(node.metadata_props)
    insert(b, node)
    replace_value(node.outputs[0], checked)
    remove_unread(node)


def _joins_cache(join: ir.Node) -> bool:
    """Return True for a Concat that extends an input of the model along a free dimension."""
    if join.op_type != "Concat":
        return False
    axis = join.attributes.get_int("axis", 1)
    shapes = (x.shape for x in join.inputs if x is not None and x.is_graph_input())
    given = (tuple(shape) for shape in shapes if shape is not None)
    return any(-len(dims) <= axis < len(dims) and not isinstance(dims[axis], int) for dims in given)


def _check_others(b: Editor, join: ir.Node, places: list[int]) -> bool:
    """Return True if the ranks of a Concat's inputs are known, which the guards need."""
    try:
        ranks = {b.rank(x) for x in join.inputs if x is not None}
    except Unsupported:
        return False
    if len(ranks) != 1:
        return False
    kept = [0] * ranks.pop()
    kept[join.attributes.get_int("axis", 1)] = -1
    for place in places:
        join.replace_input_with(place, b.op("Reshape", join.inputs[place], list(kept)))
    join.meta[GUARDED] = {*places}
    insert(b, join)
    return True
