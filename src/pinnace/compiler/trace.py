"""Lowering of a program by evaluating it with symbolic tensors.

Every function is evaluated where it is called, so calls are inlined, tuples and scalars vanish, and a
condition over known values selects its branch. Decisions at run time become ONNX control flow: `If` for a
call of one of two functions, `Loop` for a function that ends by calling itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, cached_property, partial

import onnx_ir as ir

from pinnace import bounds
from pinnace.compiler.branches import by_rank, lower_branches
from pinnace.compiler.frame import Frame
from pinnace.compiler.loops import lower_loop
from pinnace.ops import quantisation
from pinnace.ops.builder import Builder
from pinnace.ops.inference import infer
from pinnace.ops.table import Primitive, find
from pinnace.ops.values import Branches, Closure, Effects, RankUnknown, TailCall, Unsupported, Value, flatten
from pinnace.program import Dialect, Function, FunctionRef, Literal, Monad, Node, Program, TypeInfo

_NOTHING = Effects()
_SMALL = 256
"""Elements up to which a constant is copied into the graph, where equal ones are merged."""

MISFITS = (ArithmeticError, LookupError, MemoryError, RecursionError, ValueError)
"""Exceptions that lowerings raise on malformed input; others are bugs of Pinnace."""


class NodeFailure(Exception):
    """A node that cannot be lowered, with the reason."""

    def __init__(self, node: Node, reason: str) -> None:
        super().__init__(f"node {node.name!r} ({node.primitive or 'call'}): {reason}")
        self.node = node
        self.reason = reason


def _defined(function: Function) -> set[str]:
    names = {output for node in function.nodes for output in node.outputs}
    return names | {i.name for i in function.inputs} | {*function.parameters, *function.constants}


class Tracer:
    """Evaluates the functions of one program, writing nodes into a builder."""

    def __init__(
        self, program: Program, builder: Builder, trusts: bool = True, spent: bounds.BuildWork | None = None
    ) -> None:
        """With `trusts` results have the shapes that the file declares, else inferred ones.

        `spent` is the work of the same build so far.
        """
        self.program = program
        self.b = builder
        self._trusts = trusts
        self._schedules: dict[str, list[Node]] = {}
        self._spent = spent or bounds.BuildWork()
        self._most_nodes = bounds.of_file(bounds.NODES, sum(len(f.nodes) for f in program.functions.values()))
        self._calls = 0
        self._measures: dict[int, tuple[Value, int, int]] = {}
        self._used = cache(self._find_used)
        self.open_loops: list[tuple[Function, tuple[Value, ...]]] = []  # outermost first, with arguments
        self._reachable = cache(self._find_reachable)
        self._producers = {
            f.name: {out: node for node in f.nodes for out in node.outputs}
            for f in program.functions.values()
        }

    # -- calling -----------------------------------------------------------------------------------

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
            raise Unsupported(f"is one of more than {bounds.CALLS} nested calls")
        self._calls += 1
        try:
            return self.leave(self.enter(callee, values))
        finally:
            self._calls -= 1

    def enter(self, callee: Closure, arguments: Sequence[Value]) -> Frame:
        """Return a frame of a function with its inputs bound."""
        function = callee.function
        frame = Frame(function, callee.frame)
        if len(arguments) != len(function.inputs):
            raise Unsupported(
                f"gives {len(arguments)} arguments to function {function.name!r}, "
                f"which takes {len(function.inputs)}"
            )
        for declared, value in zip(function.inputs, arguments, strict=True):
            frame.values[declared.name] = value
        return frame

    def leave(self, frame: Frame) -> tuple[Value, Effects]:
        """Evaluate a frame; returns its outputs, several as a tuple, and the memory afterwards."""
        for node in self.schedule(frame.function):
            self.evaluate(frame, node)
        outputs: list[Value] = []
        effects = Effects()
        for name in frame.function.outputs:
            value, after = self.look_up(frame, name)
            outputs.append(value)
            effects = effects.join(after)
        return (outputs[0] if len(outputs) == 1 else tuple(outputs)), effects

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

    # -- evaluating --------------------------------------------------------------------------------

    def evaluate(self, frame: Frame, node: Node) -> None:
        """Evaluate a node, and store its outputs in a frame."""
        self._spent.nodes += 1
        if self._spent.nodes > self._most_nodes:
            raise NodeFailure(node, f"is one of more than {self._most_nodes} nodes, with all calls inlined")
        inputs: list[Value] = []
        before = Effects()
        for name in node.inputs:
            value, effects = self.look_up(frame, name)
            inputs.append(value)
            before = before.join(effects)
        try:
            value, after = self._apply(node, inputs, before)
            self._check_leaves(value)
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
        for name, part in self._results(node, value):
            quantised = frame.function.quantised.get(name)
            if quantised is not None and isinstance(part, ir.Value):
                part = quantisation.stored(self.b, part, quantised)
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
        return self._lower(row, node, inputs, before)

    def _lower(
        self, row: Primitive, node: Node, inputs: Sequence[Value], before: Effects
    ) -> tuple[Value, Effects]:
        """Lower a primitive; if the result depends on the rank of an input, for each possible rank."""
        self.b.memory.effects, self.b.declared = before, node.types
        forms = self.b.forms
        leaves = flatten(tuple(inputs)) if forms else iter(())
        free = next((x for x in leaves if isinstance(x, ir.Value) and x in forms), None)
        if free is None:
            return self._of_declared_type(row.lower(self.b, inputs, node.attributes)), self.b.memory.effects
        settled = False
        with suppress(RankUnknown), self.b.scope() as nodes:
            value = self._of_declared_type(row.lower(self.b, inputs, node.attributes))
            self._declare(value, node.types)
            settled = all(map(self._has_form, flatten(value)))
        if settled:
            self.b.nodes.extend(nodes)
            return value, self.b.memory.effects

        condition = self.b.forms[free].condition
        lower = partial(self._lower, row, node, before=before)
        return by_rank(self, condition, tuple(inputs), lower, before)

    def _has_form(self, leaf: Value) -> bool:
        """Return True if the possible ranks of a result are known."""
        if not isinstance(leaf, ir.Value):
            return True
        if leaf.shape is None:
            infer(leaf, self.b.opset)
        return leaf.shape is not None or leaf in self.b.forms

    def _of_declared_type(self, value: Value) -> Value:
        """Cast a tensor to the type that MindSpore's kernel writes: int32 for int32 times a length."""
        types = self.b.declared
        if self.program.dialect is not Dialect.MINDSPORE or len(types) != 1 or types[0] is None:
            return value
        dtype = types[0].dtype
        if not isinstance(value, ir.Value) or value.dtype in (None, dtype):
            return value
        if ir.DataType.STRING in (value.dtype, dtype):
            return value
        # A declared type that is wider than the operands is not computed in (Angle, RemainderScalarTensor).
        own = self.b.dtype(value)
        cut = dtype.is_integer() and own.is_floating_point()  # an inverse of int64
        return self.b.cast(value, dtype) if cut or dtype.bitwidth <= own.bitwidth else value

    def _check_leaves(self, value: Value) -> None:
        """Raise Unsupported if tuples exceed the bounds of a build."""
        if not isinstance(value, tuple | TailCall):
            return
        leaves, nesting = self._measure(value)
        if leaves > bounds.LEAVES or nesting > bounds.NESTING:
            raise Unsupported(
                f"gives a tuple of {leaves} items in {nesting} nested tuples, and the limits are "
                f"{bounds.LEAVES} and {bounds.NESTING}"
            )
        self._spent.leaves += leaves
        if self._spent.leaves > bounds.ALL_LEAVES:
            raise Unsupported(f"gives one of tuples with more than {bounds.ALL_LEAVES} items in all")

    def _measure(self, value: Value) -> tuple[int, int]:
        """Return the number of leaves of a value, and its nesting depth."""
        if not isinstance(value, tuple | TailCall):
            return 1, 0
        known = self._measures.get(id(value))
        if known is None:
            items = value if isinstance(value, tuple) else (value.arguments, value.stop, value.result)
            inner = [self._measure(item) for item in items]
            nesting = 1 + max((depth for _, depth in inner), default=0)
            known = self._measures[id(value)] = value, sum(count for count, _ in inner), nesting
        return known[1:]

    def _results(self, node: Node, value: Value) -> Iterator[tuple[str, Value]]:
        if self.program.tuple_results:
            yield node.outputs[0], value
            return
        parts = value if isinstance(value, tuple) else (value,)
        if len(parts) < len(node.outputs):
            raise NodeFailure(node, f"has {len(node.outputs)} outputs, and its lowering gives {len(parts)}")
        yield from zip(node.outputs, parts, strict=False)

    def _declare(self, value: Value, types: Sequence[TypeInfo | None]) -> None:
        if isinstance(value, ir.Value) and value.type is not None and value.shape is not None:
            return
        leaves = [leaf for leaf in flatten(value) if not isinstance(leaf, Effects)]
        if len(leaves) != len(types):
            return
        for leaf, declared in zip(leaves, types, strict=True):
            if not isinstance(leaf, ir.Value) or declared is None:
                continue
            if leaf.dtype is None:
                leaf.dtype = declared.dtype
            # MindSpore Lite's converter writes no dimensions where it does not know them.
            unknown = declared.shape == () and self.program.dialect is Dialect.LITE
            if leaf.shape is None and not self._trusts:
                infer(leaf, self.b.opset)
            if leaf.shape is None and declared.shape is not None and not unknown:
                leaf.shape = ir.Shape(declared.shape if self._trusts else [None] * len(declared.shape))

    def look_up(self, frame: Frame, name: str) -> tuple[Value, Effects]:
        """Return the value of a name in a frame, and the memory after its computation."""
        holder: Frame | None = frame
        while holder is not None:
            if name in holder.values:
                value = holder.values[name]
                return value, value if isinstance(value, Effects) else holder.effects.get(name, _NOTHING)
            if name in holder.function.parameters:
                weight = self.b.weight(holder.function.parameters[name])
                value = holder.values[name] = self.dequantised(holder.function, name, weight)
                return value, _NOTHING
            if name in holder.function.constants:
                literal = self._literal(holder, holder.function.constants[name])
                value = holder.values[name] = self.dequantised(holder.function, name, literal)
                return value, value if isinstance(value, Effects) else _NOTHING
            holder = holder.outer
        if name in self.program.functions:
            return Closure(self.program.functions[name], frame), _NOTHING
        raise Unsupported(f"refers to {name!r}, which nothing defines")

    def dequantised(self, function: Function, name: str, value: Value) -> Value:
        """Return a parameter or input, dequantised if it contains quantised integers."""
        quantised = function.quantised.get(name)
        if quantised is None or not isinstance(value, ir.Value):
            return value
        return quantisation.meant(self.b, value, quantised)

    # -- order -------------------------------------------------------------------------------------

    def schedule(self, function: Function) -> list[Node]:
        """Return the nodes that a function's outputs need in topological order.

        The file may have any order. A function used as a value needs the free names of its body.
        """
        if function.name not in self._schedules:
            self._schedules[function.name] = self._sorted(function)
        return self._schedules[function.name]

    def _sorted(self, function: Function) -> list[Node]:
        producers = self._producers[function.name]
        order: list[Node] = []
        state: dict[int, bool] = {}  # by id of node: False during the visit of its inputs, True afterwards
        stack = [producers[name] for name in reversed(function.outputs) if name in producers]
        while stack:
            node = stack[-1]
            if id(node) in state:
                stack.pop()
                if not state[id(node)]:
                    state[id(node)] = True
                    order.append(node)
                continue
            state[id(node)] = False
            for name in reversed(self._needs(node)):
                needed = producers.get(name)
                if needed is not None and id(needed) not in state:
                    stack.append(needed)
                elif needed is not None and not state[id(needed)]:
                    raise NodeFailure(needed, "needs its own result: the graph has a cycle")
        return order

    def _needs(self, node: Node) -> list[str]:
        names: list[str] = []
        for name in node.inputs:
            names.append(name)
            if name in self.program.functions:
                names += sorted(self._free_names[name])
        return names

    @cached_property
    def _free_names(self) -> dict[str, set[str]]:
        """The free names of each function, including those of functions to which it refers."""
        functions = self.program.functions
        free = {f.name: self._used(f) - functions.keys() - _defined(f) for f in functions.values()}
        settled = False
        while not settled:
            settled = True
            for f in functions.values():
                inner = {n for g in self._used(f) & functions.keys() for n in free[g]} - _defined(f)
                if not inner <= free[f.name]:
                    free[f.name] |= inner
                    settled = False
        return free

    def _find_used(self, function: Function) -> set[str]:
        """Return the names that a function uses."""
        used = {name for node in function.nodes for name in node.inputs}
        used |= {literal.name for literal in function.constants.values() if isinstance(literal, FunctionRef)}
        return used | set(function.outputs)

    def reaches(self, start: Function, goal: Function) -> bool:
        """Return True if a call of `start` is, or leads to, a call of `goal`."""
        return start is goal or goal.name in self._reachable(start.name, frozenset())

    def _starts_loop(self, function: Function) -> bool:
        # Inside an open loop, a path through its head is an iteration of that loop, and not a loop of ours.
        heads = frozenset(f.name for f, _ in self.open_loops)
        return function.name in self._reachable(function.name, heads)

    def _find_reachable(self, start: str, without: frozenset[str]) -> set[str]:
        functions = self.program.functions
        seen: set[str] = set()
        pending = [start]
        while pending:
            called = (self._used(functions[pending.pop()]) & functions.keys()) - seen - without
            seen |= called
            pending += called
        return seen

    @contextmanager
    def in_loop(self, function: Function, arguments: tuple[Value, ...]) -> Iterator[None]:
        """Treat calls of `function` as the next iteration; `arguments` are those of the current one."""
        self.open_loops.append((function, arguments))
        try:
            yield
        finally:
            self.open_loops.pop()
