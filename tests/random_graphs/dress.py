"""From a draft to a model as files have them: constants in three places, free dimensions, nested graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper
from tests.random_graphs.draft import Draft, Refused, _captured, model_of, type_of


@dataclass(frozen=True)
class Case:
    """A model and what goes into it."""

    model: ModelProto
    feed: dict[str, np.ndarray]


def dress(d: Draft) -> Case:
    """The model of a draft; Refused where it has no output that could be compared."""
    outputs = [*dict.fromkeys([*d.ends(), *(t for t in d.taps if t in d.values)])]
    outputs = [o for o in outputs if isinstance(d.values[o], np.ndarray)]
    if not outputs:
        raise Refused("no outputs")
    inputs, initializers, constants = _placed(d)
    nodes, functions = list(d.nodes), []
    wrap = str(d.rng.choice(["", "If", "Loop", "Scan", "function"], p=[0.76, 0.07, 0.05, 0.04, 0.08]))
    wrap = "" if d.tame else wrap
    if wrap in ("", "function") and d.chance(0.1):  # nested graphs give nothing but what they compute
        outputs.append(d.choice(*outputs, *inputs, *initializers))
    feed = {name: d.leaves[name] for name in inputs}
    if wrap == "Scan" and inputs and d.opset >= 9:
        return _scan(d, nodes, constants, inputs, initializers, outputs)
    if wrap == "function" and d.opset >= 10:
        nodes, functions = _function(d, nodes)
    elif wrap in ("If", "Loop"):
        nodes, feed = _nested(d, wrap, nodes, outputs, feed)
    infos = [_info(d, name, feed[name]) for name in feed]
    declared = [_output(d, o, wrap == "Loop") for o in outputs]
    tensors = [numpy_helper.from_array(d.leaves[n], n) for n in initializers]
    graph = helper.make_graph([*constants, *nodes], "random", infos, declared, tensors)
    return Case(model_of(graph, d.opset, functions), feed)


def _placed(d: Draft) -> tuple[list[str], list[str], list[NodeProto]]:
    """Leaves that are read, as inputs, initializers and Constant nodes."""
    read = {i for n in d.nodes for i in (*n.input, *_captured(n))}
    inputs: list[str] = []
    initializers: list[str] = []
    constants: list[NodeProto] = []
    style = d.choice("initializer", "initializer", "node", "mixed")
    for name in d.leaves:
        if name not in read:
            continue
        if name in d.fixed:
            if style == "node" or (style == "mixed" and d.chance(0.5)):
                tensor = numpy_helper.from_array(d.leaves[name], name)
                constants.append(helper.make_node("Constant", [], [name], value=tensor))
            else:
                initializers.append(name)
        elif d.chance(0.93) or not inputs:
            inputs.append(name)
        else:
            initializers.append(name)
    return inputs, initializers, constants


def _info(d: Draft, name: str, array: np.ndarray) -> ValueInfoProto:
    """An input, each dimension of which may be free, under a name or none."""
    free = 0.0 if d.tame else d.choice(0.0, 0.0, 0.3, 1.0)
    shape = [d.choice(f"{name}_{i}", None) if d.chance(free) else n for i, n in enumerate(array.shape)]
    return helper.make_value_info(name, type_of(array, shape))


def _output(d: Draft, name: str, stacked: bool) -> ValueInfoProto:
    """An output, with its shape or with nothing but its rank."""
    array = d.values[name]
    known = not stacked and d.chance(0.5)
    return helper.make_value_info(name, type_of(array, None if known else [None] * (array.ndim + stacked)))


def _nested(
    d: Draft, wrap: str, nodes: list[NodeProto], outputs: Sequence[str], feed: dict[str, np.ndarray]
) -> tuple[list[NodeProto], dict[str, np.ndarray]]:
    """The last nodes in the branch of an If, or in the body of a Loop that stacks what it gives."""
    if wrap == "Loop" and d.opset < 11:
        return nodes, feed
    start = int(d.rng.integers(len(nodes)))
    outer, inner = nodes[:start], nodes[start:]
    made = {o for n in inner for o in n.output}
    if wrap == "If" and not set(outputs) <= made:
        outer, inner = [], nodes
    if wrap == "Loop":
        outer, inner = [], nodes
    gives = [ValueInfoProto(name=o) for o in outputs]
    for value in gives:
        value.type.CopyFrom(type_of(d.values[value.name], [None] * d.values[value.name].ndim))
    if wrap == "If":
        return [*outer, _branch(d, inner, gives, outputs, feed)], feed
    return [*outer, *_loop(d, inner, gives, outputs)], feed


def _branch(
    d: Draft,
    inner: list[NodeProto],
    gives: list[ValueInfoProto],
    outputs: Sequence[str],
    feed: dict[str, np.ndarray],
) -> NodeProto:
    taken = d.chance(0.5)
    then = _renamed(helper.make_graph(inner, "taken", [], gives), ".t")
    rest = [
        helper.make_node("Constant", [], [f"{o}.e"], value=numpy_helper.from_array(_zeros(d.values[o]), ""))
        for o in outputs
    ]
    infos = []
    for value in gives:
        info = ValueInfoProto()
        info.CopyFrom(value)
        info.name += ".e"
        infos.append(info)
    other = helper.make_graph(rest, "other", [], infos)
    feed["cond"] = np.array(taken)
    branches = (
        {"then_branch": then, "else_branch": other} if taken else {"then_branch": other, "else_branch": then}
    )
    return helper.make_node("If", ["cond"], list(outputs), **branches)


def _loop(
    d: Draft, inner: list[NodeProto], gives: list[ValueInfoProto], outputs: Sequence[str]
) -> list[NodeProto]:
    inputs = [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("go", 9, [])]
    nodes = [helper.make_node("Identity", ["go"], ["on"]), *inner]
    graph = helper.make_graph(nodes, "body", inputs, [helper.make_tensor_value_info("on", 9, []), *gives])
    turns = numpy_helper.from_array(np.array(d.choice(1, 2, 3), np.int64), "")
    return [
        helper.make_node("Constant", [], ["turns"], value=turns),
        helper.make_node("Loop", ["turns", ""], list(outputs), body=_renamed(graph, ".b")),
    ]


def _scan(
    d: Draft,
    nodes: list[NodeProto],
    constants: list[NodeProto],
    inputs: list[str],
    initializers: list[str],
    outputs: list[str],
) -> Case:
    """All nodes in the body of a Scan over a new first dimension of the inputs."""
    turns = d.choice(1, 2, 3)
    feed = {f"{n}.s": np.stack([d.leaves[n]] * turns) for n in inputs}
    takes = [helper.make_value_info(n, type_of(d.leaves[n])) for n in inputs]
    gives = [helper.make_value_info(o, type_of(d.values[o], [None] * d.values[o].ndim)) for o in outputs]
    body = helper.make_graph(nodes, "body", takes, gives)
    stacked = [f"{o}.s" for o in outputs]
    node = helper.make_node("Scan", list(feed), stacked, body=body, num_scan_inputs=len(feed))
    declared = [
        helper.make_value_info(s, type_of(d.values[o], [None] * (d.values[o].ndim + 1)))
        for s, o in zip(stacked, outputs, strict=True)
    ]
    infos = [_info(d, name, array) for name, array in feed.items()]
    tensors = [numpy_helper.from_array(d.leaves[n], n) for n in initializers]
    return Case(
        model_of(helper.make_graph([*constants, node], "random", infos, declared, tensors), d.opset), feed
    )


def _function(d: Draft, nodes: list[NodeProto]) -> tuple[list[NodeProto], list[onnx.FunctionProto]]:
    """Some nodes that follow each other as a call of a function of the model."""
    start = int(d.rng.integers(len(nodes)))
    end = int(d.rng.integers(start + 1, len(nodes) + 1))
    inner = nodes[start:end]
    made = [o for n in inner for o in n.output if o]
    takes = [*dict.fromkeys(i for n in inner for i in (*n.input, *_captured(n)) if i and i not in made)]
    opsets = [helper.make_opsetid("", d.opset), helper.make_opsetid("ai.onnx.ml", 3 if d.opset < 21 else 5)]
    function = helper.make_function("local", "F", takes, made, inner, opsets)
    return [*nodes[:start], helper.make_node("F", takes, made, domain="local"), *nodes[end:]], [function]


def _renamed(graph: GraphProto, suffix: str) -> GraphProto:
    """The same graph with other names for what it makes, since the node around it gives these."""
    made = {o for n in graph.node for o in n.output}

    def new(name: str) -> str:
        return name + suffix if name in made else name

    copy = GraphProto()
    copy.CopyFrom(graph)
    _rename_reads(copy, new)
    for node in copy.node:
        node.output[:] = [new(o) if o else o for o in node.output]
    for value in copy.output:
        value.name = new(value.name)
    return copy


def _rename_reads(graph: GraphProto, new: Callable[[str], str]) -> None:
    for node in graph.node:
        node.input[:] = [new(i) for i in node.input]
        for attribute in node.attribute:
            _rename_reads(attribute.g, new)


def _zeros(array: np.ndarray) -> np.ndarray:
    return np.full_like(array, "") if array.dtype.kind in "OSU" else np.zeros_like(array)
