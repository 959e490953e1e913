"""Loops whose rounds only the run counts, as functions that end by calling themselves.

As MindSpore exports `while`: a head chooses by Switch between a body, which calls the head with the values of
the next round, and an exit, which gives them. Rows that ONNX stacks are values of the loop, too: each round
appends one to a vector, which has the shape of a row as long as none differs, and begins with a row that is
cut off at the end, because kernels refuse tensors of nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import onnx_ir as ir

from pinnace.converter import conditions
from pinnace.converter.decompositions.places import FAR
from pinnace.converter.primitives import Primitives, type_of
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.inference import common_shape
from pinnace.program import Dialect, Function, Input, Node

if TYPE_CHECKING:  # which imports this module
    from pinnace.converter.raising import Raiser


class Loop(NamedTuple):
    """A loop over a body, whose inputs are the number of the round, a condition, and the values of states.

    Its outputs are the condition, the states and the rows after a round. `most` and `goes_on` are the
    greatest number of rounds and the first condition; None is no limit, and true.
    """

    body: ir.Graph
    most: ir.Value | None
    goes_on: ir.Value | None
    states: Sequence[ir.Value]


def port(writer: Primitives, dtype: ir.DataType, dims: Sequence[int | None]) -> ir.Value:
    """Return a new input of a function, which is called by what a writer writes."""
    return ir.Value(name=writer.new_name(), type=ir.TensorType(dtype), shape=ir.Shape(dims))


def own_function(
    raiser: Raiser,
    outer: Primitives,
    ports: Sequence[ir.Value],
    opset: int,
    fill: Callable[[Primitives], Sequence[str]],
) -> tuple[str, Primitives]:
    """Write a function; `fill` writes its nodes and returns its results. Returns its name and writer."""
    name = f"{outer.function}_{len(raiser.functions) + 1}"
    before, raiser.writer = raiser.writer, Primitives(outer.dialect, outer.layout, name, opset, outer)
    inner = raiser.writer
    raiser.functions[name] = Function(name, (), (), ())  # takes its number
    inner.names |= {x: inner.new_name() for x in ports}
    try:
        results = fill(inner)
        inputs = [Input(inner.names[x], type_of(x)) for x in (*ports, *inner.captured)]
        raiser.functions[name] = inner.closed(inputs, results)
    finally:
        raiser.writer = before
    return name, inner


def call(
    writer: Primitives, function: str, arguments: Sequence[str], results: Sequence[ir.Value]
) -> list[str]:
    """Call a function, or what Switch chose if there are no arguments; return the names of its results.

    In MindSpore that is one name, of a tuple if there are several results.
    """
    lite = not writer.mindir
    if lite and arguments:
        function, arguments = writer.named("PartialFusion", function, *arguments), ()
    made = tuple(writer.new_name() for _ in (results if lite else "1"))
    tail = {"is_tail_call": False} if lite else {}
    types = [type_of(x) for x in results]
    writer.add(Node(writer.origin, "", (function, *arguments), made, tail, types))
    return list(made)


def give(writer: Primitives, made: Sequence[str], results: Sequence[ir.Value]) -> None:
    if len(made) < len(results):
        made = [writer.named("TupleGetItem", made[0], writer.literal(i)) for i in range(len(results))]
    writer.names |= dict(zip(results, made, strict=True))


def built(raiser: Raiser, b: Builder, depth: int) -> None:
    """Raise what a builder wrote since the last time."""
    raiser.raise_all(list(b.nodes), b.opset, depth)
    b.nodes.clear()


def write(raiser: Raiser, loop: Loop, outputs: Sequence[ir.Value], opset: int, depth: int) -> None:
    """Write a loop whose results are values of the model: the last states, then stacked rows."""
    _widen(loop, opset)
    outer, count = raiser.writer, len(loop.states)
    kind = ir.DataType.INT32 if outer.dialect is Dialect.LITE else ir.DataType.INT64  # Lite adds no others
    rows = [_Rows(outer, x) for x in loop.body.outputs[1 + count :]]
    b = raiser.builder()
    most = None if loop.most is None else b.cast(b.op("Reshape", loop.most, []), kind)
    goes_on = b.constant(True) if loop.goes_on is None else b.op("Reshape", loop.goes_on, [])
    begin = [b.constant(0, kind.numpy()), goes_on, *loop.states, *(x for row in rows for x in row.begun(b))]
    carried = [port(outer, kind, []), *loop.body.inputs[1:], *(x for row in rows for x in row.ports)]
    if outer.dialect is Dialect.MINDSPORE:
        begin = _loosened(
            b, begin, carried, [x for x in (loop.most, loop.goes_on, *loop.states) if x is not None]
        )
    built(raiser, b, depth)
    name, head = _head(raiser, loop, carried, rows, most, opset, depth)
    last = [ir.Value(name=outer.new_name(), type=x.type, shape=x.shape) for x in carried]
    arguments = [outer.name(x) for x in (*begin, *head.captured)]
    give(outer, call(outer, name, arguments, last), last)
    ends = iter(last[2 + count :])
    stacked = [row.stacked(b, [next(ends) for _ in row.ports]) for row in rows]
    built(raiser, b, depth)
    for output, result in zip(outputs, [*last[2 : 2 + count], *stacked], strict=True):
        if output.name:
            raiser.same(output, result)


def _head(
    raiser: Raiser,
    loop: Loop,
    carried: Sequence[ir.Value],
    rows: Sequence[_Rows],
    most: ir.Value | None,
    opset: int,
    depth: int,
) -> tuple[str, Primitives]:
    """Write the function that chooses between another round and the end; return its name and writer."""
    number, flag, *_ = carried

    def of_body(inner: Primitives) -> Sequence[str]:
        assert inner.outer is not None
        if number.dtype is ir.DataType.INT32:  # casts there and back are what onnxruntime takes apart wrongly
            inner.narrow[inner.names[number]] = number
        b = raiser.builder()
        wide = b.op("Cast", number, to=ir.DataType.INT64.value)
        built(raiser, b, depth)
        raiser.same(loop.body.inputs[0], wide)
        raiser.raise_all(list(loop.body), opset, depth)
        goes_on, *states = loop.body.outputs[: 1 + len(loop.states)]
        after = [b.op("Add", number, b.like(1, number)), b.op("Reshape", goes_on, [])]
        after += [*states, *(x for row in rows for x in row.appended(b))]
        built(raiser, b, depth)
        own = [inner.name(x) for x in after]  # after this no more arguments of the head become known
        return call(inner, inner.outer.function, own + [inner.name(x) for x in inner.outer.captured], carried)

    def of_end(inner: Primitives) -> Sequence[str]:
        return inner.results({inner.names[x] for x in carried}, carried)

    def of_head(head: Primitives) -> Sequence[str]:
        b = raiser.builder()
        within = flag if most is None else b.op("And", flag, b.op("Less", number, most))
        built(raiser, b, depth)
        partial = "Partial" if head.mindir else "PartialFusion"
        names, condition = [head.names[x] for x in carried], head.name(within)
        body, inner = own_function(raiser, head, carried, opset, of_body)
        again = head.named(partial, body, *names, *(head.name(x) for x in inner.captured))
        leave = head.named(partial, own_function(raiser, head, carried, opset, of_end)[0], *names)
        return call(head, head.named("Switch", condition, again, leave), (), carried)

    return own_function(raiser, raiser.writer, carried, opset, of_head)


def _loosened(
    b: Builder, begin: Sequence[ir.Value], carried: Sequence[ir.Value], given: Sequence[ir.Value]
) -> list[ir.Value]:
    """Return first values, with shapes that only the run knows where they change: MindSpore keeps others."""
    run = next((x for x in given if x.const_value is None), None)
    if run is None:
        return list(begin)
    first = b.op("Slice", b.op("Reshape", run, [-1]), [0], [1])
    first = b.cast(first, ir.DataType.INT32) if run.dtype is ir.DataType.BOOL else first
    one = b.op("Add", b.cast(b.op("Greater", first, first), ir.DataType.INT64), b.constant(1, np.int64))
    return [
        x
        if x.shape == port.shape or not b.rank(x)
        else b.op("Slice", x, [0] * b.rank(x), b.op("Mul", b.vector(b.dims(x)), one), list(range(b.rank(x))))
        for x, port in zip(begin, carried, strict=True)
    ]


def _widen(loop: Loop, opset: int) -> None:
    """Give the inputs of a body shapes that the states have in all rounds, and its rows types."""
    number, flag, *ports = loop.body.inputs
    number.type, number.shape = ir.TensorType(ir.DataType.INT64), ir.Shape([])
    flag.type, flag.shape = ir.TensorType(ir.DataType.BOOL), ir.Shape([])
    for inside, state in zip(ports, loop.states, strict=True):
        inside.type, inside.shape = state.type, state.shape
    results, again = loop.body.outputs[1:], True
    while again:  # as often as a dimension, or then a rank, is seen to differ
        with conditions.undone(list(loop.body)):
            conditions.fits(list(loop.body), opset)
            found = [(x.type, x.shape) for x in results]
        wide = [common_shape(x.shape, shape) for x, (_, shape) in zip(ports, found, strict=False)]
        again = any(x.shape != shape for x, shape in zip(ports, wide, strict=True))
        for inside, shape in zip(ports, wide, strict=True):
            inside.shape = shape
    for row, (dtype, shape) in list(zip(results, found, strict=True))[len(ports) :]:
        row.type, row.shape = dtype, shape


class _Rows:
    """The rows that ONNX stacks of a value of each round, or the elements of rows with free sizes."""

    def __init__(self, writer: Primitives, row: ir.Value) -> None:
        if row.dtype is None or row.shape is None:
            raise Unsupported(f"stacks {row.name!r}, of which no type or rank is known")
        self.row, self.rank, self.dtype = row, len(row.shape), row.dtype
        self.dims = list(row.shape.numpy()) if row.shape.is_static() and 0 not in row.shape else None
        whole = port(writer, row.dtype, [None, *(self.dims or [])])
        sizes = port(writer, ir.DataType.INT64, [self.rank])
        self.ports = [whole] if self.dims is not None else [whole, sizes]

    def begun(self, b: Builder) -> list[ir.Value]:
        first = b.constant(np.zeros([1, *(self.dims or [])]), self.dtype.numpy())
        return [first, *(b.constant([1] * self.rank, np.int64) for _ in self.ports[1:])]

    def appended(self, b: Builder) -> list[ir.Value]:
        if self.dims is not None:
            return [b.op("Concat", self.ports[0], b.op("Unsqueeze", self.row, [0]), axis=0)]
        return [
            b.op("Concat", self.ports[0], b.op("Reshape", self.row, [-1]), axis=0),
            b.op("Shape", self.row),
        ]

    def stacked(self, b: Builder, last: Sequence[ir.Value]) -> ir.Value:
        rows = b.op("Slice", last[0], [1], [FAR], [0])
        if self.dims is not None:
            return rows
        y = b.op("Reshape", rows, b.op("Concat", b.constant([-1], np.int64), last[1], axis=0))
        y.type, y.shape = self.row.type, ir.Shape([None] * (1 + self.rank))
        return y
