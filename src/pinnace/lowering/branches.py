"""Lowering of calls that depend on a condition at run time to ONNX `If`.

Rules:

1. A call of one of two functions becomes an `If` over both, traced one after the other; a side that always
   raises is dead code.
2. Results that are equal on both sides (equal scalars, the same tensor) stay outside the `If`.
3. If only one side ends an iteration of a loop, the other leaves that loop: it stops it, and its value is the
   loop's result.
4. Tensors that either side assigns are results of the `If`, which preserves the order of effects.
5. A node that reads a result with a different rank on each side is lowered for each rank that it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from pinnace.graph.failures import Unsupported
from pinnace.graph.inference import InferenceError, common_shape, infer, infer_node
from pinnace.ops.builder import EitherShape, LoweringBuilder
from pinnace.ops.values import NOTHING, AlwaysRaises, Branches, Effects, TailCall, Value, flatten, rebuild

if TYPE_CHECKING:
    from pinnace.lowering.trace import Tracer


@dataclass
class Side:
    """One traced side of a condition: its nodes, its value, and the memory after it."""

    nodes: list[ir.Node]
    value: Value
    effects: Effects


def lower_branches(
    tracer: Tracer, branches: Branches, arguments: Sequence[Value], effects: Effects
) -> tuple[Value, Effects]:
    """Call one of two functions, by a condition at run time; returns the value and the memory afterwards."""
    alive = []
    for callee in (branches.when_true, branches.when_false):
        with suppress(AlwaysRaises), tracer.b.scope() as nodes:
            value, after = tracer.call(callee, arguments, effects)
            alive.append(Side(nodes, value, effects.join(after)))  # a side may leave the memory alone
    if not alive:
        raise AlwaysRaises
    if len(alive) == 1:
        tracer.b.nodes.extend(alive[0].nodes)
        return alive[0].value, alive[0].effects
    then, other = alive
    return merge(tracer, branches.condition, then, other, effects)


def merge(
    tracer: Tracer, condition: ir.Value, then: Side, other: Side, effects: Effects
) -> tuple[Value, Effects]:
    """Merge two sides; returns the value and the memory afterwards. `effects` is the memory before."""
    for side in (then, other):
        with tracer.b.scope() as more:  # of views of what a side has changed
            side.value, side.effects = seen_from_outside(tracer.b, side.nodes, side.value, side.effects)
        side.nodes = [*side.nodes, *more]
    own = {output for side in (then, other) for node in side.nodes for output in node.outputs}
    then.value, other.value = _aligned(tracer, then.value, other.value, own, len(tracer.open_loops) - 1)
    value, after = _join(tracer.b, condition, then, other, effects, own)
    return (replace(value, effects=after) if isinstance(value, TailCall) else value), after


def _aligned(
    tracer: Tracer, x: Value, y: Value, own: Collection[ir.Value], depth: int
) -> tuple[Value, Value]:
    """If one value ends an iteration of a loop, turn the other into a value that leaves that loop.

    `own` are the tensors that the sides compute; `depth` counts the open loops from the outermost; a value
    that leaves one may end an iteration of the next.
    """
    if depth < 0:
        return x, y
    head, arguments = tracer.open_loops[depth]
    ends = [isinstance(v, TailCall) and v.function is head for v in (x, y)]
    if not any(ends):
        return _aligned(tracer, x, y, own, depth - 1)
    first, second = (
        v if end else TailCall(head, arguments, Effects(), stop=True, result=v)
        for v, end in zip((x, y), ends, strict=True)
    )
    if first.result is NOTHING:
        results = placeholder(tracer.b, second.result, own), second.result
    elif second.result is NOTHING:
        results = first.result, placeholder(tracer.b, first.result, own)
    else:
        results = _aligned(tracer, first.result, second.result, own, depth - 1)
    return replace(first, result=results[0]), replace(second, result=results[1])


def seen_from_outside(
    b: LoweringBuilder,
    nodes: Sequence[ir.Node],
    value: Value,
    effects: Effects,
    inputs: Sequence[ir.Value] = (),
) -> tuple[Value, Effects]:
    """Return value and memory of a nested graph of `nodes` and `inputs` as seen from outside.

    Tensors that it creates are replaced by their last values, and removed from the memory.
    """
    own = {*inputs, *(output for node in nodes for output in node.outputs)}
    b.memory.effects = effects
    leaves = [
        b.memory.read(v) if isinstance(v, ir.Value) and b.memory.root(v) in own else v for v in flatten(value)
    ]
    outside = Effects({target: held for target, held in effects.memory.items() if target not in own})
    return rebuild(value, iter(with_memory(leaves, outside))), outside


def placeholder(b: LoweringBuilder, value: Value, own: Collection[ir.Value]) -> Value:
    """Return a value of the same structure and types, to be ignored, without the tensors `own`."""
    leaves = [zero(b, v) if isinstance(v, ir.Value) and v in own else v for v in flatten(value)]
    return rebuild(value, iter(leaves))


def zero(b: LoweringBuilder, x: ir.Value) -> ir.Value:
    """Return a small tensor of the same type and rank."""
    return b.constant(np.zeros([1] * b.rank(x), b.dtype(x).numpy()))


def _join(
    b: LoweringBuilder,
    condition: ir.Value,
    then: Side,
    other: Side,
    before: Effects,
    own: Collection[ir.Value],
) -> tuple[Value, Effects]:
    if not _same_structure(then.value, other.value):
        raise Unsupported("gives tuples of different structure in the two branches of a condition")
    leaves = list(zip(flatten(then.value), flatten(other.value), strict=True))
    targets = [
        target
        for target in {**then.effects.memory, **other.effects.memory}
        if any(side.effects.read(target) is not before.read(target) for side in (then, other))
    ]
    pairs = [(i, x, y) for i, (x, y) in enumerate(leaves) if differs(x, y)]
    first = [then.effects.read(x) for x in (*(x for _, x, _ in pairs), *targets)]
    second = [other.effects.read(y) for y in (*(y for _, _, y in pairs), *targets)]
    results = _emit_if(b, condition, then.nodes, first, other.nodes, second)
    joined: list[Value] = [x for x, _ in leaves]
    for (i, x, y), result, *held in zip(pairs, results, first, second, strict=False):
        joined[i] = result
        bases = [b.memory.root(v) if isinstance(v, ir.Value) else None for v in (x, y)]
        outside = {v: h for v, h in zip(bases, held, strict=True) if v is not None and v not in own}
        if outside:
            _keep_choice(b, condition, result, bases, outside)
    effects = then.effects.join(other.effects)
    b.memory.effects = effects
    for target, result in zip(targets, results[len(pairs) :], strict=True):
        b.memory.assign(target, result)
    return rebuild(then.value, iter(with_memory(joined, b.memory.effects))), b.memory.effects


def _keep_choice(
    b: LoweringBuilder,
    condition: ir.Value,
    result: ir.Value,
    sides: Sequence[Value],
    held: Mapping[ir.Value, ir.Value],
) -> None:
    """Let the result of an `If` follow what is assigned to tensors of `held` that it may be."""
    rest = own_copy(b, result)  # written to where it is none of them
    held = {**held, rest: rest}
    sides = [side if side in held else rest for side in sides]

    def chosen(x: ir.Value, y: ir.Value) -> ir.Value:
        return _emit_if(b, condition, [], [x], [], [y])[0]

    def again(*now: ir.Value) -> ir.Value:
        current = dict(zip(held, now, strict=True))
        return chosen(*(current[side] for side in sides))

    def write(base: ir.Value) -> Callable[[ir.Value, ir.Value], ir.Value]:
        return lambda old, new: chosen(*(new if base is side else old for side in sides))

    b.memory.choice(result, held, again, [write(base) for base in held])


def with_memory(leaves: Sequence[Value], effects: Effects) -> list[Value]:
    """Return the leaves with `effects` in place of every memory."""
    return [effects if isinstance(leaf, Effects) else leaf for leaf in leaves]


def _same_structure(a: Value, b: Value) -> bool:
    if isinstance(a, TailCall) and isinstance(b, TailCall):
        return _same_structure((a.arguments, a.result), (b.arguments, b.result))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same_structure, a, b))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def differs(x: Value, y: Value) -> bool:
    """Return True if two leaves are known to differ now; memories never do."""
    if isinstance(x, Effects):
        return False
    if isinstance(x, ir.Value) or isinstance(y, ir.Value):
        return x is not y
    return type(x) is not type(y) or x != y


def _emit_if(
    b: LoweringBuilder,
    condition: ir.Value,
    then_nodes: list[ir.Node],
    then_values: Sequence[Value],
    else_nodes: list[ir.Node],
    else_values: Sequence[Value],
) -> tuple[ir.Value, ...]:
    if not then_values:
        return ()
    pairs = [(b.tensor(x), b.tensor(y)) for x, y in zip(then_values, else_values, strict=True)]
    # MindSpore's functions return a constant of another type for an empty result, such as NaN for an int.
    dtypes = [b.dtype(y if x.const_value is not None else x) for x, y in pairs]
    with b.scope() as first:
        first.extend(then_nodes)
        then_outputs = [own_copy(b, b.cast(x, t)) for (x, _), t in zip(pairs, dtypes, strict=True)]
    with b.scope() as second:
        second.extend(else_nodes)
        else_outputs = [own_copy(b, b.cast(y, t)) for (_, y), t in zip(pairs, dtypes, strict=True)]
    of_first, of_second = _conditions(b, then_outputs, first), _conditions(b, else_outputs, second)
    if of_first or of_second:  # lowerings for each rank need them outside
        no = b.constant(False)
        with b.scope() as more:
            then_outputs += [own_copy(b, x) for x in (*of_first, *(no for _ in of_second))]
        first += more
        with b.scope() as more:
            else_outputs += [own_copy(b, x) for x in (*(no for _ in of_first), *of_second)]
        second += more
    chosen = b.scalar(b.cast(condition, ir.DataType.BOOL))
    results = b.ops(
        "If",
        len(then_outputs),
        chosen,
        then_branch=ir.Graph([], then_outputs, nodes=first, name=b.fresh()),
        else_branch=ir.Graph([], else_outputs, nodes=second, name=b.fresh()),
    )
    outside = dict(zip((*of_first, *of_second), results[len(pairs) :], strict=True))
    for result, x, y in zip(results, then_outputs, else_outputs, strict=True):
        infer(x, b.opset)
        infer(y, b.opset)
        result.type, result.shape = x.type, common_shape(x.shape, y.shape)
        of_then, of_other = (b.forms.get(v) if v.shape is None else v.shape for v in (x, y))
        if result.shape is None and of_then is not None and of_other is not None:
            b.forms[result] = EitherShape(chosen, _seen(of_then, outside), _seen(of_other, outside))
    return results[: len(pairs)]


def _conditions(b: LoweringBuilder, values: Sequence[ir.Value], nodes: Sequence[ir.Node]) -> list[ir.Value]:
    """Return the conditions that `nodes` compute and on which the ranks of values depend."""
    own = {output for node in nodes for output in node.outputs}
    pending: list[ir.Shape | EitherShape] = [b.forms[v] for v in values if v in b.forms]
    found: dict[ir.Value, None] = {}
    while pending:
        form = pending.pop()
        if isinstance(form, EitherShape):
            pending += form.then, form.other
            if form.condition in own:
                found[form.condition] = None
    return list(found)


def _seen(form: ir.Shape | EitherShape, outside: Mapping[ir.Value, ir.Value]) -> ir.Shape | EitherShape:
    """Return a form with the conditions of a side as they are called outside."""
    if not isinstance(form, EitherShape):
        return form
    condition = outside.get(form.condition, form.condition)
    return EitherShape(condition, _seen(form.then, outside), _seen(form.other, outside))


def by_rank(
    tracer: Tracer,
    condition: ir.Value,
    values: tuple[Value, ...],
    lower: Callable[[tuple[Value, ...]], tuple[Value, Effects]],
    effects: Effects,
) -> tuple[Value, Effects]:
    """Lower values whose ranks depend on a condition by `lower` for each side; returns value and memory.

    `effects` is the memory before.
    """
    then, other = (_side_of_ranks(tracer.b, condition, side, values, lower) for side in (True, False))
    fitting = [side for side in (then, other) if _fits(tracer.b, side)]
    if len(fitting) == 1:  # the other rank is an error, as in MindSpore
        tracer.b.nodes.extend(fitting[0].nodes)
        return fitting[0].value, fitting[0].effects
    return merge(tracer, condition, then, other, effects)


def _fits(b: LoweringBuilder, side: Side) -> bool:
    """Return True if ONNX's inference accepts all nodes of a side."""
    try:
        for node in side.nodes:
            infer_node(node, b.opset)
    except InferenceError:
        return False
    return True


def _side_of_ranks(
    b: LoweringBuilder,
    condition: ir.Value,
    side: bool,
    values: tuple[Value, ...],
    lower: Callable[[tuple[Value, ...]], tuple[Value, Effects]],
) -> Side:
    def known(x: Value) -> Value:
        """Return a leaf with its rank on this side."""
        form = b.forms.get(x) if isinstance(x, ir.Value) else None
        if form is None or form.condition is not condition:
            return x
        of_side = form.then if side else form.other
        same = b.op("Identity", x)
        same.dtype = b.dtype(x)
        if isinstance(of_side, EitherShape):
            b.forms[same] = of_side
        else:
            same.shape = of_side
        return same

    with b.scope() as nodes:
        return Side(nodes, *lower(tuple(rebuild(values, map(known, flatten(values))))))


def own_copy(b: LoweringBuilder, value: ir.Value) -> ir.Value:
    """Return a copy of a value in the open graph, whose outputs may not come from outside."""
    copy = b.op("Identity", value)
    copy.dtype, copy.shape = b.dtype(value), value.shape
    if value in b.forms:
        b.forms[copy] = b.forms[value]
    return copy
