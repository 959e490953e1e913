"""`Program` -> `onnx_ir.Model`: the MindSpore dialects become standard ONNX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import onnx_ir as ir

import pinnace.ops as _ops  # noqa: F401  (fills the table)
from pinnace.bounds import BuildWork
from pinnace.compiler.reshaping import reshape
from pinnace.compiler.trace import NodeFailure, Tracer
from pinnace.errors import UnsupportedModelError, UnsupportedPrimitive
from pinnace.ops import quantisation
from pinnace.ops.builder import Builder
from pinnace.ops.collective import DOMAIN
from pinnace.ops.inference import OPSET, infer
from pinnace.ops.table import find
from pinnace.ops.values import AlwaysRaises, Closure, Effects, Unsupported, Value, flatten
from pinnace.program import Input, Program
from pinnace.shapes import Shape

STATE = "pinnace.state"
"""Metadata key of a graph input that holds state; the value names the output that replaces it."""

_IR_VERSION = 10  # of ONNX 1.16 and newer, which came with operator set 21


HELD_BACK = "pinnace.held_back"
"""Key of what a graph notes of itself: whether its making would have rested on values that will change."""


def lower(program: Program, variable: frozenset[int] = frozenset(), shapes: Sequence[Shape] = ()) -> ir.Model:
    """The ONNX graph that computes what the program does.

    `variable` are the ids of weights for which the graph has to be right whatever their values are;
    `shapes` those that the inputs are to have in the place of the file's, where there are any.

    A Parameter that the program assigns becomes a graph input after the others, marked with `STATE`,
    with its first value as `const_value`; the output named there holds its next value. Raises
    `UnsupportedModelError` naming everything that stands in the way.
    """
    unknown = unsupported(program)
    if unknown:
        raise UnsupportedModelError(program.source, unknown)
    _check_inputs(program.source, graph_inputs(program))
    try:
        return _traced(program, variable, shapes, BuildWork())
    except NodeFailure as failure:
        row = UnsupportedPrimitive(failure.node.primitive or "call", 1, failure.node.name, failure.reason)
        raise UnsupportedModelError(program.source, [row]) from None
    except (Unsupported, AlwaysRaises) as error:
        reason = str(error) or "the model always raises"
        row = UnsupportedPrimitive(program.main.name, 1, program.main.name, reason)
        raise UnsupportedModelError(program.source, [row]) from None


def _traced(
    program: Program, changing: frozenset[int], shapes: Sequence[Shape], spent: BuildWork
) -> ir.Model:
    """The graph; `changing` are the ids of weights whose first value must not decide anything."""
    builder = Builder(program.layout, changing)
    inputs = _entry_inputs(program)
    if shapes:
        reshape(_leaves(inputs), shapes)
    value, effects = _run_main(Tracer(program, builder, not shapes, spent), inputs)
    hasty = frozenset(id(t.const_value) for t in builder.asked & effects.memory.keys())
    if hasty:
        # A branch was chosen by what an assignment changes: once more, without looking.
        return _traced(program, changing | hasty, shapes, spent)
    return _assemble(program, builder, _leaves(inputs), value, effects)


def unsupported(program: Program) -> list[UnsupportedPrimitive]:
    """The primitives of a program that the table does not hold, most used first."""
    count: Counter[str] = Counter()
    first: dict[str, str] = {}
    for function in program.functions.values():
        for node in function.nodes:
            if node.primitive and find(program.dialect, node.primitive) is None:
                count[node.primitive] += 1
                first.setdefault(node.primitive, node.name)
    reason = "Pinnace does not know this primitive"
    return [UnsupportedPrimitive(name, n, first[name], reason) for name, n in count.most_common()]


def graph_inputs(program: Program) -> list[ir.Value]:
    """The entry function's inputs as those of a graph, tuples taken apart; what is no tensor has no type."""
    return _leaves(_entry_inputs(program))


def _entry_inputs(program: Program) -> list[Value]:
    """The values that the entry function is called with."""
    shown = program.input_names or [i.name for i in program.main.inputs]
    inputs = [_entry_input(i, name) for i, name in zip(program.main.inputs, shown, strict=True)]
    leaves = _leaves(inputs)
    for leaf, name in zip(leaves, _unique([v.name or "" for v in leaves], set()), strict=True):
        leaf.name = name
    return inputs


def _entry_input(declared: Input, name: str) -> Value:
    if declared.parts:
        return tuple(_entry_input(part, f"{name}_{i}") for i, part in enumerate(declared.parts))
    if declared.type is None:
        return ir.Value(name=name)
    shape = None if declared.type.shape is None else ir.Shape(declared.type.shape)
    return ir.Value(name=name, shape=shape, type=ir.TensorType(declared.type.dtype))


