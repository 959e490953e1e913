"""Joining tensors, and taking them apart."""

from __future__ import annotations

from collections.abc import Sequence

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.room import span
from pinnace.ops.table import Ints, Tensor, Tensors, primitive
from pinnace.ops.values import Value


@primitive("Chunk")
def _chunk(op: Builder, x: Tensor, chunks: int, dim: int = 0) -> Value:
    """Split into parts of one size, the last one smaller."""
    total = _known_size(op, x, dim)
    return split_tensor(op, x, -(-total // chunks), dim) if total else (x,) * span(chunks)


@primitive("Concat", "ConcatD", "ParallelConcat", "SequenceConcat", unused="N inputNums shape")
def _concat(op: Builder, items: Tensors, axis: int = 0) -> Value:
    """Concat."""
    return items[0] if len(items) == 1 else op.Concat(*_same_type(op, items), axis=axis)


@primitive("SplitWithSize")
def _split_with_size(op: Builder, x: Tensor, split_sections: Ints, dim: int = 0) -> Value:
    return split_into(op, x, split_sections, dim)


@primitive("Stack", "StackExt", "Pack", unused="num N")
def _stack(op: Builder, items: Tensors, axis: int = 0) -> Value:
    """Unsqueeze of each, and Concat."""
    axis = axis % (op.rank(items[0]) + 1)
    raised = [op.Unsqueeze(t, [axis]) for t in items]
    return op.Concat(*_same_type(op, raised), axis=axis)


@primitive("Unstack", unused="num")
def _unstack(op: Builder, x: Tensor, axis: int = 0) -> Value:
    """Split, and Squeeze of each."""
    count = op.dim(x, axis)
    if not isinstance(count, int):
        raise Unsupported("needs the dimension that it takes apart fixed")
    return tuple([op.Squeeze(part, [axis]) for part in split_into(op, x, [1] * count, axis)])


def _same_type(op: Builder, tensors: Value) -> Value:
    return [op.cast(t, op.dtype(tensors[0])) for t in tensors]


def split_into(op: Builder, x: Tensor, sizes: Sequence[int], axis: int) -> tuple[Tensor, ...]:
    """Parts of the given sizes."""
    return (x,) if len(sizes) == 1 else op.ops("Split", len(sizes), x, list(sizes), axis=axis)


@primitive("Split", unused="size_splits num_split")
def split(op: Builder, x: Tensor, axis: int = 0, output_num: int = 1) -> Value:
    """Split into equal parts."""
    _check_parts(op, x, axis, output_num)
    return (x,) if output_num == 1 else op.ops("Split", output_num, x, axis=axis, num_outputs=output_num)


def _check_parts(op: Builder, x: Tensor, axis: int, parts: int) -> None:
    """Refuse parts that are not equal, tens of thousands of empty ones among them."""
    try:
        size = op.shape(x)[axis]
    except Unsupported:  # not even the rank is known
        return
    if parts < 1 or (size or 0) % parts:
        raise Unsupported(f"splits a dimension of {size} into {parts} equal parts")


@primitive("SplitTensor")
def split_tensor(op: Builder, x: Tensor, split_size: int, dim: int = 0) -> Value:
    """Split into parts of one size, the last one smaller."""
    total = _known_size(op, x, dim)
    return split_into(op, x, [min(split_size, total - i) for i in range(0, total, split_size)], dim)


def _known_size(op: Builder, x: Tensor, axis: int) -> int:
    total = op.dim(x, axis)
    if not isinstance(total, int):
        raise Unsupported("needs the dimension that it splits fixed")
    return total


@primitive("SplitV", unused="num_split")
def split_v(op: Builder, x: Tensor, size_splits: Ints = (), split_dim: int = 0) -> Value:
    """Split; one size may be -1."""
    sizes = list(size_splits)
    total = op.dim(x, split_dim)
    if -1 in sizes and isinstance(total, int):
        sizes[sizes.index(-1)] = total - sum(s for s in sizes if s != -1)
    return split_into(op, x, sizes, split_dim)


@primitive("Meshgrid")
def meshgrid(op: Builder, items: Tensors, indexing: str = "1") -> Value:
    """Reshape and Expand of each."""
    order = list(range(len(items)))
    if indexing in ("xy", "1") and len(items) > 1:
        order[:2] = [1, 0]
    sizes = [op.dim(items[i], 0) for i in order]
    return tuple(
        (
            op.Expand(op.reshape(t, [-1 if o == i else 1 for o in order]), op.vector(sizes))
            for i, t in enumerate(items)
        )
    )
