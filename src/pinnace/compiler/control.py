"""Control flow that only the run can decide, as ONNX `If` and `Loop`.

Rules:

1. A call of one of two functions becomes an `If` over both, traced one after the other; a side that
   always raises is taken to be dead.
2. What both sides agree on now (equal scalars, the same tensor) stays outside the `If`.
3. A function that ends by choosing between a function that leads back to it and one that does not is a
   loop. Only what changes from turn to turn is carried; that is found by tracing a turn until it agrees.
4. A turn that leaves the loop from inside (break, or return) stops it, and the loop carries its result.
5. Assignments inside either are results of the `If` or carried by the `Loop`, so their order holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import onnx_ir as ir

from pinnace.ops.builder import Builder, Unsupported
from pinnace.ops.values import (
    NOTHING,
    AlwaysRaises,
    Branches,
    Closure,
    Effects,
    TailCall,
    Value,
    flatten,
    rebuild,
)
from pinnace.program import Node

if TYPE_CHECKING:
    from pinnace.compiler.trace import Frame, Tracer


_K = TypeVar("_K")


@dataclass
class _Side:
    nodes: list[ir.Node]
    value: Value
    effects: Effects


def lower_branches(
    tracer: Tracer, branches: Branches, arguments: Sequence[Value], effects: Effects
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
    return _merge(tracer, branches.condition, then, other, effects)


def _trace_side(tracer: Tracer, callee: Value, arguments: Sequence[Value], effects: Effects) -> _Side | None:
    with tracer.b.scope() as nodes:
        try:
            value, after = tracer.call(callee, arguments, effects)
        except AlwaysRaises:
            return None
    return _Side(nodes, value, after)


def _merge(
    tracer: Tracer, condition: ir.Value, then: _Side, other: _Side, effects: Effects
) -> tuple[Value, Effects]:
    then.value, other.value = _aligned(tracer, then.value, other.value, len(tracer.open_loops) - 1)
    value, after = _join(tracer.b, condition, then, other, effects)
    return (replace(value, effects=after) if isinstance(value, TailCall) else value), after


def _aligned(tracer: Tracer, x: Value, y: Value, depth: int) -> tuple[Value, Value]:
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
        results = _placeholder(tracer.b, second.result), second.result
    elif second.result is NOTHING:
        results = first.result, _placeholder(tracer.b, first.result)
    else:
        results = _aligned(tracer, first.result, second.result, depth - 1)
    return replace(first, result=results[0]), replace(second, result=results[1])


def _placeholder(b: Builder, value: Value) -> Value:
    """A value of the same structure and types that nobody will read."""
    leaves = [_zero(b, leaf) if isinstance(leaf, ir.Value) else leaf for leaf in flatten(value)]
    return rebuild(value, iter(leaves))


def _zero(b: Builder, x: ir.Value) -> ir.Value:
    return b.constant(np.zeros([1] * b.rank(x), b.dtype(x).numpy()))


def _join(
    b: Builder, condition: ir.Value, then: _Side, other: _Side, before: Effects
) -> tuple[Value, Effects]:
    if not _same_structure(then.value, other.value):
        raise Unsupported("gives tuples of different structure in the two branches of a condition")
    leaves = list(zip(flatten(then.value), flatten(other.value), strict=True))
    targets = [t for t in {**then.effects.memory, **other.effects.memory} if _changed(t, then, other, before)]
    pairs = [(i, x, y) for i, (x, y) in enumerate(leaves) if _differs(x, y)]
    first = [x for _, x, _ in pairs] + [then.effects.read(t) for t in targets]
    second = [y for _, _, y in pairs] + [other.effects.read(t) for t in targets]
    results = _emit_if(b, condition, then.nodes, first, other.nodes, second)
    joined: list[Value] = [x for x, _ in leaves]
    for (i, _, _), result in zip(pairs, results, strict=False):
        joined[i] = result
    effects = then.effects.join(other.effects)
    b.effects = effects
    for target, result in zip(targets, results[len(pairs) :], strict=True):
        b.assign(target, result)
    return rebuild(then.value, iter(_remembering(joined, b.effects))), b.effects


def _remembering(leaves: Sequence[Value], effects: Effects) -> list[Value]:
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


def _changed(target: ir.Value, then: _Side, other: _Side, before: Effects) -> bool:
    return then.effects.read(target) is not before.read(target) or other.effects.read(
        target
    ) is not before.read(target)


def _differs(x: Value, y: Value) -> bool:
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
    with b.scope() as first:
        first.extend(then_nodes)
        then_outputs = [_own(b, b.tensor(v)) for v in then_values]
    with b.scope() as second:
        second.extend(else_nodes)
        else_outputs = [
            _own(b, b.cast(b.tensor(v), b.dtype(t))) for v, t in zip(else_values, then_outputs, strict=True)
        ]
    results = b.ops(
        "If",
        len(then_outputs),
        b.scalar(b.cast(condition, ir.DataType.BOOL)),
        then_branch=ir.Graph([], then_outputs, nodes=first, name=b.fresh()),
        else_branch=ir.Graph([], else_outputs, nodes=second, name=b.fresh()),
    )
    for result, x, y in zip(results, then_outputs, else_outputs, strict=True):
        result.type = x.type
        result.shape = _common(b, x, y)
    return results


def _common(b: Builder, x: ir.Value, y: ir.Value) -> ir.Shape | None:
    try:
        first, second = b.shape(x), b.shape(y)
    except Unsupported:
        return None
    if len(first) != len(second):
        return None
    return ir.Shape([m if m == n else None for m, n in zip(first, second, strict=True)])


def _own(b: Builder, value: ir.Value) -> ir.Value:
    """A copy of a value that belongs to the open graph: its outputs may not come from outside."""
    copy = b.op("Identity", value)
    copy.dtype, copy.shape = b.dtype(value), value.shape
    return copy


@dataclass
class _Head:
    """What a loop's function decides: to take another turn (None: it never does), or to leave."""

    condition: Value
    turn: Closure | None
    leave: Value
    arguments: tuple[Value, ...]
    effects: Effects


