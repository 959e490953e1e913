"""The choice of a sharding for every node, by what all of them cost together.

Costs are counted in bytes on the wire. A search over the nodes in order keeps the cheapest plans for each
combination of placements in which the values that are still needed are held, so a value between two blocks is
split where that pays for all that follows, and whole elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from pinnace.distributed.segments import reads
from pinnace.distributed.shard.placements import Partial, Placement, Shard, Sharding
from pinnace.distributed.shard.shardings import Shardings
from pinnace.graph.inference import OPSET

COLLECTIVE = 1 << 16
"""Cost of a collective, besides its bytes: tens of microseconds of waiting at a gigabyte a second."""
HELD = 1.0
"""Cost of a byte of weights that a rank holds. Ranks are there to divide them."""
TOUCHED = 0.1
"""Cost of a byte that a node writes: memory is about ten times as fast as a wire."""
OPERATION = 0.02
"""Cost of an addition or multiplication of a product: a core does about 50 in the time of a byte."""
_PLANS = 128
"""Plans that the search keeps after each node."""
_RIVALS = 8
"""The cheapest of them, with which each other is compared."""
_TRACKED = 1024
"""Bytes from which on it matters that two nodes read the same part of a weight."""

_Held = Mapping[ir.Value, frozenset[Placement]]


@dataclass(frozen=True)
class _Plan:
    """Shardings of the nodes so far, what they cost, and the placements in which values are held."""

    cost: float
    held: _Held
    sharding: Sharding | None = None
    before: _Plan | None = None

    def shardings(self) -> list[Sharding]:
        """Return the shardings of all nodes in order."""
        found, plan = [], self
        while plan.sharding is not None and plan.before is not None:
            found.append(plan.sharding)
            plan = plan.before
        return found[::-1]


@dataclass(frozen=True)
class Choice:
    """The sharding of each node, what they cost a rank, and what it costs to compute all of the model."""

    shardings: list[Sharding]
    cost: float
    uncut: float


def choose(graph: ir.Graph, size: int, opset: int = OPSET) -> Choice:
    """Return the cheapest shardings found for the nodes of a graph, whose values have types and shapes."""
    return _Search(graph, size, opset).run()


class _Search:
    def __init__(self, graph: ir.Graph, size: int, opset: int) -> None:
        self._nodes, self._size = list(graph), size
        self._shardings = Shardings(graph, size, opset)
        self._outputs = set(graph.outputs)
        self._last: dict[ir.Value, int] = {}
        self._readers: dict[ir.Value, int] = {}
        for at, node in enumerate(self._nodes):
            for value in reads(node):
                self._last[value] = at
                self._readers[value] = self._readers.get(value, 0) + 1

    def run(self) -> Choice:
        plans, uncut = [_Plan(0.0, {})], _Plan(0.0, {})
        for at, node in enumerate(self._nodes):
            shardings = self._shardings.of(node)
            taken = sorted(reads(node), key=lambda value: value.name or "")
            gone = {value for value in taken if self._last[value] == at}
            uncut = self._after(uncut, node, shardings[0], [(value, None) for value in taken], gone) or uncut
            best: dict[frozenset[tuple[ir.Value, frozenset[Placement]]], _Plan] = {}
            for plan in plans:
                for sharding in shardings:
                    inputs = list(zip(node.inputs, sharding.takes, strict=True))
                    if sharding is shardings[0]:  # includes what branches and loops read
                        inputs = [(value, None) for value in taken]
                    after = self._after(plan, node, sharding, inputs, gone)
                    if after is None:
                        continue
                    key = frozenset(after.held.items())
                    if key not in best or after.cost < best[key].cost:
                        best[key] = after
            plans = []
            for plan in sorted(best.values(), key=_expected_cost):
                if len(plans) < _PLANS and not any(self._dominates(other, plan) for other in plans[:_RIVALS]):
                    plans.append(plan)
        return Choice(plans[0].shardings(), plans[0].cost, uncut.cost)

    def _dominates(self, plan: _Plan, other: _Plan) -> bool:
        """Return True if a plan can have all values placed as in a dearer one, and still cost less."""
        held, cost = dict(plan.held), plan.cost
        for value in {**other.held, **plan.held}:
            for placement in other.held.get(value, () if value.const_value is not None else (None,)):
                price = self._price(value, placement, held, COLLECTIVE)
                if price is None or (cost := cost + price) > other.cost:
                    return False
        return True

    def _after(
        self,
        plan: _Plan,
        node: ir.Node,
        sharding: Sharding,
        inputs: Iterable[tuple[ir.Value | None, Placement]],
        gone: set[ir.Value],
    ) -> _Plan | None:
        """Return the plan with one more node; None if it cannot have an input in that placement."""
        held = dict(plan.held)
        cost = plan.cost + _work(node, sharding, self._size)
        wanted = [(value, placement, COLLECTIVE) for value, placement in inputs]
        if sharding.again:
            cost += _work(node, Sharding(()), self._size)
            wanted += [(value, None, 0) for value in node.inputs]  # one collective does it for all outputs
        for value, placement, begin in wanted:
            price = 0.0 if value is None else self._price(value, placement, held, begin)
            if price is None:
                return None
            cost += price
        for output in node.outputs:
            if sharding.gives is not None:
                held[output] = frozenset((sharding.gives, None) if sharding.again else (sharding.gives,))
                if output in self._outputs:
                    cost += self._price(output, None, held, COLLECTIVE) or 0.0
        for value in gone:
            held.pop(value, None)
        return _Plan(cost, held, sharding, plan)

    def _price(
        self, value: ir.Value, placement: Placement, held: dict[ir.Value, frozenset[Placement]], begin: int
    ) -> float | None:
        """Return what it costs to have a value in a placement, and note that it is held so.

        `begin` is the cost of a collective besides its bytes.
        """
        is_weight = value.const_value is not None
        have = held.get(value, frozenset() if is_weight else frozenset((None,)))
        if placement in have:
            return 0.0
        if is_weight:
            if self._readers[value] > 1 and nbytes(value) >= _TRACKED:
                held[value] = have | {placement}
            return HELD * nbytes(value) / (1 if placement is None else self._size)
        if placement is not None and not isinstance(placement, Shard):
            return None
        cost = 0.0
        if None not in have:
            (origin,) = have
            cost += begin + sent(nbytes(value), self._size, isinstance(origin, Partial))
            held[value] = have = have | {None}
        return cost + (0.0 if placement is None else TOUCHED * nbytes(value) / self._size)


def _expected_cost(plan: _Plan) -> float:
    """Return the cost of a plan with the collective that each sum of parts will need."""
    return plan.cost + COLLECTIVE * sum(placements == {Partial()} for placements in plan.held.values())


def sent(whole: float, size: int, is_sum: bool) -> float:
    """Return the bytes that a rank sends to make a value of so many bytes whole: a sum travels twice, to be
    added up and to be handed out.
    """
    return whole * (size - 1) / size * (2 if is_sum else 1)


def _work(node: ir.Node, sharding: Sharding, size: int) -> float:
    placements = {*sharding.takes, sharding.gives}
    share = size if any(isinstance(placement, Shard) for placement in placements) else 1
    return (OPERATION * operations(node) + TOUCHED * sum(map(nbytes, node.outputs))) / share


def operations(node: ir.Node) -> int:
    """Count the operations of products and convolutions, which take nearly all of the time."""
    if node.op_type in ("MatMul", "Gemm") and node.inputs[0] is not None and node.inputs[0].shape:
        inner = node.inputs[0].shape[-1]
        return 2 * _elements(node.outputs[0]) * (inner if isinstance(inner, int) else 1)
    if node.op_type == "Conv" and node.inputs[1] is not None and node.inputs[1].shape:
        kernel = math.prod(_fixed(list(node.inputs[1].shape)[1:]))
        return 2 * _elements(node.outputs[0]) * kernel
    return 0


def nbytes(value: ir.Value) -> float:
    """Return the bytes of a value; free dimensions count as 1."""
    if value.const_value is not None:
        return value.const_value.nbytes
    return _elements(value) * (value.dtype.bitwidth / 8 if value.dtype else 4)


def _elements(value: ir.Value) -> int:
    return math.prod(_fixed(value.shape)) if value.shape is not None else 0


def _fixed(dims: Sequence[object] | ir.Shape) -> list[int]:
    return [dim for dim in dims if isinstance(dim, int)]