def _leaves(values: Iterable[Value]) -> list[ir.Value]:
    return [leaf for value in values for leaf in flatten(value) if isinstance(leaf, ir.Value)]


def _check_inputs(source: str, inputs: Iterable[ir.Value]) -> None:
    for value in inputs:
        if value.shape is None:
            lack = (
                "is no tensor" if value.type is None else "has a free rank: export the model with a fixed one"
            )
            row = UnsupportedPrimitive("input", 1, value.name or "", f"input {value.name!r} {lack}")
            raise UnsupportedModelError(source, [row])


def _run_main(tracer: Tracer, inputs: list[Value]) -> tuple[Value, Effects]:
    main = tracer.program.main
    meant = [tracer.meant(main, i.name, x) for i, x in zip(main.inputs, inputs, strict=True)]
    value, effects = tracer.leave(tracer.enter(Closure(main, None), meant))
    if main.quantised.keys().isdisjoint(main.outputs):
        return value, effects
    values = value if isinstance(value, tuple) else (value,)
    # A model gives its user the integers of a quantised tensor.
    stored = [
        quantisation.integers(tracer.b, v, main.quantised[n])
        if n in main.quantised and isinstance(v, ir.Value)
        else v
        for n, v in zip(main.outputs, values, strict=True)
    ]
    return tuple(stored), effects


def _assemble(
    program: Program, b: Builder, inputs: list[ir.Value], value: Value, effects: Effects
) -> ir.Model:
    # None among the results is nothing that could be given.
    outputs = [b.tensor(leaf) for leaf in flatten(value) if not isinstance(leaf, Effects | None)]
    for output in outputs:
        infer(output, b.opset)  # the file declares no type of scalars
    states = [t for t in effects.memory if t in b.initializers.values() and not t.is_graph_input()]
    names = [*_output_names(program, len(outputs)), *(f"{t.name}.next" for t in states)]
    taken = {i.name or "" for i in inputs} | b.initializers.keys()
    named = _named(b, [*outputs, *(effects.read(t) for t in states)], _unique(names, taken))
    for target, output in zip(states, named[len(outputs) :], strict=True):
        target.metadata_props[STATE] = output.name or ""
    nodes, used = _needed(b.nodes, named)
    graph = ir.Graph(
        [*inputs, *states],
        named,
        nodes=nodes,
        initializers=[v for v in b.initializers.values() if v in used and v not in states],
        opset_imports={"": OPSET},
        name=program.main.name,
    )
    model = ir.Model(graph, ir_version=_IR_VERSION, producer_name="pinnace")
    model.meta[HELD_BACK] = b.held_back
    return model


def _needed(
    nodes: Sequence[ir.Node], outputs: Iterable[ir.Value]
) -> tuple[list[ir.Node], set[ir.Value | None]]:
    """The nodes that the outputs need, in order, and all values that these read.

    A lowering may write what nothing reads, and engines lay out weights for it all the same. What ranks
    do together is always needed: the others wait for it.
    """
    kept: list[ir.Node] = []
    read: set[ir.Value | None] = set(outputs)
    for node in reversed(nodes):
        if read.isdisjoint(node.outputs) and node.domain != DOMAIN:
            for i in range(len(node.inputs)):
                node.replace_input_with(i, None)
        else:
            kept.append(node)
            read.update(_read_values([node]))
    return kept[::-1], read


def _read_values(nodes: Iterable[ir.Node]) -> Iterator[ir.Value | None]:
    """What nodes read, those of nested graphs too."""
    for node in nodes:
        yield from node.inputs
        for attribute in node.attributes.values():
            if attribute.type is ir.AttributeType.GRAPH:
                yield from _read_values(attribute.as_graph())


def _output_names(program: Program, count: int) -> Sequence[str]:
    names = program.output_names or program.main.outputs
    # One output that is a tuple gives several tensors, and has one name for all of them.
    return names if len(names) == count else [f"{names[0]}_{i}" for i in range(count)]


def _unique(names: Iterable[str], taken: set[str]) -> list[str]:
    unique: list[str] = []
    tried: Counter[str] = Counter()
    for name in names:
        candidate = name
        while candidate in taken:
            tried[name] += 1
            candidate = f"{name}_{tried[name]}"
        taken.add(candidate)
        unique.append(candidate)
    return unique


def _named(b: Builder, values: list[ir.Value], names: list[str]) -> list[ir.Value]:
    """Values that may be graph outputs under these names: computed by a node, and each but once."""
    result: dict[ir.Value, None] = {}
    for value, name in zip(values, names, strict=True):
        fits = value.producer() is not None and value not in result
        own = value if fits else b.op("Identity", value)
        own.type, own.shape = value.type, value.shape
        own.name = name
        result[own] = None
    return list(result)