def lower_loop(
    tracer: Tracer, callee: Closure, arguments: Sequence[Value], effects: Effects
) -> tuple[Value, Effects]:
    """Call a function that ends by calling itself; returns value and memory after the last turn."""
    head = _head(tracer, callee, arguments, effects)
    if head.turn is None:
        return tracer.call(head.leave, head.arguments, head.effects)
    loop = _Loop(tracer, callee, tuple(arguments), effects)
    while not loop.settled():
        pass
    return loop.emit()


def _head(tracer: Tracer, callee: Closure, arguments: Sequence[Value], effects: Effects) -> _Head:
    frame = tracer.enter(callee, arguments)
    tail = _tail(tracer, frame)
    for node in tracer.schedule(callee.function):
        if node is tail:
            break
        tracer.evaluate(frame, node)
    found = [tracer.look_up(frame, name) for name in tail.inputs]
    choice, *rest = (value for value, _ in found)
    for _, after in found:
        effects = effects.join(after)
    here = callee.function
    if isinstance(choice, Closure):
        back = tracer.reaches(choice.function, here)
        return _Head(True, choice if back else None, choice, tuple(rest), effects)
    if isinstance(choice, Branches):
        yes, no = choice.when_true, choice.when_false
        if isinstance(yes, Closure) and tracer.reaches(yes.function, here):
            return _Head(choice.condition, yes, no, tuple(rest), effects)
        if isinstance(no, Closure) and tracer.reaches(no.function, here):
            return _Head(tracer.b.op("Not", choice.condition), no, yes, tuple(rest), effects)
    raise Unsupported(f"calls itself in a way that is no loop (function {here.name!r})")


def _tail(tracer: Tracer, frame: Frame) -> Node:
    producers = {name: node for node in frame.function.nodes for name in node.outputs}
    node = producers.get(frame.function.outputs[0])
    while node is not None and node.primitive == "Depend":
        node = producers.get(node.inputs[0])
    if node is None or node.primitive:
        raise Unsupported(f"calls itself other than at its end (function {frame.function.name!r})")
    return node


