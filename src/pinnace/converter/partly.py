"""Integers of which the file tells only some, as the shape of a tensor with free dimensions.

Exporters compute shapes by nodes, whose other parts are known: what only moves or adds up such integers keeps
the known ones. They are floats here, NaN where only the run knows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.converter.reference import evaluated

Partly = npt.NDArray[np.float64]
_KEY = "pinnace.partly"
_MOST = 64
"""Elements that are followed."""
_EXACT = 1 << 53
"""Integers beyond are not all floats."""
_OF_ONE = {"Gather", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Identity"}
"""Operators that move elements of their first input, to places that the others tell."""
_OF_ALL = {"Concat", "Add", "Sub", "Mul"}
_WHOLE = (ir.DataType.INT32, ir.DataType.INT64)


def partly(x: ir.Value | None) -> Partly | None:
    """Return what is known of the integers of a tensor, None if nothing is."""
    if x is None:
        return None
    if x.const_value is None:
        found: Partly | None = x.meta.get(_KEY)
        return found
    if x.const_value.dtype not in _WHOLE or x.const_value.size > _MOST:
        return None
    numbers = x.const_value.numpy()
    return None if (np.abs(numbers) > _EXACT).any() else numbers.astype(np.float64)


def dims(x: ir.Value | None) -> tuple[int | None, ...] | None:
    """Return the dimensions that a vector holds, each None where only the run knows it."""
    found = partly(x)
    return None if found is None else tuple(None if np.isnan(n) else int(n) for n in found.reshape(-1))


def follow(node: ir.Node, opset: int) -> npt.NDArray[np.generic] | None:
    """Note what is known of the integers that a node computes; return them if all are."""
    made, dtype = None if node.domain else _followed(node, opset), node.outputs[0].dtype
    if made is None or made.size > _MOST or dtype not in _WHOLE or (np.abs(made) > _EXACT).any():
        return None
    node.outputs[0].meta[_KEY] = made
    return None if np.isnan(made).any() else made.astype(dtype.numpy())


def _followed(node: ir.Node, opset: int) -> Partly | None:
    first = node.inputs[0] if node.inputs else None
    if node.op_type == "Shape" and first is not None and first.shape is not None:
        sizes = np.array([d if isinstance(d, int) else np.nan for d in first.shape], np.float64)
        return sizes[node.attributes.get_int("start", 0) : node.attributes.get_int("end", len(sizes))]
    if node.op_type == "Cast" and node.attributes["to"].as_int() in _WHOLE:
        return partly(first)
    if node.op_type not in _OF_ONE | _OF_ALL:
        return None
    given: list[Any] = []
    for place, x in enumerate(node.inputs):
        if x is None:
            given.append(None)
            continue
        followed = place == 0 or node.op_type in _OF_ALL
        value = partly(x) if followed else None if x.const_value is None else x.const_value.numpy()
        if value is None:
            return None
        given.append(value)
    try:
        (made,) = evaluated(node, opset, given)
    except Exception:  # the reference implementation refuses what it does not know in many ways
        return None
    return np.asarray(made, np.float64)


def shape_after(node: ir.Node) -> tuple[int | None, ...] | None:
    """Return the shape that a node gives its result by partly known integers, None if they tell none."""
    if node.domain or node.op_type not in ("Reshape", "Expand", "ConstantOfShape"):
        return None
    wanted = dims(node.inputs[-1])
    data = node.inputs[0]
    if wanted is None or data is None or node.op_type == "ConstantOfShape":
        return wanted
    own = None if data.shape is None else [d if isinstance(d, int) else None for d in data.shape]
    if node.op_type == "Reshape":
        keeps = not node.attributes.get_int("allowzero", 0)
        known = own or ()
        return tuple(
            None if d == -1 else (known[i] if i < len(known) else None) if d == 0 and keeps else d
            for i, d in enumerate(wanted)
        )
    if own is None:
        return None
    rank = max(len(own), len(wanted))
    pairs = zip([1] * (rank - len(own)) + own, [1] * (rank - len(wanted)) + [*wanted], strict=True)
    return tuple(o if w == 1 else w if o == 1 or w is not None else o for o, w in pairs)
