"""One application of a function, and what evaluates it, as control flow sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from pinnace.ops.builder import Builder
from pinnace.ops.values import Closure, Effects, Value
from pinnace.program import Function, Node

_T = TypeVar("_T")


class Frame:
    """The names of one application of a function."""

    def __init__(self, function: Function, outer: Frame | None) -> None:
        self.function = function
        self.outer = outer
        self.values: dict[str, Value] = {}
        self.effects: dict[str, Effects] = {}


class Evaluator(Protocol):
    """What lowers functions; `trace.Tracer` is the one."""

    b: Builder
    open_loops: list[tuple[Function, tuple[Value, ...]]]
    """The loops that are being lowered, outermost first: function, and arguments in this turn."""

    def call(self, callee: Value, arguments: Sequence[Value], effects: Effects) -> tuple[Value, Effects]:
        """Apply a function value; returns its value and the memory after it."""

    def enter(self, callee: Closure, arguments: Sequence[Value]) -> Frame:
        """A frame of the function with its inputs bound."""

    def schedule(self, function: Function) -> list[Node]:
        """The nodes that a function's outputs need, each after those that it needs."""

    def evaluate(self, frame: Frame, node: Node) -> None:
        """Give a frame the values of a node's outputs."""

    def look_up(self, frame: Frame, name: str) -> tuple[Value, Effects]:
        """What a name stands for in a frame, and the memory after that was computed."""

    def reaches(self, start: Function, goal: Function) -> bool:
        """Whether a call of `start` is, or leads to, a call of `goal`."""

    def in_loop(self, function: Function, arguments: tuple[Value, ...], turn: Callable[[], _T]) -> _T:
        """Run `turn()` while calls of `function` mean: next turn. `arguments` are those of this one."""
