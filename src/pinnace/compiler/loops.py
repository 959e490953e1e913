"""A function that ends by calling itself, as ONNX `Loop`.

Rules:

1. A function that ends by choosing between a function that leads back to it and one that does not is a
   loop; any other recursion is refused.
2. Only what changes from turn to turn is carried; that is found by tracing a turn until it agrees.
3. A turn that leaves the loop from inside (break, or return) stops it, and the loop carries its result.
4. What turns assign is carried, so the order of effects holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import onnx_ir as ir

from pinnace.compiler.branches import (
    Side,
    brought_out,
    common_shape,
    differs,
    merge,
    own_copy,
    placeholder,
    remembering,
)
from pinnace.compiler.frame import Evaluator, Frame
from pinnace.ops.values import (
    NOTHING,
    Branches,
    Closure,
    Effects,
    TailCall,
    Unsupported,
    Value,
    flatten,
    rebuild,
)
from pinnace.program import Node

_K = TypeVar("_K")


@dataclass
class _Head:
    """What a loop's function decides: to take another turn (None: it never does), or to leave."""

    condition: Value
    turn: Closure | None
    leave: Value
    arguments: tuple[Value, ...]
    effects: Effects


def lower_loop(
    tracer: Evaluator, callee: Closure, arguments: Sequence[Value], effects: Effects
) -> tuple[Value, Effects]:
    """Call a function that ends by calling itself; returns value and memory after the last turn."""
    head = _head(tracer, callee, arguments, effects)
    if head.turn is None:
        return tracer.call(head.leave, head.arguments, head.effects)
    loop = _Loop(tracer, callee, tuple(arguments), effects)
    while not loop.settled():
        pass
    return loop.emit()


def _head(tracer: Evaluator, callee: Closure, arguments: Sequence[Value], effects: Effects) -> _Head:
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


def _tail(tracer: Evaluator, frame: Frame) -> Node:
    producers = {name: node for node in frame.function.nodes for name in node.outputs}
    node = producers.get(frame.function.outputs[0])
    while node is not None and node.primitive == "Depend":
        node = producers.get(node.inputs[0])
    if node is None or node.primitive:
        raise Unsupported(f"calls itself other than at its end (function {frame.function.name!r})")
    return node


class _Loop:
    def __init__(
        self, tracer: Evaluator, callee: Closure, arguments: tuple[Value, ...], effects: Effects
    ) -> None:
        self.tracer, self.b = tracer, tracer.b
        self.callee, self.arguments, self.effects = callee, arguments, effects
        self.leaves = list(flatten(arguments))
        self.carried: dict[int, ir.Shape | None] = {}  # index of a leaf -> the shape that all turns share
        self.targets: dict[ir.Value, ir.Shape | None] = {}  # what turns assign to
        self.result: Value = NOTHING  # what the loop gives where a turn leaves it

    def settled(self) -> bool:
        """Trace a turn; whether it changed only what is carried, and carried shapes held."""
        with self.b.scope() as nodes:
            variables, new, _ = self._turn(nodes)
        self.result = new.result
        before = len(self.carried), len(self.targets)
        leaves = list(flatten(new.arguments))
        if len(leaves) != len(self.leaves):
            raise Unsupported(
                f"a list or tuple that has another length after each turn of a loop (function "
                f"{self.callee.function.name!r})"
            )
        for i, (old, value) in enumerate(zip(self._inside(variables), leaves, strict=True)):
            if i not in self.carried and differs(old, value) and not self._in_place(self.leaves[i], value):
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
        common = common_shape(self.b, ir.Value(shape=old), value)
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
            else [b.tensor(v) for v in flatten((False, placeholder(b, self.result)))]
        )
        initial += leaving
        first = _head(self.tracer, self.callee, self.arguments, self.effects)
        with b.scope() as nodes:
            variables, new, condition = self._turn(nodes)
            variables += [self._variable(v, ir.Shape([None] * b.rank(v))) for v in leaving]
            leaves = list(flatten(new.arguments))
            results = [b.tensor(leaves[i]) for i in self.carried] + [
                new.effects.read(t) for t in self.targets
            ]
            if leaving:
                results += [b.tensor(v) for v in flatten((new.stop, new.result))]
                condition = b.op("And", b.op("Not", b.tensor(new.stop)), b.scalar(b.tensor(condition)))
            outputs = [own_copy(b, b.scalar(b.tensor(condition)))]
            outputs += [own_copy(b, b.cast(r, b.dtype(v))) for r, v in zip(results, variables, strict=True)]
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
            effects_after = last.effects.join(effects_after)
            b.memory.effects = effects_after
            value = rebuild(value, iter([self._now(leaf) for leaf in flatten(value)]))
        if not leaving:
            b.nodes.extend(after)
            return value, effects_after
        stopped, *results = finals[len(own) :]
        left = Side([], rebuild(self.result, iter(results)), effects)
        return merge(self.tracer, stopped, left, Side(after, value, effects_after), effects)

    def _in_place(self, leaf: Value, value: Value) -> bool:
        """Whether a value is what was assigned to the tensor that a leaf is: the memory carries it."""
        if not isinstance(leaf, ir.Value) or not isinstance(value, ir.Value):
            return False
        root = self.b.memory.root(leaf)
        return root.const_value is None and root is self.b.memory.root(value)

    def _turn(self, nodes: Sequence[ir.Node]) -> tuple[list[ir.Value], TailCall, Value]:
        """Trace one turn into `nodes`: its variables, how it ends, and whether another follows."""
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
        value, outside = brought_out(self.b, nodes, end, end.effects, variables)
        return variables, replace(value, effects=outside), again.condition if again.turn else False

    def _variable(self, initial: ir.Value, shape: ir.Shape | None) -> ir.Value:
        return ir.Value(name=self.b.fresh(), type=ir.TensorType(self.b.dtype(initial)), shape=shape)

    def _inside(self, variables: Sequence[ir.Value]) -> list[Value]:
        """The leaves of the arguments in a turn: what is carried is a variable, memory the turn's."""
        memory = self._memory(variables)
        leaves = [memory if isinstance(leaf, Effects) else leaf for leaf in self.leaves]
        for i, variable in zip(self.carried, variables, strict=False):
            leaves[i] = variable
        return [leaf if i in self.carried else self._now(leaf) for i, leaf in enumerate(leaves)]

    def _now(self, leaf: Value) -> Value:
        """A leaf as it is in the builder's memory, where turns assign to it."""
        assigned = isinstance(leaf, ir.Value) and self.b.memory.root(leaf) in self.targets
        return self.b.memory.changed(leaf) if assigned else leaf

    def _arguments(self, variables: Sequence[ir.Value], memory: Effects) -> tuple[Value, ...]:
        leaves = remembering(self._inside(variables), memory)
        return tuple(rebuild(self.arguments, iter(leaves)))

    def _memory(self, variables: Sequence[ir.Value]) -> Effects:
        self.b.memory.effects = self.effects
        for target, variable in zip(self.targets, variables[len(self.carried) :], strict=True):
            self.b.memory.assign(target, variable)
        return self.b.memory.effects
