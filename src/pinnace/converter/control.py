"""Control flow of ONNX as that of MindSpore.

A branch that is known is written in the place of its If. What only the run chooses becomes functions, which
Switch chooses and a call runs; tensors of the graph around them are their arguments. A Scan, and a Loop whose
rounds are counted, are written once for each round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import onnx_ir as ir

from pinnace.converter import inferring
from pinnace.converter.primitives import Primitives, type_of
from pinnace.ops.builder import Builder
from pinnace.ops.values import Unsupported
from pinnace.program import Function, Input, Node

OPERATORS = ("If", "Loop", "Scan")
"""The operators with graphs inside."""
_MOST = 1 << 14
"""Nodes that the rounds of a loop may come to."""
_FREE = "has a number of rounds known only at run time, and each round is written: give it as a constant"


class Raiser(Protocol):
    """The parts that write nodes; `functions` are those beside the main one."""

    writer: Primitives
    functions: dict[str, Function]

    def raise_all(self, nodes: Sequence[ir.Node], opset: int, depth: int) -> None:
        """Raise nodes in order."""

    def same(self, output: ir.Value, result: ir.Value) -> None:
        """Let a value of the model be what was written for it."""


def write(raiser: Raiser, node: ir.Node, opset: int, depth: int) -> None:
    """Raise an If, Loop or Scan. Raises Unsupported."""
    {"If": _if, "Loop": _loop, "Scan": _scan}[node.op_type](raiser, node, opset, depth)


def _if(raiser: Raiser, node: ir.Node, opset: int, depth: int) -> None:
    branches = inferring.possible(node, opset)
    if len(branches) > 1:
        _switch(raiser, node, branches, opset, depth)
        return
    (chosen,) = branches
    _enter(raiser, chosen)
    raiser.raise_all(list(chosen), opset, depth)
    for output, result in zip(node.outputs, chosen.outputs, strict=True):
        output.shape = result.shape  # the declared one fits both branches
        raiser.same(output, result)


def _enter(raiser: Raiser, graph: ir.Graph) -> None:
    """Give a nested graph's own weights the place of others."""
    for value in graph.initializers.values():
        if value.const_value is None:
            raise Unsupported(f"has no value for {value.name!r}")


def _switch(
    raiser: Raiser,
    node: ir.Node,
    branches: Sequence[ir.Graph],
    opset: int,
    depth: int,
) -> None:
    """Write an If whose branch is known only at run time."""
    writer, lite = raiser.writer, not raiser.writer.mindir
    (condition,) = node.inputs
    assert condition is not None
    flag = condition if lite else writer.op("Reshape", condition, ())
    partials = [_partial(raiser, graph, condition, opset, depth) for graph in branches]
    for output, *results in zip(node.outputs, *(graph.outputs for graph in branches), strict=True):
        if None in (dtypes := {x.dtype for x in results}) or len(dtypes) > 1:
            raise Unsupported("has branches whose results have no type, or different ones")
        output.type, output.shape = results[0].type, inferring.common([x.shape for x in results])
    chosen = writer.named("Switch", writer.name(flag), *partials)
    made = tuple(writer.new_name() for _ in (node.outputs if lite else "1"))
    types = [type_of(o) for o in node.outputs]
    call = Node(node.name or "", "", (chosen,), made, {"is_tail_call": False} if lite else {}, types)
    writer.add(call)
    if lite or len(node.outputs) == 1:
        writer.names |= dict(zip(node.outputs, made, strict=True))
        return
    for place, output in enumerate(node.outputs):
        writer.names[output] = writer.named("TupleGetItem", call.outputs[0], writer.literal(place))


def _partial(raiser: Raiser, graph: ir.Graph, condition: ir.Value, opset: int, depth: int) -> str:
    """Write a branch as a function, and return the name of it with its arguments."""
    outer = raiser.writer
    name = f"{outer.function}_{len(raiser.functions) + 1}"
    raiser.writer = inner = Primitives(outer.dialect, outer.layout, name, opset, outer)
    raiser.functions[name] = Function(name, (), (), ())  # takes its number
    try:
        raiser.raise_all(list(graph), opset, depth)
        for output in graph.outputs:
            inner.name(output)  # the tensors around it are known after this
        if not inner.mindir and not inner.captured:
            inner.name(condition)  # MindSpore Lite wants an argument
        inputs = [Input(inner.names[x], type_of(x)) for x in inner.captured]
        raiser.functions[name] = inner.program_function(inputs, graph.outputs)
    finally:
        raiser.writer = outer
    partial = "Partial" if outer.mindir else "PartialFusion"
    return outer.named(partial, name, *(outer.name(x) for x in inner.captured))


