"""Several AllGathers as one: each collective costs a round of messages."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from pinnace.distributed.segments import reads
from pinnace.distributed.shard.pieces import collective, split
from pinnace.graph.editor import Editor, replace_value
from pinnace.graph.nodes import DOMAIN


def join_gathers(b: Editor, size: int) -> None:
    """Let one AllGather of `size` ranks do what several do that no other collective waits for."""
    awaited: set[ir.Value] = set()
    last: dict[ir.DataType | None, list[ir.Node]] = {}
    for node in reversed(b.model.graph):
        if node.domain == DOMAIN or not awaited.isdisjoint(node.outputs):
            fixed = all(
                isinstance(dim, int) for value in node.inputs if value for dim in value.shape or [None]
            )
            if node.op_type == "AllGather" and awaited.isdisjoint(node.outputs) and fixed:
                last.setdefault(node.outputs[0].dtype, []).append(node)
            awaited |= reads(node)
    for gathers in last.values():
        if len(gathers) > 1:
            _join(b, size, gathers[::-1])


def _join(b: Editor, size: int, gathers: Sequence[ir.Node]) -> None:
    parts = [part for gather in gathers for part in gather.inputs if part is not None]
    lengths = [math.prod(b.static_shape(part)) for part in parts]
    flat = [b.op("Reshape", part, [1, length]) for part, length in zip(parts, lengths, strict=True)]
    row = b.op("Concat", *flat, axis=1)
    row.name, row.shape = f"{parts[0].name}.joined", ir.Shape([1, sum(lengths)])
    rows = collective(b, "AllGather", row, ir.Shape([size, sum(lengths)]))
    pieces = split(b, rows, 1, lengths)
    old = [gather.outputs[0] for gather in gathers]
    new = [b.op("Reshape", one, list(b.static_shape(was))) for one, was in zip(pieces, old, strict=True)]
    b.insert_after(gathers[-1])
    for was, made in zip(old, new, strict=True):
        replace_value(was, made)
    b.model.graph.remove(gathers, safe=True)
    b.model.graph.sort()
