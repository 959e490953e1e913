"""Partition of a graph with collectives into segments without, and the order of execution."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

import onnx_ir as ir

from pinnace.distributed.plan import Collective, Partition, Plan, Segment, Step
from pinnace.errors import UnsupportedModelError, UnsupportedPrimitive
from pinnace.graph.inference import infer, opset_of
from pinnace.graph.nodes import DOMAIN
from pinnace.graph.walk import inner_graphs, nodes
from pinnace.lowering.graph import Compilable, port
from pinnace.types import Array, Interface, Port

KINDS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "AllToAll", "Exchange", "Barrier")
REDUCTIONS = ("sum", "max", "min", "prod")

PART = "pinnace.part"
"""Metadata key of files from `pinnace shard`: `Partition` as JSON."""


def partition(metadata: Mapping[str, str]) -> Partition:
    return Partition(**json.loads(metadata.get(PART, "{}")))


def split(graph: Compilable) -> tuple[Plan, tuple[Compilable, ...]]:
    """Return the plan of a graph, and the graphs of its segments; the original graph is consumed.

    Raises UnsupportedModelError. Collectives keep the order of the graph, which is the same in all ranks. A
    segment has what the next collective needs, the last one all that is left.
    """
    _check(graph)
    root = graph.model.graph
    every = list(root)
    for output in (output for node in every for output in node.outputs if output.name):
        infer(output, opset_of(graph.model))  # it may become a port of a segment
    taken = {node: reads(node) for node in every}
    readers: dict[ir.Value, list[ir.Node]] = {}
    for node in every:
        for value in taken[node]:
            readers.setdefault(value, []).append(node)
    cutter = _SegmentCutter(graph, taken, readers, frozenset(root.outputs), dict(root.initializers))
    order = _order(every, taken)
    constants = cutter.constants()
    for values in (root.outputs, root.inputs):
        values.clear()
    root.initializers.clear()
    root.remove(every)
    steps: list[Step] = []
    segments: list[Compilable] = []
    for item in order:
        if isinstance(item, ir.Node):
            steps.append(cutter.collective(item))
        else:
            segments.append(cutter.segment(item))
            steps.append(Segment(segments[-1].interface))
    return Plan(partition(graph.interface.info), tuple(steps), constants), tuple(segments)


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


def _order(every: Iterable[ir.Node], taken: Mapping[ir.Node, set[ir.Value]]) -> list[ir.Node | list[ir.Node]]:
    """Return the collectives, and the nodes that run between them, in order."""
    order: list[ir.Node | list[ir.Node]] = []
    left = dict.fromkeys(node for node in every if node.domain != DOMAIN)
    for collective in [node for node in every if node.domain == DOMAIN]:
        needed = _ancestors(collective, taken)
        if before := [node for node in left if node in needed]:
            order.append(before)
        order.append(collective)
        for node in before:
            del left[node]
    return [*order, list(left)] if left else order


def _ancestors(of: ir.Node, taken: Mapping[ir.Node, set[ir.Value]]) -> set[ir.Node]:
    found: set[ir.Node] = set()
    pending = list(taken[of])
    while pending:
        node = pending.pop().producer()
        if node is not None and node not in found:
            found.add(node)
            pending += taken[node]
    return found


class _SegmentCutter:
    """Makes the steps of a graph, given the values that its nodes read, and the nodes that read them."""

    def __init__(
        self,
        graph: Compilable,
        taken: Mapping[ir.Node, set[ir.Value]],
        readers: Mapping[ir.Value, list[ir.Node]],
        outputs: frozenset[ir.Value],
        weights: Mapping[str, ir.Value],
    ) -> None:
        self._graph, self._taken, self._readers = graph, taken, readers
        self._outputs, self._weights = outputs, weights

    def constants(self) -> dict[str, Array]:
        """Return the weights that are outputs, or that a collective takes."""
        return {
            value.name or "": value.const_value.numpy()
            for value in self._weights.values()
            if value.const_value is not None
            and (value in self._outputs or any(n.domain == DOMAIN for n in self._readers.get(value, ())))
        }

    def collective(self, node: ir.Node) -> Collective:
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

    def segment(self, nodes: list[ir.Node]) -> Compilable:
        """Return a graph of its own of these nodes."""
        inside = set(nodes)
        own = {output for node in nodes for output in node.outputs}
        taken = dict.fromkeys(value for node in nodes for value in self._taken[node] if value not in own)
        stand_ins = {v: ir.Value(name=v.name, shape=v.shape, type=v.type) for v in taken}
        weights: list[ir.Value] = []
        inputs: list[ir.Value] = []
        for value, stand_in in stand_ins.items():
            is_weight = self._weights.get(value.name or "") is value
            stand_in.const_value = value.const_value if is_weight else None
            (weights if is_weight else inputs).append(stand_in)
        given = [v for v in own if v in self._outputs or not inside.issuperset(self._readers.get(v, ()))]
        given.sort(key=lambda value: value.name or "")
        for node in nodes:
            replace_reads(node, stand_ins.get)
        whole = self._graph.model
        opsets = {domain: version for domain, version in whole.opset_imports.items() if domain != DOMAIN}
        graph = ir.Graph(
            inputs, given, nodes=nodes, initializers=weights, opset_imports=opsets, name="segment"
        )
        model = ir.Model(graph, ir_version=whole.ir_version, producer_name="pinnace")
        model.functions.update(whole.functions)
        ports = Interface(tuple(map(self._port, inputs)), tuple(map(self._port, given)), (), {})
        return self._graph._replace(
            model=model, interface=ports, first_state=(), variable={}, held_back=False
        )

    def _port(self, value: ir.Value) -> Port:
        if value.dtype is None:
            reason = f"the element type of {value.name!r}, where the graph is cut, is unknown"
            row = UnsupportedPrimitive("graph", 1, value.name or "", reason)
            raise UnsupportedModelError(self._graph.name, [row])
        return port(self._graph.name, value)


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
