"""Control flow of ONNX as that of MindSpore.

A branch that is known is written in the place of its If. What only the run chooses becomes functions, which
Switch chooses and a call runs; tensors of the graph around them are their arguments. The rounds of a Loop or
Scan are written one after the other where they are counted and few, else as `loops` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from pinnace.converter import conditions, loops
from pinnace.converter.primitives import Primitives
from pinnace.graph.failures import Unsupported
from pinnace.graph.inference import common_shape

if TYPE_CHECKING:  # which imports this module
    from pinnace.converter.raising import Raiser

OPERATORS = ("If", "Loop", "Scan")
"""The operators with graphs inside."""
_MOST = 1 << 14
"""Nodes that the rounds of a loop may come to."""


def write(raiser: Raiser, node: ir.Node, opset: int, depth: int) -> None:
    {"If": _if, "Loop": _loop, "Scan": _scan}[node.op_type](raiser, node, opset, depth)


def _if(raiser: Raiser, node: ir.Node, opset: int, depth: int) -> None:
    branches = conditions.possible(node, opset)
    if len(branches) > 1:
        _switch(raiser, node, branches, opset, depth)
        return
    (chosen,) = branches
    for value in chosen.initializers.values():
        if value.const_value is None:
            raise Unsupported(f"has no value for {value.name!r}")
    raiser.raise_all(list(chosen), opset, depth)
    for output, result in zip(node.outputs, chosen.outputs, strict=True):
        output.shape = result.shape  # the declared one fits both branches
        raiser.same(output, result)


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
        output.type, output.shape = results[0].type, common_shape(*(x.shape for x in results))
    chosen = writer.named("Switch", writer.name(flag), *partials)
    loops.give(writer, loops.call(writer, chosen, (), node.outputs), node.outputs)


def _partial(raiser: Raiser, graph: ir.Graph, condition: ir.Value, opset: int, depth: int) -> str:
    """Write a branch as a function, and return the name of it with its arguments."""
    outer = raiser.writer

    def fill(inner: Primitives) -> Sequence[str]:
        raiser.raise_all(list(graph), opset, depth)
        if not inner.mindir and not inner.captured:
            inner.name(condition)  # MindSpore Lite wants an argument
        return inner.results({inner.names[x] for x in inner.captured}, graph.outputs)

    name, inner = loops.own_function(raiser, outer, (), opset, fill)
    partial = "Partial" if outer.mindir else "PartialFusion"
    return outer.named(partial, name, *(outer.name(x) for x in inner.captured))


def _round(
    raiser: Raiser, body: ir.Graph, given: Sequence[ir.Value], opset: int, depth: int
) -> Sequence[ir.Value]:
    copy = body.clone(allow_outer_scope_values=True)
    values = dict(zip(copy.inputs, given, strict=True))
    outputs = [values.get(output, output) for output in copy.outputs]
    copy.outputs.clear()  # onnx-ir lets no value be the output of two graphs
    for port, value in values.items():
        port.replace_all_uses_with(value)
    raiser.raise_all(list(copy), opset, depth)
    return outputs


def _scan_batches(raiser: Raiser, node: ir.Node, opset: int, depth: int) -> None:
    """Write a Scan of batches, as before operator set 9, as one for each."""
    lengths, *inputs = node.inputs
    size = inputs[0].shape[0] if inputs[0] is not None and inputs[0].shape is not None else None
    if lengths is not None or not isinstance(size, int):
        raise Unsupported("has lengths, or a free number of batches: write it in operator set 9 or newer")
    body = node.attributes["body"].as_graph()
    for inner in body.all_nodes():
        inner.version = inner.version or opset
    count = node.attributes["num_scan_inputs"].as_int()
    how: dict[str, Any] = {
        "num_scan_inputs": count,
        "scan_input_directions": node.attributes.get_ints("directions", [0] * count),
    }
    b = raiser.builder()
    rows = []
    for i in range(size):
        given = [b.op("Gather", b.tensor(x), b.constant(i), axis=0) for x in inputs]
        copy = body.clone(allow_outer_scope_values=True)
        results = b.ops("Scan", len(node.outputs), *given, body=copy, **how)
        loops.built(raiser, b, depth)
        rows.append([b.op("Unsqueeze", y, [0]) for y in results])
    whole = [b.op("Concat", *parts, axis=0) for parts in zip(*rows, strict=True)]
    loops.built(raiser, b, depth)
    for output, result in zip(node.outputs, whole, strict=True):
        raiser.same(output, result)


def _scan(raiser: Raiser, node: ir.Node, opset: int, depth: int) -> None:
    if opset < 9:
        _scan_batches(raiser, node, opset, depth)
        return
    count = node.attributes["num_scan_inputs"].as_int()
    body = node.attributes["body"].as_graph().clone(allow_outer_scope_values=True)
    inputs = [x for x in node.inputs if x is not None]
    states, sequences = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    none = [0] * count
    axes = node.attributes.get_ints("scan_input_axes", none)
    backwards = node.attributes.get_ints("scan_input_directions", none)
    ports, outputs, nodes = list(body.inputs), list(body.outputs), list(body)
    body.inputs.clear()
    body.outputs.clear()
    body.remove(nodes)
    number, flag = (loops.port(raiser.writer, t, []) for t in (ir.DataType.INT64, ir.DataType.BOOL))
    b = raiser.builder()
    length = b.tensor(b.dim(sequences[0], axes[0]))
    loops.built(raiser, b, depth)
    for port, x, axis, back in zip(ports[len(states) :], sequences, axes, backwards, strict=True):
        place = b.op("Sub", b.op("Sub", length, 1), number) if back else number
        part = b.op("Gather", x, place, axis=axis)
        port.replace_all_uses_with(part)
        outputs = [part if output is port else output for output in outputs]
    whole = ir.Graph([number, flag, *ports[: len(states)]], [flag, *outputs], nodes=[*b.nodes, *nodes])
    rounds = loops.Loop(whole, length, None, states)
    rest = len(node.outputs) - len(states)
    b = raiser.builder()
    rows = [ir.Value(name=raiser.writer.fresh()) for _ in range(rest)]
    _repeat(raiser, rounds, [*node.outputs[: len(states)], *rows], opset, depth)
    directions = node.attributes.get_ints("scan_output_directions", [0] * rest)
    at = node.attributes.get_ints("scan_output_axes", [0] * rest)
    for output, y, back, axis in zip(node.outputs[len(states) :], rows, directions, at, strict=True):
        y = b.op("Slice", y, [-1], [-1 << 40], [0], [-1]) if back else y
        turn = list(range(1, b.rank(y)))
        turn.insert(axis % b.rank(y), 0)
        y = b.transpose(y, turn) if axis else b.op("Identity", y)
        loops.built(raiser, b, depth)
        raiser.same(output, y)


def _loop(raiser: Raiser, node: ir.Node, opset: int, depth: int) -> None:
    most, condition, *states = node.inputs
    body = node.attributes["body"].as_graph()
    carried = [x for x in states if x is not None]
    _repeat(raiser, loops.Loop(body, most, condition, carried), node.outputs, opset, depth)


def _repeat(raiser: Raiser, loop: loops.Loop, outputs: Sequence[ir.Value], opset: int, depth: int) -> None:
    """Write the rounds of a loop one after the other, if they are counted and few, else a loop."""
    results = _unrolled(raiser, loop, opset, depth)
    if results is None:
        loops.write(raiser, loop, outputs, opset, depth)
        return
    for output, result in zip(outputs, results, strict=True):
        if output.name:
            raiser.same(output, result)


def _unrolled(raiser: Raiser, loop: loops.Loop, opset: int, depth: int) -> list[ir.Value] | None:
    """Write the rounds of a loop; None where only the run counts them, or they are too many, or none."""
    known = raiser.writer.known
    trips = None if loop.most is None else known(loop.most)
    goes_on = True if loop.goes_on is None else known(loop.goes_on)
    if trips is None or goes_on is None:
        return None
    count = int(np.asarray(trips).reshape(-1)[0])
    if count * sum(1 for _ in loop.body.all_nodes()) > _MOST:
        return None
    b = raiser.builder()
    carried, results = list(loop.states), list[list[ir.Value]]()
    flag = b.constant(np.asarray(goes_on).reshape(()), np.bool_)
    for i in range(count):
        if not np.asarray(known(flag)).all():
            break
        made = _round(raiser, loop.body, [b.constant(i, np.int64), flag, *carried], opset, depth)
        flag, carried = made[0], list(made[1 : 1 + len(carried)])
        results.append(list(made[1 + len(carried) :]))
        if known(flag) is None:
            return None
    if not results:
        return None if len(loop.body.outputs) > 1 + len(carried) else carried
    stacked = [
        b.op("Concat", *(b.op("Unsqueeze", part, [0]) for part in rows), axis=0)
        for rows in zip(*results, strict=True)
    ]
    loops.built(raiser, b, depth)
    return [*carried, *stacked]
