"""Casts around nodes for whose element types onnxruntime has no kernels.

Such a node is computed in the nearest type that has a kernel and holds its values. `types.json` has the types
of the CPU kernels (`tools/tables/make_operator_types.py` writes it); providers for accelerators are asked for
theirs. A node of unknown types stays as it is, and so does one of float64 that onnxruntime computes by the
operators that define it: casts would round its values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import onnx
import onnx_ir as ir
from onnxruntime.capi import onnxruntime_pybind11_state as _state

from pinnace.engines.onnxruntime.providers import CPU, ON_CPU, Chain
from pinnace.graph.casts import compute_in
from pinnace.graph.editor import Editor
from pinnace.graph.failures import MISFITS
from pinnace.graph.inference import opset_of
from pinnace.graph.schemas import among, give_types, variables
from pinnace.graph.walk import inner_graphs, nodes

_T = ir.DataType
_FLOATS_ADDED = {_T.FLOAT16: _T.FLOAT, _T.BFLOAT16: _T.FLOAT}
_REDUCED = {"ScatterElements": _FLOATS_ADDED, "ScatterND": _FLOATS_ADDED}
"""Types that operators can copy but not reduce (seen in 1.31), and those to reduce in instead."""

_Types = Mapping[str, Mapping[str, list[str]]]


def cast_for_kernels(model: ir.Model, chain: Chain = ON_CPU) -> None:
    """Insert casts around the nodes of a model and of its nested graphs, and set the types of values."""
    others = tuple(name for name, _ in chain if name != CPU)
    lacking, opset = _types(), opset_of(model)
    b: Editor | None = None  # few models need one
    for node in list(nodes(model.graph)):
        if node.domain:
            continue
        try:
            give_types(node)
            for graph in inner_graphs(node):  # a node returns the last outputs of its graph
                for y, inside in zip(node.outputs[::-1], graph.outputs[::-1], strict=False):
                    y.type = y.type or inside.type
            if node.op_type in lacking or node.op_type in _REDUCED:
                dtypes = tuple(None if x is None else x.dtype for x in node.inputs)
                detour = _detour(node.op_type, dtypes, others) or _reduced(node)
                if detour and not (_T.DOUBLE in dtypes and _is_inlined(node.op_type, opset)):
                    b = b or Editor(model, "%cast")
                    taken = variables(node.op_type, len(node.inputs))
                    given = variables(node.op_type, len(node.outputs), outputs=True)
                    compute_in(b, node, detour, taken, given)
        except MISFITS:  # the graph is invalid, which the engine reports
            continue


@cache
def _is_inlined(op_type: str, opset: int) -> bool:
    """Return True if onnxruntime, without a kernel for float64, computes the operators that define this one.

    It does where these have kernels or are inlined too, and are the same in the operator sets of definition
    and model.
    """
    if not onnx.defs.has(op_type, opset):
        return False
    body = onnx.defs.get_schema(op_type, opset).function_body
    version = max((used.version for used in body.opset_import if not used.domain), default=opset + 1)
    return version <= opset and all(
        ("double" in _types().get(node.op_type, {}).get("T", ["double"]) or _is_inlined(node.op_type, opset))
        and onnx.defs.get_schema(node.op_type, version).since_version
        == onnx.defs.get_schema(node.op_type, opset).since_version
        for node in body.node
    )


def _reduced(node: ir.Node) -> Mapping[str, ir.DataType]:
    first = node.inputs[0]
    wider = _REDUCED.get(node.op_type, {}).get(first.dtype) if first is not None and first.dtype else None
    reduces = node.attributes.get_string("reduction", "none") != "none"
    return {"T": wider} if wider is not None and reduces else {}


@cache
def _detour(
    op_type: str, dtypes: tuple[ir.DataType | None, ...], others: tuple[str, ...]
) -> Mapping[str, ir.DataType]:
    """Return the types to compute in, by type variables of an operator; {} if all have kernels."""
    elsewhere = _of_providers(others)
    types = {v: (*t, *elsewhere.get((op_type, v), ())) for v, t in _types().get(op_type, {}).items()}
    return among(types, op_type, dtypes)


@cache
def _types() -> _Types:
    table: _Types = json.loads(Path(__file__).with_name("types.json").read_text())
    return table


@cache
def _of_providers(names: tuple[str, ...]) -> Mapping[tuple[str, str], set[str]]:
    """Return the types for which providers have kernels, by operator and type variable."""
    found: dict[tuple[str, str], set[str]] = {}
    for kernel in _state.get_all_opkernel_def() if names else ():
        if kernel.provider in names and not kernel.domain:
            for variable, types in kernel.type_constraints.items():
                plain = {kind.removeprefix("tensor(").removesuffix(")") for kind in types}
                found.setdefault((kernel.op_name, variable), set()).update(plain)
    return found