class _Loop:
    def __init__(
        self, tracer: Tracer, callee: Closure, arguments: tuple[Value, ...], effects: Effects
    ) -> None:
        self.tracer, self.b = tracer, tracer.b
        self.callee, self.arguments, self.effects = callee, arguments, effects
        self.leaves = list(flatten(arguments))
        self.carried: dict[int, ir.Shape | None] = {}  # index of a leaf -> the shape that all turns share
        self.targets: dict[ir.Value, ir.Shape | None] = {}  # what turns assign to
        self.result: Value = NOTHING  # what the loop gives where a turn leaves it

    def settled(self) -> bool:
        """Trace a turn; whether it changed only what is carried, and carried shapes held."""
        with self.b.scope():
            variables, new, _ = self._turn()
        self.result = new.result
        before = len(self.carried), len(self.targets)
        leaves = list(flatten(new.arguments))
        for i, (old, value) in enumerate(zip(self._inside(variables), leaves, strict=True)):
            if i not in self.carried and _differs(old, value):
                self.carried[i] = self.b.tensor(self.leaves[i]).shape
        for target in new.effects.memory:
            if target not in self.targets and new.effects.read(target) is not self.effects.read(target):
                self.targets[target] = self.effects.read(target).shape
        if (len(self.carried), len(self.targets)) != before:
            return False
        return self._widen(leaves, new.effects)

    def _widen(self, leaves: list[Value], effects: Effects) -> bool:
        held = True
        for i in self.carried:
            held &= self._keep(self.carried, i, self.b.tensor(leaves[i]))
        for target in self.targets:
            held &= self._keep(self.targets, target, effects.read(target))
        return held

    def _keep(self, shapes: dict[_K, ir.Shape | None], key: _K, value: ir.Value) -> bool:
        old = shapes[key]
        if old is None:
            return True
        common = _common(self.b, ir.Value(shape=old), value)
        shapes[key] = common
        return common == old

    def emit(self) -> tuple[Value, Effects]:
        """Write the `Loop`, and what follows it."""
        b = self.b
        initial = [b.tensor(self.leaves[i]) for i in self.carried] + [
            self.effects.read(t) for t in self.targets
        ]
        leaving = (
            []
            if self.result is NOTHING
            else [b.tensor(v) for v in flatten((False, _placeholder(b, self.result)))]
        )
        initial += leaving
        first = _head(self.tracer, self.callee, self.arguments, self.effects)
        with b.scope() as nodes:
            variables, new, condition = self._turn()
            variables += [self._variable(v, ir.Shape([None] * b.rank(v))) for v in leaving]
            leaves = list(flatten(new.arguments))
            results = [b.tensor(leaves[i]) for i in self.carried] + [
                new.effects.read(t) for t in self.targets
            ]
            if leaving:
                results += [b.tensor(v) for v in flatten((new.stop, new.result))]
                condition = b.op("And", b.op("Not", b.tensor(new.stop)), b.scalar(b.tensor(condition)))
            outputs = [_own(b, b.scalar(b.tensor(condition)))]
            outputs += [_own(b, b.cast(r, b.dtype(v))) for r, v in zip(results, variables, strict=True)]
        turn, going = (
            ir.Value(name=b.fresh(), type=ir.TensorType(t), shape=ir.Shape([]))
            for t in (ir.DataType.INT64, ir.DataType.BOOL)
        )
        for output, variable in zip(outputs[1:], variables, strict=True):
            output.shape = variable.shape
        body = ir.Graph([turn, going, *variables], outputs, nodes=nodes, name=b.fresh())
        finals = b.ops("Loop", len(initial), None, b.scalar(b.tensor(first.condition)), *initial, body=body)
        for final, variable in zip(finals, variables, strict=True):
            final.type, final.shape = variable.type, variable.shape
        own = finals[: len(finals) - len(leaving)]
        effects = self._memory(own)
        with b.scope() as after:
            last = _head(self.tracer, self.callee, self._arguments(own, effects), effects)
            value, effects_after = self.tracer.call(last.leave, last.arguments, last.effects)
        if not leaving:
            b.nodes.extend(after)
            return value, effects_after
        stopped, *results = finals[len(own) :]
        left = _Side([], rebuild(self.result, iter(results)), effects)
        return _merge(self.tracer, stopped, left, _Side(after, value, effects_after), effects)

    def _turn(self) -> tuple[list[ir.Value], TailCall, Value]:
        """Trace one turn: its variables, how it ends, and whether another follows."""
        variables = [self._variable(self.b.tensor(self.leaves[i]), s) for i, s in self.carried.items()]
        variables += [self._variable(self.effects.read(t), s) for t, s in self.targets.items()]
        memory = self._memory(variables)
        arguments = self._arguments(variables, memory)
        head = _head(self.tracer, self.callee, arguments, memory)
        if head.turn is None:
            raise Unsupported(
                f"calls itself in a way that is no loop (function {self.callee.function.name!r})"
            )
        turn = head.turn
        end, _ = self.tracer.in_loop(
            self.callee.function,
            arguments,
            lambda: self.tracer.call(turn, head.arguments, head.effects),
        )
        if not isinstance(end, TailCall) or end.function is not self.callee.function:
            raise Unsupported(f"calls itself other than at its end (function {self.callee.function.name!r})")
        again = _head(self.tracer, self.callee, end.arguments, end.effects)
        return variables, end, again.condition if again.turn is not None else False

    def _variable(self, initial: ir.Value, shape: ir.Shape | None) -> ir.Value:
        return ir.Value(name=self.b.fresh(), type=ir.TensorType(self.b.dtype(initial)), shape=shape)

    def _inside(self, variables: Sequence[ir.Value]) -> list[Value]:
        """The leaves of the arguments in a turn: what is carried is a variable, memory the turn's."""
        memory = self._memory(variables)
        leaves = [memory if isinstance(leaf, Effects) else leaf for leaf in self.leaves]
        for i, variable in zip(self.carried, variables, strict=False):
            leaves[i] = variable
        return leaves

    def _arguments(self, variables: Sequence[ir.Value], memory: Effects) -> tuple[Value, ...]:
        leaves = _remembering(self._inside(variables), memory)
        return tuple(rebuild(self.arguments, iter(leaves)))

    def _memory(self, variables: Sequence[ir.Value]) -> Effects:
        self.b.effects = self.effects
        for target, variable in zip(self.targets, variables[len(self.carried) :], strict=True):
            self.b.assign(target, variable)
        return self.b.effects
