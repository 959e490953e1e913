"""A case: inputs as `tools/with_mindspore/goldens.py` writes them, and calls one after the other, all as text."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import Any

from tests.random_calls.excluded import comparable


@dataclass(frozen=True)
class Step:
    """One call. Its result is y0 for the first step, y1 for the second, and so on.

    `call` is `ops.add`, `Tensor.add`, `nn.Dense` or `{} + {}`; `arguments` are Python, in which x0, x1, ... are
    inputs and y0, y1[1], ... results. A layer is made with `setup`. `control` is "", or an input that says
    after `if` whether the call is made, and after `while` how often: the result takes the place of the first
    argument.
    """

    call: str
    kind: str
    arguments: tuple[str, ...]
    setup: tuple[str, ...] = ()
    control: str = ""

    def text(self, number: int, first: str = "") -> str:
        """The call as an expression, with `first` in the place of the first argument."""
        return comparable(self.call, self.arguments, self._call(number, first))

    def _call(self, number: int, first: str) -> str:
        arguments = (first, *self.arguments[1:]) if first else self.arguments
        if self.kind == "operator":
            return self.call.format(*arguments)
        if self.kind == "method":
            return f"{arguments[0]}.{self.call.partition('.')[2]}({', '.join(arguments[1:])})"
        name = f"self.l{number}" if self.kind == "layer" else self.call
        return f"{name}({', '.join(arguments)})"

    def lines(self, number: int) -> list[str]:
        """The statements that give the result its value."""
        result, (word, _, given) = f"y{number}", self.control.partition(" ")
        if not word:
            return [f"{result} = {self.text(number)}"]
        again = f"    {result} = {self.text(number, result)}"
        start = f"{result} = {self.arguments[0]}"
        if word == "if":
            return [start, f"if {given} > 0:", again]
        if word == "for":
            return [start, f"for _ in range({given}):", again]
        left = f"n{number}"
        return [start, f"{left} = {given}", f"while {left} > 0:", again, f"    {left} = {left} - 1"]


@dataclass(frozen=True)
class Case:
    """Inputs, steps, and what came of each step when it was tried (`Tree`s, see `oracle.py`)."""

    inputs: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    results: tuple[Any, ...] = ()

    @property
    def setup(self) -> str:
        """Lines of a constructor that make the layers."""
        layers = [(i, s) for i, s in enumerate(self.steps) if s.kind == "layer"]
        return "\n".join(f"self.l{i} = {s.call}({', '.join(s.setup)})" for i, s in layers)

    @property
    def body(self) -> str:
        """Lines of a function of the inputs that returns the last step's result."""
        lines = [line for i, step in enumerate(self.steps) for line in step.lines(i)]
        return "\n".join([*lines, f"return y{len(self.steps) - 1}"])

    def golden(self, name: str) -> str:
        """The case as a line of `tools/with_mindspore/goldens_random.py`."""
        inputs = "".join(f', "{spec}"' for spec in self.inputs)
        setup = f", setup={self.setup!r}" if self.setup else ""
        only = self.steps[0]
        if len(self.steps) == 1 and not only.control and only.kind != "layer":
            return f'case("{name}"{inputs}, call={only.text(0)!r})'
        body = textwrap.indent(self.body, "    ")
        return f'case("{name}"{inputs}{setup}, body="""\n{body}\n""")'


def names(text: str, letter: str) -> list[int]:
    """The numbers of the inputs (x) or results (y) that Python text uses."""
    return [int(n) for n in re.findall(rf"\b{letter}(\d+)\b", text)]


def renamed(text: str, new: dict[str, str]) -> str:
    """Python text with other names of inputs and results."""
    return re.sub(r"\b[xy]\d+\b", lambda m: new.get(m[0], m[0]), text)
