"""Partition of a graph with collectives into segments without, and the order of execution."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import onnx_ir as ir

from pinnace.distributed.steps import Collective, Partition, Plan, Segment, Step, Wait
from pinnace.errors import UnsupportedModelError, UnsupportedPrimitive
from pinnace.graph.inference import infer, opset_of
from pinnace.graph.nodes import DOMAIN
from pinnace.graph.walk import inner_graphs, nodes
from pinnace.lowering.graph import Compilable, port
from pinnace.types import Interface, Port

KINDS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "AllToAll", "Exchange", "Barrier")
REDUCTIONS = ("sum", "max", "min", "prod")

PART = "pinnace.part"
"""Metadata key of files from `pinnace shard`: `Partition` as JSON."""


def partition(metadata: Mapping[str, str]) -> Partition:
    """Return what the metadata of a file say of its part."""
    return Partition(**json.loads(metadata.get(PART, "{}")))


def cut(graph: Compilable) -> tuple[Plan, tuple[Compilable, ...]]:
    """Partition a graph, and return the plan and the graphs of its segments; the original graph is consumed.

    Raises UnsupportedModelError. Collectives keep the order of the graph, which is the same in all ranks.
    Segments that do not depend on a large collective run concurrently with it.
    """
    _check(graph)
    every = list(graph.model.graph)
    for output in (output for node in every for output in node.outputs if output.name):
        infer(output, opset_of(graph.model))  # it may become a port of a segment
    return _SegmentCutter(graph, every).plan()


def _check(graph: Compilable) -> None:
    wrong: list[UnsupportedPrimitive] = []
    for node in nodes(graph.model.graph):
        if node.domain != DOMAIN:
            continue
        reason = ""
        if node.graph is not graph.model.graph:
            reason = "is in a branch or loop, which not all ranks may take"
        elif node.op_type not in KINDS:
            reason = f"is not one of {', '.join(KINDS)}"
        elif (op := node.attributes.get_string("op", "sum")) not in REDUCTIONS:
            reason = f"reduces by {op!r}, which is not one of {', '.join(REDUCTIONS)}"
        if reason:
            wrong.append(UnsupportedPrimitive(node.op_type, 1, node.name or "", reason))
    if wrong:
        raise UnsupportedModelError(graph.name, wrong)


def reads(node: ir.Node) -> set[ir.Value]:
    """Return the values that a node reads, including those that its nested graphs capture."""
    found = {value for value in node.inputs if value is not None}
    for nested in inner_graphs(node):
        inner = list(nested)
        own = {*nested.inputs, *nested.initializers.values(), *(o for n in inner for o in n.outputs)}
        found |= {v for n in inner for v in reads(n)} - own
        found |= set(nested.outputs) - own
    return found


class _SegmentCutter:
    def __init__(self, graph: Compilable, nodes: list[ir.Node]) -> None:
        self._graph = graph
        self._nodes = nodes
        self._reads = {node: reads(node) for node in nodes}
        self._outputs = list(graph.model.graph.outputs)
        self._weights = dict(graph.model.graph.initializers)
        self._segments: list[Compilable] = []
        self._readers: dict[ir.Value, list[ir.Node]] = {}
        for node in nodes:
            for value in self._reads[node]:
                self._readers.setdefault(value, []).append(node)

    def plan(self) -> tuple[Plan, tuple[Compilable, ...]]:
        part = partition(self._graph.interface.info)
        order = self._scheduled()
        kept = {
            value.name or "": value.const_value.numpy()
            for value in self._weights.values()
            if value.const_value is not None and (value in self._outputs or self._is_taken(value))
        }
        root = self._graph.model.graph
        for values in (root.outputs, root.inputs):
            values.clear()
        root.initializers.clear()
        root.remove(self._nodes)
        steps = tuple(self._step(item) for item in order)
        return Plan(part, steps, kept), tuple(self._segments)

    def _is_taken(self, value: ir.Value) -> bool:
        return any(node.domain == DOMAIN for node in self._readers.get(value, []))

    def _step(self, item: ir.Node | list[ir.Node] | Wait) -> Step:
        match item:
            case ir.Node():
                return self._collective(item)
            case Wait():
                return item
            case _:
                return self._segment(item)

    def _scheduled(self) -> list[ir.Node | list[ir.Node] | Wait]:
        """Return collectives, groups of nodes that run between them, and waits, in order."""
        order: list[ir.Node | list[ir.Node] | Wait] = []
        todo = dict.fromkeys(node for node in self._nodes if node.domain != DOMAIN)
        begun: set[ir.Node] = set()  # collectives that are running
        ahead = {node for node in self._nodes if node.domain == DOMAIN}  # not done

        def run(chosen: Sequence[ir.Node]) -> None:
            if chosen:
                order.append(list(chosen))
            for node in chosen:
                del todo[node]

        def wait() -> None:
            if not all(self._collective(node).is_small for node in begun):
                run(self._free(todo, ahead))
            order.append(Wait())
            ahead.difference_update(begun)
            begun.clear()

        for collective in [node for node in self._nodes if node.domain == DOMAIN]:
            needed = self._ancestors([collective])
            if begun & needed:
                wait()
            run([node for node in todo if node in needed])
            order.append(collective)
            begun.add(collective)
        if begun:
            wait()
        run(list(todo))
        return order

    def _ancestors(self, nodes: Iterable[ir.Node]) -> set[ir.Node]:
        """Return the nodes that the given ones depend on."""
        found: set[ir.Node] = set()
        pending = [value for node in nodes for value in self._reads[node]]
        while pending:
            node = pending.pop().producer()
            if node is not None and node not in found:
                found.add(node)
                pending += self._reads[node]
        return found

    def _free(self, todo: Iterable[ir.Node], ahead: set[ir.Node]) -> list[ir.Node]:
        """Return the nodes that do not depend on an unfinished collective; `todo` is in topological order."""
        held = set(ahead)
        free = []
        for node in todo:
            if any(value.producer() in held for value in self._reads[node]):
                held.add(node)
            else:
                free.append(node)
        return free

    def _port(self, value: ir.Value) -> Port:
        if value.dtype is None:
            reason = f"the element type of {value.name!r}, where the graph is cut, is unknown"
            row = UnsupportedPrimitive("graph", 1, value.name or "", reason)
            raise UnsupportedModelError(self._graph.name, [row])
        return port(self._graph.name, value)

    def _collective(self, node: ir.Node) -> Collective:
        given = node.attributes
        return Collective(
            node.op_type,
            node.name or (node.outputs[0].name or "" if node.outputs else ""),
            tuple(self._port(value) for value in node.inputs if value is not None),
            tuple(self._port(value) for value in node.outputs),
            given.get_string("group", ""),
            tuple(given.get_ints("ranks", ())),
            given.get_string("op", "sum"),
            given.get_int("root", 0),
            tuple(given.get_ints("to", ())),
            tuple(given.get_ints("source", ())),
            given.get_int("tag", 0),
            given.get_int("own", -1),
        )

    def _segment(self, nodes: list[ir.Node]) -> Segment:
        inside = set(nodes)
        own = {output for node in nodes for output in node.outputs}
        taken = dict.fromkeys(value for node in nodes for value in self._reads[node] if value not in own)
        stand_ins = {value: _copied(value) for value in taken}
        weights = [stand_in for value, stand_in in stand_ins.items() if self._is_weight(value)]
        inputs = [stand_in for value, stand_in in stand_ins.items() if not self._is_weight(value)]
        for value, stand_in in stand_ins.items():
            stand_in.const_value = value.const_value if self._is_weight(value) else None
        given = [v for v in own if v in self._outputs or not inside.issuperset(self._readers.get(v, ()))]
        given.sort(key=lambda value: value.name or "")
        for node in nodes:
            replace_reads(node, stand_ins.get)
        graph = ir.Graph(
            inputs,
            given,
            nodes=nodes,
            initializers=weights,
            opset_imports={k: v for k, v in self._graph.model.opset_imports.items() if k != DOMAIN},
            name="segment",
        )
        model = ir.Model(graph, ir_version=self._graph.model.ir_version, producer_name="pinnace")
        for function in self._graph.model.functions.values():
            model.functions[function.identifier()] = function
        ports = Interface(
            tuple(self._port(value) for value in inputs), tuple(self._port(value) for value in given), (), {}
        )
        self._segments.append(
            self._graph._replace(model=model, interface=ports, first_state=(), variable={}, held_back=False)
        )
        return Segment(ports)

    def _is_weight(self, value: ir.Value) -> bool:
        return self._weights.get(value.name or "") is value


def _copied(value: ir.Value) -> ir.Value:
    return ir.Value(name=value.name, shape=value.shape, type=value.type)


def replace_reads(node: ir.Node, stand_in: Callable[[ir.Value], ir.Value | None]) -> None:
    """Replace values that a node and its nested graphs read."""
    for place, value in enumerate(node.inputs):
        other = None if value is None else stand_in(value)
        if other is not None:
            node.replace_input_with(place, other)
    for nested in inner_graphs(node):
        for inner in nested:
            replace_reads(inner, stand_in)
        for place, value in enumerate(list(nested.outputs)):
            other = stand_in(value)
            if other is not None:
                nested.outputs[place] = other
