"""Element types of operators, and those that engines compute in where ONNX allows more.

`kernels.json` has the type variables of ONNX's schemas and what onnxruntime's CPU kernels take
(`tools/make_kernel_types.py` writes it; asking the schemas themselves would load all of them). An operator
that lacks a type is computed in the nearest type that holds its values, between two casts.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TypedDict

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


class _Row(TypedDict):
    inputs: list[str]  # type variables of the operator's schema; of the last one where it takes any number
    outputs: list[str]
    types: dict[str, list[str]]  # type variable -> types that have kernels


@cache
def _kernels() -> dict[str, _Row]:
    table: dict[str, _Row] = json.loads(resources.files(__package__).joinpath("kernels.json").read_text())
    return table


def is_known(op_type: str) -> bool:
    """Whether the table has this operator."""
    return op_type in _kernels()


@cache
def detour(op_type: str, dtypes: tuple[_T | None, ...]) -> dict[str, _T]:
    """For type variables of an operator's schema, the types to compute in; {} where all have kernels."""
    row = _kernels()[op_type]["types"]
    found: dict[str, _T] = {}
    for variable, dtype in zip(variables(op_type, len(dtypes)), dtypes, strict=True):
        if dtype is None or variable not in row or dtype not in _WIDER or _name(dtype) in row[variable]:
            continue
        better = next((wide for wide in _WIDER[dtype] if _name(wide) in row[variable]), None)
        if better is not None:
            found[variable] = better
    return found


@cache
def variables(op_type: str, count: int, outputs: bool = False) -> tuple[str, ...]:
    """The type variables of an operator's first `count` inputs, or outputs."""
    row = _kernels()[op_type]
    formal = row["outputs"] if outputs else row["inputs"]
    return tuple(formal[min(i, len(formal) - 1)] for i in range(count))


@cache
def fixed(variable: str) -> _T | None:
    """The type in place of a variable where a schema allows but one: "tensor(int64)"."""
    name = variable.removeprefix("tensor(").removesuffix(")").upper()
    return None if name == variable.upper() else ir.DataType[name]


def _name(dtype: _T) -> str:
    return dtype.name.lower()
