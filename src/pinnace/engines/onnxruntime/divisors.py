"""Attributes that an engine divides by.

onnxruntime believes them: a ConvTranspose of group 0, or a DepthToSpace of blocksize 1 << 32, ends the
process with SIGFPE while the session is built (seen in 1.31), where no Python can catch it.
"""

from __future__ import annotations

import onnx_ir as ir

from pinnace.errors import EngineError
from pinnace.ops.nodes import origins

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
_LIMIT = 1 << 31


def check_divisors(model: ir.Model, name: str) -> None:
    """EngineError where an attribute that must be at least 1 is not, or overflows once it is squared."""
    for graph in (model.graph, *(f.graph for f in model.functions.values())):
        for node in ir.traversal.RecursiveGraphIterator(graph):
            for key in _DIVISORS & node.attributes.keys():
                value = node.attributes[key].value
                numbers = [value] if isinstance(value, int) else value
                if isinstance(numbers, list | tuple) and not all(0 < n < _LIMIT for n in numbers):
                    what = f"node {origins(node)[0]!r} ({node.op_type}) has {key} {value}, which is no size"
                    raise EngineError(f"{name}: {what}")
