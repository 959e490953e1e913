"""The operators that onnxruntime has kernels for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import onnx
import onnx_ir as ir
from onnxruntime.capi import onnxruntime_pybind11_state as _state

from pinnace.engines.onnxruntime.foreign import refusal
from pinnace.errors import LackingKernelsError, UnsupportedPrimitive
from pinnace.graph.nodes import DOMAIN, origins
from pinnace.graph.walk import nodes


def check_foreign(model: ir.Model, name: str) -> None:
    """Raise LackingKernelsError if a model names operators of other domains that no test has shown right."""
    found = UnsupportedPrimitive.counted(_rows(model, refusal))
    if found:
        raise LackingKernelsError(name, found)


def lacking(model: ir.Model) -> list[UnsupportedPrimitive]:
    """Return the operators of a model that onnxruntime does not run, most used first.

    Collectives are not among them: they run between sessions.
    """
    return UnsupportedPrimitive.counted(_rows(model, lambda node: refusal(node) or _without_kernel(node)))


def _rows(model: ir.Model, reason: Callable[[ir.Node], str]) -> Iterator[tuple[str, str, str]]:
    """Yield names, reasons and nodes, where there is a reason."""
    for node in nodes(model.graph):
        if why := reason(node):
            yield node.op_type, why, origins(node)[0]


def _without_kernel(node: ir.Node) -> str:
    operator = node.domain, node.op_type
    if node.domain == DOMAIN or operator in _kernels() or _is_function(*operator):
        return ""
    return f"onnxruntime has no {node.domain or 'ONNX'} kernel for it"


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
