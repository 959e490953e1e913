"""Lowering of programs in MindSpore's dialects to standard ONNX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from pinnace.errors import UnsupportedModelError, UnsupportedPrimitive
from pinnace.graph.failures import Unsupported
from pinnace.graph.inference import OPSET, infer
from pinnace.graph.nodes import DOMAIN
from pinnace.graph.walk import inner_graphs, nodes
from pinnace.lowering.entry import STATE, entry_inputs, graph_inputs, leaves, unique
from pinnace.lowering.reshaping import reshape
from pinnace.lowering.trace import Tracer
from pinnace.lowering.variable import HELD_BACK
from pinnace.lowering.work import NodeFailure, Work
from pinnace.ops import quantization
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.families import find
from pinnace.ops.values import AlwaysRaises, Closure, Effects, Value, flatten, rebuild
from pinnace.program import Program
from pinnace.shapes import Shape

_IR_VERSION = 10  # that of ONNX 1.16, which introduced operator set 21


def lower(program: Program, variable: frozenset[int] = frozenset(), shapes: Sequence[Shape] = ()) -> ir.Model:
    """Return the ONNX graph of a program.

    `variable` are the ids of exchangeable weights, on whose values the graph does not depend; `shapes`, if
    given, replace the file's input shapes.

    A Parameter that the program assigns becomes a graph input after the others, marked with `STATE`, with its
    first value as `const_value`; the output named there is its next value. Raises `UnsupportedModelError`
    with all unsupported primitives.
    """
    unknown = unsupported(program)
    if unknown:
        raise UnsupportedModelError(program.source, unknown)
    _check_inputs(program.source, graph_inputs(program))
    try:
        return _traced(program, variable, shapes, Work(program))
    except NodeFailure as failure:
        row = UnsupportedPrimitive(failure.node.primitive or "call", 1, failure.node.name, failure.reason)
        raise UnsupportedModelError(program.source, [row]) from None
    except (Unsupported, AlwaysRaises) as error:
        reason = str(error) or "the model always raises an exception"
        row = UnsupportedPrimitive(program.main.name, 1, program.main.name, reason)
        raise UnsupportedModelError(program.source, [row]) from None


def _traced(program: Program, changing: frozenset[int], shapes: Sequence[Shape], work: Work) -> ir.Model:
    """Trace a program; `changing` are the ids of weights on whose values the graph must not depend."""
    builder = LoweringBuilder(program.layout, changing)
    inputs = entry_inputs(program)
    builder.taken.update(x.name or "" for x in leaves(inputs))
    if shapes:
        reshape(leaves(inputs), shapes)
    value, effects = _run_main(Tracer(program, builder, not shapes, work), inputs)
    assigned = frozenset(id(t.const_value) for t in builder.asked & effects.memory.keys())
    if assigned:
        # A branch was selected by the first value of an assigned tensor: trace again without that value.
        return _traced(program, changing | assigned, shapes, work)
    return _assemble(program, builder, leaves(inputs), value, effects)


def unsupported(program: Program) -> list[UnsupportedPrimitive]:
    """Return the primitives of a program without a lowering, most used first."""
    return UnsupportedPrimitive.counted(
        (node.primitive, "Pinnace does not know this primitive", node.name)
        for function in program.functions.values()
        for node in function.nodes
        if node.primitive and find(program.dialect, node.primitive) is None
    )


def _check_inputs(source: str, inputs: Iterable[ir.Value]) -> None:
    for value in inputs:
        if value.shape is None:
            problem = "has a free rank: export the model with a fixed one" if value.type else "is no tensor"
            row = UnsupportedPrimitive("input", 1, value.name or "", f"input {value.name!r} {problem}")
            raise UnsupportedModelError(source, [row])


def _run_main(tracer: Tracer, inputs: list[Value]) -> tuple[Value, Effects]:
    main = tracer.program.main
    numbers = [tracer.dequantized(main, i.name, x) for i, x in zip(main.inputs, inputs, strict=True)]
    value, effects = tracer.leave(tracer.enter(Closure(main, None), numbers, Effects()))
    # MindSpore returns the memory of a tensor, which holds what was assigned to it last.
    memory = tracer.b.memory
    memory.effects = effects
    value = rebuild(value, (memory.read(v) if isinstance(v, ir.Value) else v for v in flatten(value)))
    if main.quantized.keys().isdisjoint(main.outputs):
        return value, effects
    values = value if isinstance(value, tuple) else (value,)
    # Models return the integers of quantized tensors.
    stored = [
        quantization.integers(tracer.b, v, main.quantized[n])
        if n in main.quantized and isinstance(v, ir.Value)
        else v
        for n, v in zip(main.outputs, values, strict=True)
    ]
    return tuple(stored), effects


def _assemble(
    program: Program, b: LoweringBuilder, inputs: list[ir.Value], value: Value, effects: Effects
) -> ir.Model:
    # None among the results cannot be returned.
    outputs = [b.tensor(leaf) for leaf in flatten(value) if not isinstance(leaf, Effects | None)]
    for output in outputs:
        infer(output, b.opset)  # the file declares no types of scalars
    states = [t for t in effects.memory if t in b.initializers.values() and not t.is_graph_input()]
    names = [*_output_names(program, len(outputs)), *(f"{t.name}.next" for t in states)]
    taken = {i.name or "" for i in inputs} | b.initializers.keys()
    named = _named(b, [*outputs, *(effects.read(t) for t in states)], unique(names, taken))
    for target, output in zip(states, named[len(outputs) :], strict=True):
        target.metadata_props[STATE] = output.name or ""
    needed, used = _needed(b.nodes, named)
    graph = ir.Graph(
        [*inputs, *states],
        named,
        nodes=needed,
        initializers=[v for v in b.initializers.values() if v in used and v not in states],
        opset_imports={"": OPSET} | {node.domain: 1 for node in needed if node.domain},
        name=program.main.name,
    )
    model = ir.Model(graph, ir_version=_IR_VERSION, producer_name="pinnace")
    model.meta[HELD_BACK] = b.held_back
    return model


def _needed(
    written: Sequence[ir.Node], outputs: Iterable[ir.Value]
) -> tuple[list[ir.Node], set[ir.Value | None]]:
    """Return the nodes that the outputs need, in order, and all values that these read.

    Lowerings may write unused nodes, for which engines would prepare weights. Collectives are always needed,
    since other ranks wait for them. onnx-ir's RemoveUnusedNodesPass takes five times as long.
    """
    kept: list[ir.Node] = []
    read: set[ir.Value | None] = set(outputs)
    for node in reversed(written):
        if read.isdisjoint(node.outputs) and node.domain != DOMAIN:
            for i in range(len(node.inputs)):
                node.replace_input_with(i, None)
        else:
            kept.append(node)
            read.update(node.inputs)
            read.update(x for graph in inner_graphs(node) for inner in nodes(graph) for x in inner.inputs)
    return kept[::-1], read


def _output_names(program: Program, count: int) -> Sequence[str]:
    names = program.output_names or program.main.outputs
    # An output that is a tuple becomes several tensors, with one name for all.
    return names if len(names) == count else [f"{names[0]}_{i}" for i in range(count)]


def _named(b: LoweringBuilder, values: list[ir.Value], names: list[str]) -> list[ir.Value]:
    """Return values that can be graph outputs with these names: distinct, and computed by nodes."""
    result: dict[ir.Value, None] = {}
    for value, name in zip(values, names, strict=True):
        fits = value.producer() is not None and value not in result
        own = value if fits else b.op("Identity", value)
        own.type, own.shape = value.type, value.shape
        own.name = name
        result[own] = None
    return list(result)
