"""Element types in ONNX's schemas: of results, as operands tell them, and those that operators have.

`schemas.json` has the type variables of each operator's inputs and outputs, and the types that they allow
(`tools/tables/make_operator_types.py` writes it; asking ONNX would load all schemas).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import onnx_ir as ir

_T = ir.DataType
_WIDER = {
    _T.BOOL: (_T.UINT8, _T.INT32, _T.INT64, _T.FLOAT),
    _T.INT8: (_T.INT32, _T.INT64, _T.FLOAT),
    _T.INT16: (_T.INT32, _T.INT64, _T.FLOAT),
    _T.UINT8: (_T.INT32, _T.INT64, _T.FLOAT),
    _T.UINT16: (_T.INT32, _T.INT64, _T.FLOAT),
    _T.INT32: (_T.INT64, _T.DOUBLE, _T.FLOAT),
    _T.UINT32: (_T.INT64, _T.DOUBLE, _T.FLOAT),
    _T.INT64: (_T.DOUBLE, _T.FLOAT),
    _T.UINT64: (_T.INT64, _T.DOUBLE, _T.FLOAT),
    _T.BFLOAT16: (_T.FLOAT,),
    _T.FLOAT16: (_T.FLOAT,),
    _T.DOUBLE: (_T.FLOAT,),  # not wider, but all there is: such results have the precision of float32
}
"""The types that stand in for one, best first."""
_FIXED = {f"tensor({dtype.name.lower()})": dtype for dtype in ir.DataType}
_NUMBERS = {dtype.value for dtype in ir.DataType}


@dataclass(frozen=True)
class _Schema:
    inputs: tuple[str, ...] = ()  # type variables; the last one of any number
    outputs: tuple[str, ...] = ()
    types: Mapping[str, Collection[str]] = field(default_factory=dict)  # of variables that do not allow all


@cache
def _rows() -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = json.loads(Path(__file__).with_name("schemas.json").read_text())
    return table


@cache
def _schema(op_type: str) -> _Schema:
    return _Schema(*_rows().get(op_type, ()))


@cache
def variables(op_type: str, count: int, outputs: bool = False) -> tuple[str, ...]:
    """The type variables of an operator's first `count` inputs, or outputs; "" where it is not known."""
    schema = _schema(op_type)
    formal = schema.outputs if outputs else schema.inputs
    return tuple(formal[min(i, len(formal) - 1)] if formal else "" for i in range(count))


@cache
def allowed(op_type: str, dtypes: tuple[ir.DataType | None, ...]) -> Mapping[str, ir.DataType]:
    """For type variables of an operator whose inputs ONNX wants of other types, the types to compute in."""
    return among(_schema(op_type).types, op_type, dtypes)


def among(
    types: Mapping[str, Collection[str]], op_type: str, dtypes: tuple[ir.DataType | None, ...]
) -> Mapping[str, ir.DataType]:
    """For type variables of an operator with inputs of none of their `types`, the nearest of these."""
    found: dict[str, ir.DataType] = {}
    for variable, dtype in zip(variables(op_type, len(dtypes)), dtypes, strict=True):
        if dtype is None or variable not in types or dtype.name.lower() in types[variable]:
            continue
        better = next((wide for wide in _WIDER.get(dtype, ()) if wide.name.lower() in types[variable]), None)
        if better is not None:
            found[variable] = better
    return found


def give_types(node: ir.Node) -> None:
    """Set the types of a node's outputs, as far as its inputs, its attributes and its schema tell them."""
    if node.domain or all(y.type is not None for y in node.outputs):
        return
    own = {
        variable: x.type.dtype
        for x, variable in zip(node.inputs, variables(node.op_type, len(node.inputs)), strict=True)
        if x is not None and isinstance(x.type, ir.TensorType) and variable
    }
    given = variables(node.op_type, len(node.outputs), outputs=True)
    for y, variable in zip(node.outputs, given, strict=True):
        dtype = own.get(variable) or _FIXED.get(variable) or _said(node)
        if y.type is None and dtype is not None:
            y.type = ir.TensorType(dtype)


def _said(node: ir.Node) -> ir.DataType | None:
    """The type that an attribute says, of Cast or of what makes values of nothing."""
    for name, attribute in node.attributes.items():
        if name in ("to", "dtype") and attribute.value in _NUMBERS:
            return ir.DataType(attribute.value)
        if name == "value" and attribute.type is ir.AttributeType.TENSOR:
            dtype: ir.DataType = attribute.value.dtype
            return dtype
    return None
