"""Primitives by which ranks talk to each other: nodes of a domain of ours, at which the graph is cut.

No engine knows them: `pinnace.distributed` runs them between the segments that engines run. What each one
takes and gives is said in docs/distributed.md. Ranks are numbered as in the group: MindSpore's functions turn
the ranks that users give into those before they make a primitive. `InnerComm...` is what the functions of
`ops.communication` and `comm_func` make, `DistComm...` what those of `mint.distributed` do, which write into
their first argument.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import onnx_ir as ir

from pinnace.graph.failures import Unsupported
from pinnace.graph.nodes import DOMAIN
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.table import Arguments, Ints, Tensor, Tensors, primitive
from pinnace.ops.values import Value
from pinnace.program import Dialect

_MODES = {0: "sum", 1: "max", 2: "min", 3: "prod", 4: "sum"}
"""MindSpore Lite's `ReduceMode` -> what ranks do; the first, the mean, is a sum that is divided."""


class Group(Arguments):
    """The ranks that meet: a name, and its members where the file says them."""

    group: str = ""
    group_ranks: Value = None

    def attributes(self) -> dict[str, Any]:
        """Attributes of the nodes at which the group meets."""
        return {"group": self.group, "ranks": _ranks(self.group_ranks)}

    def meet(
        self, b: LoweringBuilder, kind: str, *inputs: ir.Value, outputs: int = 1, **more: Any
    ) -> tuple[ir.Value, ...]:
        """A node at which the group meets."""
        return b.ops(kind, outputs, *inputs, domain=DOMAIN, **self.attributes(), **more)

    def same(self, b: LoweringBuilder, kind: str, x: ir.Value, **more: Any) -> ir.Value:
        """A collective that gives what has the shape of `x`."""
        return typed(self.meet(b, kind, x, **more)[0], b.dtype(x), b.shape(x))

    def gathered(self, b: LoweringBuilder, x: ir.Value, size: int) -> ir.Value:
        """The tensors of all ranks, joined along dimension 0."""
        return typed(self.meet(b, "AllGather", x)[0], b.dtype(x), _sized(b, x, size))

    def scattered(self, b: LoweringBuilder, x: ir.Value, op: str, size: int) -> ir.Value:
        """This rank's part of the reduction."""
        (y,) = self.meet(b, "ReduceScatter", x, op=op)
        return typed(y, b.dtype(x), _sized(b, x, 1, size))

    def exchange(
        self, b: LoweringBuilder, to: Sequence[int], source: Sequence[int], *parts: ir.Value, **more: Any
    ) -> tuple[ir.Value, ...]:
        """A tensor to each rank of `to`, and what the ranks of `source` send, without type or shape."""
        ends = {"to": list(to) or None, "source": list(source) or None}
        return self.meet(b, "Exchange", *parts, outputs=len(source), **ends, **more)


class Member(Group):
    """A group, and the number that this rank has in it."""

    rank_id: int

    def attributes(self) -> dict[str, Any]:
        """Attributes of the nodes at which the group meets, with this rank's number."""
        return {**super().attributes(), "own": self.rank_id}


def _ranks(listed: Value) -> tuple[int, ...] | None:
    """Ranks of a group, which MindSpore writes as numbers or as "0-1-2"."""
    if isinstance(listed, str):
        return tuple(int(part) for part in listed.split("-")) if listed else None
    return tuple(listed) if isinstance(listed, tuple) and listed else None


def typed(value: ir.Value, dtype: ir.DataType, shape: tuple[int | None, ...]) -> ir.Value:
    value.dtype, value.shape = dtype, ir.Shape(shape)
    return value


