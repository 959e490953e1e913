"""Write src/pinnace/ops/kernels.json: operators' types, and those that onnxruntime's CPU kernels compute.

Usage: python tools/make_kernel_types.py src/pinnace/ops/kernels.json

Operator -> the type variables of its schema's inputs and outputs and, where kernels are lacking, for each
variable the types that have one.
float16 counts as one that has a kernel where a schema allows it: onnxruntime itself puts casts around such nodes.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from pinnace.ops.builder import OPSET

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
"""What kernels are registered for and then refuse as they run (1.31)."""


def main(path: str) -> None:
    kernels: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for kernel in runtime.get_all_opkernel_def():
        first, last = kernel.version_range
        if kernel.domain or kernel.provider != "CPUExecutionProvider" or not first <= OPSET <= last:
            continue
        for variable, types in kernel.type_constraints.items():
            kernels[kernel.op_name][variable] |= {t[len("tensor(") : -1] for t in types}
    table: dict[str, dict[str, object]] = {}
    for name in sorted(kernels):
        if not onnx.defs.has(name, max_inclusive_version=OPSET, domain=""):
            continue
        schema = onnx.defs.get_schema(name, OPSET)
        if any(a.type == onnx.defs.OpSchema.AttrType.GRAPH for a in schema.attributes.values()):
            continue  # control flow: its one variable stands for many types
        variables = {p.type_str for p in schema.inputs}
        for constraint in schema.type_constraints:
            if "tensor(float16)" in constraint.allowed_type_strs and constraint.type_param_str in kernels[name]:
                kernels[name][constraint.type_param_str].add("float16")
        for types in kernels[name].values():
            types.discard(_REFUSED.get(name, ""))
        lacking = {
            variable: [t for t in _TYPES if t in types]
            for variable, types in kernels[name].items()
            if variable in variables and not set(_TYPES) <= types and types & set(_TYPES)
        }
        table[name] = {
            "inputs": [p.type_str for p in schema.inputs],
            "outputs": [p.type_str for p in schema.outputs],
            "types": lacking,
        }
    lines = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in table.items()]
    Path(path).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
