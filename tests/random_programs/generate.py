"""The text of program N of a seed."""

from __future__ import annotations

import random

TENSORS = ("a", "b", "c")
KEPT = ("self.p", "self.q")
"""The Parameters."""
COUNTS = (3, 0, 1, 2, 1)
"""The last input of each call in turn."""
_DEEPEST = 2
# No slice of what may be a Parameter: the file does not say whether it is read before or after an assignment.
_HEAD = """
import numpy as np
from mindspore import Parameter, Tensor, int32, nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.p = Parameter(Tensor(np.full((2, 3), 0.5, np.float32)), name="p")
        self.q = Parameter(Tensor((np.arange(6).reshape(2, 3) * 0.2 - 0.37).astype(np.float32)), name="q")

    def construct(self, x, y, n):
        a = x * 1.0
        b = y * 1.0
        c = x + y
"""


def program(seed: int, number: int) -> str:
    """Return the source of a module with the class Net.

    Its inputs are float32 [2,3] twice and int32 []; its outputs are float32 [2,3] three times.
    """
    return _Writer(random.Random(f"{seed} {number}")).text()


class _Writer:
    def __init__(self, draw: random.Random) -> None:
        self._draw, self._loops = draw, 0

    def text(self) -> str:
        body: list[str] = []
        while len(body) < 6:
            body += self._block(0, loop=False)
        return _HEAD + "".join(f"        {line}\n" for line in [*body, "return a, b, c"])

    def _one(self, *choices: str) -> str:
        return self._draw.choice(choices)

    def _tensor(self) -> str:
        return self._one(*TENSORS)

    def _kept(self) -> str:
        return self._one(*KEPT)

    def _value(self, depth: int = 0) -> str:
        if depth > _DEEPEST or self._draw.random() < 0.5:
            return self._one(*TENSORS, *TENSORS, *KEPT, "x")
        x, y = self._value(depth + 1), self._value(depth + 1)
        factor, function = self._one("0.5", "-0.7", "1.2"), self._one("tanh", "relu", "abs", "sin")
        sums = (f"({x} + {y})", f"({x} - {y})")
        return self._one(*sums, *sums, f"({x} * {factor})", f"ops.{function}({x})")

    def _condition(self) -> str:
        return self._one(
            f"{self._one(*TENSORS, *KEPT)}.sum() {self._one('<', '>')} {self._one('0.013', '1.013')}",
            f"n {self._one('<', '>', '==')} {self._one('0', '1', '2', '3')}",
            f"ops.abs({self._tensor()})[{self._one('0', '1')}, 1] {self._one('<', '>')} 0.513",
            f"not ({self._tensor()}.min() < -1.013)",
        )

    def _write(self) -> str:
        return self._one(
            f"{self._tensor()} += {self._value()}",
            f"{self._tensor()} *= 0.5",
            f"{self._tensor()}.add_({self._tensor()})",
            f"{self._tensor()}[{self._one('0', '1')}] = ops.abs({self._tensor()})[1] * 2",
            f"{self._kept()}[{self._one('0', '1')}] = x[0]",
        )

    def _block(self, depth: int, loop: bool) -> list[str]:
        return [line for _ in range(self._draw.randint(1, 3)) for line in self._statement(depth, loop)]

    def _statement(self, depth: int, loop: bool) -> list[str]:
        kind = self._draw.random()
        if kind < 0.2 and depth < _DEEPEST:
            return self._if(depth, loop)
        if kind < 0.3 and depth < _DEEPEST:
            return self._while(depth)
        if kind < 0.35 and depth:
            end = self._one("break", "continue") if loop else f"return {self._value()}, b, c"
            return [f"if {self._condition()}:", f"    {end}"]
        if kind < 0.5:
            return [f"{self._kept()} = {self._value()}"]
        if kind < 0.62:
            return [self._write()]
        value = self._value()  # a name that becomes another one's in a loop: see docs/limits.md
        return [f"{self._tensor()} = " + (f"({value} - 0.125)" if loop else value)]

    def _if(self, depth: int, loop: bool) -> list[str]:
        lines = [f"if {self._condition()}:", *_indented(self._block(depth + 1, loop))]
        if self._draw.random() < 0.6:
            lines += ["else:", *_indented(self._block(depth + 1, loop))]
        return lines

    def _while(self, depth: int) -> list[str]:
        self._loops += 1
        i = f"i{self._loops}"
        more = self._one("", "", f" and {self._condition()}")
        return [
            f"{i} = {self._one('0', 'Tensor(0, int32)')}",
            f"while {i} < {self._one('n', '2', '3')}{more}:",
            *_indented([f"{i} = {i} + 1", *self._block(depth + 1, loop=True)]),
        ]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
