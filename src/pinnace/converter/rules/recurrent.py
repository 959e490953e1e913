"""Recurrent layers as products and elementwise operators: functions of `parts`.

They are written once for each step, or as a Loop where the steps are many or only the run counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import function
from pinnace.ops.values import Unsupported

_MOST = 1 << 10
"""Steps that are written."""
_USUAL = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_ACTIVATIONS = ("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus", "HardSigmoid", "Elu", "LeakyRelu")
"""Those that are operators of the same name and defaults."""

_State = tuple[ir.Value, ...]
_Step = Callable[[Builder, ir.Value, _State, "_Layer"], _State]


class _Layer(NamedTuple):
    """The constants of one direction: the transposed recurrence, and its bias where it is added apart."""

    recurrence: ir.Value
    bias: ir.Value | None
    peepholes: Sequence[ir.Value]
    activations: Sequence[str]
    hidden: int
    reset_last: bool


class _Pass(NamedTuple):
    """One direction of a layer: the products of all inputs with its weights, and how it goes over them.

    Only rows shorter than their `lengths` change; None is that all are as long as the input.
    """

    step: _Step
    layer: _Layer
    seen: ir.Value
    lengths: ir.Value | None
    backwards: bool


@function
def recurrence(
    b: Builder,
    kind: str,
    x: Sequence[ir.Value | None],
    direction: str,
    activations: Sequence[str],
    layout: int,
    reset_last: int,
) -> tuple[ir.Value, ...]:
    """An RNN, GRU or LSTM over its inputs `x`, in ONNX's order; results are Y, Y_h, and Y_c of an LSTM."""
    inputs = [*x, *[None] * (8 - len(x))]
    lengths, states = inputs[4], inputs[5 : 7 if kind == "LSTM" else 6]
    data = b.transpose(b.tensor(x[0]), [1, 0, 2]) if layout else b.tensor(x[0])
    count = b.dim(data, 0)
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    own = len(_USUAL[kind])
    names = list(activations) or list(_USUAL[kind]) * len(ways)
    if count == 0:
        raise Unsupported("has no steps")
    if not set(names) <= set(_ACTIVATIONS):
        raise Unsupported(f"has activations {names}, and {', '.join(_ACTIVATIONS)} can be written")
    hidden = b.static_shape(b.tensor(x[2]))[2]
    made = []
    for way, backwards in enumerate(ways):
        begin = tuple(
            b.op("Expand", b.like(0, data), b.vector([b.dim(data, 1), hidden]))
            if s is None
            else _row(b, s, way, layout)
            for s in states
        )
        given = [None if v is None else _row(b, v, way) for v in (*inputs[1:4], inputs[7])]
        seen, layer = _layer(b, kind, data, given, names[way * own :][:own], bool(reset_last))
        made.append(_run(b, _Pass(_STEPS[kind], layer, seen, lengths, backwards), begin, count))
    outputs = b.op("Concat", *(b.op("Unsqueeze", y, [1]) for y, _ in made), axis=1)
    last = [
        b.op("Concat", *(b.op("Unsqueeze", state[i], [0]) for _, state in made), axis=0)
        for i in range(len(states))
    ]
    if layout:
        outputs, last = b.transpose(outputs, [2, 0, 1, 3]), [b.transpose(y, [1, 0, 2]) for y in last]
    return outputs, *last


def _layer(
    b: Builder,
    kind: str,
    data: ir.Value,
    given: Sequence[ir.Value | None],
    activations: Sequence[str],
    reset_last: bool,
) -> tuple[ir.Value, _Layer]:
    """Return the products of all inputs with the weights of one direction, and its constants."""
    weights, recurrence, biases, peepholes = given
    inside, outside = (None, None) if biases is None else b.ops("Split", 2, biases, axis=0, num_outputs=2)
    apart = outside if kind == "GRU" else None
    seen = b.op("MatMul", data, b.transpose(b.tensor(weights), [1, 0]))
    for part in (inside, None if apart is not None else outside):
        seen = seen if part is None else b.op("Add", seen, part)
    holes = () if peepholes is None else b.ops("Split", 3, peepholes, axis=0, num_outputs=3)
    turned = b.tensor(recurrence)
    hidden = b.static_shape(turned)[1]
    return seen, _Layer(b.transpose(turned, [1, 0]), apart, holes, activations, hidden, reset_last)


def _row(b: Builder, x: ir.Value, place: int, axis: int = 0) -> ir.Value:
    return b.op("Gather", x, b.constant(place), axis=axis)


