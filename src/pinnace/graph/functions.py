"""Functions of ONNX models: their calls become the nodes that they stand for."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from pinnace.errors import ModelFormatError
from pinnace.graph.inference import since
from pinnace.graph.outputs import settle_outputs
from pinnace.graph.walk import nodes


def inline(model: ir.Model, name: str) -> None:
    """Replace all calls of functions. Raises ModelFormatError, with the file's `name`, where onnx-ir cannot.

    A function may have operator sets of its own. Its nodes are also those of the model's sets if their
    operators did not change between the two.

    A function that gives an input back gives a copy, for onnx-ir would name the input after the output; a
    call may leave out the last outputs.
    """
    from onnx_ir.passes.common import InlinePass  # few models need it, and it takes a while to import

    for function in model.functions.values():
        for domain, version in function.opset_imports.items():
            own = model.opset_imports.get(domain, version)
            names = {node.op_type for node in nodes(function.graph) if node.domain == domain}
            if all(since(one, version, domain) == since(one, own, domain) for one in names):
                function.opset_imports[domain] = own
        settle_outputs(function.graph)
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        for node in nodes(graph):
            called = model.functions.get(node.op_identifier())
            if called is not None and len(node.outputs) < len(called.outputs):
                node.resize_outputs(len(called.outputs))
    try:
        InlinePass(_Names(model))(model)
        model.functions.clear()  # those that nothing calls
    except (ValueError, ir.passes.InvariantError) as error:
        raise ModelFormatError(f"{name}: {error}") from None


class _Names:
    """Gives the values and nodes of a function new names before each call, and so to the copies of the call.

    onnx-ir tries name_2, name_3 and so on for a copy: 25 s for 4,000 copies.
    """

    def __init__(self, model: ir.Model) -> None:
        self._first = {key: [*_named(function)] for key, function in model.functions.items()}
        self._count = 0

    def __call__(self, function: ir.Function) -> bool:
        self._count += 1
        for named, first in self._first[function.identifier()]:
            named.name = f"{first}_{self._count}"
        return True


def _named(function: ir.Function) -> Iterator[tuple[ir.Node | ir.Value, str]]:
    for node in ir.traversal.RecursiveGraphIterator(function.graph):
        yield node, node.name or node.op_type
        yield from ((value, value.name) for value in node.outputs if value.name)
