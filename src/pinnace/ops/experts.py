"""Mixtures of experts: where tokens go, what each expert makes of its own, and the way back."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pinnace.ops.array import counting
from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function, functions
from pinnace.ops.quantised import widened
from pinnace.ops.table import Arguments, Tensor
from pinnace.ops.values import Unsupported, Value

_INT64, _INT32, _FLOAT = ir.DataType.INT64, ir.DataType.INT32, ir.DataType.FLOAT
_ROWS_OF_GROUPS = (-1, 0)
"""The `group_type`s by which rows belong to an expert; another is by columns."""


functions(
    __name__,
    """
    divided: x, by -> x if by == 1 else x / cast(tensor(by), dtype(x))
    expert_counts: experts, count ->
        # The number of tokens of each expert, int64.
        numbers = counting(count)
        same = Unsqueeze(cast(experts, INT64), [0]) == Unsqueeze(numbers, [1])
        ReduceSum(cast(same, INT64), [1], keepdims=0)
    order: numbers ->
        # The permutation that sorts a vector, equal elements in their order.
        # TopK prefers the first of equals, and takes the smallest of halves of ints only as floats or int64.
        wide = cast(numbers, INT64)
        ops("TopK", 2, wide, Shape(wide), axis=0, largest=0, sorted=1)[1]
    through: x, number ->
        # An activation, by MindSpore's number.
        if number not in (0, 1, 19, 22, 23):
            raise Unsupported(f"has the activation {number}, which is not supported")
        if number in (22, 23):
            return x * Sigmoid(x * 1.702 if number == 22 else x)
        if number == 19:
            return Gelu(x, approximate="tanh")
        Relu(x) if number else x
    topk: indices -> dim(indices, 1) if rank(indices) == 2 else 1
    """,
)


@function
def inverse_order(b: Builder, order: Tensor) -> Tensor:
    """The permutation that undoes another."""
    numbers = counting(b, b.op("Size", order))
    return b.op("ScatterElements", numbers, order, numbers, axis=0)


formulas(
    __name__,
    """
    FFNExt; inner_precise: x, weight1, weight2, *, bias1 = None, bias2 = None, activation: int ->
        # MatMul, Add, the activation, MatMul, Add, in float32.
        y = through(plain(x, weight1, bias1), activation)
        cast(plain(y, weight2, bias2), dtype(x))
    GroupedMatmul GroupedMatmulV2; split_item group_info: x: Value, weight: Value, *, grouping: _Grouping ->
        # MatMul of the rows of each expert, Concat.
        all_groups(x, weight, grouping)
    GroupedMatmulV4; split_item group_info: x: Value, weight: Value, *, scale: Value = None,
        pre_token_scale: Value = None, group_list_type: int = 0, grouping: _Grouping ->
        # MatMul of the rows of each expert, Mul by the scales, Concat.
        all_groups(x, weight, grouping, (scale, pre_token_scale), bool(group_list_type))
    MoeComputeExpertTokens: sorted_experts, num_expert: int ->
        # CumSum of the tokens of each expert.
        counts = expert_counts(sorted_experts, num_expert)
        cast(CumSum(counts, constant(0, np.int64)), dtype(sorted_experts))
    MoeFinalizeRouting: expanded_x, x1, x2 = None, bias = None, scales = None, *,
        expanded_row_idx, expanded_expert_idx = None ->
        # Gather of each token's rows, Add of the bias, Mul by the scales, ReduceSum, Add.
        rows = Gather(cast(expanded_x, FLOAT), cast(expanded_row_idx, INT64), axis=0)
        # The first choices of all tokens come first: (k, tokens, width).
        apart, biased = reshape(rows, [-1, *dims(x1)]), bias is not None and expanded_expert_idx is not None
        own = Gather(cast(bias, FLOAT), cast(expanded_expert_idx, INT64), axis=0) if biased else None
        apart = apart + transpose(own, (1, 0, 2)) if biased else apart
        factor = None if scales is None else Unsqueeze(transpose(cast(scales, FLOAT), (1, 0)), [-1])
        apart = apart if factor is None else apart * factor
        total = ReduceSum(apart, [0], keepdims=0) + cast(x1, FLOAT)
        cast(total if x2 is None else total + cast(x2, FLOAT), dtype(expanded_x))
    MoeGatingTopKSoftmax: x, finished = None, k: int = 1 ->
        # Softmax and TopK; rows are numbered column by column.
        values, places = ops("TopK", 2, Softmax(x, axis=-1), [k], axis=-1, largest=1, sorted=1)
        chosen, none = cast(places, INT32), tensor(dim(x, -1))
        chosen = chosen if finished is None else Where(Unsqueeze(finished, [-1]), cast(none, INT32), chosen)
        rows = Transpose(reshape(counting(Size(values)), [k, -1]), perm=[1, 0])
        values, chosen, cast(Reshape(rows, Shape(values)), INT32)
    MoeInitRouting: x, row_idx, expert_idx, active_num: int ->
        # TopK of all expert numbers, and Gather.
        experts = reshape(expert_idx, [-1])
        sorting = order(experts)
        rows = Gather(cast(reshape(row_idx, [-1]), INT64), sorting, axis=0)
        active = Min(Shape(x, end=1), active_num) * Shape(expert_idx, start=1)
        kept = Slice(rows, [0], active, [0])
        taken = Gather(x, Mod(kept, Shape(x, end=1)), axis=0)
        (taken, cast(inverse_order(rows), INT32), Gather(experts, sorting, axis=0))
    MoeInitRoutingV2; expert_capacity expert_tokens_before_capacity_flag: x, expert_idx, active_num: int,
        expert_capacity: int, expert_num: int, drop_pad_mode: Literal[0] = 0,
        expert_tokens_count_or_cumsum_flag: int = 0, expert_tokens_before_capacity_flag: bool = False ->
        # TopK of all expert numbers, and Gather.
        experts = reshape(expert_idx, [-1])
        sorting = order(experts)
        kept = Slice(sorting, [0], [active_num], [0]) if active_num else sorting
        taken = Gather(x, divided(kept, topk(expert_idx)), axis=0)
        row_idx = cast(inverse_order(sorting), INT32)
        if not expert_tokens_count_or_cumsum_flag:
            return (taken, row_idx)
        counts = expert_counts(experts, expert_num)
        counts = CumSum(counts, constant(0, np.int64)) if expert_tokens_count_or_cumsum_flag == 1 else counts
        (taken, row_idx, cast(counts, INT32))
    MoeTokenPermute: tokens, indices, num_out_tokens: int | None = None ->
        # TopK of all expert numbers, and Gather.
        sorting = order(reshape(indices, [-1]))
        kept = Slice(sorting, [0], [num_out_tokens], [0]) if num_out_tokens else sorting
        permuted = Gather(tokens, divided(kept, topk(indices)), axis=0)
        (permuted, cast(inverse_order(sorting), INT32))
    MoeTokenUnpermute InnerMoeTokenUnpermute; restore_shape: permuted_tokens, sorted_indices, probs = None ->
        # Gather, Mul by the probabilities, ReduceSum.
        found = Gather(permuted_tokens, cast(sorted_indices, INT64), axis=0)
        if probs is None:
            return found
        width = dim(permuted_tokens, 1)
        apart = reshape(cast(found, FLOAT), [-1, dim(probs, 1), width])
        weighted = apart * Unsqueeze(cast(probs, FLOAT), [-1])
        cast(ReduceSum(weighted, [1], keepdims=0), dtype(permuted_tokens))
    """,
)


# -- two products with an activation between ---------------------------------------------------------


# -- a matrix for each expert ----------------------------------------------------------------------


_beside, _lists, _plain = functions(
    __name__,
    """
    beside: x, weight -> x if x is None or rank(weight) == 2 else Unsqueeze(x, [-2])
    lists: *values ->
        # Lists of tensors, as long as the first; one that is not there is a list of None.
        first = tensors(values[0])
        [[None] * len(first) if value is None or value == () else tensors(value) for value in values]
    plain: x, weight, bias ->
        # MatMul and Add, in float32.
        product = cast(x, FLOAT) @ cast(weight, FLOAT)
        product if bias is None else product + cast(bias, FLOAT)
    """,
)


def _grouped(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    group_list: Tensor,
    counts: bool,
    scale: Tensor | None = None,
    token_scale: Tensor | None = None,
) -> Tensor:
    """Rows of `x` (m, k) in groups, each times a matrix of its own of `weight` (experts, k, n)."""
    experts = b.dim(weight, 0)
    if not isinstance(experts, int):
        raise Unsupported("needs the number of experts fixed")
    ends = b.cast(group_list, _INT64)
    ends = b.op("CumSum", ends, b.constant(0, np.int64)) if counts else ends
    bounds = b.op("Concat", b.constant([0], np.int64), ends, b.op("Shape", x, end=1), axis=0)
    parts = []
    for i in range(experts):
        limits = [b.op("Slice", bounds, [j], [j + 1], [0]) for j in (i, i + 1)]
        rows = b.op("Slice", b.cast(x, _FLOAT), *limits, [0])
        place = b.constant(i, np.int64)
        part = b.op("MatMul", rows, b.op("Gather", b.cast(weight, _FLOAT), place, axis=0))
        for other, op_type in ((bias, "Add"), (scale, "Mul")):
            if other is not None:
                part = b.op(op_type, part, b.op("Gather", b.cast(other, _FLOAT), place, axis=0))
        parts.append(part)
    last = b.op("Sub", *(b.op("Slice", bounds, [j], [j + 1], [0]) for j in (experts + 1, experts)))
    missing = b.vector([b.op("Squeeze", last, [0]), b.dim(weight, 2)])
    rest = b.op("Expand", b.constant(0.0, np.float32), missing)
    result = b.op("Concat", *parts, rest, axis=0)
    return result if token_scale is None else b.op("Mul", result, b.op("Unsqueeze", token_scale, [-1]))


class _Grouping(Arguments):
    """Arguments of products of the rows of each expert; of integers only weights are supported."""

    bias: Value = None
    antiquant_scale: Value = None
    antiquant_offset: Value = None
    group_list: Value = None
    group_type: int = -1


@function
def _all_groups(
    b: Builder,
    x: Value,
    weight: Value,
    grouping: _Grouping,
    scales: tuple[Value, Value] = (None, None),
    counts: bool = False,
) -> Value:
    if grouping.group_type not in _ROWS_OF_GROUPS:
        raise Unsupported(f"groups by group_type {grouping.group_type}, and only rows are grouped")
    given = (x, weight, grouping.bias, grouping.antiquant_scale, grouping.antiquant_offset, *scales)
    rows, weights, biases, factors, shifts, steps, tokens = _lists(b, *given)
    group_list = grouping.group_list
    results = []
    for i, (one, matrix) in enumerate(zip(rows, weights, strict=True)):
        if one is None or matrix is None:
            raise Unsupported("has no operands")
        factor, shift = (_beside(b, t, matrix) for t in (factors[i], shifts[i]))
        if factor is not None:
            matrix = widened(b, matrix, factor, shift)
        if group_list is None:
            result = _plain(b, one, matrix, biases[i])
        else:
            result = _grouped(b, one, matrix, biases[i], b.tensor(group_list), counts, steps[i], tokens[i])
        results.append(b.cast(result, b.result(one, i)))
    return tuple(results)
