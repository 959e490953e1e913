"""Primitives by which ranks send tensors to certain others, as nodes `Exchange` (see `collective`)."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from pinnace.graph.failures import Unsupported
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.mindspore.collective import Group, Member, joined, rows_of, typed, written
from pinnace.ops.table import Dtype, Ints, Items, Tensor, Tensors, primitive
from pinnace.ops.values import Value

_AROUND = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))
"""Neighbors of NeighborExchangeV2, as steps down and to the right: from the top clockwise."""


def _uneven(
    b: LoweringBuilder, group: Group, x: ir.Value, sends: Sequence[int], receives: Sequence[int]
) -> ir.Value:
    """So many elements of `x` to each rank, and what the others send joined, in the order of ranks."""
    to = [rank for rank, size in enumerate(sends) if size]
    source = [rank for rank, size in enumerate(receives) if size]
    parts = rows_of(b, x, sends)
    given = group.exchange(b, to, source, *(parts[r] for r in to))
    if not source:
        return b.like(0, x)  # MindSpore: a scalar that means nothing
    return joined(b, [typed(y, b.dtype(x), (receives[r],)) for y, r in zip(given, source, strict=True)])


@primitive("AlltoAllV", "InnerCommAllToAllV", unused="rank_size split_sizes_empty async_op")
def all_to_all_v(
    b: LoweringBuilder,
    x: Tensor,
    *,
    send_numel_list: Ints,
    recv_numel_list: Ints,
    block_size: int = 1,
    group: Group,
) -> Value:
    """`Exchange` between segments of Slices."""
    sends, receives = ([n * block_size for n in sizes] for sizes in (send_numel_list, recv_numel_list))
    return _uneven(b, group, x, sends, receives)


@primitive("DistCommAllToAllVSingle", unused="rank_size split_sizes_empty async_op")
def dist_comm_all_to_all_single(
    b: LoweringBuilder, out: Tensor, x: Tensor, *, send_numel_list: Ints, recv_numel_list: Ints, group: Group
) -> Value:
    """`Exchange` between segments of Slices, and the first tensor stands for the result from here on."""
    y = _uneven(b, group, b.reshape(x, [-1]), send_numel_list, recv_numel_list)
    return written(b, out, b.reshape(y, b.static_shape(out)))


@primitive("AlltoAllVC")
def all_to_all_v_c(
    b: LoweringBuilder,
    x: Tensor,
    send_count_matrix: Ints,
    *,
    rank_size: int,
    block_size: int = 1,
    transpose: bool = False,
    group: Member,
) -> Value:
    """`Exchange` between segments of Slices."""
    rows = [n * block_size for n in send_count_matrix]
    sends, receives = rows[group.rank_id * rank_size :][:rank_size], rows[group.rank_id :: rank_size]
    if transpose:
        sends, receives = receives, sends
    return _uneven(b, group, x, sends, receives)


@primitive("NeighborExchange", unused="send_shapes recv_shapes")
def neighbor_exchange(
    b: LoweringBuilder,
    x: Tensors,
    *,
    send_rank_ids: Ints,
    recv_rank_ids: Ints,
    recv_type: Dtype | None = None,
    group: Group,
) -> Value:
    """`Exchange` between segments."""
    declared = [t for t in b.declared if t is not None]
    if len(declared) != len(recv_rank_ids) or any(t.shape is None for t in declared):
        raise Unsupported("does not declare what it receives")
    given = group.exchange(b, send_rank_ids, recv_rank_ids, *x)
    return tuple(typed(y, recv_type or t.dtype, t.shape or ()) for y, t in zip(given, declared, strict=True))


@primitive("NeighborExchangeV2", unused="format data_format rank_size")
def neighbor_exchange_v2(
    b: LoweringBuilder,
    x: Tensor,
    *,
    send_rank_ids: Ints,
    send_lens: Ints,
    recv_rank_ids: Ints,
    recv_lens: Ints,
    group: Group,
) -> Value:
    """`Exchange` between segments of Slices of the borders of NCHW, and Concat; zeros where nobody sends."""
    batch, channels, height, width = b.static_shape(x)
    top, bottom, left, right = send_lens
    rows = {-1: (0, top), 0: (0, height), 1: (height - bottom, height)}
    columns = {-1: (0, left), 0: (0, width), 1: (width - right, width)}
    to = [(rank, place) for rank, place in zip(send_rank_ids, _AROUND, strict=True) if rank >= 0]
    parts = []
    for _, (down, along) in to:
        (first, last), (start, end) = rows[down], columns[along]
        parts.append(b.Slice(x, [first, start], [last, end], [2, 3]))
    source = [(rank, place) for rank, place in zip(recv_rank_ids, _AROUND, strict=True) if rank >= 0]
    given = group.exchange(b, [rank for rank, _ in to], [rank for rank, _ in source], *parts)
    top, bottom, left, right = recv_lens
    heights, widths = {-1: top, 0: height, 1: bottom}, {-1: left, 0: width, 1: right}
    found = {(0, 0): x, **{place: y for (_, place), y in zip(source, given, strict=True)}}
    zero = b.like(0, x)

    def piece(down: int, along: int) -> ir.Value:
        shape = (batch, channels, heights[down], widths[along])
        if (down, along) not in found:
            return b.Expand(zero, list(shape))
        return typed(found[down, along], b.dtype(x), shape)

    lines = [
        joined(b, [piece(down, along) for along in (-1, 0, 1) if widths[along]], 3)
        for down in (-1, 0, 1)
        if heights[down]
    ]
    return joined(b, lines, 2)


@primitive("BatchISendIRecv", unused="receive_shapes receive_dtypes")
def batch_isend_irecv(
    b: LoweringBuilder, x: Tensors, *, op_types: Items, remote_ranks: Ints, group: Group
) -> Value:
    """`Exchange` between segments; a zero where something is sent."""
    if len(b.declared) != len(remote_ranks):
        raise Unsupported("does not declare what it gives")
    kinds = list(zip(op_types, remote_ranks, b.declared, strict=True))
    to = [rank for kind, rank, _ in kinds if kind == "isend"]
    source = [rank for kind, rank, _ in kinds if kind == "irecv"]
    given = iter(group.exchange(b, to, source, *x))
    results: list[Value] = []
    for kind, _, declared in kinds:
        if declared is None or declared.shape is None:
            raise Unsupported("does not declare the shape of what it receives")
        zero = b.constant(0, declared.dtype.numpy())
        results.append(typed(next(given), declared.dtype, declared.shape) if kind == "irecv" else zero)
    return tuple(results)


@primitive("Send", unused="group_back dtype shape")
def send(b: LoweringBuilder, x: Tensor, *, dest_rank: int, sr_tag: int = 0, group: Group) -> Value:
    """`Exchange` between segments, which receives nothing."""
    group.exchange(b, (dest_rank,), (), x, tag=sr_tag)
    return x


@primitive("InnerCommIsend", "DistCommIsend")
def comm_isend(b: LoweringBuilder, x: Tensor, *, dst: int, tag: int, group: Group) -> Value:
    """`Exchange` between segments, which receives nothing; a zero."""
    send(b, b.memory.changed(x), dest_rank=dst, sr_tag=tag, group=group)
    return b.constant(0, b.dtype(x).numpy())


def _received(b: LoweringBuilder, group: Group, source: int, tag: int, dtype: Dtype) -> ir.Value:
    declared = b.declared[0] if b.declared else None
    if declared is None or declared.shape is None:
        raise Unsupported("does not declare the shape of what it receives")
    return typed(group.exchange(b, (), (source,), tag=tag)[0], dtype, declared.shape)


@primitive("Receive", unused="ordering group_back shape")
def receive(
    b: LoweringBuilder, *ordering: Value, src_rank: int, dtype: Dtype, sr_tag: int = 0, group: Group
) -> Value:
    """`Exchange` between segments, which sends nothing."""
    return _received(b, group, src_rank, sr_tag, dtype)


@primitive("InnerCommIrecv")
def inner_comm_irecv(
    b: LoweringBuilder, *, tag: int, src: int, shape: Ints, dtype: Dtype, group: Group
) -> Value:
    """`Exchange` between segments, which sends nothing."""
    (y,) = group.exchange(b, (), (src,), tag=tag)
    return typed(y, dtype, shape)


@primitive("DistCommIrecv")
def dist_comm_irecv(b: LoweringBuilder, out: Tensor, *, tag: int, src: int, group: Group) -> Value:
    """`Exchange` between segments, and the tensor stands for what it receives from here on."""
    return written(b, out, _received(b, group, src, tag, b.dtype(out)))
