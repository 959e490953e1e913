"""Recurrent layers as products and elementwise operators (see `rules`).

They are written once for each step, or as a Loop where the steps are many or only the run counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pinnace.converter.rules import operators
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.mindspore.array import repeated
from pinnace.ops.table import Items, Tensor
from pinnace.ops.values import Value

_MOST = 1 << 10
"""Steps that are written."""
_USUAL = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_ACTIVATIONS = ("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus", "HardSigmoid", "Elu", "LeakyRelu")
"""Those that are operators of the same name and defaults."""

_State = tuple[Tensor, ...]
_Step = Callable[[Builder, Tensor, _State, "_Layer"], _State]


class _Layer(NamedTuple):
    """The constants of one direction: the transposed recurrence, and its bias where it is added apart."""

    recurrence: Tensor
    bias: Tensor | None
    peepholes: Sequence[Tensor]
    activations: Sequence[str]
    hidden: int
    reset_last: bool


class _Pass(NamedTuple):
    """One direction of a layer: the products of all inputs with its weights, and how it goes over them.

    Only rows shorter than their `lengths` change; None is that all are as long as the input.
    """

    step: _Step
    layer: _Layer
    seen: Tensor
    lengths: Tensor | None
    backwards: bool


@operators("RNN GRU LSTM")
def _recurrence(
    op: Builder,
    kind: str,
    *x: Value,
    activations: Items = (),
    direction: str = "forward",
    _hidden_size: int = 0,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Tensor, ...]:
    """Inputs are in ONNX's order; results are Y, Y_h, and Y_c of an LSTM."""
    inputs = [*x, *[None] * (8 - len(x))]
    lengths, states = inputs[4], inputs[5 : 7 if kind == "LSTM" else 6]
    data = op.transpose(op.tensor(x[0]), [1, 0, 2]) if layout else op.tensor(x[0])
    count = op.dim(data, 0)
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    own = len(_USUAL[kind])
    names = list(activations) or list(_USUAL[kind]) * len(ways)
    if count == 0:
        raise Unsupported("has no steps")
    if not set(names) <= set(_ACTIVATIONS):
        raise Unsupported(f"has activations {names}, and {', '.join(_ACTIVATIONS)} can be written")
    hidden = op.static_shape(op.tensor(x[2]))[2]
    made = []
    for way, backwards in enumerate(ways):
        begin = tuple(
            op.Expand(op.like(0, data), op.vector([op.dim(data, 1), hidden]))
            if s is None
            else _row(op, s, way, layout)
            for s in states
        )
        given = [None if v is None else _row(op, v, way) for v in (*inputs[1:4], inputs[7])]
        seen, layer = _layer(op, kind, data, given, names[way * own :][:own], bool(linear_before_reset))
        made.append(_run(op, _Pass(_STEPS[kind], layer, seen, lengths, backwards), begin, count))
    outputs = op.Concat(*(op.Unsqueeze(y, [1]) for y, _ in made), axis=1)
    last = [
        op.Concat(*(op.Unsqueeze(state[i], [0]) for _, state in made), axis=0) for i in range(len(states))
    ]
    if layout:
        outputs, last = op.transpose(outputs, [2, 0, 1, 3]), [op.transpose(y, [1, 0, 2]) for y in last]
    return outputs, *last


def _layer(
    op: Builder,
    kind: str,
    data: Tensor,
    given: Sequence[Tensor | None],
    activations: Sequence[str],
    reset_last: bool,
) -> tuple[Tensor, _Layer]:
    """Return the products of all inputs with the weights of one direction, and its constants."""
    weights, recurrence, biases, peepholes = given
    inside, outside = (None, None) if biases is None else op.ops("Split", 2, biases, axis=0, num_outputs=2)
    apart = outside if kind == "GRU" else None
    seen = op.MatMul(data, op.transpose(op.tensor(weights), [1, 0]))
    for part in (inside, None if apart is not None else outside):
        seen = seen if part is None else seen + part
    holes = () if peepholes is None else op.ops("Split", 3, peepholes, axis=0, num_outputs=3)
    turned = op.tensor(recurrence)
    hidden = op.static_shape(turned)[1]
    return seen, _Layer(op.transpose(turned, [1, 0]), apart, holes, activations, hidden, reset_last)


