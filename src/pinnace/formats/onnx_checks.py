"""Checks of ONNX files for properties that readers and engines rely on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import onnx_ir as ir

from pinnace import bounds
from pinnace.errors import ModelFormatError

_MAX_OPSET = (1 << 31) - 1


def check(model: ir.Model, graphs: Iterable[ir.Graph], file: str) -> None:
    """Raise ModelFormatError for invalid names, operator sets, attributes, calls and outputs, or too many.

    Nodes may not have too many inputs. `graphs` are those of `every_graph`.
    """
    if len(model.graph.outputs) > bounds.LEAVES:  # onnxruntime's time grows with the square of their number
        many = f"{len(model.graph.outputs)} outputs, but at most {bounds.LEAVES} are supported"
        raise ModelFormatError(f"{file}: has {many}")
    for domain, opset in model.opset_imports.items():
        if not 0 < opset <= _MAX_OPSET:
            raise ModelFormatError(f"{file}: there is no operator set {opset} of {domain or 'ONNX'}")
    for graph in graphs:
        _check_names((value.name for value in (*graph.inputs, *graph.outputs)), file)
        for node in graph:
            _check_names((node.op_type, node.domain, node.overload, node.name), file)
            _check_names((v.name for v in (*node.inputs, *node.outputs) if v is not None), file)
            if len(node.inputs) > bounds.LEAVES:  # onnx-ir's time to replace them all grows with the square
                many = f"{len(node.inputs)} inputs, but at most {bounds.LEAVES} are supported"
                raise ModelFormatError(f"{file}: {node.op_type} {node.name!r} has {many}")
            _check_attributes(node, file)
        _check_outputs(graph, file)
    _check_calls(model, file)


def every_graph(model: ir.Model) -> list[ir.Graph]:
    """Return the graph of a model, those of its functions, and all that are nested in these."""
    outer = (model.graph, *(function.graph for function in model.functions.values()))
    return [graph for one in outer for graph in (one, *one.subgraphs())]


def _check_outputs(graph: ir.Graph, file: str) -> None:
    """Raise ModelFormatError for an output that is no value of its graph, which engines refuse."""
    for value in graph.outputs:
        if value.producer() is None and not (value.is_graph_input() or value.is_initializer()):
            where = f"output {value.name!r} of graph {graph.name!r} is not computed in it"
            raise ModelFormatError(f"{file}: {where}: compute it there, of an outer value by an Identity")


def _check_attributes(node: ir.Node, file: str) -> None:
    """Raise ModelFormatError if an attribute has another type than in ONNX's schema or is not UTF-8, or a
    Constant has no value.
    """
    if node.domain:
        return
    if not node.outputs:
        raise ModelFormatError(f"{file}: {node.op_type} {node.name!r} has no outputs")
    types = _types().get(node.op_type, {})
    for name, attribute in node.attributes.items():
        if name in types and attribute.type.name != types[name]:
            what = f"{attribute.type.name}, not {types[name]}"
            raise ModelFormatError(f"{file}: attribute {name!r} of {node.op_type} {node.name!r} is {what}")
        if isinstance(attribute.value, bytes) and name != "value_string":  # which may have any bytes
            what = f"{attribute.value[:40]!r}, not valid text"
            raise ModelFormatError(f"{file}: attribute {name!r} of {node.op_type} {node.name!r} is {what}")
    if node.op_type == "Constant" and (
        len(node.attributes) != 1 or not types.keys() & node.attributes.keys()
    ):
        raise ModelFormatError(f"{file}: Constant {node.name!r} must have exactly one attribute, its value")


@cache
def _types() -> Mapping[str, Mapping[str, str]]:
    """Return the types of attributes by operator and name, as
    `tools/tables/make_operator_types.py` writes them: onnx takes 10 ms to load its schemas.
    """
    text = Path(__file__).with_name("attributes.json").read_text()
    table: Mapping[str, Mapping[str, str]] = json.loads(text)
    return table


def _check_names(names: Iterable[object], file: str) -> None:
    """Raise ModelFormatError for names that are not UTF-8, which protobuf returns as bytes."""
    for name in names:
        if isinstance(name, bytes):
            raise ModelFormatError(f"{file}: the name {name!r} is not valid text")


def _check_calls(model: ir.Model, file: str) -> None:
    """Raise ModelFormatError for recursive functions, or for calls that expand to too many nodes."""
    inside = {key: list(ir.traversal.RecursiveGraphIterator(f.graph)) for key, f in model.functions.items()}
    most = bounds.of_file(bounds.INLINED, sum(map(len, inside.values())))
    sizes: dict[ir.OperatorIdentifier, int] = {}  # nodes of each function with all calls inlined

    def size(nodes: Iterable[ir.Node], depth: int) -> int:
        if depth > bounds.CALLS:
            what = f"functions call each other more than {bounds.CALLS} deep, or themselves"
            raise ModelFormatError(f"{file}: {what}")
        total = 0
        for node in nodes:
            key = node.op_identifier()
            if key in inside and key not in sizes:
                sizes[key] = size(inside[key], depth + 1)
            total += sizes.get(key, 1)
        if total > most:
            raise ModelFormatError(f"{file}: has more than {most} nodes, with all functions inlined")
        return total

    if inside:
        size(ir.traversal.RecursiveGraphIterator(model.graph), 0)


def check_tensor(tensor: ir.TensorProtocol, there: int, file: str) -> None:
    """Raise ModelFormatError if the data of a parsed tensor, in bytes `there`, is not what it declares."""
    if tensor.size > 8 * there:
        what = f"tensor {tensor.name!r} declares {tensor.size} elements, more than there is data for"
        raise ModelFormatError(f"{file}: {what}")
    try:
        tensor.numpy()
    except (AssertionError, TypeError, ValueError) as error:
        raise ModelFormatError(f"{file}: tensor {tensor.name!r} is damaged: {error}") from None
