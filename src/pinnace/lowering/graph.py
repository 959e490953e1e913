"""The result of the compiler: an ONNX graph for an engine, and its interface for users."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import onnx_ir as ir

from pinnace.errors import ConfigError, ModelFormatError, UnsupportedModelError, UnsupportedPrimitive
from pinnace.graph.functions import inline
from pinnace.graph.nodes import DOMAIN
from pinnace.graph.outputs import settle_outputs
from pinnace.graph.walk import nodes
from pinnace.lowering import custom
from pinnace.lowering.entry import STATE, graph_inputs
from pinnace.lowering.reshaping import compare, infer_all, loosen, reshape, shape_of
from pinnace.lowering.variable import HELD_BACK, Variable, chosen, variables
from pinnace.program import Dialect, Layout, Program
from pinnace.shapes import Shape, named_shapes
from pinnace.tensors import gears
from pinnace.types import DataType, Format, Interface, Port

_OUTPUT_TYPES = {"FP16": ir.DataType.FLOAT16, "FP32": ir.DataType.FLOAT, "UINT8": ir.DataType.UINT8}
_NO_PLAN: Mapping[str, str] = {}


class Compilable(NamedTuple):
    """A graph for an engine.

    `first_state` are the first values of the interface's states. `folder` contains the external weights.
    `variable` are the exchangeable weights by their names in the file; with `held_back`, the graph would be
    another one if these were constants.
    """

    model: ir.Model
    name: str
    folder: str | None
    interface: Interface
    first_state: tuple[ir.TensorProtocol, ...]
    variable: Mapping[str, Variable]
    held_back: bool


def compilable(
    graph: Program | ir.Model,
    name: str,
    folder: str | None,
    variable: Collection[str] = (),
    plan: Mapping[str, str] = _NO_PLAN,
    output_type: str = "",
    shapes: Sequence[Shape] = (),
) -> Compilable:
    """Lower a MindSpore program, or take an ONNX graph, and describe its interface.

    `variable` names the exchangeable weights; `plan` maps node names to element types; `output_type` is that
    of all outputs, "" for their own; `shapes`, if given, replace the file's input shapes. Raises
    UnsupportedModelError, also if the graph depends on an exchangeable weight or the shapes do not fit,
    ModelFormatError if it has no outputs, and ConfigError for unknown names.
    """
    exchanged = chosen(graph, name, variable)
    ids = frozenset(id(tensor) for tensors in exchanged.values() for tensor in tensors)
    model = _lowered(graph, ids, shapes) if isinstance(graph, Program) else graph
    if model.functions:  # engines check nodes, and OpenVINO's reader ends the process for some functions
        inline(model, name)
    if model is graph:
        custom.replace(model, name, ids)
    if plan:
        from pinnace.lowering.plan import apply  # few models have one

        apply(model, plan, name, _producers(graph) if isinstance(graph, Program) else {})
    states = [i for i in model.graph.inputs if STATE in i.metadata_props]
    pairs = tuple((i.name or "", i.metadata_props[STATE]) for i in states)
    both = {name for pair in pairs for name in pair}
    settle_outputs(model.graph, both)
    hidden = both | set(model.graph.initializers)
    inputs = [i for i in model.graph.inputs if i.name not in hidden]
    if shapes:
        _reshape(graph, model, inputs, shapes, ids, name)
    if output_type:
        cast_outputs(model, output_type, hidden)
    layout = graph.layout if isinstance(graph, Program) else Layout.NCHW
    info = dict(graph.user_info if isinstance(graph, Program) else graph.metadata_props)
    if info:
        import json  # few files have any

        info["user_info"] = json.dumps(info)
    stored = graph.converted_for if isinstance(graph, Program) else {}
    info |= stored
    taken = tuple(port(name, i, layout) for i in inputs)
    if isinstance(graph, Program) and gears.DYNAMIC_DIMS in stored:
        limits = gears.of_file(declared_inputs(graph), stored, name)
        taken = gears.reshaped(limits, taken, name)
    given = tuple(port(name, o, layout) for o in model.graph.outputs if o.name not in hidden)
    if not given:
        raise ModelFormatError(f"{name}: has no outputs, so it gives no results")
    interface = Interface(taken, given, pairs, info)
    if model is graph and not shapes:
        _forget_shapes(model.graph)
    first_state = tuple(i.const_value for i in states if i.const_value is not None)
    weights, held_back = variables(model, name, exchanged), bool(model.meta.get(HELD_BACK))
    return Compilable(model, name, folder, interface, first_state, weights, held_back)


def _lowered(program: Program, variable: frozenset[int], shapes: Sequence[Shape] = ()) -> ir.Model:
    from pinnace.lowering.lower import lower  # with all lowerings, which ONNX models do not need

    return lower(program, variable, shapes)


def _reshape(
    graph: Program | ir.Model,
    model: ir.Model,
    inputs: Sequence[ir.Value],
    shapes: Sequence[Shape],
    ids: frozenset[int],
    name: str,
) -> None:
    """Infer the shapes in a graph for other input shapes. Raises UnsupportedModelError if they do not fit."""
    if model is graph:
        reshape(inputs, shapes)
        _forget_shapes(model.graph)
        loosen(model.graph)
    infer_all(model, name)
    if isinstance(graph, Program) and graph.dialect is Dialect.MINDSPORE:
        # References for MindSpore Lite and ONNX, unlike MindSpore, compute with the numbers in the file.
        compare(model, _lowered(graph, ids), name)


def cast_outputs(model: ir.Model, kind: str, states: Collection[str]) -> None:
    """Cast the outputs of a graph to "FP16", "FP32" or "UINT8", except strings and `states`."""
    wanted = _OUTPUT_TYPES[kind]
    for place, value in enumerate(model.graph.outputs):
        if value.name not in states and value.dtype not in (wanted, ir.DataType.STRING, None):
            cast_output(model, place, wanted)


def cast_output(model: ir.Model, place: int, wanted: ir.DataType) -> None:
    """Cast the output at a place, which keeps its name, unless that is the one of an input or a constant."""
    value = model.graph.outputs[place]
    node = ir.node("Cast", [value], attributes={"to": wanted.value})
    (output,) = node.outputs
    output.type, output.shape = ir.TensorType(wanted), value.shape
    name = value.name or ""
    if value.producer() is None:
        output.name = f"{name}_{wanted.name}"
    else:
        value.name, output.name = f"{name}.uncast", name
    model.graph.append(node)
    model.graph.outputs[place] = output


def has_collectives(model: ir.Model) -> bool:
    """Return True if a model has collectives, which makes it one rank's part."""
    return any(node.domain == DOMAIN for node in nodes(model.graph))


