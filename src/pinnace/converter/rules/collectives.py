"""Rules of a rank's collectives (`pinnace.distributed`) in MindSpore's own dialect (see `rules`)."""

from __future__ import annotations

from typing import Any

from pinnace.converter.primitives import Primitives, number_of
from pinnace.converter.rules import rule
from pinnace.graph.failures import Unsupported
from pinnace.graph.nodes import DOMAIN as DOMAIN
from pinnace.ops.table import Ints, Tensor
from pinnace.program import Dialect

_WORLD = "hccl_world_group"


@rule(Dialect.MINDSPORE)
def AllReduce(op: Primitives, x: Tensor, op_: str = "sum", group: str = _WORLD) -> Tensor:
    return op.AllReduce(x, op=op_, group=group)


@rule(Dialect.MINDSPORE)
def AllGather(op: Primitives, x: Tensor, group: str = _WORLD) -> Tensor:
    """An AllGather, which says how many ranks there are."""
    if not op.ranks:
        raise Unsupported("does not say among how many ranks: cut the model by pinnace shard")
    return op.AllGather(x, rank_size=op.ranks, group=group)


@rule(Dialect.MINDSPORE)
def Broadcast(op: Primitives, x: Tensor, root: int = 0, group: str = _WORLD) -> Tensor:
    """A Broadcast of one tensor, after what this rank exchanged before."""
    op.met = op.Broadcast(op.MakeTuple(_after(op, x)), root_rank=root, group=group)
    return op.TupleGetItem(op.met, 0)


@rule(Dialect.MINDSPORE)
def Exchange(
    op: Primitives, *inputs: Tensor, to: Ints = (), source: Ints = (), tag: int = 0, group: str = _WORLD
) -> tuple[Tensor, ...]:
    """Sends or Receives in order, each after what this rank exchanged before."""
    assert op.node is not None
    assert op.node.graph is not None
    first = op.node.graph.inputs[:1]
    if to and source:
        raise Unsupported("sends and receives at once, and Send and Receive do one of them")
    for rank, x in zip(to, inputs, strict=True):
        op.met = op.Send(_after(op, x), sr_tag=tag, dest_rank=rank, group=group)
    received = []
    for rank, y in zip(source, op.node.outputs, strict=True):
        more: dict[str, Any] = {"shape": op.static_shape(y), "dtype": number_of(op.dtype(y)), "group": group}
        op.met = op.Receive(*(_after(op, x) for x in first), sr_tag=tag, src_rank=rank, **more)
        received.append(op.met)
    return tuple(received)


def _after(op: Primitives, x: Tensor) -> Tensor:
    return x if op.met is None else op.Depend(x, op.met)
