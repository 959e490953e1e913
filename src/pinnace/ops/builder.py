"""The builder of lowerings, which knows the program that is lowered."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.inference import OPSET
from pinnace.ops.memory import Assignments
from pinnace.ops.values import TailCall, refuse
from pinnace.program import Layout


@dataclass(frozen=True)
class EitherShape:
    """The shape of what two branches give with different ranks, by the condition that chose."""

    condition: ir.Value
    then: ir.Shape | EitherShape
    other: ir.Shape | EitherShape


class LoweringBuilder(Builder):
    """Writes the graph of a program, whose nodes have effects."""

    def __init__(
        self,
        layout: Layout = Layout.NCHW,
        changing: Container[int] = (),
        opset: int = OPSET,
        prefix: str = "%",
    ) -> None:
        super().__init__(layout, changing, opset, prefix)
        self.memory = Assignments()
        """Values of assigned tensors at the node that is lowered."""
        self.forms: dict[ir.Value, EitherShape] = {}
        """The shapes of tensors whose rank is known only at run time."""

    def tensor(self, value: Any) -> ir.Value:
        """`value` as a tensor, as `Builder.tensor` has it; the end of a turn of a loop is none."""
        return refuse(value, "a tensor") if isinstance(value, TailCall) else super().tensor(value)
