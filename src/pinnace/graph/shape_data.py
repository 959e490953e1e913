"""Small tensors of integers that a graph determines, entirely or in part, as the shape of a tensor.

Exporters compute shapes by nodes. Of a shape with free dimensions, what only moves or adds up its integers
keeps the known ones; such arrays are floats, NaN where only the run knows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.graph.evaluate import evaluated

Integers = npt.NDArray[Any]
_KEY = "pinnace.integers"
_MOST = 64
"""Elements that are followed."""
_EXACT = 1 << 53
"""Integers from here on are not all floats."""
_MOVING = {"Gather", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Identity"}
"""Operators that move elements of their first input, to places that the others tell."""
_COMBINING = {"Concat", "Add", "Sub", "Mul"}
_TYPES = (ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL)


def exact(x: ir.Value | None) -> Integers | None:
    """Return a short tensor of integers all of which are known; else None."""
    tensor = None if x is None else ir.convenience.get_const_tensor(x)
    if x is None or tensor is None:
        noted = None if x is None else x.meta.get(_KEY)
        return None if noted is None or noted.dtype.kind == "f" else noted
    return tensor.numpy() if tensor.dtype in _TYPES and tensor.size <= _MOST else None


def partial(x: ir.Value | None) -> npt.NDArray[np.float64] | None:
    """Return a short tensor of integers as floats, NaN where they are unknown; None if nothing is known."""
    found = exact(x)
    if found is None:
        return None if x is None else x.meta.get(_KEY)
    return None if (np.abs(found) >= _EXACT).any() else found.astype(np.float64)


def dims(x: ir.Value | None) -> tuple[int | None, ...] | None:
    """Return the dimensions that a vector holds, each None where only the run knows it."""
    found = partial(x)
    return None if found is None else tuple(None if np.isnan(n) else int(n) for n in found.reshape(-1))


def dims_of(x: ir.Value | None) -> tuple[int | None, ...] | None:
    """Return the shape of a tensor, None for dimensions that are free and for an unknown rank."""
    if x is None or x.shape is None:
        return None
    return tuple(d if isinstance(d, int) else None for d in x.shape)


def follow(node: ir.Node, opset: int) -> None:
    """Note what is known of the integers that a node computes, whose results have types and shapes."""
    output = node.outputs[0] if len(node.outputs) == 1 else None
    if output is None:
        return
    output.meta.pop(_KEY, None)
    if node.domain or output.dtype not in _TYPES:
        return
    made = _computed(node, opset)
    if made is None or made.size > _MOST:
        return
    if made.dtype.kind == "f" and (np.abs(made) >= _EXACT).any():
        return
    output.meta[_KEY] = made if np.isnan(made).any() else made.astype(output.dtype.numpy())


def _computed(node: ir.Node, opset: int) -> Integers | None:
    first = node.inputs[0] if node.inputs else None
    if node.op_type in ("Shape", "Size"):
        sizes = dims_of(first)
        if sizes is None:
            return None
        whole = np.array(sizes, np.float64)
        start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", len(whole))
        return whole[start:end] if node.op_type == "Shape" else np.asarray(np.prod(whole))
    given = [exact(x) for x in node.inputs]
    size = dims_of(node.outputs[0])
    small = size is not None and None not in size and math.prod(d or 0 for d in size) <= _MOST
    if not small or _lacks(node, given):
        if node.op_type == "Cast" and node.outputs[0].dtype is not ir.DataType.BOOL:
            return partial(first)
        if node.op_type not in _MOVING | _COMBINING:
            return None
        moved = len(given) if node.op_type in _COMBINING else 1
        given = [
            partial(x) if i < moved else value
            for i, (x, value) in enumerate(zip(node.inputs, given, strict=True))
        ]
        if _lacks(node, given):
            return None
    (made, *_) = (evaluated(node, opset, given) if given else None) or [None]
    return np.asarray(made) if isinstance(made, np.ndarray | np.generic) else None


def _lacks(node: ir.Node, given: Sequence[Integers | None]) -> bool:
    return any(x is not None and value is None for x, value in zip(node.inputs, given, strict=True))


def shape_after(node: ir.Node) -> tuple[int | None, ...] | None:
    """Return the shape that a node gives its result by partly known integers, None if they tell none."""
    if node.domain or node.op_type not in ("Reshape", "Expand", "ConstantOfShape"):
        return None
    if node.op_type == "ConstantOfShape":
        return dims(node.inputs[0])
    wanted, own = dims(node.inputs[1]) if len(node.inputs) > 1 else None, dims_of(node.inputs[0])
    if wanted is None:
        return None
    if node.op_type == "Reshape":
        keeps = not node.attributes.get_int("allowzero", 0)
        kept = dict(enumerate(own or ()))
        return tuple(
            None if d == -1 else kept.get(i) if d == 0 and keeps else d for i, d in enumerate(wanted)
        )
    if own is None:
        return None
    rank = max(len(own), len(wanted))
    pairs = zip((1,) * (rank - len(own)) + own, (1,) * (rank - len(wanted)) + wanted, strict=True)
    return tuple(o if w == 1 else w if o == 1 or w is not None else o for o, w in pairs)