def _row(op: Builder, x: Tensor, place: int, axis: int = 0) -> Tensor:
    return op.Gather(x, op.constant(place), axis=axis)


def _run(op: Builder, way: _Pass, state: _State, count: int | Tensor) -> tuple[Tensor, _State]:
    """Return what all steps give, and the state after the last."""
    if not isinstance(count, int) or count > _MOST:
        return _loop(op, way, state, op.tensor(count))
    outputs: list[Tensor] = []
    for t in range(count)[:: -1 if way.backwards else 1]:
        output, state = _stepped(op, way, _row(op, way.seen, t), state, op.constant(t, np.int64))
        outputs.append(op.Unsqueeze(output, [0]))
    return op.Concat(*outputs[:: -1 if way.backwards else 1], axis=0), state


def _stepped(op: Builder, way: _Pass, seen: Tensor, state: _State, place: Tensor) -> tuple[Tensor, _State]:
    """Return what a step gives, and the state after it; beyond the length of a row nothing changes."""
    after = way.step(op, seen, state, way.layer)
    if way.lengths is None:
        return after[0], after
    inside = op.Unsqueeze(op.Less(op.cast(place, op.dtype(way.lengths)), way.lengths), [1])
    kept = tuple(op.Where(inside, new, old) for new, old in zip(after, state, strict=True))
    return op.Where(inside, after[0], op.like(0, after[0])), kept


def _loop(op: Builder, way: _Pass, state: _State, count: Tensor) -> tuple[Tensor, _State]:
    """Return what all steps give, and the state after the last, where they are many or only the run knows."""

    def turn(number: Tensor, inner: Sequence[Tensor]) -> Sequence[Tensor]:
        place = count - 1 - number if way.backwards else op.Identity(number)
        output, after = _stepped(op, way, op.Gather(way.seen, place, axis=0), tuple(inner), place)
        return *after, output

    *last, rows = repeated(op, count, state, turn)
    rows.type, rows.shape = state[0].type, ir.Shape([None, *op.shape(state[0])])
    return op.Slice(rows, [-1], [-1 << 40], [0], [-1]) if way.backwards else rows, tuple(last)


def _rnn(op: Builder, seen: Tensor, state: _State, layer: _Layer) -> _State:
    return (op.op(layer.activations[0], seen + op.MatMul(state[0], layer.recurrence)),)


def _gru(op: Builder, seen: Tensor, state: _State, layer: _Layer) -> _State:
    (h,) = state
    first, second = layer.activations
    sizes = [2 * layer.hidden, layer.hidden]
    seen_gates, seen_new = op.ops("Split", 2, seen, sizes, axis=1)
    for_gates, for_new = op.ops("Split", 2, layer.recurrence, sizes, axis=1)
    gates = seen_gates + op.MatMul(h, for_gates)
    bias = None
    if layer.bias is not None:
        part, bias = op.ops("Split", 2, layer.bias, sizes, axis=0)
        gates = gates + part
    update, reset = op.ops("Split", 2, op.op(first, gates), axis=1, num_outputs=2)
    inside = op.MatMul(h if layer.reset_last else reset * h, for_new)
    inside = inside if bias is None else inside + bias
    inside = reset * inside if layer.reset_last else inside
    new = op.op(second, seen_new + inside)
    return (new + update * (h - new),)


def _lstm(op: Builder, seen: Tensor, state: _State, layer: _Layer) -> _State:
    h, c = state
    first, second, third = layer.activations
    gates = seen + op.MatMul(h, layer.recurrence)
    into, out, forget, new = op.ops("Split", 4, gates, axis=1, num_outputs=4)
    if layer.peepholes:
        into = into + layer.peepholes[0] * c
        forget = forget + layer.peepholes[2] * c
    kept = op.op(first, forget) * c
    c = kept + op.op(first, into) * op.op(second, new)
    if layer.peepholes:
        out = out + layer.peepholes[1] * c
    return op.op(first, out) * op.op(third, c), c


_STEPS: Mapping[str, _Step] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}
