"""Lowering of functions that end by calling themselves to ONNX `Loop`.

Rules:

1. A function is a loop if it ends by choosing between a function that leads back to it and one that does not;
   any other recursion is refused.
2. Only values that change between iterations are carried; iterations are traced until these are known.
3. An iteration that leaves the loop from inside (break or return) stops it, and the loop carries its result.
4. Assigned tensors are carried, which preserves the order of effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from pinnace.graph.failures import Unsupported
from pinnace.graph.inference import common_shape, infer
from pinnace.lowering.branches import (
    Side,
    differs,
    merge,
    own_copy,
    seen_from_outside,
    with_memory,
    zero,
)
from pinnace.ops.values import NOTHING, Branches, Closure, Effects, TailCall, Value, flatten, rebuild
from pinnace.program import Node

if TYPE_CHECKING:
    from pinnace.lowering.trace import Frame, Tracer


@dataclass
class _Head:
    """The decision of a loop's function: to start another iteration (None if it never does), or to leave."""

    condition: Value
    body: Closure | None
    leave: Value
    arguments: tuple[Value, ...]
    effects: Effects


def lower_loop(
    tracer: Tracer, callee: Closure, arguments: Sequence[Value], effects: Effects
) -> tuple[Value, Effects]:
    """Call a function that ends by calling itself; returns value and memory after the last iteration."""
    head = _head(tracer, callee, arguments, effects)
    if head.body is None:
        return tracer.call(head.leave, head.arguments, head.effects)
    loop = _Loop(tracer, callee, tuple(arguments), effects)
    while not loop.is_settled():
        pass
    return loop.emit()


def _head(tracer: Tracer, callee: Closure, arguments: Sequence[Value], effects: Effects) -> _Head:
    frame = tracer.enter(callee, arguments, effects)
    tail = _tail(frame)
    for node in tracer.nodes(frame):
        if node is tail:
            break
        tracer.evaluate(frame, node)
    found = [tracer.look_up(frame, name) for name in tail.inputs]
    choice, *rest = (value for value, _ in found)
    for _, after in found:
        effects = effects.join(after)
    here = callee.function
    if isinstance(choice, Closure):
        back = tracer.schedule.reaches(choice.function, here)
        return _Head(True, choice if back else None, choice, tuple(rest), effects)
    if isinstance(choice, Branches):
        yes, no = choice.when_true, choice.when_false
        if isinstance(yes, Closure) and tracer.schedule.reaches(yes.function, here):
            return _Head(choice.condition, yes, no, tuple(rest), effects)
        if isinstance(no, Closure) and tracer.schedule.reaches(no.function, here):
            return _Head(tracer.b.op("Not", choice.condition), no, yes, tuple(rest), effects)
    raise Unsupported(f"calls itself, but is not a loop (function {here.name!r})")


def _tail(frame: Frame) -> Node:
    producers = {name: node for node in frame.function.nodes for name in node.outputs}
    node = producers.get(frame.function.outputs[0])
    while node is not None and node.primitive == "Depend":
        node = producers.get(node.inputs[0])
    several = node is not None and len(node.outputs) > 1 and node.outputs != tuple(frame.function.outputs)
    if node is None or node.primitive or several:
        raise Unsupported(f"calls itself before its end (function {frame.function.name!r})")
    return node


