"""Primitives by which ranks talk to each other: nodes of a domain of ours, at which the graph is cut.

No engine knows them: `pinnace.distributed` runs them between the segments that engines run. What each one
takes and gives is said in docs/distributed.md.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from pinnace.ops.builder import Builder, Unsupported
from pinnace.ops.table import Dtype, Ints, Tensor, Tensors, primitive
from pinnace.ops.values import Value
from pinnace.program import Dialect

_MODES = {0: "sum", 1: "max", 2: "min", 3: "prod", 4: "sum"}
"""MindSpore Lite's `ReduceMode` -> what ranks do; the first, the mean, is a sum that is divided."""
DOMAIN = "pinnace.distributed"
"""Domain of the nodes at which ranks meet."""


def _ranks(listed: Value) -> tuple[int, ...] | None:
    """Ranks of a group, which MindSpore writes as numbers or as "0-1-2"."""
    if isinstance(listed, str):
        return tuple(int(part) for part in listed.split("-")) if listed else None
    return tuple(listed) if isinstance(listed, tuple) and listed else None


def _collective(b: Builder, kind: str, *inputs: ir.Value, group: str, outputs: int = 1, **more: Any) -> Any:
    return b.ops(kind, outputs, *inputs, domain=DOMAIN, group=group, **more)


def _typed(value: ir.Value, dtype: ir.DataType, shape: tuple[int | None, ...]) -> ir.Value:
    value.dtype, value.shape = dtype, ir.Shape(shape)
    return value


def _sized(b: Builder, x: ir.Value, factor: int, divisor: int = 1) -> tuple[int | None, ...]:
    """The shape of `x`, its first dimension times `factor`, or divided."""
    first, *rest = b.shape(x) or (None,)
    if first is not None and first % divisor:
        raise Unsupported(f"divides a dimension of {first} among {divisor} ranks")
    return (None if first is None else first * factor // divisor, *rest)


@primitive("AllReduce", "Reduce", unused="dest_rank index")
def all_reduce(
    b: Builder, x: Tensor, *, op: str = "sum", group: str = "", group_ranks: Value = None
) -> Value:
    """`AllReduce` between segments. `Reduce` too: MindSpore leaves open what other ranks have then."""
    (y,) = _collective(b, "AllReduce", x, op=op, group=group, ranks=_ranks(group_ranks))
    return _typed(y, b.dtype(x), b.shape(x))


@primitive("AllGather")
def all_gather(b: Builder, x: Tensor, *, rank_size: int, group: str = "", group_ranks: Value = None) -> Value:
    """`AllGather` between segments, along dimension 0."""
    (y,) = _collective(b, "AllGather", x, group=group, ranks=_ranks(group_ranks))
    return _typed(y, b.dtype(x), _sized(b, x, rank_size))


@primitive("ReduceScatter")
def reduce_scatter(
    b: Builder, x: Tensor, *, rank_size: int, op: str = "sum", group: str = "", group_ranks: Value = None
) -> Value:
    """`ReduceScatter` between segments, along dimension 0."""
    (y,) = _collective(b, "ReduceScatter", x, op=op, group=group, ranks=_ranks(group_ranks))
    return _typed(y, b.dtype(x), _sized(b, x, 1, rank_size))


@primitive("ReduceScatter", dialect=Dialect.LITE)
def reduce_scatter_by_mode(b: Builder, x: Tensor, *, rank_size: int, mode: int = 0, group: str = "") -> Value:
    """`ReduceScatter` between segments, divided by the ranks for the mean."""
    if mode not in _MODES:
        raise Unsupported(f"reduces with mode {mode}, which is not supported")
    y: ir.Value = reduce_scatter(b, x, rank_size=rank_size, op=_MODES[mode], group=group)
    return y if mode else b.op("Div", y, b.like(rank_size, y))


@primitive("Broadcast")
def broadcast(b: Builder, x: Tensors, *, root_rank: int, group: str = "", group_ranks: Value = None) -> Value:
    """`Broadcast` between segments, one for each tensor."""
    results = []
    for one in x:
        (y,) = _collective(b, "Broadcast", one, root=root_rank, group=group, ranks=_ranks(group_ranks))
        results.append(_typed(y, b.dtype(one), b.shape(one)))
    return results[0] if len(results) == 1 else tuple(results)


@primitive("AlltoAll", unused="rank_size")
def all_to_all(
    b: Builder,
    x: Tensor,
    *,
    split_count: int,
    split_dim: int,
    concat_dim: int,
    group: str = "",
    group_ranks: Value = None,
) -> Value:
    """`AllToAll` between segments; Reshape and Transpose bring what goes to each rank together."""
    shape = list(b.static_shape(x))
    split, concat = b.axis(split_dim, x), b.axis(concat_dim, x)
    if shape[split] % split_count:
        raise Unsupported(f"splits a dimension of {shape[split]} for {split_count} ranks")
    part = [*shape[:split], split_count, shape[split] // split_count, *shape[split + 1 :]]
    order = [split, *(i for i in range(len(part)) if i != split)]
    parted = b.transpose(b.reshape(x, part), order)
    whole = (split_count, *part[:split], *part[split + 1 :])
    (y,) = _collective(b, "AllToAll", parted, group=group, ranks=_ranks(group_ranks))
    _typed(y, b.dtype(x), whole)
    back = [*range(1, concat + 1), 0, *range(concat + 1, len(part))]
    result = [*whole[1:]]
    result[concat] *= split_count
    return b.reshape(b.transpose(y, back), result)


@primitive("NeighborExchange", unused="send_shapes recv_shapes")
def neighbor_exchange(
    b: Builder,
    x: Tensors,
    *,
    send_rank_ids: Ints,
    recv_rank_ids: Ints,
    recv_type: Dtype | None = None,
    group: str = "",
) -> Value:
    """`Exchange` between segments."""
    declared = [t for t in b.declared if t is not None]
    if len(declared) != len(recv_rank_ids) or any(t.shape is None for t in declared):
        raise Unsupported("does not declare what it receives")
    to, source = send_rank_ids or None, recv_rank_ids or None
    given = _collective(b, "Exchange", *x, outputs=len(declared), group=group, to=to, source=source)
    return tuple(_typed(y, recv_type or t.dtype, t.shape or ()) for y, t in zip(given, declared, strict=True))


@primitive("Send", unused="group_back dtype")
def send(b: Builder, x: Tensor, *, dest_rank: int, sr_tag: int = 0, group: str = "") -> Value:
    """`Exchange` between segments, which receives nothing."""
    _collective(b, "Exchange", x, outputs=0, group=group, to=(dest_rank,), tag=sr_tag)
    return x


@primitive("Receive", unused="ordering group_back shape")
def receive(
    b: Builder, *ordering: Value, src_rank: int, dtype: Dtype, sr_tag: int = 0, group: str = ""
) -> Value:
    """`Exchange` between segments, which sends nothing."""
    declared = b.declared[0] if b.declared else None
    if declared is None or declared.shape is None:
        raise Unsupported("does not declare the shape of what it receives")
    (y,) = _collective(b, "Exchange", group=group, source=(src_rank,), tag=sr_tag)
    return _typed(y, dtype, declared.shape)


@primitive("Barrier", unused="ordering")
def barrier(b: Builder, *ordering: Value, group: str = "", group_ranks: Value = None) -> Value:
    """`Barrier` between segments."""
    _collective(b, "Barrier", outputs=0, group=group, ranks=_ranks(group_ranks))
    return None
