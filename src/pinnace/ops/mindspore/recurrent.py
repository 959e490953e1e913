"""Recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room, span
from pinnace.ops.mindspore.array import counting, places
from pinnace.ops.mindspore.slicing import split_into
from pinnace.ops.table import Ints, Tensor, primitive
from pinnace.ops.values import FLOAT, INT64, Value


@primitive("CTCGreedyDecoder")
def _ctc_greedy_decoder(
    op: Builder, x: Tensor, sequence_length: Tensor, merge_repeated: bool = True
) -> Value:
    """ArgMax, and NonZero of what is no blank, no repetition and within the length."""
    blank = op.tensor(op.dim(x, 2)) - op.constant(1, np.int64)
    best = op.transpose(op.ArgMax(x, axis=2, keepdims=0), (1, 0))
    within = op.Less(counting(op, op.dim(x, 0)), op.Unsqueeze(op.cast(sequence_length, INT64), [1]))
    # The first has none before it: -1 is no class.
    before = op.Pad(op.Slice(best, [0], [-1], [1]), [0, 1, 0, 0], op.constant(-1, np.int64))
    kept = op.And(within, op.Less(best, blank))
    kept = op.And(kept, op.Not(op.Equal(best, before))) if merge_repeated else kept
    counted = op.CumSum(op.cast(kept, INT64), op.constant(1, np.int64))
    places = op.Transpose(op.NonZero(kept), perm=[1, 0])
    columns = op.Unsqueeze(op.GatherND(counted, places) - 1, [1])
    indices = op.Concat(op.Slice(places, [0], [1], [1]), columns, axis=1)
    longest = op.Unsqueeze(op.ReduceMax(counted, keepdims=0), [0])
    size = op.Concat(op.Shape(x, start=1, end=2), longest, axis=0)
    peaks = op.transpose(op.ReduceMax(x, [2], keepdims=0), (1, 0))
    likely = op.ReduceSum(op.Where(within, peaks, 0.0), [1], keepdims=1)
    return indices, op.GatherND(best, places), size, 0.0 - likely


@primitive("DynamicGRUV2", unused="placeholder_index is_training")
def _dynamic_gruv2(
    op: Builder,
    x: Tensor,
    weight_input: Tensor,
    weight_hidden: Tensor,
    bias_input: Tensor | None,
    bias_hidden: Tensor | None,
    seq_length: Value,
    init_h: Tensor,
    *,
    direction: Literal["UNIDIRECTIONAL", "FORWARD"] = "UNIDIRECTIONAL",
    gate_order: Literal["rzh", "zrh"] = "rzh",
    reset_after: bool = True,
) -> Value:
    """GRU; its gates, which training needs, are not given."""
    if seq_length is not None:
        raise Unsupported("has lengths of its own for each batch")
    hidden, order = op.static_shape(weight_hidden)[0], (1, 0, 2) if gate_order == "rzh" else (0, 1, 2)
    none = op.constant(np.zeros(room(1, 3 * hidden), np.float32))
    wide, weights, recurrence, start = [op.cast(t, FLOAT) for t in (x, weight_input, weight_hidden, init_h)]
    given = [none if t is None else op.cast(t, FLOAT) for t in (bias_input, bias_hidden)]
    biases = [t if t is none else _gates(op, t, 3, order) for t in given]
    y = op.GRU(
        wide,
        _gates(op, weights, 3, order),
        _gates(op, recurrence, 3, order),
        op.Concat(*biases, axis=1),
        None,
        start if op.rank(init_h) == 3 else op.Unsqueeze(start, [0]),
        hidden_size=hidden,
        linear_before_reset=reset_after,
    )
    y = op.cast(op.Squeeze(y, [1]), op.result(init_h))
    return y, y, None, None, None, None


_LSTM_GATES = (0, 3, 1, 2)
"""ONNX orders the gates input, output, forget, cell; MindSpore input, forget, cell, output."""


@primitive("LSTM", unused="dropout")
def lstm(
    op: Builder,
    x: Tensor,
    h: Tensor,
    c: Tensor,
    w: Tensor,
    input_size: int,
    hidden_size: int,
    num_layers: int = 1,
    has_bias: bool = True,
    bidirectional: bool = False,
    dropout: float = 0.0,
) -> Value:
    """LSTM for each layer, its weights cut out of the one vector of weights."""
    directions = 2 if bidirectional else 1
    weights = _lstm_weights(op, w, num_layers, directions, input_size, hidden_size, has_bias)
    starts_h = split_into(op, h, [directions] * num_layers, 0)
    starts_c = split_into(op, c, [directions] * num_layers, 0)
    ends_h, ends_c = [], []
    for layer in range(num_layers):
        operands = (x, *weights[layer], None, starts_h[layer], starts_c[layer])
        direction = "bidirectional" if bidirectional else "forward"
        y, end_h, end_c = op.ops("LSTM", 3, *operands, hidden_size=hidden_size, direction=direction)
        x = joined_directions(op, y, directions, hidden_size)
        ends_h.append(end_h)
        ends_c.append(end_c)
    nothing = op.constant([[0.0]], np.float32)
    return x, _stacked(op, ends_h), _stacked(op, ends_c), nothing, nothing


def joined_directions(op: Builder, y: Tensor, directions: int, hidden: int) -> Tensor:
    """ONNX's (sequence, direction, batch, hidden) as (sequence, batch, direction * hidden)."""
    if directions == 1:
        return op.Squeeze(y, [1])
    turned = op.transpose(y, (0, 2, 1, 3))
    return op.reshape(turned, [op.dim(y, 0), op.dim(y, 2), directions * hidden])