def _rounds(raiser: Raiser, body: ir.Graph, count: int) -> range:
    if count * len(list(body.all_nodes())) > _MOST:
        raise Unsupported(
            f"has {count} rounds of {len(list(body.all_nodes()))} nodes, and {_MOST} nodes can be written"
        )
    return range(count)


def _round(
    raiser: Raiser, body: ir.Graph, given: Sequence[ir.Value], opset: int, depth: int
) -> Sequence[ir.Value]:
    """Raise a copy of a body with these inputs; return its outputs."""
    copy = body.clone(allow_outer_scope_values=True)
    values = dict(zip(copy.inputs, given, strict=True))
    outputs = [values.get(output, output) for output in copy.outputs]
    copy.outputs.clear()  # onnx-ir lets no value be the output of two graphs
    for port, value in values.items():
        port.replace_all_uses_with(value)
    raiser.raise_all(list(copy), opset, depth)
    return outputs


def _built(raiser: Raiser, b: Builder, depth: int) -> None:
    """Raise what a builder wrote since the last time."""
    raiser.raise_all(list(b.nodes), b.opset, depth)
    b.nodes.clear()


def _scan(raiser: Raiser, node: ir.Node, opset: int, depth: int) -> None:
    count = node.attributes["num_scan_inputs"].as_int()
    body = node.attributes["body"].as_graph()
    inputs = [x for x in node.inputs if x is not None]
    states, sequences = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    axes = _ints(node, "scan_input_axes", count)
    backwards = _ints(node, "scan_input_directions", count)
    b = Builder()
    length = b.static_shape(sequences[0])[axes[0]]
    if opset < 9 or not length:
        raise Unsupported(
            "has batches, as Scan had before operator set 9, or a length known only at run time"
        )
    results: list[list[ir.Value]] = []
    for i in _rounds(raiser, body, length):
        places = [length - 1 - i if back else i for back in backwards]
        parts = [
            b.op("Gather", x, b.constant(place, np.int64), axis=axis)
            for x, place, axis in zip(sequences, places, axes, strict=True)
        ]
        _built(raiser, b, depth)
        made = _round(raiser, body, [*states, *parts], opset, depth)
        states = list(made[: len(states)])
        results.append(list(made[len(states) :]))
    rest = len(node.outputs) - len(states)
    gone_back, at = _ints(node, "scan_output_directions", rest), _ints(node, "scan_output_axes", rest)
    stacked = [
        _stacked(b, [row[i] for row in (results[::-1] if gone_back[i] else results)], at[i])
        for i in range(rest)
    ]
    _built(raiser, b, depth)
    for output, result in zip(node.outputs, [*states, *stacked], strict=True):
        if output.name:
            raiser.same(output, result)


def _stacked(b: Builder, parts: Sequence[ir.Value], axis: int) -> ir.Value:
    return b.op("Concat", *(b.op("Unsqueeze", part, [axis]) for part in parts), axis=axis)


def _ints(node: ir.Node, name: str, count: int) -> Sequence[int]:
    found = node.attributes.get(name)
    return [0] * count if found is None else list(found.as_ints())


def _loop(raiser: Raiser, node: ir.Node, opset: int, depth: int) -> None:
    known = raiser.writer.known
    most, condition, *states = node.inputs
    body = node.attributes["body"].as_graph()
    trips = None if most is None else known(most)
    goes_on = True if condition is None else known(condition)
    if trips is None or goes_on is None:
        raise Unsupported(_FREE)
    b = Builder()
    carried = [x for x in states if x is not None]
    results: list[list[ir.Value]] = []
    flag = b.constant(np.asarray(goes_on).reshape(()), np.bool_)
    for i in _rounds(raiser, body, int(np.asarray(trips).reshape(-1)[0])):
        if not np.asarray(known(flag)).all():
            break
        made = _round(raiser, body, [b.constant(i, np.int64), flag, *carried], opset, depth)
        flag, carried = made[0], list(made[1 : 1 + len(carried)])
        results.append(list(made[1 + len(carried) :]))
        if known(flag) is None:
            raise Unsupported(_FREE)
    rest = len(node.outputs) - len(carried)
    if rest and not results:
        raise Unsupported("has results of rounds, and no rounds")
    stacked = [_stacked(b, [row[i] for row in results], 0) for i in range(rest)]
    _built(raiser, b, depth)
    for output, result in zip(node.outputs, [*carried, *stacked], strict=True):
        if output.name:
            raiser.same(output, result)
