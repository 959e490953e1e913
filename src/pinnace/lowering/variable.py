"""Exchangeable weights: their names in a file, and their places in the graph."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import onnx_ir as ir

from pinnace.errors import ConfigError
from pinnace.program import Program

HELD_BACK = "pinnace.held_back"
"""Metadata key of a model whose graph would be another if its exchangeable weights were not."""

_MAX_NAMED = 5  # unknown names in one message
_SHAPE_LIKE = 64
"""Elements up to which integers may determine a shape."""

Weights = Mapping[str, tuple[ir.TensorProtocol, ...]]
"""The weights of a file by name; several functions may have one of the same name."""


class Variable(NamedTuple):
    """An exchangeable weight.

    `first` is its value in the file, `names` are those of its initializers in the graph. `axes` permutes the
    dimensions of a matrix or kernel to outputs, inputs, window; None if its uses give no or several answers.
    """

    first: ir.TensorProtocol
    names: tuple[str, ...]
    axes: tuple[int, ...] | None


def weights_of(graph: Program | ir.Model) -> Weights:
    """Return all weights of a model file."""
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
    """Return the names of weights by the paths of their modules.

    A weight `X.weight` belongs to module `X`. In ONNX files of PyTorch, weights of linear layers have
    generated names, but nodes are named by their modules: "/X/Y/MatMul" belongs to `X.Y`.
    """
    found = {name.removesuffix(".weight"): name for name in weights_of(graph)}
    if isinstance(graph, ir.Model):
        for node in graph.graph:
            if node.op_type in _USES and (node.name or "").startswith("/") and len(node.inputs) > 1:
                weight = node.inputs[1]
                if weight is not None and weight.is_initializer():
                    module = (node.name or "")[1:].rpartition("/")[0].replace("/", ".")
                    found.setdefault(module, weight.name or "")
    return found


def chosen(graph: Program | ir.Model, name: str, wanted: Collection[str]) -> Weights:
    """Return the weights `wanted`. Raises ConfigError for unknown names and unsuitable weights."""
    if not wanted:
        return {}  # weights that nothing reads are not even decoded
    known = weights_of(graph)
    unknown = [w for w in wanted if w not in known]
    if unknown:
        near = {w: nearest(w, known).removeprefix("; ") for w in unknown[:_MAX_NAMED]}
        lines = [f"{w!r} ({found})" if found else repr(w) for w, found in near.items()]
        more = f", and {len(unknown) - _MAX_NAMED} more" if len(unknown) > _MAX_NAMED else ""
        raise ConfigError(f"{name} has no weights of these names: {', '.join(lines)}{more}")
    for wanted_name in wanted:
        reason = _unsuitable(graph, known[wanted_name])
        if reason:
            raise ConfigError(f"{name}: {wanted_name!r} cannot be exchanged: {reason}")
    return {w: known[w] for w in wanted}


def exchangeable(graph: Program | ir.Model) -> Weights:
    """Return the weights that `chosen` takes."""
    return {name: tensors for name, tensors in weights_of(graph).items() if not _unsuitable(graph, tensors)}


def _unsuitable(graph: Program | ir.Model, tensors: Sequence[ir.TensorProtocol]) -> str:
    """Return why a weight cannot be exchanged, "" if it can."""
    kinds = {(t.dtype, tuple(t.shape.numpy())) for t in tensors}
    if len(kinds) > 1:
        return "functions of the model have different ones"
    ((dtype, shape),) = kinds
    if dtype is ir.DataType.STRING or dtype.bitwidth < 8 or not math.prod(shape):
        return f"it is {dtype.name}{list(shape)}"
    if isinstance(graph, Program) and not dtype.is_floating_point() and math.prod(shape) <= _SHAPE_LIKE:
        return "so few integers may be a shape, which is fixed"
    return ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that names those most similar to an unknown name."""
    import difflib  # only errors need it

    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"; the nearest are {', '.join(map(repr, near))}" if near else ""


def variables(model: ir.Model, source: str, weights: Weights) -> dict[str, Variable]:
    """Return the exchangeable weights of a graph.

    Raises ConfigError for one that the model assigns, which is not a weight but state of the model.
    """
    places: dict[int, list[ir.Value]] = {}
    for value in (*model.graph.initializers.values(), *model.graph.inputs):
        if value.const_value is not None:
            places.setdefault(id(value.const_value), []).append(value)
    found = {}
    for name, tensors in weights.items():
        values = list(dict.fromkeys(v for t in tensors for v in places.get(id(t), ())))
        if any(v.name not in model.graph.initializers for v in values):
            raise ConfigError(f"{source}: {name!r} cannot be exchanged: the model assigns to it")
        axes = {found_axes for v in values for found_axes in _axes(v, tuple(range(len(tensors[0].shape))))}
        names = tuple(v.name or "" for v in values)
        found[name] = Variable(tensors[0], names, axes.pop() if len(axes) == 1 else None)
    return found


_USES = ("Conv", "Gemm", "MatMul")


def _axes(value: ir.Value, axes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield `Variable.axes` for each use of a weight; dimension i of `value` is its dimension axes[i]."""
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
