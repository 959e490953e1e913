"""Functions of ONNX models: their calls become the nodes that they stand for."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from pinnace.errors import ModelFormatError
from pinnace.graph.walk import nodes


def inline(model: ir.Model, name: str) -> None:
    """Replace all calls of functions. Raises ModelFormatError, with the file's `name`, where onnx-ir cannot.

    A function may have operator sets of its own. Its nodes are also those of the model's sets if their
    operators did not change between the two.
    """
    from onnx_ir.passes.common import InlinePass  # few models need it, and it takes a while to import

    for function in model.functions.values():
        for domain, version in function.opset_imports.items():
            own = model.opset_imports.get(domain, version)
            names = {node.op_type for node in nodes(function.graph) if node.domain == domain}
            if all(_since(one, version, domain) == _since(one, own, domain) for one in names):
                function.opset_imports[domain] = own
    try:
        InlinePass()(model)
    except (ValueError, ir.passes.InvariantError) as error:
        raise ModelFormatError(f"{name}: {error}") from None


def _since(op_type: str, version: int, domain: str) -> int:
    try:
        return int(onnx.defs.get_schema(op_type, version, domain).since_version)
    except onnx.defs.SchemaError:
        return version
