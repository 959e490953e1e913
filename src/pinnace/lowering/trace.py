"""Lowering of a program by evaluating it with symbolic tensors.

Every function is evaluated where it is called, so calls are inlined, tuples and scalars vanish, and a
condition over known values selects its branch. Decisions at run time become ONNX control flow: `If` for a
call of one of two functions, `Loop` for a function that ends by calling itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import onnx_ir as ir

from pinnace import bounds
from pinnace.graph.failures import RankUnknown, Unsupported
from pinnace.graph.inference import infer
from pinnace.lowering.branches import by_rank, lower_branches
from pinnace.lowering.evaluate import Evaluator
from pinnace.lowering.loops import lower_loop
from pinnace.lowering.work import Work
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.table import Primitive
from pinnace.ops.values import Branches, Closure, Effects, TailCall, Value, flatten, rebuild
from pinnace.program import Function, Node, Program

_SHARING = ("state", "structure", "views")
"""Families of primitives whose result may be the tensor, or a part of the tensor, that they are given."""


class Tracer(Evaluator):
    """Evaluates calls: inlined where the function is known, else as control flow."""

    def __init__(self, program: Program, builder: LoweringBuilder, trusts: bool, work: Work) -> None:
        """With `trusts` results have the shapes that the file declares, else inferred ones."""
        super().__init__(program, builder, trusts, work)
        self._calls = 0

    def call(self, callee: Value, arguments: Sequence[Value], effects: Effects) -> tuple[Value, Effects]:
        """Call a function value; returns its result and the memory afterwards."""
        if isinstance(callee, Branches):
            return lower_branches(self, callee, arguments, effects)
        if not isinstance(callee, Closure):
            raise Unsupported(f"calls a {type(callee).__name__}, not a function")
        function, values = callee.function, (*callee.bound, *arguments)
        if any(function is head for head, _ in self.open_loops):
            return TailCall(function, values, effects), effects
        if self._starts_loop(function):
            return lower_loop(self, callee, values, effects)
        if self._calls == bounds.CALLS:
            raise Unsupported(f"is nested in more than {bounds.CALLS} calls")
        self._calls += 1
        try:
            return self.leave(self.enter(callee, values, effects))
        finally:
            self._calls -= 1

    def _starts_loop(self, function: Function) -> bool:
        # Inside an open loop, a path through its head is an iteration of that loop, and not a loop of ours.
        return self.schedule.returns(function, frozenset(head.name for head, _ in self.open_loops))

    def lower(
        self, row: Primitive, node: Node, inputs: Sequence[Value], before: Effects
    ) -> tuple[Value, Effects]:
        """Lower a primitive; if the result depends on the rank of an input, for each possible rank."""
        self.b.memory.effects, self.b.declared = before, node.types
        forms = self.b.forms
        leaves = flatten(tuple(inputs)) if forms else iter(())
        free = next((x for x in leaves if isinstance(x, ir.Value) and x in forms), None)
        if free is None:
            return self._lowered(row, node, inputs), self.b.memory.effects
        settled = False
        with suppress(RankUnknown), self.b.scope() as nodes:
            value = self._lowered(row, node, inputs)
            self.declared.apply(value, node.types)
            settled = all(map(self._has_form, flatten(value)))
        if settled:
            self.b.nodes.extend(nodes)
            return value, self.b.memory.effects

        lower = partial(self.lower, row, node, before=before)
        return by_rank(self, forms[free].condition, tuple(inputs), lower, before)

    def _lowered(self, row: Primitive, node: Node, inputs: Sequence[Value]) -> Value:
        if row.family != "structure" and any(isinstance(x, Effects) for x in inputs):
            inputs = self._held(inputs)
        value = self.declared.cast(row.lower(self.b, inputs, node.attributes))
        if not self.writes or row.family in _SHARING:
            return value
        # A later write to an input must not change the result.
        given = {id(x) for x in flatten(tuple(inputs)) if isinstance(x, ir.Value)}
        return rebuild(value, (self.b.op("Identity", v) if id(v) in given else v for v in flatten(value)))

    def _held(self, inputs: Sequence[Value]) -> list[Value]:
        """Return the inputs of a node with effects as the memory holds them then.

        The first stays, because it may be what is written to.
        """
        read = self.b.memory.read
        first, *rest = inputs
        leaves = (read(v) if isinstance(v, ir.Value) else v for v in flatten(tuple(rest)))
        return [first, *rebuild(tuple(rest), leaves)]

    def _has_form(self, leaf: Value) -> bool:
        """Return True if the possible ranks of a result are known."""
        if not isinstance(leaf, ir.Value):
            return True
        if leaf.shape is None:
            infer(leaf, self.b.opset)
        return leaf.shape is not None or leaf in self.b.forms
