"""A call that only the run can decide, as ONNX `If`.

Rules:

1. A call of one of two functions becomes an `If` over both, traced one after the other; a side that
   always raises is taken to be dead.
2. What both sides agree on now (equal scalars, the same tensor) stays outside the `If`.
3. Where one side ends a turn of a loop and the other does not, the other leaves that loop: it stops it,
   and its value is the loop's result.
4. What either side assigns is a result of the `If`, so the order of effects holds.
5. What takes a result that has another rank on each side is lowered for each of these ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from pinnace.compiler.frame import Evaluator
from pinnace.ops.builder import Builder, Form
from pinnace.ops.values import (
    NOTHING,
    AlwaysRaises,
    Branches,
    Effects,
    RankUnknown,
    TailCall,
    Unsupported,
    Value,
    flatten,
    rebuild,
)


@dataclass
class Side:
    """One of two ways, traced: its nodes, what it gives, and the memory after it."""

    nodes: list[ir.Node]
    value: Value
    effects: Effects


def lower_branches(
    tracer: Evaluator, branches: Branches, arguments: Sequence[Value], effects: Effects
) -> tuple[Value, Effects]:
    """Call one of two functions, told by a condition of the run; returns value and memory after."""
    b = tracer.b
    sides = [_trace_side(tracer, s, arguments, effects) for s in (branches.when_true, branches.when_false)]
    alive = [side for side in sides if side is not None]
    if not alive:
        raise AlwaysRaises
    if len(alive) == 1:
        b.nodes.extend(alive[0].nodes)
        return alive[0].value, alive[0].effects
    then, other = alive
    return merge(tracer, branches.condition, then, other, effects)


def _trace_side(
    tracer: Evaluator, callee: Value, arguments: Sequence[Value], effects: Effects
) -> Side | None:
    with tracer.b.scope() as nodes:
        try:
            value, after = tracer.call(callee, arguments, effects)
        except AlwaysRaises:
            return None
    return Side(nodes, value, after)


def merge(
    tracer: Evaluator, condition: ir.Value, then: Side, other: Side, effects: Effects
) -> tuple[Value, Effects]:
    """Make one value of two ways; returns it and the memory after. `effects` is the memory before."""
    for side in (then, other):
        side.value, side.effects = brought_out(tracer.b, side.nodes, side.value, side.effects)
    then.value, other.value = _aligned(tracer, then.value, other.value, len(tracer.open_loops) - 1)
    value, after = _join(tracer.b, condition, then, other, effects)
    return (replace(value, effects=after) if isinstance(value, TailCall) else value), after


def _aligned(tracer: Evaluator, x: Value, y: Value, depth: int) -> tuple[Value, Value]:
    """Two values as ends of a turn of the same loop, where one of them is one: the other leaves that loop.

    `depth` counts the open loops from the outermost; what leaves one may be a turn of the next.
    """
    if depth < 0:
        return x, y
    head, arguments = tracer.open_loops[depth]
    ends = [isinstance(v, TailCall) and v.function is head for v in (x, y)]
    if not any(ends):
        return _aligned(tracer, x, y, depth - 1)
    first, second = (
        v if end else TailCall(head, arguments, Effects(), stop=True, result=v)
        for v, end in zip((x, y), ends, strict=True)
    )
    if first.result is NOTHING:
        results = placeholder(tracer.b, second.result), second.result
    elif second.result is NOTHING:
        results = first.result, placeholder(tracer.b, first.result)
    else:
        results = _aligned(tracer, first.result, second.result, depth - 1)
    return replace(first, result=results[0]), replace(second, result=results[1])


def brought_out(
    b: Builder, nodes: Sequence[ir.Node], value: Value, effects: Effects, inputs: Sequence[ir.Value] = ()
) -> tuple[Value, Effects]:
    """A value and the memory of a nested graph of `nodes` and `inputs` as they are outside of it.

    Tensors made in it are what they hold at its end, and the memory knows nothing of them.
    """
    own = {*inputs, *(output for node in nodes for output in node.outputs)}
    if own.isdisjoint(effects.memory):
        return value, effects
    b.memory.effects = effects
    leaves = [
        b.memory.read(v) if isinstance(v, ir.Value) and b.memory.root(v) in own else v for v in flatten(value)
    ]
    outside = Effects({target: held for target, held in effects.memory.items() if target not in own})
    return rebuild(value, iter(remembering(leaves, outside))), outside


def placeholder(b: Builder, value: Value) -> Value:
    """A value of the same structure and types that nobody will read."""
    leaves = [_zero(b, leaf) if isinstance(leaf, ir.Value) else leaf for leaf in flatten(value)]
    return rebuild(value, iter(leaves))


def _zero(b: Builder, x: ir.Value) -> ir.Value:
    return b.constant(np.zeros([1] * b.rank(x), b.dtype(x).numpy()))


def _join(b: Builder, condition: ir.Value, then: Side, other: Side, before: Effects) -> tuple[Value, Effects]:
    if not _same_structure(then.value, other.value):
        raise Unsupported("gives tuples of different structure in the two branches of a condition")
    leaves = list(zip(flatten(then.value), flatten(other.value), strict=True))
    targets = [t for t in {**then.effects.memory, **other.effects.memory} if _changed(t, then, other, before)]
    pairs = [(i, x, y) for i, (x, y) in enumerate(leaves) if differs(x, y)]
    first = [x for _, x, _ in pairs] + [then.effects.read(t) for t in targets]
    second = [y for _, _, y in pairs] + [other.effects.read(t) for t in targets]
    results = _emit_if(b, condition, then.nodes, first, other.nodes, second)
    joined: list[Value] = [x for x, _ in leaves]
    for (i, _, _), result in zip(pairs, results, strict=False):
        joined[i] = result
    effects = then.effects.join(other.effects)
    b.memory.effects = effects
    for target, result in zip(targets, results[len(pairs) :], strict=True):
        b.memory.assign(target, result)
    return rebuild(then.value, iter(remembering(joined, b.memory.effects))), b.memory.effects


def remembering(leaves: Sequence[Value], effects: Effects) -> list[Value]:
    """The leaves with `effects` in place of every memory among them."""
    return [effects if isinstance(leaf, Effects) else leaf for leaf in leaves]


def _same_structure(a: Value, b: Value) -> bool:
    if isinstance(a, TailCall) and isinstance(b, TailCall):
        return _same_structure((a.arguments, a.result), (b.arguments, b.result))
    if isinstance(a, tuple) or isinstance(b, tuple):
        return (
            isinstance(a, tuple)
            and isinstance(b, tuple)
            and len(a) == len(b)
            and all(map(_same_structure, a, b))
        )
    return True


def _changed(target: ir.Value, then: Side, other: Side, before: Effects) -> bool:
    return then.effects.read(target) is not before.read(target) or other.effects.read(
        target
    ) is not before.read(target)


def differs(x: Value, y: Value) -> bool:
    """Whether two leaves are not the same now; memories do not count."""
    if isinstance(x, Effects):
        return False
    if isinstance(x, ir.Value) or isinstance(y, ir.Value):
        return x is not y
    return type(x) is not type(y) or x != y


def _emit_if(
    b: Builder,
    condition: ir.Value,
    then_nodes: list[ir.Node],
    then_values: Sequence[Value],
    else_nodes: list[ir.Node],
    else_values: Sequence[Value],
) -> tuple[ir.Value, ...]:
    if not then_values:
        return ()
    pairs = [(b.tensor(x), b.tensor(y)) for x, y in zip(then_values, else_values, strict=True)]
    # A constant of another type is what a function of MindSpore gives for nothing: NaN as an int.
    dtypes = [b.dtype(y if x.const_value is not None else x) for x, y in pairs]
    with b.scope() as first:
        first.extend(then_nodes)
        then_outputs = [own_copy(b, b.cast(x, t)) for (x, _), t in zip(pairs, dtypes, strict=True)]
    with b.scope() as second:
        second.extend(else_nodes)
        else_outputs = [own_copy(b, b.cast(y, t)) for (_, y), t in zip(pairs, dtypes, strict=True)]
    chosen = b.scalar(b.cast(condition, ir.DataType.BOOL))
    results = b.ops(
        "If",
        len(then_outputs),
        chosen,
        then_branch=ir.Graph([], then_outputs, nodes=first, name=b.fresh()),
        else_branch=ir.Graph([], else_outputs, nodes=second, name=b.fresh()),
    )
    for result, x, y in zip(results, then_outputs, else_outputs, strict=True):
        result.type = x.type
        result.shape = common_shape(b, x, y)
        of_then, of_other = _form(b, x), _form(b, y)
        if result.shape is None and of_then is not None and of_other is not None:
            b.forms[result] = Form(chosen, of_then, of_other)
    return results


def _form(b: Builder, x: ir.Value) -> ir.Shape | Form | None:
    with suppress(RankUnknown):
        return ir.Shape(b.shape(x))
    return b.forms.get(x)


def by_rank(
    tracer: Evaluator,
    condition: ir.Value,
    values: tuple[Value, ...],
    lower: Callable[[tuple[Value, ...]], tuple[Value, Effects]],
    effects: Effects,
) -> tuple[Value, Effects]:
    """What `lower` gives of values whose ranks hang on a condition, lowered for either; and the memory after.

    `effects` is the memory before.
    """
    then, other = (_side_of_ranks(tracer.b, condition, side, values, lower) for side in (True, False))
    return merge(tracer, condition, then, other, effects)


def _side_of_ranks(
    b: Builder,
    condition: ir.Value,
    side: bool,
    values: tuple[Value, ...],
    lower: Callable[[tuple[Value, ...]], tuple[Value, Effects]],
) -> Side:
    def known(x: Value) -> Value:
        form = b.forms.get(x) if isinstance(x, ir.Value) else None
        if form is None or form.condition is not condition:
            return x
        of_side = form.then if side else form.other
        same = b.op("Identity", x)
        same.dtype = b.dtype(x)
        if isinstance(of_side, Form):
            b.forms[same] = of_side
        else:
            same.shape = of_side
        return same

    with b.scope() as nodes:
        return Side(nodes, *lower(tuple(rebuild(values, map(known, flatten(values))))))


def common_shape(b: Builder, x: ir.Value, y: ir.Value) -> ir.Shape | None:
    """The dimensions that two tensors share, free where they differ; None where the ranks do."""
    try:
        first, second = b.shape(x), b.shape(y)
    except Unsupported:
        return None
    if len(first) != len(second):
        return None
    return ir.Shape([m if m == n else None for m, n in zip(first, second, strict=True)])


def own_copy(b: Builder, value: ir.Value) -> ir.Value:
    """A copy of a value that belongs to the open graph: its outputs may not come from outside."""
    copy = b.op("Identity", value)
    copy.dtype, copy.shape = b.dtype(value), value.shape
    if value in b.forms:
        b.forms[copy] = b.forms[value]
    return copy
