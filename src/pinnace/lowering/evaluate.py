"""Evaluation of functions with symbolic tensors; `pinnace.lowering.trace` adds control flow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import onnx_ir as ir

from pinnace.graph.failures import Unsupported
from pinnace.lowering.declared import Declarations
from pinnace.lowering.failures import MISFITS, NodeFailure
from pinnace.lowering.schedule import Schedule
from pinnace.lowering.work import Work
from pinnace.ops import quantization
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.families import find
from pinnace.ops.table import Primitive
from pinnace.ops.values import Closure, Effects, TailCall, Value
from pinnace.program import Function, FunctionRef, Literal, Monad, Node, Program

_NOTHING = Effects()
_SMALL = 256
"""Elements up to which a constant is copied into the graph, where equal ones are merged."""


class Frame:
    """The values of names in one call of a function.

    `outer` is the frame of the definition, and `entry` the memory before the call. `late` are the nodes, by
    id, that read weights after the monads of these names.
    """

    def __init__(self, function: Function, outer: Frame | None, entry: Effects) -> None:
        self.function = function
        self.outer = outer
        self.entry = entry
        self.late: Mapping[int, tuple[str, ...]] = {}
        self.values: dict[str, Value] = {}
        self.effects: dict[str, Effects] = {}


def _is_weight(value: Value) -> bool:
    return isinstance(value, ir.Value) and value.const_value is not None


class Evaluator(ABC):
    """Evaluates the functions of one program, writing nodes into a builder."""

    def __init__(self, program: Program, builder: LoweringBuilder, trusts: bool, work: Work) -> None:
        """With `trusts` results have the shapes that the file declares, else inferred ones."""
        self.program = program
        self.b = builder
        self.declared = Declarations(builder, program.dialect, trusts)
        self.schedule = Schedule(program)
        self.open_loops: list[tuple[Function, tuple[Value, ...]]] = []  # outermost first, with arguments
        self._work = work

    @abstractmethod
    def call(self, callee: Value, arguments: Sequence[Value], effects: Effects) -> tuple[Value, Effects]:
        """Call a function value; returns its result and the memory afterwards."""

    @abstractmethod
    def lower(
        self, row: Primitive, node: Node, inputs: Sequence[Value], before: Effects
    ) -> tuple[Value, Effects]:
        """Lower a primitive; returns its result and the memory afterwards. `before` is the memory before."""

    def enter(self, callee: Closure, arguments: Sequence[Value], effects: Effects) -> Frame:
        """Return a frame of a function with its inputs bound; `effects` is the memory before the call."""
        function = callee.function
        frame = Frame(function, callee.frame, effects)
        if len(arguments) != len(function.inputs):
            raise Unsupported(
                f"gives {len(arguments)} arguments to function {function.name!r}, "
                f"which takes {len(function.inputs)}"
            )
        for declared, value in zip(function.inputs, arguments, strict=True):
            frame.values[declared.name] = value
        return frame

    def nodes(self, frame: Frame) -> list[Node]:
        """Return the nodes of a frame in the order of their evaluation."""
        values = frame.values.items()
        monads = frozenset(name for name, value in values if isinstance(value, Effects))
        weights: set[str] = set()
        if self.writes:
            weights.update(frame.function.parameters, (name for name, value in values if _is_weight(value)))
        order = self.schedule.order(frame.function, frozenset(weights), monads)
        frame.late = order.late
        return order.nodes

    @cached_property
    def writes(self) -> bool:
        """True if a primitive of the program changes a tensor in place."""
        names = {n.primitive for f in self.program.functions.values() for n in f.nodes if n.primitive}
        return any(row.family == "state" for name in names if (row := find(self.program.dialect, name)))

    def leave(self, frame: Frame) -> tuple[Value, Effects]:
        """Evaluate a frame; returns its outputs, several as a tuple, and the memory afterwards."""
        for node in self.nodes(frame):
            self.evaluate(frame, node)
        outputs: list[Value] = []
        effects = Effects()
        for name in frame.function.outputs:
            value, after = self.look_up(frame, name)
            outputs.append(value)
            effects = effects.join(after)
        single = len(outputs) == 1 or any(isinstance(x, TailCall) for x in outputs)
        return (outputs[0] if single else tuple(outputs)), effects

    def _literal(self, frame: Frame, literal: Literal) -> Value:
        match literal:
            case None | bool() | int() | float() | str() | bytes():
                return literal
            case Monad():
                return Effects()
            case FunctionRef(name):
                return Closure(self.program.functions[name], frame)
            case tuple():
                return tuple(self._literal(frame, item) for item in literal)
            case _:
                return self.b.weight(literal) if literal.size > _SMALL else self.b.constant(literal.numpy())

    def evaluate(self, frame: Frame, node: Node) -> None:
        """Evaluate a node, and store its outputs in a frame."""
        self._work.count(node)
        inputs: list[Value] = []
        before = Effects()
        for name in node.inputs:
            value, effects = self.look_up(frame, name)
            inputs.append(value)
            before = before.join(effects)
        if id(node) in frame.late:
            before = before.join(frame.entry)
            for name in frame.late[id(node)]:
                before = before.join(self.look_up(frame, name)[1])
            inputs = [before.read(value) if _is_weight(value) else value for value in inputs]
        try:
            value, after = self._apply(node, inputs, before)
            self._work.count_leaves(value)
        except Unsupported as error:
            raise NodeFailure(node, str(error)) from None
        except MISFITS as error:
            # Lowerings assume that shapes and attributes fit together; in a damaged model they may not.
            reason = f"its inputs and attributes do not fit together ({error or type(error).__name__})"
            raise NodeFailure(node, reason) from error
        except (AttributeError, TypeError) as error:
            error.add_note(f"while node {node.name!r} ({node.primitive or 'call'}) was lowered")
            raise
        self.declared.apply(value, node.types)
        for name, part in self._results(frame, node, value):
            quantized = frame.function.quantized.get(name)
            if quantized is not None and isinstance(part, ir.Value):
                part = quantization.stored(self.b, part, quantized)
            frame.values[name] = part
            frame.effects[name] = after.join(before)

    def _apply(self, node: Node, inputs: list[Value], before: Effects) -> tuple[Value, Effects]:
        self.b.origins = (node.name,)
        if not node.primitive:
            if not inputs:
                raise Unsupported("names nothing to call")
            return self.call(inputs[0], inputs[1:], before)
        row = find(self.program.dialect, node.primitive)
        if row is None:
            raise Unsupported("Pinnace does not know this primitive")
        return self.lower(row, node, inputs, before)

    def _results(self, frame: Frame, node: Node, value: Value) -> Iterator[tuple[str, Value]]:
        if self.program.tuple_results:
            yield node.outputs[0], value
            return
        if isinstance(value, TailCall):  # whose results, when there are some, are those of the function
            if tuple(frame.function.outputs) != node.outputs:
                raise NodeFailure(node, "calls the function of a loop before the end of a round")
            yield from zip(node.outputs, (value,) * len(node.outputs), strict=True)
            return
        parts = value if isinstance(value, tuple) else (value,)
        if len(parts) < len(node.outputs):
            raise NodeFailure(node, f"has {len(node.outputs)} outputs, but its lowering gives {len(parts)}")
        yield from zip(node.outputs, parts, strict=False)

    def look_up(self, frame: Frame, name: str) -> tuple[Value, Effects]:
        """Return the value of a name in a frame, and the memory after its computation."""
        holder: Frame | None = frame
        while holder is not None:
            if name in holder.values:
                value = holder.values[name]
                return value, value if isinstance(value, Effects) else holder.effects.get(name, _NOTHING)
            if name in holder.function.parameters:
                weight = self.b.weight(holder.function.parameters[name])
                value = holder.values[name] = self.dequantized(holder.function, name, weight)
                return value, _NOTHING
            if name in holder.function.constants:
                literal = self._literal(holder, holder.function.constants[name])
                value = holder.values[name] = self.dequantized(holder.function, name, literal)
                return value, value if isinstance(value, Effects) else _NOTHING
            holder = holder.outer
        if name in self.program.functions:
            return Closure(self.program.functions[name], frame), _NOTHING
        raise Unsupported(f"refers to {name!r}, which nothing defines")

    def dequantized(self, function: Function, name: str, value: Value) -> Value:
        """Return a parameter or input, dequantized if it contains quantized integers."""
        quantized = function.quantized.get(name)
        if quantized is None or not isinstance(value, ir.Value):
            return value
        return quantization.meant(self.b, value, quantized)

    @contextmanager
    def in_loop(self, function: Function, arguments: tuple[Value, ...]) -> Iterator[None]:
        """Treat calls of `function` as the next iteration; `arguments` are those of the current one."""
        self.open_loops.append((function, arguments))
        try:
            yield
        finally:
            self.open_loops.pop()
