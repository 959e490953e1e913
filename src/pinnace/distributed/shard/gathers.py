"""Several AllGathers as one: each collective costs a round of messages."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from pinnace.distributed.segments import reads
from pinnace.distributed.shard.writing import GraphWriter, width_of
from pinnace.graph.nodes import DOMAIN


def join_gathers(writer: GraphWriter) -> None:
    """Let one AllGather do what several do that no other collective waits for, as of the outputs."""
    awaited: set[ir.Value] = set()
    last: dict[ir.DataType | None, list[ir.Node]] = {}
    for node in reversed(writer.graph):
        if node.domain == DOMAIN or not awaited.isdisjoint(node.outputs):
            fixed = all(
                isinstance(dim, int) for value in node.inputs if value for dim in value.shape or [None]
            )
            if node.op_type == "AllGather" and awaited.isdisjoint(node.outputs) and fixed:
                last.setdefault(node.outputs[0].dtype, []).append(node)
            awaited |= reads(node)
    for gathers in last.values():
        if len(gathers) > 1:
            _join(writer, gathers[::-1])


def _join(writer: GraphWriter, gathers: Sequence[ir.Node]) -> None:
    old = [gather.outputs[0] for gather in gathers]
    like = gathers[0].inputs[0]
    assert like is not None
    flat, lengths = [], []
    for gather in gathers:
        part = gather.inputs[0]
        assert part is not None
        lengths.append(math.prod(width_of(part, axis) for axis in range(len(part.shape or ()))))
        flat.append(writer.shaped(part, [1, lengths[-1]]))
    total = sum(lengths)
    (row,) = writer.node("Concat", flat, like, ir.Shape([1, total]), axis=1)
    (rows,) = writer.node("AllGather", [row], like, ir.Shape([writer.size, total]), DOMAIN)
    for was, one in zip(old, writer.apart(rows, 1, lengths), strict=True):
        made = writer.shaped(one, list(was.shape or ()))
        made.name, was.name = was.name, f"{was.name}.apart"
        ir.convenience.replace_all_uses_with(was, made, replace_graph_outputs=True)
    writer.graph.insert_after(gathers[-1], writer.new)
    writer.new = []
    writer.graph.remove(gathers, safe=True)
    writer.graph.sort()
