"""Questions that rules ask about a graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.ops.builder import Builder


def made_by(value: ir.Value | None, *op_types: str) -> ir.Node | None:
    """The node that computes `value`, where it is one of these standard operators."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type in op_types and not node.domain else None


def private(value: ir.Value | None) -> bool:
    """Whether one node reads a value, and nobody else."""
    return value is not None and len(value.uses()) == 1 and not value.is_graph_output()


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor of a constant; what a caller may give in its place is none."""
    return None if value is None or value.is_graph_input() else value.const_value


def number(value: ir.Value | None) -> float | None:
    """The value of a constant with one element, that gives no tensor beside it more dimensions."""
    tensor = constant(value)
    if tensor is None or tensor.size != 1 or len(tensor.shape) > 1:
        return None
    return float(tensor.numpy().reshape(-1)[0])


def ints(value: ir.Value | None) -> tuple[int, ...] | None:
    """The elements of a constant vector of a few ints; of a scalar, that."""
    tensor = constant(value)
    if tensor is None or tensor.size > 16 or len(tensor.shape) > 1:
        return None
    return tuple(int(i) for i in tensor.numpy().reshape(-1))


def scaled(value: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None]:
    """x and s of `x * s` with a constant number s that nobody else reads; `value` and None otherwise."""
    node = made_by(value, "Mul")
    if node is not None and private(value):
        for x, s in (node.inputs[:2], node.inputs[1::-1]):
            if number(s) is not None:
                return x, s
    return value, None


def attribute(node: ir.Node, name: str, default: int) -> int:
    """An int attribute."""
    return node.attributes[name].as_int() if name in node.attributes else default


def is_float(b: Builder, value: ir.Value | None) -> bool:
    """Whether a value is of float32."""
    return value is not None and b.dtype(value) is ir.DataType.FLOAT


def permuted(value: ir.Value | None, *perm: int) -> ir.Value | None:
    """What `value` is the transpose of, where it is one by `perm`."""
    node = made_by(value, "Transpose")
    if node is None or tuple(node.attributes["perm"].as_ints()) != perm:
        return None
    return node.inputs[0]


def pads_of(node: ir.Node, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> list[int]:
    """What a Conv or a pool of images of `size` adds to them: top, left, bottom, right."""
    rule = node.attributes["auto_pad"].as_string() if "auto_pad" in node.attributes else "NOTSET"
    if rule == "NOTSET":
        return list(node.attributes["pads"].as_ints()) if "pads" in node.attributes else [0] * 4
    if rule == "VALID":
        return [0] * 4
    sums = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(size, kernel, strides, strict=True)]
    less, more = [p // 2 for p in sums], [p - p // 2 for p in sums]
    return less + more if rule == "SAME_UPPER" else more + less


def floats(value: ir.Value | None) -> npt.NDArray[np.float32] | None:
    """The elements of a constant of float32."""
    tensor = constant(value)
    return None if tensor is None or tensor.dtype is not ir.DataType.FLOAT else tensor.numpy()
