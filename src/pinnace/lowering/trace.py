"""Lowering of a program by evaluating it with symbolic tensors.

Every function is evaluated where it is called, so calls are inlined, tuples and scalars vanish, and a
condition over known values selects its branch. Decisions at run time become ONNX control flow: `If` for a
call of one of two functions, `Loop` for a function that ends by calling itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial

import onnx_ir as ir

from pinnace import bounds
from pinnace.graph.failures import MISFITS, RankUnknown, Unsupported
from pinnace.graph.inference import infer
from pinnace.lowering.branches import by_rank, lower_branches
from pinnace.lowering.loops import lower_loop
from pinnace.lowering.schedule import Schedule
from pinnace.lowering.work import NodeFailure, Work
from pinnace.ops import quantization
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.families import find
from pinnace.ops.table import Primitive
from pinnace.ops.values import Branches, Closure, Effects, TailCall, Value, flatten, rebuild
from pinnace.program import Dialect, Function, FunctionRef, Literal, Monad, Node, Program, TypeInfo

_NOTHING = Effects()
_SHARING = ("state", "structure", "views")
"""Families of primitives whose result may be the tensor, or a part of the tensor, that they are given."""
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


class Tracer:
    """Evaluates the functions of one program, writing nodes into a builder.

    Calls are inlined where the function is known, else they become control flow.
    """

    def __init__(self, program: Program, builder: LoweringBuilder, trusts: bool, work: Work) -> None:
        """With `trusts` results have the shapes that the file declares, else inferred ones."""
        self.program = program
        self.b = builder
        self.schedule = Schedule(program)
        self.open_loops: list[tuple[Function, tuple[Value, ...]]] = []  # outermost first, with arguments
        self._trusts, self._work = trusts, work
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
            self._declare(value, node.types)
            settled = all(map(self._has_form, flatten(value)))
        if settled:
            self.b.nodes.extend(nodes)
            return value, self.b.memory.effects

        lower = partial(self.lower, row, node, before=before)
        return by_rank(self, forms[free].condition, tuple(inputs), lower, before)

    def _lowered(self, row: Primitive, node: Node, inputs: Sequence[Value]) -> Value:
        if row.family != "structure" and any(isinstance(x, Effects) for x in inputs):
            inputs = self._held(inputs)
        value = self._cast_as_declared(row.lower(self.b, inputs, node.attributes))
        if not self.writes or row.family in _SHARING:
            return value
        # A later write to an input must not change the result, nor one to the result an equal constant.
        given = {id(x) for x in flatten(tuple(inputs)) if isinstance(x, ir.Value)}
        leaves = [self.b.op("Identity", v) if id(v) in given or _is_weight(v) else v for v in flatten(value)]
        return rebuild(value, iter(leaves))

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
            case _ if literal.size > _SMALL or self.writes:  # what is written to equals no other constant
                return self.b.weight(literal)
            case _:
                return self.b.constant(literal.numpy())

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
        self._declare(value, node.types)
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

    def _cast_as_declared(self, value: Value) -> Value:
        """Cast a tensor to the type that MindSpore's kernel writes: int32 for int32 times a length."""
        if (
            self.program.dialect is not Dialect.MINDSPORE
            or not isinstance(value, ir.Value)
            or value.dtype is None
        ):
            return value
        types = self.b.declared
        if len(types) != 1 or types[0] is None or value.dtype is types[0].dtype:
            return value
        dtype = types[0].dtype
        if ir.DataType.STRING in (value.dtype, dtype):
            return value
        # A declared type that is wider than the operands is not computed in (Angle, RemainderScalarTensor).
        own = self.b.dtype(value)
        cut = dtype.is_integer() and own.is_floating_point()  # an inverse of int64
        return self.b.cast(value, dtype) if cut or dtype.bitwidth <= own.bitwidth else value

    def _declare(self, value: Value, types: Sequence[TypeInfo | None]) -> None:
        """Set the types and shapes of tensors that have none yet."""
        leaves = [leaf for leaf in flatten(value) if not isinstance(leaf, Effects)]
        lacking = any(isinstance(x, ir.Value) and (x.type is None or x.shape is None) for x in leaves)
        if not lacking or len(leaves) != len(types):  # types are decoded when they are counted
            return
        for leaf, declared in zip(leaves, types, strict=True):
            if isinstance(leaf, ir.Value) and declared is not None:
                self._declare_leaf(leaf, declared)

    def _declare_leaf(self, leaf: ir.Value, declared: TypeInfo) -> None:
        if leaf.dtype is None:
            leaf.dtype = declared.dtype
        if leaf.shape is None and not self._trusts:
            infer(leaf, self.b.opset)
        # MindSpore Lite's converter writes no dimensions where it does not know them.
        unknown = declared.shape == () and self.program.dialect is Dialect.LITE
        unknown = unknown or leaf in self.b.forms  # MindSpore declares the shape of one branch
        if leaf.shape is None and declared.shape is not None and not unknown:
            leaf.shape = ir.Shape(declared.shape if self._trusts else [None] * len(declared.shape))
