"""Attributes that an engine divides by.

onnxruntime believes them: a ConvTranspose of group 0 ends the process with SIGFPE while the session is
built (seen in 1.31), where no Python can catch it. So they are looked at before.
"""

from __future__ import annotations

import onnx_ir as ir

from pinnace.errors import EngineError

_DIVISORS = frozenset(
    {
        "block_size",
        "blocksize",
        "dilations",
        "group",
        "groups",
        "kernel_shape",
        "kv_num_heads",
        "num_groups",
        "num_heads",
        "num_outputs",
        "q_num_heads",
        "strides",
    }
)


def check_divisors(model: ir.Model, name: str) -> None:
    """EngineError where an attribute that must be at least 1 is not."""
    for graph in (model.graph, *(f.graph for f in model.functions.values())):
        for node in ir.traversal.RecursiveGraphIterator(graph):
            for key in _DIVISORS & node.attributes.keys():
                value = node.attributes[key].value
                if isinstance(value, int | list | tuple) and _least(value) < 1:
                    what = f"node {node.name!r} ({node.op_type}) has {key} {value}, which must be 1 or more"
                    raise EngineError(f"{name}: {what}")


def _least(value: int | list[int] | tuple[int, ...]) -> int:
    return value if isinstance(value, int) else min(value, default=1)