def _stacked(op: Builder, parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=0)


def _lstm_weights(
    op: Builder, w: Tensor, layers: int, directions: int, input_size: int, hidden: int, has_bias: bool
) -> list[tuple[Tensor, Tensor, Tensor | None]]:
    """W, R and B of each layer, cut out of MindSpore's one vector: all of W and R, then the biases."""
    if layers > math.prod(op.static_shape(w)):
        raise Unsupported(f"has {layers} layers, more than its weights have elements")
    widths, gates = [input_size] + [hidden * directions] * (layers - 1), 4 * hidden
    sizes = [size for width in widths for size in [gates * width, gates * hidden] * directions]
    if has_bias:
        # The two biases of a direction come as their sum, or one after the other.
        rest = op.static_shape(w)[0] - sum(sizes)
        sizes += [rest // (layers * directions)] * (layers * directions)
    parts = split_into(op, op.reshape(w, [-1]), sizes, 0)

    def in_order(x: Tensor, rows: int, *dims: int) -> Tensor:
        return op.reshape(
            op.Gather(op.reshape(x, [rows, 4, hidden, *dims]), _LSTM_GATES, axis=1), [1, rows * gates, *dims]
        )

    def bias(part: Tensor) -> Tensor:
        if op.static_shape(part) == (gates,):
            part = op.Concat(part, op.constant(np.zeros(room(gates), op.dtype(part).numpy())), axis=0)
        return in_order(part, 2)

    weights = []
    for layer, width in enumerate(widths):
        numbers = range(layer * directions, (layer + 1) * directions)
        own = [in_order(parts[2 * n], 1, width) for n in numbers]
        back = [in_order(parts[2 * n + 1], 1, hidden) for n in numbers]
        biases = [bias(parts[2 * layers * directions + n]) for n in numbers] if has_bias else []
        weights.append((_stacked(op, own), _stacked(op, back), _stacked(op, biases) if biases else None))
    return weights


def _gates(op: Builder, x: Tensor, count: int, order: Ints) -> Tensor:
    """Weights (inputs, gates * hidden), or a bias, as ONNX has them: (1, gates * hidden, inputs)."""
    parts = op.ops("Split", count, x, axis=-1, num_outputs=count)
    joined = op.Concat(*[parts[i] for i in order], axis=-1)
    return op.Unsqueeze(op.transpose(joined, (1, 0)) if op.rank(x) == 2 else joined, [0])


@primitive("DynamicRNN", unused="is_training")
def dynamic_rnn(
    op: Builder,
    x: Tensor,
    w: Tensor,
    bias: Tensor,
    seq_length: Value,
    init_h: Tensor,
    init_c: Tensor,
    *,
    direction: Literal["UNIDIRECTIONAL", "FORWARD"] = "UNIDIRECTIONAL",
    forget_bias: float = 0.0,
) -> Value:
    """LSTM; the gates of all steps by MatMul, and the cells by Scan."""
    if seq_length is not None:
        raise Unsupported("has lengths of its own for each batch")
    dtype = op.dtype(x)
    x, w, bias, init_h, init_c = (op.cast(t, FLOAT) for t in (x, w, bias, init_h, init_c))
    hidden = op.static_shape(w)[1] // 4
    if forget_bias:
        steps = np.repeat(np.asarray([0, 0, forget_bias, 0], np.float32), hidden)
        bias = bias + steps
    # The gates are in the order input, cell, forget, output.
    order = (0, 3, 2, 1)
    own, back = op.ops("Split", 2, w, [op.static_shape(w)[0] - hidden, hidden], axis=0)
    given = _gates(op, bias, 4, order)
    both = op.Concat(given, given - given, axis=1)
    rows = (_gates(op, own, 4, order), _gates(op, back, 4, order))
    y = op.LSTM(x, *rows, both, None, init_h, init_c, hidden_size=hidden)
    y = op.Squeeze(y, [1])
    before = op.Concat(init_h, op.Slice(y, [0], [-1], [0]), axis=0)
    sums = op.MatMul(op.Concat(x, before, axis=-1), w) + bias
    i, j, f, o = op.ops("Split", 4, sums, axis=-1, num_outputs=4)
    i, j, f, o = op.Sigmoid(i), op.Tanh(j), op.Sigmoid(f), op.Sigmoid(o)
    cells = _cells(op, op.Squeeze(init_c, [0]), i * j, f)
    return tuple(op.cast(t, dtype) for t in (y, y, cells, i, j, f, o, op.Tanh(cells)))


def _cells(op: Builder, first: Tensor, added: Tensor, kept: Tensor) -> Tensor:
    """All of c = kept * c + added, step by step."""
    cell, more, share = (
        ir.Value(name=op.fresh(), type=ir.TensorType(op.dtype(first)), shape=ir.Shape(op.shape(first)))
        for _ in range(3)
    )
    with op.scope() as nodes:
        last = share * cell + more
        shown = op.Identity(last)
    for value in (last, shown):
        value.type, value.shape = cell.type, cell.shape
    body = ir.Graph([cell, more, share], [last, shown], nodes=nodes, name=op.fresh())
    _, cells = op.ops("Scan", 2, first, added, kept, body=body, num_scan_inputs=2)
    cells.type, cells.shape = added.type, ir.Shape(op.shape(added))
    return cells


@primitive("NoRepeatNGram")
def no_repeat_ngram(op: Builder, sequences: Tensor, scores: Tensor, *, ngram_size: int = 1) -> Value:
    """Equal of all stretches with the last one; ScatterElements, reduction min, of the words that follow."""
    length = op.static_shape(sequences)[-1]
    count = length - ngram_size + 1
    least = float(np.finfo(op.dtype(scores).numpy()).min)
    banned = op.Slice(sequences, [ngram_size - 1], [length], [-1])
    lowest = op.Expand(op.like(least, scores), op.Shape(banned))
    same = None
    for i in range(span(ngram_size - 1)):
        part = op.Slice(sequences, [i], [i + count], [-1])
        last = op.Slice(sequences, [count + i], [count + i + 1], [-1])
        equal = op.Equal(part, last)
        same = equal if same is None else op.And(same, equal)
    if same is not None:
        highest = op.like(float(np.finfo(op.dtype(scores).numpy()).max), scores)
        lowest = op.Where(same, lowest, highest)
    return op.ScatterElements(scores, places(op, banned), lowest, axis=-1, reduction="min")
