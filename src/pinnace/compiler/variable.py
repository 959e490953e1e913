"""Weights that are to hold other values than the file's: which there are, and how a graph uses them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from pinnace.errors import ConfigError
from pinnace.program import Program

_NAMED = 5  # wrong names in one message
_SHAPE_LIKE = 64
"""Elements up to which integers may be what a shape is inferred from."""

Weights = Mapping[str, tuple[ir.TensorProtocol, ...]]
"""The weights of a file by the names that they have there; functions may each hold one of the same name."""


@dataclass(frozen=True)
class Variable:
    """A weight that can be exchanged.

    `first` is what the file holds, `names` are those of the graph's initializers for it. `axes` reorders the
    dimensions of a matrix or of a kernel into outputs, inputs, and those of the window; None where its uses
    do not tell, or contradict each other.
    """

    first: ir.TensorProtocol
    names: tuple[str, ...]
    axes: tuple[int, ...] | None


def weights_of(graph: Program | ir.Model) -> Weights:
    """All weights of a model file."""
    found: dict[str, tuple[ir.TensorProtocol, ...]] = {}
    if isinstance(graph, Program):
        for function in graph.functions.values():
            for tensor in function.parameters.values():
                found[tensor.name or ""] = (*found.get(tensor.name or "", ()), tensor)
    else:
        for name, value in graph.graph.initializers.items():
            if value.const_value is not None:
                found[name] = (value.const_value,)
    return found


def modules_of(graph: Program | ir.Model) -> dict[str, str]:
    """Weights by the paths of the modules that they belong to.

    A weight `X.weight` is the module `X`'s. ONNX files that PyTorch wrote have weights of linear layers under
    names of no meaning, but nodes named by their modules: "/X/Y/MatMul" is the module `X.Y`.
    """
    found = {name.removesuffix(".weight"): name for name in weights_of(graph)}
    if isinstance(graph, ir.Model):
        for node in graph.graph:
            if node.op_type in _USES and node.name and node.name.startswith("/") and len(node.inputs) > 1:
                weight = node.inputs[1]
                module = node.name[1:].rpartition("/")[0].replace("/", ".")
                if module and weight is not None and weight.is_initializer() and weight.name:
                    found.setdefault(module, weight.name)
    return found


def chosen(graph: Program | ir.Model, name: str, wanted: Collection[str]) -> Weights:
    """The weights with the names `wanted`; ConfigError, where there are none, names the nearest."""
    there = weights_of(graph)
    unknown = [w for w in wanted if w not in there]
    if unknown:
        lines = [f"  {w!r}{nearest(w, there)}" for w in unknown[:_NAMED]]
        more = f"\n  and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        raise ConfigError(f"{name} has no weights of these names:\n" + "\n".join(lines) + more)
    for wanted_name in wanted:
        kinds = {(t.dtype, tuple(t.shape.numpy())) for t in there[wanted_name]}
        dtype, shape = next(iter(kinds))
        if len(kinds) > 1 or dtype is ir.DataType.STRING or dtype.bitwidth < 8 or not math.prod(shape):
            what = (
                "functions of the model hold different ones"
                if len(kinds) > 1
                else f"it is {dtype.name}{list(shape)}"
            )
            raise ConfigError(f"{name}: {wanted_name!r} cannot be exchanged: {what}")
        if isinstance(graph, Program) and not dtype.is_floating_point() and math.prod(shape) <= _SHAPE_LIKE:
            what = f"{wanted_name!r} cannot be exchanged: few integers may be a shape, which is fixed"
            raise ConfigError(f"{name}: {what}")
    return {w: there[w] for w in wanted}


def nearest(name: str, known: Iterable[str]) -> str:
    """The names most like one that is not known, for the end of a message."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"; the nearest are {', '.join(map(repr, near))}" if near else ""


def variables(model: ir.Model, source: str, weights: Weights) -> dict[str, Variable]:
    """Where weights are in the graph that was made of them.

    ConfigError for one that the model assigns to itself: that is no weight but the model's state.
    """
    places: dict[int, list[ir.Value]] = {}
    for value in (*model.graph.initializers.values(), *model.graph.inputs):
        if value.const_value is not None:
            places.setdefault(id(value.const_value), []).append(value)
    found = {}
    for name, tensors in weights.items():
        values = list(dict.fromkeys(v for t in tensors for v in places.get(id(t), ())))
        if any(v.name not in model.graph.initializers for v in values):
            raise ConfigError(f"{source}: {name!r} cannot be exchanged: the model assigns to it, it is state")
        ways = {axes for v in values for axes in _axes(v, tuple(range(len(tensors[0].shape))))}
        found[name] = Variable(
            tensors[0], tuple(v.name or "" for v in values), ways.pop() if len(ways) == 1 else None
        )
    return found


_USES = ("Conv", "Gemm", "MatMul")


def _axes(value: ir.Value, axes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """For each use of a weight its `Variable.axes`; dimension i of `value` is its dimension axes[i]."""
    for use in value.uses():
        node, flipped = use.node, axes[::-1]
        match node.op_type, use.idx:
            case ("Identity" | "Cast", _):
                yield from _axes(node.outputs[0], axes)
            case ("Transpose", _):
                given = node.attributes.get("perm")
                order = range(len(axes))[::-1] if given is None else given.as_ints()
                yield from _axes(node.outputs[0], tuple(axes[p] for p in order))
            case ("Conv", 1):
                yield axes
            case ("MatMul", 1) if len(axes) == 2:
                yield flipped
            case ("MatMul", 0) if len(axes) == 2:
                yield axes
            case ("Gemm", 0 | 1):
                key = "transB" if use.idx else "transA"
                transposed = key in node.attributes and node.attributes[key].as_int() == 1
                yield axes if transposed is bool(use.idx) else flipped
            case _:
                pass