def _sized(b: LoweringBuilder, x: ir.Value, factor: int, divisor: int = 1) -> tuple[int | None, ...]:
    """The shape of `x`, its first dimension times `factor`, or divided."""
    first, *rest = b.shape(x) or (None,)
    if first is not None and first % divisor:
        raise Unsupported(f"divides a dimension of {first} among {divisor} ranks")
    return (None if first is None else first * factor // divisor, *rest)


def rows_of(b: LoweringBuilder, x: ir.Value, sizes: Sequence[int]) -> list[ir.Value]:
    """Rows of `x`, so many for each part."""
    ends = list(itertools.accumulate(sizes))
    return [b.Slice(x, [end - size], [end], [0]) for size, end in zip(sizes, ends, strict=True)]


def joined(b: LoweringBuilder, parts: Sequence[ir.Value], axis: int = 0) -> ir.Value:
    return parts[0] if len(parts) == 1 else b.Concat(*parts, axis=axis)


def _declared(b: LoweringBuilder, y: ir.Value) -> ir.Value:
    """A result, or zeros where MindSpore declares another shape: this rank has none then."""
    shape = b.declared[0].shape if b.declared and b.declared[0] else None
    if shape is None or shape == b.shape(y):
        return y
    return b.Expand(b.constant(0, b.dtype(y).numpy()), [1 if d is None else d for d in shape])


@primitive("AllReduce", "InnerCommAllReduce", unused="index async_op")
def all_reduce(b: LoweringBuilder, x: Tensor, *, op: str = "sum", group: Group) -> Value:
    """`AllReduce` between segments."""
    return group.same(b, "AllReduce", x, op=op)


@primitive("Reduce", unused="dest_rank")
def reduce(b: LoweringBuilder, x: Tensor, *, op: str = "sum", group: Group) -> Value:
    """`AllReduce` between segments; a zero in ranks for which MindSpore declares another shape."""
    return _declared(b, all_reduce(b, x, op=op, group=group))


@primitive("DistCommAllReduce", "DistCommReduce", unused="dst async_op")
def dist_comm_all_reduce(b: LoweringBuilder, x: Tensor, *, op: str, group: Group) -> Value:
    """`AllReduce` between segments, and the tensor stands for the result from here on.

    MindSpore leaves open what ranks other than `dst` have of DistCommReduce.
    """
    return b.memory.assign(x, group.same(b, "AllReduce", b.memory.read(x), op=op))


@primitive("AllGather", "InnerCommAllGather", unused="async_op")
def all_gather(b: LoweringBuilder, x: Tensor, *, rank_size: int, group: Group) -> Value:
    """`AllGather` between segments, along dimension 0."""
    return group.gathered(b, x, rank_size)


@primitive("DistCommAllGatherIntoTensor", unused="async_op")
def dist_comm_all_gather(
    b: LoweringBuilder, out: Tensor, x: Tensor, *, rank_size: int, group: Group
) -> Value:
    """`AllGather` between segments, and the first tensor stands for the result from here on."""
    return written(b, out, group.gathered(b, x, rank_size))


@primitive("DistCommAllGather", unused="async_op")
def dist_comm_all_gather_list(
    b: LoweringBuilder, tensor_list: Tensors, x: Tensor, *, rank_size: int, group: Group
) -> Value:
    """`AllGather` between segments, and each tensor of the list stands for one rank's from here on."""
    whole = group.gathered(b, b.Unsqueeze(x, [0]), rank_size)
    parts = [b.Squeeze(row, [0]) for row in rows_of(b, whole, [1] * rank_size)]
    return tuple(written(b, out, part) for out, part in zip(tensor_list, parts, strict=True))


@primitive("CollectiveGather", unused="dest_rank")
def collective_gather(b: LoweringBuilder, x: Tensor, *, rank_size: int, group: Member) -> Value:
    """`AllGather` between segments; a zero in ranks for which MindSpore declares another shape."""
    return _declared(b, group.gathered(b, x, rank_size))


@primitive("AllGatherV")
def all_gather_v(b: LoweringBuilder, x: Tensor, sizes: Ints, *, rank_size: int, group: Member) -> Value:
    """`AllGather` between segments of parts that are made equally long."""
    longest = max(sizes)
    padded = b.Pad(x, [0, longest - sizes[group.rank_id]])
    y = group.gathered(b, padded, rank_size)
    rows = rows_of(b, y, [longest] * rank_size)
    return joined(b, [b.Slice(row, [0], [size], [0]) for row, size in zip(rows, sizes, strict=True)])


@primitive("ReduceScatter", "InnerCommReduceScatter", unused="async_op")
def reduce_scatter(b: LoweringBuilder, x: Tensor, *, rank_size: int, op: str = "sum", group: Group) -> Value:
    """`ReduceScatter` between segments, along dimension 0."""
    return group.scattered(b, x, op, rank_size)


@primitive("ReduceScatter", dialect=Dialect.LITE)
def reduce_scatter_by_mode(
    b: LoweringBuilder, x: Tensor, *, rank_size: int, mode: Literal[0, 1, 2, 3, 4] = 0, group: Group
) -> Value:
    """`ReduceScatter` between segments, divided by the ranks for the mean."""
    y = group.scattered(b, x, _MODES[mode], rank_size)
    return y if mode else y / b.like(rank_size, y)


@primitive("DistCommReduceScatterTensor", unused="async_op")
def dist_comm_reduce_scatter(
    b: LoweringBuilder, out: Tensor, x: Tensor, *, rank_size: int, op: str, group: Group
) -> Value:
    """`ReduceScatter` between segments, and the first tensor stands for the result from here on."""
    return written(b, out, group.scattered(b, x, op, rank_size))


@primitive("DistCommReduceScatter", unused="async_op")
def dist_comm_reduce_scatter_list(
    b: LoweringBuilder, out: Tensor, input_list: Tensors, *, rank_size: int, op: str, group: Group
) -> Value:
    """`ReduceScatter` between segments of a list, and the first tensor stands for the result from here on."""
    whole = joined(b, [b.Unsqueeze(x, [0]) for x in input_list])
    return written(b, out, b.Squeeze(group.scattered(b, whole, op, rank_size), [0]))


@primitive("ReduceScatterV", unused="rank_size")
def reduce_scatter_v(b: LoweringBuilder, x: Tensor, sizes: Ints, *, op: str = "sum", group: Member) -> Value:
    """`AllReduce` between segments, and Slice of this rank's part."""
    y = group.same(b, "AllReduce", x, op=op)
    return rows_of(b, y, sizes)[group.rank_id]


@primitive("CollectiveScatter")
def collective_scatter(
    b: LoweringBuilder, x: Tensor, *, rank_size: int, src_rank: int = 0, group: Member
) -> Value:
    """`Broadcast` between segments, and Slice of this rank's part of dimension 0."""
    rows = b.static_shape(x)[0]
    _sized(b, x, 1, rank_size)
    y = group.same(b, "Broadcast", x, root=src_rank)
    return rows_of(b, y, [rows // rank_size] * rank_size)[group.rank_id]


@primitive("Broadcast")
def broadcast(b: LoweringBuilder, x: Tensors, *, root_rank: int, group: Group) -> Value:
    """`Broadcast` between segments, one for each tensor."""
    return tuple(group.same(b, "Broadcast", one, root=root_rank) for one in x)


@primitive("AlltoAll", unused="rank_size")
def all_to_all(
    b: LoweringBuilder, x: Tensor, *, split_count: int, split_dim: int, concat_dim: int, group: Group
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
    (y,) = group.meet(b, "AllToAll", parted)
    typed(y, b.dtype(x), whole)
    back = [*range(1, concat + 1), 0, *range(concat + 1, len(part))]
    result = [*whole[1:]]
    result[concat] *= split_count
    return b.reshape(b.transpose(y, back), result)


def written(b: LoweringBuilder, out: ir.Value, value: ir.Value) -> ir.Value:
    """Let `out` stand for a result from here on; Unsupported where it has another shape."""
    if b.shape(out) != b.shape(value):
        raise Unsupported(f"writes a result of shape {b.shape(value)} into a tensor of {b.shape(out)}")
    return b.memory.assign(out, value)


@primitive("Barrier", unused="ordering")
def barrier(b: LoweringBuilder, *ordering: Value, group: Group) -> Value:
    """`Barrier` between segments."""
    group.meet(b, "Barrier", outputs=0)
    return None
