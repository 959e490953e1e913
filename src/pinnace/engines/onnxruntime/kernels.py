"""The operators that onnxruntime has kernels for."""

from __future__ import annotations

from functools import cache

import onnx
import onnx_ir as ir
from onnxruntime.capi import onnxruntime_pybind11_state as _state

from pinnace.compiler.nodes import nodes
from pinnace.engines.onnxruntime.foreign import unproven
from pinnace.errors import LackingKernelsError, UnsupportedPrimitive
from pinnace.ops.nodes import DOMAIN, origins


def check_foreign(model: ir.Model, name: str) -> None:
    """Raise LackingKernelsError if a model names an operator outside of ONNX's domain that is not proven."""
    reasons = ((node, unproven(node)) for node in nodes(model.graph) if node.domain)
    found = [(node.op_type, reason, origins(node)[0]) for node, reason in reasons if reason]
    if found:
        raise LackingKernelsError(name, UnsupportedPrimitive.counted(found))


def lacking(model: ir.Model) -> list[UnsupportedPrimitive]:
    """Return the operators of a model that onnxruntime has no kernel for, most used first.

    Collectives are not among them: they run between sessions.
    """
    own = {(f.domain, f.name) for f in model.functions.values()}
    every = ((node, (node.domain, node.op_type)) for node in nodes(model.graph) if node.domain != DOMAIN)
    return UnsupportedPrimitive.counted(
        (node.op_type, f"onnxruntime has no {node.domain or 'ONNX'} kernel for it", origins(node)[0])
        for node, operator in every
        if operator not in own and operator not in _kernels() and not _is_function(*operator)
    )


@cache
def _kernels() -> frozenset[tuple[str, str]]:
    # Constants become initializers before kernels are looked for.
    return frozenset((k.domain, k.op_name) for k in _state.get_all_opkernel_def()) | {("", "Constant")}


def _is_function(domain: str, name: str) -> bool:
    """Return True if ONNX defines an operator by others, so that no kernel is needed."""
    if not onnx.defs.has(name, domain=domain):
        return False
    schema = onnx.defs.get_schema(name, domain=domain)  # the stubs of onnx lack its two attributes
    return any(getattr(schema, name) for name in ("has_function", "has_context_dependent_function"))
