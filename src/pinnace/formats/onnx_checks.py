"""Checks of ONNX files for properties that readers and engines rely on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import onnx
import onnx_ir as ir

from pinnace import bounds
from pinnace.errors import ModelFormatError
from pinnace.weights.source import Source

_MOST_OPSET = (1 << 31) - 1


def check(model: ir.Model, file: str) -> None:
    """Raise ModelFormatError for invalid names, operator sets, attributes and calls, and for too many
    outputs.
    """
    if len(model.graph.outputs) > bounds.LEAVES:  # onnxruntime's time grows with the square of their number
        many = f"{len(model.graph.outputs)} outputs, and at most {bounds.LEAVES} are taken"
        raise ModelFormatError(f"{file}: has {many}")
    _check_names(model, file)
    for domain, opset in model.opset_imports.items():
        if not 0 < opset <= _MOST_OPSET:
            raise ModelFormatError(f"{file}: there is no operator set {opset} of {domain or 'ONNX'}")
    for graph in every_graph(model):
        for node in graph:
            _check_attributes(node, model.opset_imports.get("", _MOST_OPSET), file)
    _check_calls(model, file)


def every_graph(model: ir.Model) -> Iterator[ir.Graph]:
    """The graph of a model, those of its functions, and all that are nested in these."""
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        yield graph
        yield from graph.subgraphs()


def _check_attributes(node: ir.Node, opset: int, file: str) -> None:
    """Raise ModelFormatError if an attribute has another type than in ONNX's schema, or a Constant has no
    value.
    """
    if node.domain:
        return
    if not node.outputs:
        raise ModelFormatError(f"{file}: {node.op_type} {node.name!r} has no outputs")
    types = _types(node.op_type, opset)
    for name, attribute in node.attributes.items():
        if name in types and attribute.type.value != types[name]:
            what = f"{attribute.type.name}, not {ir.AttributeType(types[name]).name}"
            raise ModelFormatError(f"{file}: attribute {name!r} of {node.op_type} {node.name!r} is {what}")
    if node.op_type == "Constant" and (
        len(node.attributes) != 1 or not types.keys() & node.attributes.keys()
    ):
        raise ModelFormatError(f"{file}: Constant {node.name!r} must have exactly one attribute, its value")


@cache
def _types(op_type: str, opset: int) -> Mapping[str, int]:
    """Return the types of an operator's attributes by name; {} if ONNX has no such operator."""
    if not onnx.defs.has(op_type):
        return {}
    try:
        schema = onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:  # newer than this operator set, which the engine reports
        return {}
    return {name: int(attribute.type.value) for name, attribute in schema.attributes.items()}  # type: ignore[attr-defined]


def _check_names(model: ir.Model, file: str) -> None:
    """Raise ModelFormatError for names that are not UTF-8, which protobuf returns as bytes."""
    damaged = next((name for name in _names(model) if isinstance(name, bytes)), None)
    if damaged is not None:
        raise ModelFormatError(f"{file}: the name {damaged!r} is not valid text")


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


def _names(model: ir.Model) -> Iterator[object]:
    for graph in every_graph(model):
        yield from (value.name for value in (*graph.inputs, *graph.outputs))
        for node in graph:
            yield from (node.op_type, node.domain, node.overload, node.name, *node.attributes)
            yield from (value.name for value in (*node.inputs, *node.outputs) if value is not None)


def check_tensor(tensor: ir.TensorProtocol, source: Source) -> None:
    """Raise ModelFormatError if the data of a small, parsed tensor does not match its declaration."""
    if tensor.size > 8 * len(source.data):
        what = f"tensor {tensor.name!r} says that it has {tensor.size} elements, more than there is data for"
        raise ModelFormatError(f"{source.name}: {what}")
    try:
        tensor.numpy()
    except (AssertionError, TypeError, ValueError) as error:
        raise ModelFormatError(f"{source.name}: tensor {tensor.name!r} is damaged: {error}") from None
