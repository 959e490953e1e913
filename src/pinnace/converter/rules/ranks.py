"""Rules of the collectives of a rank's part (`pinnace.distributed`), in MindSpore's own dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from pinnace.converter.primitives import Primitives, number_of
from pinnace.converter.rules import Rules, rules
from pinnace.ops.formulas import function
from pinnace.ops.values import Unsupported


@function
def _all_gathered(b: Primitives, x: ir.Value, group: str) -> ir.Value:
    """An AllGather, which says how many ranks there are."""
    if not b.ranks:
        raise Unsupported("does not say among how many ranks: cut the model by pinnace shard")
    return b.op("AllGather", x, rank_size=b.ranks, group=group)


@function
def _sent_to_all(b: Primitives, x: ir.Value, root: int, group: str) -> ir.Value:
    """A Broadcast of one tensor, after what this rank exchanged before."""
    b.met = b.op("Broadcast", b.op("MakeTuple", _after(b, x)), root_rank=root, group=group)
    return b.op("TupleGetItem", b.met, 0)


@function
def _exchanged(
    b: Primitives, inputs: Sequence[ir.Value], to: Sequence[int], source: Sequence[int], tag: int, group: str
) -> tuple[ir.Value, ...]:
    """Sends or Receives in order, each after what this rank exchanged before."""
    assert b.node is not None
    assert b.node.graph is not None
    first = b.node.graph.inputs[:1]
    if to and source:
        raise Unsupported("sends and receives at once, and Send and Receive do one of them")
    for rank, x in zip(to, inputs, strict=True):
        b.met = b.op("Send", _after(b, x), sr_tag=tag, dest_rank=rank, group=group)
    received = []
    for rank, y in zip(source, b.node.outputs, strict=True):
        more: dict[str, Any] = {"shape": b.static_shape(y), "dtype": number_of(b.dtype(y)), "group": group}
        b.met = b.op("Receive", *(_after(b, x) for x in first), sr_tag=tag, src_rank=rank, **more)
        received.append(b.met)
    return tuple(received)


def _after(b: Primitives, x: ir.Value) -> ir.Value:
    return x if b.met is None else b.op("Depend", x, b.met)


RULES: Rules = rules(
    __name__,
    """
    AllReduce: x, op: str = "sum", group: str = "hccl_world_group" -> AllReduce(x, op=op, group=group)
    AllGather: x, group: str = "hccl_world_group" -> all_gathered(x, group)
    Broadcast: x, root: int = 0, group: str = "hccl_world_group" -> sent_to_all(x, root, group)
    Exchange: *inputs, to: Ints = (), source: Ints = (), tag: int = 0, group: str = "hccl_world_group" ->
        exchanged(inputs, to, source, tag, group)
    """,
)
