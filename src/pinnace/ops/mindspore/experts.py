"""Mixtures of experts: where tokens go, what each expert makes of its own, and the way back."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops import binding
from pinnace.ops.mindspore.array import counting
from pinnace.ops.mindspore.quantized import widened
from pinnace.ops.table import Arguments, Tensor, primitive
from pinnace.ops.values import FLOAT, INT32, INT64, Value

_ROWS_OF_GROUPS = (-1, 0)
"""The `group_type`s by which rows belong to an expert; another is by columns."""


def _expert_counts(op: Builder, experts: Tensor, count: int) -> Tensor:
    """The number of tokens of each expert, int64."""
    numbers = counting(op, count)
    same = op.Equal(op.Unsqueeze(op.cast(experts, INT64), [0]), op.Unsqueeze(numbers, [1]))
    return op.ReduceSum(op.cast(same, INT64), [1], keepdims=0)


def _order(op: Builder, numbers: Tensor) -> Tensor:
    """The permutation that sorts a vector, equal elements in their order."""
    # TopK prefers the first of equals, and takes the smallest of halves of ints only as floats or int64.
    wide = op.cast(numbers, INT64)
    return op.ops("TopK", 2, wide, op.Shape(wide), axis=0, largest=0, sorted=1)[1]


def _through(op: Builder, x: Tensor, number: int) -> Value:
    if number not in (0, 1, 19, 22, 23):
        raise Unsupported(f"has the activation {number}, which is not supported")
    if number in (22, 23):
        return x * op.Sigmoid(x * 1.702 if number == 22 else x)
    if number == 19:
        return op.Gelu(x, approximate="tanh")
    return op.Relu(x) if number else x


def inverse_order(op: Builder, order: Tensor) -> Tensor:
    """The permutation that undoes another."""
    numbers = counting(op, op.Size(order))
    return op.ScatterElements(numbers, order, numbers, axis=0)


@primitive("FFNExt", unused="inner_precise")
def _ffn_ext(
    op: Builder,
    x: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    *,
    bias1: Tensor | None = None,
    bias2: Tensor | None = None,
    activation: int,
) -> Value:
    y = _through(op, _plain(op, x, weight1, bias1), activation)
    return op.cast(_plain(op, y, weight2, bias2), op.dtype(x))


@primitive("GroupedMatmul", "GroupedMatmulV2", unused="split_item group_info")
def _grouped_matmul(op: Builder, x: Value, weight: Value, *, grouping: _Grouping) -> Value:
    return _all_groups(op, x, weight, grouping)


@primitive("GroupedMatmulV4", unused="split_item group_info")
def _grouped_matmul_v4(
    op: Builder,
    x: Value,
    weight: Value,
    *,
    scale: Value = None,
    pre_token_scale: Value = None,
    group_list_type: int = 0,
    grouping: _Grouping,
) -> Value:
    return _all_groups(op, x, weight, grouping, (scale, pre_token_scale), bool(group_list_type))


@primitive("MoeComputeExpertTokens")
def _moe_compute_expert_tokens(op: Builder, sorted_experts: Tensor, num_expert: int) -> Value:
    counts = _expert_counts(op, sorted_experts, num_expert)
    return op.cast(op.CumSum(counts, op.constant(0, np.int64)), op.dtype(sorted_experts))


@primitive("MoeFinalizeRouting")
def _moe_finalize_routing(
    op: Builder,
    expanded_x: Tensor,
    x1: Tensor,
    x2: Tensor | None = None,
    bias: Tensor | None = None,
    scales: Tensor | None = None,
    *,
    expanded_row_idx: Tensor,
    expanded_expert_idx: Tensor | None = None,
) -> Value:
    rows = op.Gather(op.cast(expanded_x, FLOAT), op.cast(expanded_row_idx, INT64), axis=0)
    # The first choices of all tokens come first: (k, tokens, width).
    apart = op.reshape(rows, [-1, *op.dims(x1)])
    if bias is not None and expanded_expert_idx is not None:
        expert = op.cast(expanded_expert_idx, INT64)
        own = op.Gather(op.cast(bias, FLOAT), expert, axis=0)
        apart = apart + op.transpose(own, (1, 0, 2))
    factor = None if scales is None else op.Unsqueeze(op.transpose(op.cast(scales, FLOAT), (1, 0)), [-1])
    apart = apart if factor is None else apart * factor
    total = op.ReduceSum(apart, [0], keepdims=0) + op.cast(x1, FLOAT)
    return op.cast(total if x2 is None else total + op.cast(x2, FLOAT), op.dtype(expanded_x))


@primitive("MoeGatingTopKSoftmax")
def _moe_gating_top_k_softmax(op: Builder, x: Tensor, finished: Tensor | None = None, k: int = 1) -> Value:
    """Softmax and TopK; rows are numbered column by column."""
    values, places = op.ops("TopK", 2, op.Softmax(x, axis=-1), [k], axis=-1, largest=1, sorted=1)
    chosen, none = op.cast(places, INT32), op.tensor(op.dim(x, -1))
    if finished is not None:
        chosen = op.Where(op.Unsqueeze(finished, [-1]), op.cast(none, INT32), chosen)
    rows = op.Transpose(op.reshape(counting(op, op.Size(values)), [k, -1]), perm=[1, 0])
    return values, chosen, op.cast(op.Reshape(rows, op.Shape(values)), INT32)


@primitive("MoeInitRouting")
def _moe_init_routing(op: Builder, x: Tensor, row_idx: Tensor, expert_idx: Tensor, active_num: int) -> Value:
    experts = op.reshape(expert_idx, [-1])
    sorting = _order(op, experts)
    rows = op.Gather(op.cast(op.reshape(row_idx, [-1]), INT64), sorting, axis=0)
    active = op.Min(op.Shape(x, end=1), active_num) * op.Shape(expert_idx, start=1)
    kept = op.Slice(rows, [0], active, [0])
    taken = op.Gather(x, op.Mod(kept, op.Shape(x, end=1)), axis=0)
    return (taken, op.cast(inverse_order(op, rows), INT32), op.Gather(experts, sorting, axis=0))


@primitive("MoeInitRoutingV2", unused="expert_capacity expert_tokens_before_capacity_flag")
def _moe_init_routing_v2(
    op: Builder,
    x: Tensor,
    expert_idx: Tensor,
    active_num: int,
    expert_capacity: int,
    expert_num: int,
    drop_pad_mode: Literal[0] = 0,
    expert_tokens_count_or_cumsum_flag: int = 0,
    expert_tokens_before_capacity_flag: bool = False,
) -> Value:
    routed = _moe_token_permute(op, x, expert_idx, active_num)
    if not expert_tokens_count_or_cumsum_flag:
        return routed
    counts = _expert_counts(op, op.reshape(expert_idx, [-1]), expert_num)
    summed = expert_tokens_count_or_cumsum_flag == 1
    counts = op.CumSum(counts, op.constant(0, np.int64)) if summed else counts
    return (*routed, op.cast(counts, INT32))


@primitive("MoeTokenPermute")
def _moe_token_permute(
    op: Builder, tokens: Tensor, indices: Tensor, num_out_tokens: int | None = None
) -> tuple[Tensor, ...]:
    sorting = _order(op, op.reshape(indices, [-1]))
    kept = op.Slice(sorting, [0], [num_out_tokens], [0]) if num_out_tokens else sorting
    choices = op.dim(indices, 1) if op.rank(indices) == 2 else 1
    kept = kept if choices == 1 else kept / op.tensor(choices)
    return op.Gather(tokens, kept, axis=0), op.cast(inverse_order(op, sorting), INT32)


@primitive("MoeTokenUnpermute", "InnerMoeTokenUnpermute", unused="restore_shape")
def _moe_token_unpermute(
    op: Builder, permuted_tokens: Tensor, sorted_indices: Tensor, probs: Tensor | None = None
) -> Value:
    found = op.Gather(permuted_tokens, op.cast(sorted_indices, INT64), axis=0)
    if probs is None:
        return found
    width = op.dim(permuted_tokens, 1)
    apart = op.reshape(op.cast(found, FLOAT), [-1, op.dim(probs, 1), width])
    weighted = apart * op.Unsqueeze(op.cast(probs, FLOAT), [-1])
    return op.cast(op.ReduceSum(weighted, [1], keepdims=0), op.dtype(permuted_tokens))


def _lists(op: Builder, *values: Value) -> Value:
    """Lists of tensors, as long as the first; one that is not there is a list of None."""
    first = binding.tensors(op, values[0])
    return [
        [None] * len(first) if value is None or value == () else binding.tensors(op, value)
        for value in values
    ]


def _plain(op: Builder, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product = op.MatMul(op.cast(x, FLOAT), op.cast(weight, FLOAT))
    return product if bias is None else product + op.cast(bias, FLOAT)


def _grouped(
    op: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    group_list: Tensor,
    counts: bool,
    scale: Tensor | None,
    token_scale: Tensor | None,
) -> Tensor:
    """Rows of `x` (m, k) in groups, each times a matrix of its own of `weight` (experts, k, n)."""
    experts = op.dim(weight, 0)
    if not isinstance(experts, int):
        raise Unsupported("needs the number of experts fixed")
    ends = op.cast(group_list, INT64)
    ends = op.CumSum(ends, op.constant(0, np.int64)) if counts else ends
    bounds = op.Concat(op.constant([0], np.int64), ends, op.Shape(x, end=1), axis=0)
    parts = []
    for i in range(experts):
        limits = [op.Slice(bounds, [j], [j + 1], [0]) for j in (i, i + 1)]
        rows = op.Slice(op.cast(x, FLOAT), *limits, [0])
        place = op.constant(i, np.int64)
        part = op.MatMul(rows, op.Gather(op.cast(weight, FLOAT), place, axis=0))
        for other, op_type in ((bias, "Add"), (scale, "Mul")):
            if other is not None:
                part = op.op(op_type, part, op.Gather(op.cast(other, FLOAT), place, axis=0))
        parts.append(part)
    last = op.Sub(*(op.Slice(bounds, [j], [j + 1], [0]) for j in (experts + 1, experts)))
    missing = op.vector([op.Squeeze(last, [0]), op.dim(weight, 2)])
    rest = op.Expand(op.constant(0.0, np.float32), missing)
    result = op.Concat(*parts, rest, axis=0)
    return result if token_scale is None else result * op.Unsqueeze(token_scale, [-1])


class _Grouping(Arguments):
    """Arguments of products of the rows of each expert; of integers only weights are supported."""

    bias: Value = None
    antiquant_scale: Value = None
    antiquant_offset: Value = None
    group_list: Value = None
    group_type: int = -1


def _all_groups(
    op: Builder,
    x: Value,
    weight: Value,
    grouping: _Grouping,
    scales: tuple[Value, Value] = (None, None),
    counts: bool = False,
) -> Value:
    if grouping.group_type not in _ROWS_OF_GROUPS:
        raise Unsupported(f"groups by group_type {grouping.group_type}, and only rows are grouped")
    given = (x, weight, grouping.bias, grouping.antiquant_scale, grouping.antiquant_offset, *scales)
    rows, weights, biases, factors, shifts, steps, tokens = _lists(op, *given)
    group_list = grouping.group_list
    results = []
    for i, (one, matrix) in enumerate(zip(rows, weights, strict=True)):
        if one is None or matrix is None:
            raise Unsupported("has no operands")
        factor, shift = factors[i], shifts[i]
        if op.rank(matrix) != 2:
            factor, shift = (t if t is None else op.Unsqueeze(t, [-2]) for t in (factor, shift))
        if factor is not None:
            matrix = widened(op, matrix, factor, shift)
        if group_list is None:
            result = _plain(op, one, matrix, biases[i])
        else:
            result = _grouped(op, one, matrix, biases[i], op.tensor(group_list), counts, steps[i], tokens[i])
        results.append(op.cast(result, op.result(one, i)))
    return tuple(results)
