"""Models for which the shapes of the inputs bound the time of a run, whatever their values are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from pinnace.engines.protocol import BY_SHAPES
from pinnace.graph.traits import MICROSOFT, Trait, having
from pinnace.graph.walk import inner_graphs

_SHAPED = having(Trait.SHAPED) | having(Trait.SHAPED, MICROSOFT)

_SHAPED_BY_OTHERS: Mapping[str, Collection[int]] = {
    "Expand": (0,),
    "OneHot": (0, 2),
    "Pad": (0, 2),
    "Resize": (0,),
    "Tile": (0,),
}
"""Operators for which this holds if the values of other inputs than these do not change."""

_SHAPE_ONLY = frozenset(("Shape", "Size"))


def record(model: ir.Model, info: dict[str, str]) -> None:
    """Record in a model's info if integers among its inputs do not tell how long a run takes.

    Only what is known not to count by a value of a request passes: rounds of a loop, lengths of a range.
    """
    info[BY_SHAPES] = ""
    changing = {value for value in model.graph.inputs if _is_whole(value)}
    for node in model.graph:
        places = [place for place, value in enumerate(node.inputs) if value in changing]
        if inner_graphs(node):
            return
        if not places or node.op_type in _SHAPE_ONLY:
            continue
        if node.op_type not in _SHAPED and not set(places) <= set(_SHAPED_BY_OTHERS.get(node.op_type, ())):
            return
        changing.update(node.outputs)
    info[BY_SHAPES] = "yes"


def _is_whole(value: ir.Value) -> bool:
    return value.dtype is None or not value.dtype.is_floating_point()
