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
from pinnace.ops.values import Value

_FLOAT, _FLOAT16, _INT64 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.INT64


@dataclass(frozen=True)
class _Tokens:
    """For each token its sequence, the first token of that, and whether it is this one."""

    sequence: Tensor
    first: Tensor
    begins: Tensor


def _tokens(b: Builder, query: Tensor, lengths: Tensor) -> _Tokens:
    lengths = b.cast(lengths, _INT64)
    ends = b.op("CumSum", lengths, b.constant(0, np.int64))
    places = counting(b, b.op("Squeeze", b.op("Shape", query, start=0, end=1), [0]))
    behind = b.op("GreaterOrEqual", b.op("Unsqueeze", places, [1]), b.op("Unsqueeze", ends, [0]))
    sequence = b.op("ReduceSum", b.cast(behind, _INT64), [1], keepdims=0)
    first = b.op("Gather", b.op("Sub", ends, lengths), sequence, axis=0)
    return _Tokens(sequence, first, b.op("Equal", places, first))


@custom("ChunkGatedDeltaRule")
def chunk_gated_delta_rule(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: Tensor,
    initial_state: Tensor,
    actual_seq_lengths: Tensor,
    g: Tensor,
    scale_value: float = 1.0,
    dtype: Dtype = _FLOAT16,
) -> Value:
    """Scan over the tokens, in float32 and rounded once."""
    tokens = _tokens(b, query, actual_seq_lengths)
    given = query, key, value, beta, g
    return _delta_rule(b, given, initial_state, tokens.sequence, tokens.sequence, tokens, scale_value, dtype)


@custom("RecurrentGatedDeltaRule")
def recurrent_gated_delta_rule(
    b: Builder,
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
    dtype: Dtype = _FLOAT16,
) -> Value:
    """Scan over the tokens, in float32 and rounded once; every token's state goes to its place."""
    tokens = _tokens(b, query, actual_seq_lengths)
    slots, begin = b.cast(ssm_state_indices, _INT64), tokens.first
    if num_accepted_tokens is not None:
        accepted = b.op("Gather", b.cast(num_accepted_tokens, _INT64), tokens.sequence, axis=0)
        begin = b.op("Sub", b.op("Add", begin, accepted), 1)
    read = b.op("Gather", slots, begin, axis=0)
    return _delta_rule(b, (query, key, value, beta, g), state, read, slots, tokens, scale_value, dtype)


def _delta_rule(
    b: Builder,
    given: tuple[Tensor, ...],
    state: Tensor,
    read: Tensor,
    written: Tensor,
    tokens: _Tokens,
    scale: float,
    dtype: Dtype,
) -> tuple[Tensor, Tensor]:
    """The results of all tokens, and the states; those of sequences begin at `read`, and go to `written`."""
    _, heads, *size = b.shape(state)
    if heads is None or len(size) != 2:
        raise Unsupported("needs a state of 4 dimensions, and the number of its heads fixed")
    if dtype is not _FLOAT16:
        raise Unsupported(f"results in {dtype.name.lower()}, but only float16 is supported")
    query, key, value, beta, g = (b.cast(x, _FLOAT) for x in given)
    q, k = b.op("Mul", _repeated(b, query, heads), scale), _repeated(b, key, heads)
    held = b.cast(state, _FLOAT)
    scanned = q, k, value, beta, b.op("Exp", g), read, written, tokens.begins
    own: list[list[int | None]]
    own = [[heads, size[1]], [heads, size[1]], [heads, size[0]], [heads], [heads], [], [], []]
    inputs = [_variable(b, x, dims) for x, dims in zip(scanned, own, strict=True)]
    kept, states = _variable(b, held, [heads, *size]), _variable(b, held, b.shape(held))
    with b.scope() as nodes:
        results = _turn(b, held, kept, states, inputs)
    body = ir.Graph([kept, states, *inputs], results, nodes=nodes, name=b.fresh())
    nothing = b.op("Gather", held, b.constant(0, np.int64), axis=0)
    _, last, y = b.ops("Scan", 3, nothing, held, *scanned, body=body, num_scan_inputs=len(scanned))
    last.type = y.type = ir.TensorType(_FLOAT)
    last.shape, y.shape = ir.Shape(b.shape(held)), ir.Shape([None, heads, size[0]])
    return b.cast(y, dtype), b.cast(last, dtype)


def _repeated(b: Builder, x: Tensor, heads: int) -> Tensor:
    """Each head of queries or keys as often as heads of values share it."""
    times = b.op("Div", b.constant([heads], np.int64), b.op("Shape", x, start=1, end=2))
    one = b.constant([1], np.int64)
    spread = b.op("Expand", b.op("Unsqueeze", x, [2]), b.op("Concat", one, one, times, one, axis=0))
    return b.op("Reshape", spread, [0, heads, -1])


def _variable(b: Builder, like: Tensor, dims: Sequence[int | None]) -> Tensor:
    return ir.Value(name=b.fresh(), type=ir.TensorType(b.dtype(like)), shape=ir.Shape(dims))


def _turn(b: Builder, held: Tensor, kept: Tensor, states: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """One token: the state after it, all states, and its result."""
    q, k, v, beta, decay, read, written, begins = inputs
    before = b.op("Where", begins, b.op("Gather", held, read, axis=0), kept)
    faded = b.op("Mul", before, b.op("Unsqueeze", decay, [1, 2]))
    row = b.op("Unsqueeze", k, [1])
    known = b.op("ReduceSum", b.op("Mul", faded, row), [-1], keepdims=0)
    change = b.op("Mul", b.op("Sub", v, known), b.op("Unsqueeze", beta, [1]))
    after = b.op("Add", faded, b.op("Mul", b.op("Unsqueeze", change, [2]), row))
    y = b.op("ReduceSum", b.op("Mul", after, b.op("Unsqueeze", q, [1])), [-1], keepdims=0)
    place = b.op("Reshape", written, [1, 1])
    results = [after, b.op("ScatterND", states, place, b.op("Unsqueeze", after, [0])), y]
    for result, like in zip(results, (kept, states, v), strict=True):
        result.type, result.shape = like.type, like.shape
    return results
