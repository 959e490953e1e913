"""Inputs without elements: the operators that engines compute right with them.

`elements.json` has onnxruntime's operators, with the positions of the inputs that may have a dimension of 0;
[-1] stands for all. OpenVINO has none. `python -m tools.tables.make_elements_table` writes it, by trials:
what no trial has shown right is not in it. A request without elements is taken only by a model of which all
operators are in the table. Inside of a model a value may lack elements in any run, so engines guard or refuse
other operators there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path

import onnx_ir as ir

from pinnace.engines.nonempty import is_fixed
from pinnace.engines.protocol import WITHOUT_ELEMENTS
from pinnace.graph.builder import Builder
from pinnace.graph.constants import constant, given_ints
from pinnace.graph.failures import Unsupported
from pinnace.graph.inference import opset_of
from pinnace.graph.nodes import origins
from pinnace.graph.scales import is_dequantized
from pinnace.graph.walk import nodes

GUARDED = "guarded"
"""The key in a node's `meta` of the positions of inputs that are checked in the run."""

Condition = Callable[[Builder, ir.Node, ir.Value], bool]
MayLack = Callable[[ir.Value], bool]


def record(model: ir.Model, engine: str, info: dict[str, str]) -> None:
    """Record in a model's info if it takes requests without elements."""
    info[WITHOUT_ELEMENTS] = ""
    b = Builder(opset=opset_of(model))
    for node in nodes(model.graph):
        if maybe_empty(b, node, engine, lambda value: not is_fixed(b, value)):
            what = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            where = f"{what} right without them (node {origins(node)[0]!r})"
            info[WITHOUT_ELEMENTS] = f"{engine} is not known to compute {where}"
            return


def maybe_empty(b: Builder, node: ir.Node, engine: str, may_lack: MayLack) -> list[int]:
    """Return the positions of a node's inputs that may lack elements, and are not in the engine's table."""
    in_integers = any(map(is_dequantized, node.inputs))  # by kernels that the trials did not meet
    name = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
    right = () if in_integers else _table(engine).get(name, ())
    if -1 in right:
        return []
    guarded = node.meta.get(GUARDED, ())
    lacking = [
        (place, value)
        for place, value in enumerate(node.inputs)
        if value is not None and place not in right and place not in guarded and may_lack(value)
    ]
    fits = None if node.domain or in_integers else _RIGHT_IF.get(node.op_type)
    return [place for place, value in lacking if fits is None or not _holds(fits, b, node, value)]


def _holds(fits: Condition, b: Builder, node: ir.Node, value: ir.Value) -> bool:
    try:
        return fits(b, node, value)
    except (Unsupported, IndexError):  # a shape is unknown, or the node is invalid
        return False


def _others_fixed(b: Builder, node: ir.Node, value: ir.Value) -> bool:
    """Return True if a Concat's input can only be empty along the axis, where it adds nothing."""
    shape = b.shape(value)
    if any(other is None or b.rank(other) != len(shape) for other in node.inputs):
        return False
    axis = b.axis(node.attributes.get_int("axis", 1), value)
    return all(size for place, size in enumerate(shape) if place != axis)


def _reduced_fixed(b: Builder, node: ir.Node, value: ir.Value) -> bool:
    """Return True if the dimensions that a ReduceMean reduces are fixed, and not 0."""
    axes, shape = given_ints(node, 1, "axes"), b.shape(value)
    return bool(axes) and all(shape[axis] for axis in axes or ())


def _rows_fixed(b: Builder, node: ir.Node, value: ir.Value) -> bool:
    """Return True for what is normalized in rows of a fixed length that is not 0; there may be no rows."""
    return value is node.inputs[0] and all(b.shape(value)[node.attributes.get_int("axis", -1) :])


def _places_fixed(b: Builder, node: ir.Node, value: ir.Value) -> bool:
    """Return True if the indices of a GatherND, of which there may be none, have a fixed length."""
    return value is node.inputs[1] and bool(b.shape(value)[-1])


def _left_out(b: Builder, node: ir.Node, value: ir.Value) -> bool:
    """Return True for a constant by which a file leaves out the regions, scales or sizes of a Resize."""
    return value is not node.inputs[0] and constant(value) is not None


def _vector(b: Builder, node: ir.Node, value: ir.Value) -> bool:
    """Return True for a tensor of one dimension, of which any can be joined in a sequence."""
    return b.rank(value) == 1


_RIGHT_IF: Mapping[str, Condition] = {
    "Concat": _others_fixed,
    "GatherND": _places_fixed,
    "ReduceMean": _reduced_fixed,
    "Resize": _left_out,
    "SequenceConstruct": _vector,
    "SequenceInsert": _vector,
    "SimplifiedLayerNormalization": _rows_fixed,
}
"""Conditions under which an input may lack elements, of operators that the table does not have."""


@cache
def _table(engine: str) -> Mapping[str, Collection[int]]:
    """Return the table of an engine, {} for one that was not tried."""
    text = Path(__file__).with_name("elements.json").read_text()
    found: dict[str, list[int]] = json.loads(text).get(engine, {})
    return found
