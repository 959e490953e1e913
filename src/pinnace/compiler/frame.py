"""The scope of one call of a function."""

from __future__ import annotations

from pinnace.ops.values import Effects, Value
from pinnace.program import Function


class Frame:
    """The values of names in one call of a function; `outer` is the frame of the definition."""

    def __init__(self, function: Function, outer: Frame | None) -> None:
        self.function = function
        self.outer = outer
        self.values: dict[str, Value] = {}
        self.effects: dict[str, Effects] = {}
