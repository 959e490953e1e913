"""Outputs of graphs in the form in which engines compute all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import onnx_ir as ir

from pinnace.graph.walk import inner_graphs, nodes

_VARIADIC = frozenset({"If", "Loop", "Scan", "SequenceMap", "Split"})
"""Operators whose number of outputs has a meaning."""


def settle_outputs(graph: ir.Graph, states: Collection[str] = ()) -> None:
    """Let a node of each graph, of those within it too, make each output of the graph, and only once.

    An Identity copies what is an input, a constant or an earlier output, but for the `states`: engines leave
    its memory as it is, so that it holds what others left there. (Also in the bodies of Scan and the branches
    of If; onnxruntime counts up a loop's number in the memory that the body returns.) Outputs of Split and
    control flow that have no name get one: onnxruntime ends the process for those before a named one.
    """
    graphs, unnamed = [graph], []
    for node in nodes(graph):
        graphs += inner_graphs(node)
        if node.op_type in _VARIADIC and not node.domain:
            unnamed += [value for value in node.outputs if not value.name]
    borrowed = [(one, place, value) for one in graphs for place, value in _borrowed(one, states)]
    if not (borrowed or unnamed):
        return
    names = _names(graphs)
    for value in unnamed:
        value.name = _new(f"unnamed_{value.index()}", names)
    for one, place, value in borrowed:
        copy = ir.node("Identity", [value])
        (output,) = copy.outputs
        output.type, output.shape = value.type, value.shape
        output.name = _new(f"{value.name}_output", names)
        one.append(copy)
        one.outputs[place] = output


def _borrowed(graph: ir.Graph, states: Collection[str]) -> Iterator[tuple[int, ir.Value]]:
    """Yield outputs with their places that no node of the graph makes, or that are given before."""
    seen: set[ir.Value] = set()
    for place, value in enumerate(graph.outputs):
        maker = value.producer()
        if (maker is None or maker.graph is not graph or value in seen) and value.name not in states:
            yield place, value
        seen.add(value)


def _names(graphs: Sequence[ir.Graph]) -> set[str]:
    given = (v for one in graphs for v in (*one.inputs, *one.initializers.values()))
    made = (v for one in graphs for node in one for v in node.outputs)
    return {value.name for values in (given, made) for value in values if value.name}


def _new(name: str, names: set[str]) -> str:
    while name in names:
        name += "_"
    names.add(name)
    return name
