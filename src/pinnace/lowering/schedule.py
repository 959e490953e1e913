"""The order of the nodes of functions, and which functions lead to which."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import NamedTuple

from pinnace.lowering.work import NodeFailure
from pinnace.ops.families import find
from pinnace.program import Function, FunctionRef, Monad, Node, Program
from pinnace.program_structure import UPDATED


class Order(NamedTuple):
    """The nodes of a function in topological order.

    `late` are those, by id, that read a weight without a monad, and the monads that come before them.
    """

    nodes: list[Node]
    late: Mapping[int, tuple[str, ...]]


class Schedule:
    """Answers about the functions of one program, whatever their arguments."""

    def __init__(self, program: Program) -> None:
        self._dialect = program.dialect
        self._functions = program.functions
        self._schedules: dict[tuple[str, frozenset[str], frozenset[str]], Order] = {}
        self._used = cache(_used)
        self._reachable = cache(self._find_reachable)

    def order(self, function: Function, weights: frozenset[str], monads: frozenset[str]) -> Order:
        """Return the nodes that a function's outputs need in topological order.

        The file may have any order. A function used as a value needs the free names of its body. MindSpore
        slices a weight without a monad, and after all effects that do not need the slice; `weights` and
        `monads` are the names of inputs that are such, and `weights` is empty where nothing is assigned.
        """
        key = function.name, weights, monads
        if key not in self._schedules:
            nodes = self._sorted(function, {})
            late = self._late(function, nodes, weights, monads) if weights else {}
            self._schedules[key] = Order(self._sorted(function, late) if late else nodes, late)
        return self._schedules[key]

    def reaches(self, start: Function, goal: Function) -> bool:
        """Return True if a call of `start` is, or leads to, a call of `goal`."""
        return start is goal or goal.name in self._reachable(start.name, frozenset())

    def returns(self, function: Function, without: frozenset[str]) -> bool:
        """Return True if a call of a function leads to another call of it, on a path `without` functions."""
        return function.name in self._reachable(function.name, without)

    def _late(
        self, function: Function, nodes: list[Node], weights: frozenset[str], monads: frozenset[str]
    ) -> dict[int, tuple[str, ...]]:
        """Return the nodes that read a weight without a monad, and the monads that do not need them."""
        updates = [node for node in nodes if node.primitive == UPDATED]
        ordering = {name for name, literal in function.constants.items() if isinstance(literal, Monad)}
        ordering.update(monads, (name for node in updates for name in node.outputs))
        late = {}
        for place, node in enumerate(nodes):
            row = find(self._dialect, node.primitive) if node.primitive else None
            reads = row is not None and row.family != "structure" and not weights.isdisjoint(node.inputs)
            if not reads or not ordering.isdisjoint(node.inputs):
                continue
            after = set(node.outputs)
            for other in nodes[place:]:
                if not after.isdisjoint(self._needs(other)):
                    after.update(other.outputs)
            late[id(node)] = tuple(u.outputs[0] for u in updates if u.outputs[0] not in after)
        return late

    def _sorted(self, function: Function, late: Mapping[int, tuple[str, ...]]) -> list[Node]:
        producers = {name: node for node in function.nodes for name in node.outputs}
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
            for name in reversed((*self._needs(node), *late.get(id(node), ()))):
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
            if name in self._functions:
                names += sorted(self._free_names[name])
        return names

    @cached_property
    def _free_names(self) -> dict[str, set[str]]:
        """The free names of each function, including those of functions to which it refers."""
        functions = self._functions
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

    def _find_reachable(self, start: str, without: frozenset[str]) -> set[str]:
        seen: set[str] = set()
        pending = [start]
        while pending:
            called = (self._used(self._functions[pending.pop()]) & self._functions.keys()) - seen - without
            seen |= called
            pending += called
        return seen


def _defined(function: Function) -> set[str]:
    names = {output for node in function.nodes for output in node.outputs}
    return names | {i.name for i in function.inputs} | {*function.parameters, *function.constants}


def _used(function: Function) -> set[str]:
    """Return the names that a function uses."""
    used = {name for node in function.nodes for name in node.inputs}
    used |= {literal.name for literal in function.constants.values() if isinstance(literal, FunctionRef)}
    return used | set(function.outputs)
