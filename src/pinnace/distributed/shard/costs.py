"""The choice of a way for every node, by what all of them cost together.

Costs are counted in bytes on the wire. A search over the nodes in order keeps the cheapest plans for each
combination of states in which the values that are still needed are held, so a value between two blocks is
split where that pays for all that follows, and whole elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from pinnace.distributed.segments import reads
from pinnace.distributed.shard.states import Parts, Split, State, Way
from pinnace.distributed.shard.ways import Ways
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

_Held = Mapping[ir.Value, frozenset[State]]


@dataclass(frozen=True)
class _Plan:
    """Ways of the nodes so far, what they cost, and the states in which values are held."""

    cost: float
    held: _Held
    way: Way | None = None
    before: _Plan | None = None

    def ways(self) -> list[Way]:
        """Return the ways of all nodes in order."""
        found, plan = [], self
        while plan.way is not None and plan.before is not None:
            found.append(plan.way)
            plan = plan.before
        return found[::-1]


@dataclass(frozen=True)
class Choice:
    """The way of each node, what they cost a rank, and what it costs a rank to compute all of the model."""

    ways: list[Way]
    cost: float
    uncut: float


def choose(graph: ir.Graph, size: int, opset: int = OPSET) -> Choice:
    """Return the cheapest ways found for the nodes of a graph, whose values have types and shapes."""
    return _Search(graph, size, opset).run()


class _Search:
    def __init__(self, graph: ir.Graph, size: int, opset: int) -> None:
        self._nodes, self._size = list(graph), size
        self._ways = Ways(graph, size, opset)
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
            ways = self._ways.of(node)
            taken = sorted(reads(node), key=lambda value: value.name or "")
            gone = {value for value in taken if self._last[value] == at}
            uncut = self._after(uncut, node, ways[0], [(value, None) for value in taken], gone) or uncut
            best: dict[frozenset[tuple[ir.Value, frozenset[State]]], _Plan] = {}
            for plan in plans:
                for way in ways:
                    inputs = list(zip(node.inputs, way.takes, strict=True))
                    if way is ways[0]:  # includes what branches and loops read
                        inputs = [(value, None) for value in taken]
                    after = self._after(plan, node, way, inputs, gone)
                    if after is None:
                        continue
                    key = frozenset(after.held.items())
                    if key not in best or after.cost < best[key].cost:
                        best[key] = after
            plans = []
            for plan in sorted(best.values(), key=_foreseen):
                if len(plans) < _PLANS and not any(self._serves(other, plan) for other in plans[:_RIVALS]):
                    plans.append(plan)
        return Choice(plans[0].ways(), plans[0].cost, uncut.cost)

    def _serves(self, plan: _Plan, other: _Plan) -> bool:
        """Return True if a plan can have all values in the states of a dearer one, and still cost less."""
        held, cost = dict(plan.held), plan.cost
        for value in {**other.held, **plan.held}:
            for state in other.held.get(value, () if value.const_value is not None else (None,)):
                price = self._price(value, state, held, COLLECTIVE)
                if price is None or (cost := cost + price) > other.cost:
                    return False
        return True

    def _after(
        self,
        plan: _Plan,
        node: ir.Node,
        way: Way,
        inputs: Iterable[tuple[ir.Value | None, State]],
        gone: set[ir.Value],
    ) -> _Plan | None:
        """Return the plan with one more node; None if it cannot have an input in that state."""
        held = dict(plan.held)
        cost = plan.cost + _work(node, way, self._size)
        wanted = [(value, state, COLLECTIVE) for value, state in inputs]
        if way.again:
            cost += _work(node, Way(()), self._size)
            wanted += [(value, None, 0) for value in node.inputs]  # one collective does it for all outputs
        for value, state, begin in wanted:
            price = 0.0 if value is None else self._price(value, state, held, begin)
            if price is None:
                return None
            cost += price
        for output in node.outputs:
            if way.gives is not None:
                held[output] = frozenset((way.gives, None) if way.again else (way.gives,))
                if output in self._outputs:
                    cost += self._price(output, None, held, COLLECTIVE) or 0.0
        for value in gone:
            held.pop(value, None)
        return _Plan(cost, held, way, plan)

    def _price(
        self, value: ir.Value, state: State, held: dict[ir.Value, frozenset[State]], begin: int
    ) -> float | None:
        """Return what it costs to have a value in a state, and note that it is held so.

        `begin` is the cost of a collective besides its bytes.
        """
        is_weight = value.const_value is not None
        have = held.get(value, frozenset() if is_weight else frozenset((None,)))
        if state in have:
            return 0.0
        if is_weight:
            if self._readers[value] > 1 and nbytes(value) >= _TRACKED:
                held[value] = have | {state}
            return HELD * nbytes(value) / (1 if state is None else self._size)
        if state is not None and not isinstance(state, Split):
            return None
        cost = 0.0
        if None not in have:
            (origin,) = have
            cost += begin + sent(nbytes(value), self._size, isinstance(origin, Parts))
            held[value] = have = have | {None}
        return cost + (0.0 if state is None else TOUCHED * nbytes(value) / self._size)


def _foreseen(plan: _Plan) -> float:
    """Return the cost of a plan with the collective that each sum of parts will need."""
    return plan.cost + COLLECTIVE * sum(states == {Parts()} for states in plan.held.values())


def sent(whole: float, size: int, is_sum: bool) -> float:
    """Return the bytes that a rank sends to make a value of so many bytes whole: a sum travels twice, to be
    added up and to be told.
    """
    return whole * (size - 1) / size * (2 if is_sum else 1)


def _work(node: ir.Node, way: Way, size: int) -> float:
    states = {*way.takes, way.gives}
    share = size if any(isinstance(state, Split) for state in states) else 1
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
