"""Constants of a graph: what is known of a value before the run, and the same in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

_MOST_INTS = 64
"""Elements of a tensor that holds axes, sizes or pads."""


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of an initializer or of a node Constant; None for one that callers may override."""
    if value is None or value.is_graph_input():
        return None
    try:
        return ir.convenience.get_const_tensor(value)
    except ValueError:  # the node is invalid, which the engine reports
        return None


def array(value: ir.Value | None) -> npt.NDArray[Any] | None:
    """Return the elements of a constant that is no text; else None."""
    tensor = constant(value)
    return None if tensor is None or tensor.dtype is ir.DataType.STRING else tensor.numpy()


def floats(value: ir.Value | None) -> npt.NDArray[np.float32] | None:
    """Return the elements of a float32 constant; else None."""
    tensor = constant(value)
    return None if tensor is None or tensor.dtype is not ir.DataType.FLOAT else tensor.numpy()


def number(value: ir.Value | None) -> float | None:
    """Return a constant with one element and at most one dimension, which broadcasts to any tensor."""
    tensor = constant(value)
    if tensor is None or tensor.size != 1 or len(tensor.shape) > 1:
        return None
    return float(tensor.numpy().reshape(-1)[0])


def ints(value: ir.Value | None) -> tuple[int, ...] | None:
    """Return the elements of a short constant vector or a scalar of integers; else None."""
    tensor = constant(value)
    if tensor is None or not tensor.dtype.is_integer() or tensor.size > _MOST_INTS or len(tensor.shape) > 1:
        return None
    return tuple(int(i) for i in tensor.numpy().reshape(-1))


def given_ints(node: ir.Node, place: int, attribute: str) -> tuple[int, ...] | None:
    """Return the integers of an input, which older operator sets have as an attribute; None if unknown."""
    if attribute in node.attributes:
        return tuple(node.attributes.get_ints(attribute, ()))
    return ints(node.inputs[place]) if len(node.inputs) > place else None