class _Loop:
    def __init__(
        self, tracer: Tracer, callee: Closure, arguments: tuple[Value, ...], effects: Effects
    ) -> None:
        self.tracer, self.b = tracer, tracer.b
        self.callee, self.arguments, self.effects = callee, arguments, effects
        self.leaves = list(flatten(arguments))
        self.carried: dict[int, ir.Shape | None] = {}  # index of a leaf -> its shape in all iterations
        self.targets: dict[ir.Value, ir.Shape | None] = {}  # assigned tensors
        self.result: Value = NOTHING  # the loop's result if an iteration leaves it
        self.computed: list[bool] = []  # for each of its leaves, whether iterations compute it

    def is_settled(self) -> bool:
        """Trace an iteration. Returns True if only carried values changed, and carried shapes did not."""
        with self.b.scope() as nodes:
            variables, new, _ = self._iteration(nodes)
        own = {*variables, *(output for node in nodes for output in node.outputs)}
        self.result = new.result
        self.computed = [isinstance(leaf, ir.Value) and leaf in own for leaf in flatten(new.result)]
        before = len(self.carried), len(self.targets)
        leaves = list(flatten(new.arguments))
        if len(leaves) != len(self.leaves):
            raise Unsupported(
                f"a list or tuple changes its length in each iteration of a loop (function "
                f"{self.callee.function.name!r})"
            )
        for i, (old, value) in enumerate(zip(self._inside(variables), leaves, strict=True)):
            if i not in self.carried and differs(old, value) and not self._in_place(self.leaves[i], value):
                self.carried[i] = self.b.tensor(self.leaves[i]).shape
        for target in new.effects.memory:
            if target not in self.targets and new.effects.read(target) is not self.effects.read(target):
                self.targets[target] = self.effects.read(target).shape
        assigned = [target for target in self.targets if target.const_value is not None]
        pairs = zip(self.leaves, leaves, strict=True)
        if any(value is not old and any(value is a for a in assigned) for old, value in pairs):
            raise Unsupported("exchanges Parameters that it assigns between its variables")
        if (len(self.carried), len(self.targets)) != before:
            return False
        return self._widen(leaves, new.effects)

    def _widen(self, leaves: list[Value], effects: Effects) -> bool:
        """Widen the carried shapes to include those after an iteration. Returns False if one changed."""
        after = [self.b.tensor(leaves[i]) for i in self.carried] + [effects.read(t) for t in self.targets]
        for value in after:
            infer(value, self.b.opset)
        old = (*self.carried.values(), *self.targets.values())
        wide = [common_shape(shape, value.shape) for shape, value in zip(old, after, strict=True)]
        self.carried = dict(zip(self.carried, wide, strict=False))
        self.targets = dict(zip(self.targets, wide[len(self.carried) :], strict=True))
        return list(old) == wide

    def emit(self) -> tuple[Value, Effects]:
        """Write the `Loop` and the nodes after it; returns value and memory."""
        b = self.b
        # If iterations may leave the loop, it carries a flag and their result.
        leaving = self.result is not NOTHING
        extra = [b.tensor(False), *(zero(b, v) for v in self._computed(self.result))] if leaving else []
        finals = self._loop(extra)
        own = finals[: len(finals) - len(extra)]
        effects = self._memory(own)
        with b.scope() as after:
            last = _head(self.tracer, self.callee, self._arguments(own, effects), effects)
            value, effects_after = self.tracer.call(last.leave, last.arguments, last.effects)
            effects_after = last.effects.join(effects_after)
            b.memory.effects = effects_after
            value = rebuild(value, iter([self._current(leaf) for leaf in flatten(value)]))
        if not leaving:
            b.nodes.extend(after)
            return value, effects_after
        stopped, *results = finals[len(own) :]
        found = iter(results)
        leaves = [next(found) if c else v for v, c in zip(flatten(self.result), self.computed, strict=True)]
        left = Side([], rebuild(self.result, iter(with_memory(leaves, effects))), effects)
        return merge(self.tracer, stopped, left, Side(after, value, effects_after), effects)

    def _loop(self, extra: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
        """Write the `Loop`; returns its results, with those of `extra` at the end."""
        b = self.b
        initial = [*self._carried(self.leaves, self.effects), *extra]
        first = _head(self.tracer, self.callee, self.arguments, self.effects)
        with b.scope() as nodes:
            variables, new, condition = self._iteration(nodes)
            variables += [self._variable(v, ir.Shape([None] * b.rank(v))) for v in extra]
            results = self._carried(list(flatten(new.arguments)), new.effects)
            if extra:
                results += [b.tensor(new.stop), *self._computed(new.result)]
                condition = b.op("And", b.op("Not", b.tensor(new.stop)), b.scalar(b.tensor(condition)))
            outputs = [own_copy(b, b.scalar(b.tensor(condition)))]
            outputs += [own_copy(b, b.cast(r, b.dtype(v))) for r, v in zip(results, variables, strict=True)]
        number, going = (
            ir.Value(name=b.fresh(), type=ir.TensorType(t), shape=ir.Shape([]))
            for t in (ir.DataType.INT64, ir.DataType.BOOL)
        )
        for output, variable in zip(outputs[1:], variables, strict=True):
            output.shape = variable.shape
        body = ir.Graph([number, going, *variables], outputs, nodes=nodes, name=b.fresh())
        finals = b.ops("Loop", len(initial), None, b.scalar(b.tensor(first.condition)), *initial, body=body)
        for final, variable in zip(finals, variables, strict=True):
            final.type, final.shape = variable.type, variable.shape
        return finals

    def _computed(self, result: Value) -> list[ir.Value]:
        """Return the leaves of a result that iterations compute; the others are the same in all."""
        return [leaf for leaf, own in zip(flatten(result), self.computed, strict=True) if own]

    def _carried(self, leaves: Sequence[Value], effects: Effects) -> list[ir.Value]:
        """Return the carried values among leaves and memory."""
        tensors = [effects.read(self.b.tensor(leaves[i])) for i in self.carried]
        return tensors + [effects.read(target) for target in self.targets]

    def _in_place(self, leaf: Value, value: Value) -> bool:
        """Return True if a value was assigned to the tensor of a leaf, so that the memory carries it."""
        if not isinstance(leaf, ir.Value) or not isinstance(value, ir.Value):
            return False
        root = self.b.memory.root(leaf)
        return root is self.b.memory.root(value)

    def _iteration(self, nodes: Sequence[ir.Node]) -> tuple[list[ir.Value], TailCall, Value]:
        """Trace an iteration into `nodes`; returns its variables, its end, and the condition of the next."""
        variables = [self._variable(self.b.tensor(self.leaves[i]), s) for i, s in self.carried.items()]
        variables += [self._variable(self.effects.read(t), s) for t, s in self.targets.items()]
        memory = self._memory(variables)
        arguments = self._arguments(variables, memory)
        head = _head(self.tracer, self.callee, arguments, memory)
        function = self.callee.function
        if head.body is None:
            raise Unsupported(f"calls itself, but is not a loop (function {function.name!r})")
        with self.tracer.in_loop(function, arguments):
            end, _ = self.tracer.call(head.body, head.arguments, head.effects)
        if not isinstance(end, TailCall) or end.function is not function:
            raise Unsupported(f"calls itself before its end (function {function.name!r})")
        again = _head(self.tracer, self.callee, end.arguments, end.effects)
        value, outside = seen_from_outside(self.b, nodes, end, end.effects, variables)
        return variables, replace(value, effects=outside), again.condition if again.body else False

    def _variable(self, initial: ir.Value, shape: ir.Shape | None) -> ir.Value:
        return ir.Value(name=self.b.fresh(), type=ir.TensorType(self.b.dtype(initial)), shape=shape)

    def _inside(self, variables: Sequence[ir.Value]) -> list[Value]:
        """Return the leaves of the arguments in an iteration: variables for carried ones, and its memory."""
        memory = self._memory(variables)
        leaves = [memory if isinstance(leaf, Effects) else leaf for leaf in self.leaves]
        for i, variable in zip(self.carried, variables, strict=False):
            leaves[i] = variable
        return [leaf if i in self.carried else self._current(leaf) for i, leaf in enumerate(leaves)]

    def _current(self, leaf: Value) -> Value:
        """Return the value of a leaf in the builder's memory if iterations assign to it, else the leaf."""
        assigned = isinstance(leaf, ir.Value) and self.b.memory.root(leaf) in self.targets
        return self.b.memory.changed(leaf) if assigned else leaf

    def _arguments(self, variables: Sequence[ir.Value], memory: Effects) -> tuple[Value, ...]:
        leaves = with_memory(self._inside(variables), memory)
        return tuple(rebuild(self.arguments, iter(leaves)))

    def _memory(self, variables: Sequence[ir.Value]) -> Effects:
        self.b.memory.effects = self.effects
        for target, variable in zip(self.targets, variables[len(self.carried) :], strict=True):
            self.b.memory.assign(target, variable)
        return self.b.memory.effects
