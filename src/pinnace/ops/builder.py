"""The builder of lowerings, which knows what assigned tensors hold, and the views that share their memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.inference import OPSET
from pinnace.ops.values import Effects, TailCall, refuse
from pinnace.program import Layout

_Write = Callable[[ir.Value, ir.Value], ir.Value]


class _View(NamedTuple):
    """A tensor that shares the memory of others, which held `held` when the view was made."""

    bases: tuple[ir.Value, ...]
    held: tuple[ir.Value, ...]
    again: Callable[..., ir.Value]
    writes: tuple[_Write, ...]


class Assignments:
    """The values of assigned tensors at the node that is lowered."""

    def __init__(self) -> None:
        self.effects = Effects()
        """Value of every assigned tensor; set for each node that is lowered."""
        self._assignments = 0
        # What was assigned stands for what it was assigned to: assigning to it again assigns there.
        self._roots: dict[ir.Value, ir.Value] = {}
        self._views: dict[ir.Value, _View] = {}

    def assign(self, target: ir.Value, value: ir.Value) -> ir.Value:
        """Let `target` hold `value` from here on; returns `value`."""
        self._assignments += 1
        root = self._roots.get(target, target)
        view = self._views.get(root)
        if view is None:
            self.effects = self.effects.wrote(root, self._assignments, value)
        else:
            for base, write in zip(view.bases, view.writes, strict=True):
                self.assign(base, write(self.read(base), value))
        self._roots[value] = root
        return value

    def root(self, x: ir.Value) -> ir.Value:
        return self._roots.get(x, x)

    def read(self, target: ir.Value) -> ir.Value:
        """The value of `target`, or of what it was assigned to, at the node that is lowered."""
        root = self.root(target)
        view = self._views.get(root)
        if view is not None:
            held = tuple(map(self.read, view.bases))
            return root if all(map(operator.is_, held, view.held)) else view.again(*held)
        return self.effects.read(root) if root in self.effects.memory else target

    def view(
        self, result: ir.Value, base: ir.Value, again: Callable[[ir.Value], ir.Value], write: _Write
    ) -> None:
        """Let `result` share the memory of `base`: `again` makes it of what `base` holds at another time.

        `write` gives what `base` holds, after it held its first argument, when the second is assigned to
        the view. A weight is read by `Load` alone, and has no views; a view of all of a tensor is the tensor.
        """
        root = self._roots.get(base, base)
        if root.const_value is None and self._roots.get(result, result) is not root:
            self._views[result] = _View((base,), (self.read(base),), again, (write,))

    def choice(
        self,
        result: ir.Value,
        held: Mapping[ir.Value, ir.Value],
        again: Callable[..., ir.Value],
        writes: Sequence[_Write],
    ) -> None:
        """Let `result` be one of several tensors, chosen in the run: as `view`, but a weight may be one."""
        self._views[result] = _View(tuple(held), tuple(held.values()), again, tuple(writes))

    def changed(self, x: ir.Value) -> ir.Value:
        """The value of a tensor here; a weight itself is read by `Load` alone, at a time of its own."""
        return x if x.const_value is not None else self.read(x)


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