def shapes_of(graph: Program | ir.Model, input_shape: str, name: str) -> tuple[Shape, ...]:
    """Return the shapes of all inputs by the option `input_shape`; () if they are the file's.

    Raises ConfigError for unknown inputs, and for what is no shape.
    """
    try:
        wanted = named_shapes(input_shape)
    except ValueError as error:
        raise ConfigError(f"{name}: input_shape: {error}") from None
    if isinstance(graph, Program):
        inputs = {i.name or "": i for i in graph_inputs(graph)}
    else:
        inputs = {n: i for i in graph.graph.inputs if (n := i.name or "") not in graph.graph.initializers}
    unknown = [repr(one) for one in wanted if one not in inputs]
    if unknown:
        raise ConfigError(
            f"{name}: input_shape names {', '.join(unknown)}, and the model's inputs are "
            f"{', '.join(map(repr, inputs))}"
        )
    own = {n: shape_of(i) for n, i in inputs.items()}
    shapes = {**own, **wanted}
    return () if shapes == own else tuple(shapes.values())


def _names(value: ir.Value) -> tuple[str, ...]:
    """Return the names of dimensions, "" for those without one; () if none has a name."""
    sizes = () if value.shape is None else tuple(value.shape)
    names = ["" if isinstance(size, int) else size.value or "" for size in sizes]
    return tuple(name if name.isprintable() else "" for name in names) if any(names) else ()


def _producers(program: Program) -> dict[str, str]:
    """Return the names of nodes by those of their outputs."""
    nodes = (node for function in program.functions.values() for node in function.nodes)
    return {output: node.name for node in nodes for output in node.outputs}


def _forget_shapes(graph: ir.Graph) -> None:
    """Remove the declared shapes of computed values from an ONNX graph; they are inferred if needed.

    Declarations may be wrong: people change the batch size of a model's inputs only, and rules would write
    the old one into the graph. Results of nested graphs keep theirs, which Scan needs, and so do the parts of
    ranks: `pinnace shard` has written the shapes that ranks exchange.
    """
    every = list(nodes(graph))
    for node in () if any(node.domain == DOMAIN for node in every) else every:
        for output in node.outputs:
            if output.const_value is None and (node.graph is graph or not output.is_graph_output()):
                output.shape = None


def declared_inputs(program: Program) -> tuple[Port, ...]:
    """Return the inputs of a program as its file declares them, without those that are not supported."""
    ports: list[Port] = []
    for value in graph_inputs(program):
        with suppress(UnsupportedModelError):
            ports.append(port(program.source, value, program.layout))
    return tuple(ports)


def port(model: str, value: ir.Value, layout: Layout = Layout.NCHW) -> Port:
    """Return a graph input or output as a Port. Raises UnsupportedModelError if it is not a tensor."""
    name = value.name or ""
    if not isinstance(value.type, ir.TensorType):
        reason = f"graph input or output {name!r} is a {value.type}, but only tensors are supported"
        raise UnsupportedModelError(model, [UnsupportedPrimitive("graph", 1, name, reason)])
    kind = value.type.dtype
    try:
        dtype = DataType.STRING if kind is ir.DataType.STRING else DataType.from_numpy(kind.numpy())
    except (TypeError, ValueError):
        reason = f"element type {kind.name} of {name!r} is not supported"
        raise UnsupportedModelError(model, [UnsupportedPrimitive("graph", 1, name, reason)]) from None
    dims = shape_of(value)
    nhwc = layout is Layout.NHWC and len(dims) == 4
    return Port(name, dtype, dims, Format.NHWC if nhwc else Format.NCHW, names=_names(value))
