"""Write the element types of ONNX's operators, and those for which onnxruntime has kernels on the processor.

Usage: python tools/tables/make_operator_types.py

* src/pinnace/graph/schemas.json: operator -> the type variables of its inputs, those of its outputs, and the types of
  those that do not allow all.
* src/pinnace/engines/onnxruntime/types.json: operator -> type variable -> the types that have kernels, where some
  have none. float16 counts as one that has where a schema allows it: onnxruntime itself puts casts around such nodes.
* src/pinnace/formats/attributes.json: operator -> attribute -> its type, of all operator sets.

Variables are those of the operator set that lowerings write. In others they differ only where no type depends on it,
and kernels do not lose types from one set to the next.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from pinnace.graph.inference import OPSET

_PACKAGE = Path(__file__).parents[2] / "src" / "pinnace"
_TYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bfloat16",
    "float16",
    "float",
    "double",
]
_REFUSED = {"GRU": "double", "LSTM": "double"}
"""Types for which kernels are registered that then refuse them as they run (1.31)."""

_WRITTEN_AS = {"HardSwish": "HardSigmoid"}
"""Operators without kernels, which onnxruntime writes in another one."""


def main() -> None:
    schemas = {
        name: onnx.defs.get_schema(name, OPSET)
        for name in sorted({s.name for s in onnx.defs.get_all_schemas() if not s.domain})
        if onnx.defs.has(name, max_inclusive_version=OPSET, domain="")
    }
    schemas = {
        name: schema
        for name, schema in schemas.items()
        # The one variable of control flow stands for many types.
        if not any(a.type == onnx.defs.OpSchema.AttrType.GRAPH for a in schema.attributes.values())
        and not schema.deprecated
    }
    variables = {
        n: [*([_variable(p) for p in formal] for formal in (s.inputs, s.outputs)), _allowed(s)]
        for n, s in schemas.items()
    }
    _write(_PACKAGE / "graph" / "schemas.json", variables)
    kernels = _kernels()
    table = {
        n: lacking for n, s in schemas.items() if (lacking := _lacking(s, kernels[_WRITTEN_AS.get(n, n)]))
    }
    _write(_PACKAGE / "engines" / "onnxruntime" / "types.json", table)
    _write(_PACKAGE / "formats" / "attributes.json", _attributes())


def _attributes() -> dict[str, dict[str, str]]:
    """The types of attributes by operator; where versions differ (Cast, LpPool) that of the newest."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    every = sorted(onnx.defs.get_all_schemas_with_history(), key=lambda s: (s.name, s.since_version))
    for schema in every:
        if not schema.domain:
            found[schema.name] |= {name: a.type.name for name, a in schema.attributes.items()}
    return found


def _variable(formal: onnx.defs.OpSchema.FormalParameter) -> str:
    """The type variable of a tensor, or its type; "" of what can only be a sequence or an optional."""
    return formal.type_str if any(t.startswith("tensor(") for t in formal.types) else ""


def _allowed(schema: onnx.defs.OpSchema) -> dict[str, list[str]]:
    """The types of type variables of inputs that do not allow all."""
    taken = {p.type_str for p in schema.inputs}
    allowed = {
        c.type_param_str: [t for t in _TYPES if f"tensor({t})" in c.allowed_type_strs]
        for c in schema.type_constraints
        if c.type_param_str in taken
    }
    return {variable: types for variable, types in allowed.items() if types and types != _TYPES}


def _kernels() -> Mapping[str, Mapping[str, set[str]]]:
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for kernel in runtime.get_all_opkernel_def():
        first, last = kernel.version_range
        if not kernel.domain and kernel.provider == "CPUExecutionProvider" and first <= OPSET <= last:
            for variable, types in kernel.type_constraints.items():
                found[kernel.op_name][variable] |= {t[len("tensor(") : -1] for t in types}
    return found


def _lacking(schema: onnx.defs.OpSchema, kernels: Mapping[str, set[str]]) -> dict[str, list[str]]:
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    lacking = {}
    for variable in sorted({p.type_str for p in schema.inputs} & kernels.keys()):
        half = {"float16"} if "tensor(float16)" in allowed.get(variable, ()) else set()
        types = (kernels[variable] | half) - {_REFUSED.get(schema.name, "")}
        if types & set(_TYPES) and not set(_TYPES) <= types:
            lacking[variable] = [t for t in _TYPES if t in types]
    return lacking


def _write(path: Path, table: Mapping[str, object]) -> None:
    lines = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in table.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
