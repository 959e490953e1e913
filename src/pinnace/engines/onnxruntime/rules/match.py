"""Pattern matching for rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder

if TYPE_CHECKING:
    import numpy.typing as npt


def made_by(value: ir.Value | None, *op_types: str) -> ir.Node | None:
    """Return the node that computes `value` if it is one of these standard operators; else None."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type in op_types and not node.domain else None


def private(value: ir.Value | None) -> bool:
    """Return True if only one node reads a value, and it is no output of the graph."""
    # uses() copies them all, and each of 100,000 nodes may read the same
    return value is not None and len(value._uses) == 1 and not value.is_graph_output()


def is_read(value: ir.Value) -> bool:
    """Return True if a node reads a value, or the graph returns it."""
    return bool(value.uses()) or value.is_graph_output()


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of a constant; None for an initializer that callers may override."""
    return None if value is None or value.is_graph_input() else value.const_value


def number(value: ir.Value | None) -> float | None:
    """Return a constant with one element and at most one dimension, which broadcasts to any tensor."""
    tensor = constant(value)
    if tensor is None or tensor.size != 1 or len(tensor.shape) > 1:
        return None
    return float(tensor.numpy().reshape(-1)[0])


def ints(value: ir.Value | None) -> tuple[int, ...] | None:
    """Return the elements of a short constant vector or a scalar of integers; else None."""
    tensor = constant(value)
    if tensor is None or tensor.size > 16 or len(tensor.shape) > 1:
        return None
    return tuple(int(i) for i in tensor.numpy().reshape(-1))


def attributes(node: ir.Node, *but: str) -> dict[str, Any]:
    """Return the attributes of a node, except those named, for a node that replaces it."""
    return {a.name: a.value for a in node.attributes.values() if a.name not in but}


def scaled(value: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None]:
    """Return x and s for a private `value` of x * s with a constant number s; else `value` and None."""
    node = made_by(value, "Mul")
    if node is not None and private(value):
        for x, s in (node.inputs[:2], node.inputs[1::-1]):
            if number(s) is not None:
                return x, s
    return value, None


def is_float(b: Builder, value: ir.Value | None) -> bool:
    """Return True if a value is float32."""
    return value is not None and b.dtype(value) is ir.DataType.FLOAT


def permuted(value: ir.Value | None, *perm: int) -> ir.Value | None:
    """Return the input of the Transpose by `perm` that computes `value`; else None."""
    node = made_by(value, "Transpose")
    if node is None or tuple(node.attributes["perm"].as_ints()) != perm:
        return None
    return node.inputs[0]


def pads_of(node: ir.Node, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return the padding of a Conv or pool for images of `size`: top, left, bottom, right."""
    rule = node.attributes.get_string("auto_pad", "NOTSET")
    if rule == "NOTSET":
        return list(node.attributes.get_ints("pads", [0] * 4))
    if rule == "VALID":
        return [0] * 4
    sums = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(size, kernel, strides, strict=True)]
    less, more = [p // 2 for p in sums], [p - p // 2 for p in sums]
    return less + more if rule == "SAME_UPPER" else more + less


def floats(value: ir.Value | None) -> npt.NDArray[np.float32] | None:
    """Return the elements of a float32 constant; else None."""
    tensor = constant(value)
    return None if tensor is None or tensor.dtype is not ir.DataType.FLOAT else tensor.numpy()
