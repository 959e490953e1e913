"""The gated delta rule in nodes `Custom`: attention whose state every token decays and corrects.

The tokens of all sequences are one dimension. Two operators differ in where the state of a sequence lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.ascend.custom import custom
from pinnace.ops.mindspore.array import counting
from pinnace.ops.table import Dtype, Tensor
from pinnace.ops.values import FLOAT, FLOAT16, INT64, Value


@dataclass(frozen=True)
class _Tokens:
    """For each token its sequence, the first token of that, and whether it is this one."""

    sequence: Tensor
    first: Tensor
    begins: Tensor


def _tokens(op: Builder, query: Tensor, lengths: Tensor) -> _Tokens:
    lengths = op.cast(lengths, INT64)
    ends = op.CumSum(lengths, op.constant(0, np.int64))
    places = counting(op, op.Squeeze(op.Shape(query, start=0, end=1), [0]))
    behind = op.GreaterOrEqual(op.Unsqueeze(places, [1]), op.Unsqueeze(ends, [0]))
    sequence = op.ReduceSum(op.cast(behind, INT64), [1], keepdims=0)
    first = op.Gather(ends - lengths, sequence, axis=0)
    return _Tokens(sequence, first, op.Equal(places, first))


@custom("ChunkGatedDeltaRule")
def chunk_gated_delta_rule(
    op: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: Tensor,
    initial_state: Tensor,
    actual_seq_lengths: Tensor,
    g: Tensor,
    scale_value: float = 1.0,
    dtype: Dtype = FLOAT16,
) -> Value:
    """Scan over the tokens, in float32 and rounded once."""
    tokens = _tokens(op, query, actual_seq_lengths)
    given = query, key, value, beta, g
    return _delta_rule(op, given, initial_state, tokens.sequence, tokens.sequence, tokens, scale_value, dtype)


@custom("RecurrentGatedDeltaRule")
def recurrent_gated_delta_rule(
    op: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: Tensor,
    state: Tensor,
    actual_seq_lengths: Tensor,
    ssm_state_indices: Tensor,
    g: Tensor,
    num_accepted_tokens: Tensor | None = None,
    scale_value: float = 1.0,
    dtype: Dtype = FLOAT16,
) -> Value:
    """Scan over the tokens, in float32 and rounded once; every token's state goes to its place."""
    tokens = _tokens(op, query, actual_seq_lengths)
    slots, begin = op.cast(ssm_state_indices, INT64), tokens.first
    if num_accepted_tokens is not None:
        accepted = op.Gather(op.cast(num_accepted_tokens, INT64), tokens.sequence, axis=0)
        begin = begin + accepted - 1
    read = op.Gather(slots, begin, axis=0)
    return _delta_rule(op, (query, key, value, beta, g), state, read, slots, tokens, scale_value, dtype)


def _delta_rule(
    op: Builder,
    given: tuple[Tensor, ...],
    state: Tensor,
    read: Tensor,
    written: Tensor,
    tokens: _Tokens,
    scale: float,
    dtype: Dtype,
) -> tuple[Tensor, Tensor]:
    """The results of all tokens, and the states; those of sequences begin at `read`, and go to `written`."""
    _, heads, *size = op.shape(state)
    if heads is None or len(size) != 2:
        raise Unsupported("needs a state of 4 dimensions, and the number of its heads fixed")
    if dtype is not FLOAT16:
        raise Unsupported(f"results in {dtype.name.lower()}, but only float16 is supported")
    query, key, value, beta, g = (op.cast(x, FLOAT) for x in given)
    q, k = _repeated(op, query, heads) * scale, _repeated(op, key, heads)
    held = op.cast(state, FLOAT)
    scanned = q, k, value, beta, op.Exp(g), read, written, tokens.begins
    own: list[list[int | None]]
    own = [[heads, size[1]], [heads, size[1]], [heads, size[0]], [heads], [heads], [], [], []]
    inputs = [_variable(op, x, dims) for x, dims in zip(scanned, own, strict=True)]
    kept, states = _variable(op, held, [heads, *size]), _variable(op, held, op.shape(held))
    with op.scope() as nodes:
        results = _turn(op, held, kept, states, inputs)
    body = ir.Graph([kept, states, *inputs], results, nodes=nodes, name=op.fresh())
    nothing = op.Gather(held, op.constant(0, np.int64), axis=0)
    _, last, y = op.ops("Scan", 3, nothing, held, *scanned, body=body, num_scan_inputs=len(scanned))
    last.type = y.type = ir.TensorType(FLOAT)
    last.shape, y.shape = ir.Shape(op.shape(held)), ir.Shape([None, heads, size[0]])
    return op.cast(y, dtype), op.cast(last, dtype)


def _repeated(op: Builder, x: Tensor, heads: int) -> Tensor:
    """Each head of queries or keys as often as heads of values share it."""
    times = op.constant([heads], np.int64) / op.Shape(x, start=1, end=2)
    one = op.constant([1], np.int64)
    repeated = op.Expand(op.Unsqueeze(x, [2]), op.Concat(one, one, times, one, axis=0))
    return op.Reshape(repeated, [0, heads, -1])


def _variable(op: Builder, like: Tensor, dims: Sequence[int | None]) -> Tensor:
    return ir.Value(name=op.fresh(), type=ir.TensorType(op.dtype(like)), shape=ir.Shape(dims))


def _turn(op: Builder, held: Tensor, kept: Tensor, states: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """One token: the state after it, all states, and its result."""
    q, k, v, beta, decay, read, written, begins = inputs
    before = op.Where(begins, op.Gather(held, read, axis=0), kept)
    faded = before * op.Unsqueeze(decay, [1, 2])
    row = op.Unsqueeze(k, [1])
    known = op.ReduceSum(faded * row, [-1], keepdims=0)
    change = (v - known) * op.Unsqueeze(beta, [1])
    after = faded + op.Unsqueeze(change, [2]) * row
    y = op.ReduceSum(after * op.Unsqueeze(q, [1]), [-1], keepdims=0)
    place = op.Reshape(written, [1, 1])
    results = [after, op.ScatterND(states, place, op.Unsqueeze(after, [0])), y]
    for result, like in zip(results, (kept, states, v), strict=True):
        result.type, result.shape = like.type, like.shape
    return results