def _run(b: Builder, way: _Pass, state: _State, count: int | ir.Value) -> tuple[ir.Value, _State]:
    """Return what all steps give, and the state after the last."""
    if not isinstance(count, int) or count > _MOST:
        return _loop(b, way, state, b.tensor(count))
    outputs: list[ir.Value] = []
    for t in range(count)[:: -1 if way.backwards else 1]:
        output, state = _stepped(b, way, _row(b, way.seen, t), state, b.constant(t, np.int64))
        outputs.append(b.op("Unsqueeze", output, [0]))
    return b.op("Concat", *outputs[:: -1 if way.backwards else 1], axis=0), state


def _stepped(
    b: Builder, way: _Pass, seen: ir.Value, state: _State, place: ir.Value
) -> tuple[ir.Value, _State]:
    """Return what a step gives, and the state after it; beyond the length of a row nothing changes."""
    after = way.step(b, seen, state, way.layer)
    if way.lengths is None:
        return after[0], after
    inside = b.op("Unsqueeze", b.op("Less", b.cast(place, b.dtype(way.lengths)), way.lengths), [1])
    kept = tuple(b.op("Where", inside, new, old) for new, old in zip(after, state, strict=True))
    return b.op("Where", inside, after[0], b.like(0, after[0])), kept


def _loop(b: Builder, way: _Pass, state: _State, count: ir.Value) -> tuple[ir.Value, _State]:
    """Return what all steps give, and the state after the last, where they are many or only the run knows."""
    number, going = (
        ir.Value(name=b.fresh(), type=ir.TensorType(t), shape=ir.Shape([]))
        for t in (ir.DataType.INT64, ir.DataType.BOOL)
    )
    inner = tuple(ir.Value(name=b.fresh(), type=s.type, shape=ir.Shape(b.shape(s))) for s in state)
    with b.scope() as nodes:
        place = b.op("Sub", b.op("Sub", count, 1), number) if way.backwards else b.op("Identity", number)
        part = b.op("Gather", way.seen, place, axis=0)
        output, after = _stepped(b, way, part, inner, place)
        results = [b.op("Identity", x) for x in (going, *after, output)]
    body = ir.Graph([number, going, *inner], results, nodes=nodes, name=b.fresh())
    *last, rows = b.ops("Loop", len(state) + 1, count, b.constant(True), *state, body=body)
    for final, first in zip(last, state, strict=True):
        final.type, final.shape = first.type, first.shape
    rows.type, rows.shape = state[0].type, ir.Shape([None, *b.shape(state[0])])
    return b.op("Slice", rows, [-1], [-1 << 40], [0], [-1]) if way.backwards else rows, tuple(last)


def _rnn(b: Builder, seen: ir.Value, state: _State, layer: _Layer) -> _State:
    return (b.op(layer.activations[0], b.op("Add", seen, b.op("MatMul", state[0], layer.recurrence))),)


def _gru(b: Builder, seen: ir.Value, state: _State, layer: _Layer) -> _State:
    (h,) = state
    first, second = layer.activations
    sizes = [2 * layer.hidden, layer.hidden]
    seen_gates, seen_new = b.ops("Split", 2, seen, sizes, axis=1)
    for_gates, for_new = b.ops("Split", 2, layer.recurrence, sizes, axis=1)
    gates = b.op("Add", seen_gates, b.op("MatMul", h, for_gates))
    bias = None
    if layer.bias is not None:
        part, bias = b.ops("Split", 2, layer.bias, sizes, axis=0)
        gates = b.op("Add", gates, part)
    update, reset = b.ops("Split", 2, b.op(first, gates), axis=1, num_outputs=2)
    inside = b.op("MatMul", h if layer.reset_last else b.op("Mul", reset, h), for_new)
    inside = inside if bias is None else b.op("Add", inside, bias)
    inside = b.op("Mul", reset, inside) if layer.reset_last else inside
    new = b.op(second, b.op("Add", seen_new, inside))
    return (b.op("Add", new, b.op("Mul", update, b.op("Sub", h, new))),)


def _lstm(b: Builder, seen: ir.Value, state: _State, layer: _Layer) -> _State:
    h, c = state
    first, second, third = layer.activations
    gates = b.op("Add", seen, b.op("MatMul", h, layer.recurrence))
    into, out, forget, new = b.ops("Split", 4, gates, axis=1, num_outputs=4)
    if layer.peepholes:
        into = b.op("Add", into, b.op("Mul", layer.peepholes[0], c))
        forget = b.op("Add", forget, b.op("Mul", layer.peepholes[2], c))
    kept = b.op("Mul", b.op(first, forget), c)
    c = b.op("Add", kept, b.op("Mul", b.op(first, into), b.op(second, new)))
    if layer.peepholes:
        out = b.op("Add", out, b.op("Mul", layer.peepholes[1], c))
    return b.op("Mul", b.op(first, out), b.op(third, c)), c


_STEPS: Mapping[str, _Step] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}
