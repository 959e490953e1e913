"""What the compiler hands to an engine: an ONNX graph and what the user is to be shown of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import onnx_ir as ir

from pinnace.compiler import outputs
from pinnace.compiler import plan as plans
from pinnace.compiler.lower import HELD_BACK, STATE, graph_inputs, lower
from pinnace.compiler.reshaping import compare, infer_all, loosen, reshape
from pinnace.compiler.variable import Variable, chosen, variables
from pinnace.errors import ConfigError, UnsupportedModelError, UnsupportedPrimitive
from pinnace.ops.collective import DOMAIN
from pinnace.program import Dialect, Layout, Program
from pinnace.shapes import Shape, named_shapes
from pinnace.types import DataType, Format, Interface, Port

_NO_PLAN: Mapping[str, str] = {}


@dataclass(frozen=True)
class Compilable:
    """A graph ready for an engine.

    `first_state` holds the first values of the interface's states. `folder` is where external weights lie.
    `variable` are the weights that may be exchanged, by their names in the file; where `held_back`, the graph
    would be another one if these were not.
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
    """Lower a graph where it is a MindSpore program, and describe it.

    `variable` names weights that will be exchanged; `plan` gives element types of nodes by their
    names, `output_type` that of all outputs, "" for their own. `shapes` are those that the inputs are to have
    in the place of the file's, where there are any. Raises UnsupportedModelError, also where such a weight
    decides what the graph is, or where the shapes do not fit what is in the file, and ConfigError where there
    is none of a name.
    """
    exchanged = chosen(graph, name, variable)
    ids = frozenset(id(tensor) for tensors in exchanged.values() for tensor in tensors)
    model = lower(graph, ids, shapes) if isinstance(graph, Program) else graph
    if plan:
        plans.apply(model, plan, name, _makers(graph) if isinstance(graph, Program) else {})
    layout = graph.layout if isinstance(graph, Program) else Layout.NCHW
    info = graph.user_info if isinstance(graph, Program) else graph.metadata_props
    kept = [i for i in model.graph.inputs if STATE in i.metadata_props]
    states = tuple((i.name or "", i.metadata_props[STATE]) for i in kept)
    hidden = {name for pair in states for name in pair} | set(model.graph.initializers)
    taken = [i for i in model.graph.inputs if i.name not in hidden]
    if shapes:
        if model is graph:
            reshape(taken, shapes)
            _forget_shapes(model.graph)
            loosen(model.graph)
        infer_all(model, name)
        if isinstance(graph, Program) and graph.dialect is Dialect.MINDSPORE:
            # MindSpore Lite and ONNX, with which others are compared, compute what files say.
            compare(model, lower(graph, ids), name)
    if output_type:
        outputs.cast(model, output_type, hidden)
    interface = Interface(
        inputs=tuple(port(name, i, layout) for i in taken),
        outputs=tuple(port(name, o, layout) for o in model.graph.outputs if o.name not in hidden),
        states=states,
        info=dict(info),
    )
    if model is graph and not shapes:
        _forget_shapes(model.graph)
    first_state = tuple(i.const_value for i in kept if i.const_value is not None)
    return Compilable(
        model,
        name,
        folder,
        interface,
        first_state,
        variables(model, name, exchanged),
        bool(model.meta.get(HELD_BACK)),
    )


def shapes_of(graph: Program | ir.Model, input_shape: str, name: str) -> tuple[Shape, ...]:
    """The shapes of all inputs, where the option `input_shape` gives some; () where they are the file's.

    Raises ConfigError where there is no input of a name.
    """
    wanted = named_shapes(input_shape)
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
    own = {n: _dims(i) for n, i in inputs.items()}
    shapes = {**own, **wanted}
    return () if shapes == own else tuple(shapes.values())


def _dims(value: ir.Value) -> Shape:
    return (-2,) if value.shape is None else tuple(d if isinstance(d, int) else -1 for d in value.shape)


def _makers(program: Program) -> dict[str, str]:
    """The names of nodes by those of what they give."""
    nodes = (node for function in program.functions.values() for node in function.nodes)
    return {output: node.name for node in nodes for output in node.outputs}


def _forget_shapes(graph: ir.Graph) -> None:
    """Drop what an ONNX file says of the shapes of what is computed; who needs them infers them.

    Nothing holds a file to it. Who gives a model another batch often changes its inputs alone, and rules
    would write the old one into the graph. Results of nested graphs keep theirs, which Scan asks for.
    So does the part of a rank: `pinnace shard` has written what ranks exchange.
    """
    nodes = list(ir.traversal.RecursiveGraphIterator(graph))
    for node in () if any(node.domain == DOMAIN for node in nodes) else nodes:
        for output in node.outputs:
            if node.graph is graph or not output.is_graph_output():
                output.shape = None


def declared_inputs(program: Program) -> tuple[Port, ...]:
    """The tensors that a program takes, as its file says; without those that no Pinnace can take."""
    ports: list[Port] = []
    for value in graph_inputs(program):
        with suppress(UnsupportedModelError):
            ports.append(port(program.source, value, program.layout))
    return tuple(ports)


def port(model: str, value: ir.Value, layout: Layout = Layout.NCHW) -> Port:
    """What a value is to those who give or take it; UnsupportedModelError where it is no tensor."""
    if not isinstance(value.type, ir.TensorType):
        reason = f"graph input or output {value.name!r} is a {value.type}, and only tensors can be given"
        raise UnsupportedModelError(model, [UnsupportedPrimitive("graph", 1, value.name or "", reason)])
    kind = value.type.dtype
    try:
        dtype = DataType.STRING if kind is ir.DataType.STRING else DataType.from_numpy(kind.numpy())
    except (TypeError, ValueError):
        reason = f"element type {value.type.dtype.name} of {value.name!r} is not supported"
        raise UnsupportedModelError(
            model, [UnsupportedPrimitive("graph", 1, value.name or "", reason)]
        ) from None
    dims = _dims(value)
    nhwc = layout is Layout.NHWC and len(dims) == 4
    return Port(value.name or "", dtype, dims, Format.NHWC if nhwc else Format.NCHW)
