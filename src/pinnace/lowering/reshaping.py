"""Input shapes other than a file's, and checks that the graph supports them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import combinations

import onnx_ir as ir

from pinnace.errors import UnfitShapesError, UnsupportedPrimitive
from pinnace.graph import shape_data
from pinnace.graph.inference import InferenceError, opset_of, refine
from pinnace.graph.nodes import ORIGIN
from pinnace.graph.shape_data import dims_of
from pinnace.graph.traits import Trait, having
from pinnace.shapes import Shape

_BROADCASTING = having(Trait.BROADCASTING)


def reshape(values: Sequence[ir.Value], shapes: Sequence[Shape]) -> None:
    """Set the shapes of values; (-2,) is an unknown rank."""
    for value, shape in zip(values, shapes, strict=True):
        value.shape = None if shape == (-2,) else ir.Shape([None if d < 0 else d for d in shape])


def loosen(graph: ir.Graph) -> None:
    """Reduce the declared shapes of inputs and outputs of nested graphs to their ranks."""
    for nested in graph.subgraphs():
        for value in (*nested.inputs, *nested.outputs):
            if value.shape is not None:
                value.shape = ir.Shape([None] * len(value.shape))


def infer_all(model: ir.Model, name: str) -> None:
    """Infer the shapes of all values of a graph, except those in nested graphs.

    Raises UnfitShapesError for the first node whose inputs do not fit together.
    """
    opset = opset_of(model)
    for node in model.graph:
        try:
            refine(node, opset)
            check = None if node.domain or not node.inputs else _MISFITS.get(node.op_type)
            reason = check(node) if check is not None else ""
        except InferenceError as error:
            reason = str(error).rpartition("] ")[2]
        if reason:
            raise _refusal(name, node, reason)


def compare(model: ir.Model, before: ir.Model, name: str) -> None:
    """Raise UnfitShapesError for constants that an exporter took from shapes, and that now mean another.

    Examples are a Reshape that keeps the old batch size while other dimensions grow, and a constant with the
    input's old size to which an input of size 1 is now broadcast. `before` is the graph with those of the
    file.
    """
    infer_all(before, name)
    old = dict(_counted(before))
    for key, node in _counted(model):
        if key not in old or node.domain:
            continue
        reason = _kept(node, old[key]) if node.op_type == "Reshape" else ""
        reason = _stretched(node, old[key]) if node.op_type in _BROADCASTING else reason
        if reason:
            raise _refusal(name, node, reason)


def _counted(model: ir.Model) -> Iterator[tuple[Hashable, ir.Node]]:
    """Yield nodes with a key of their origin, which is the same for all input shapes."""
    count: Counter[Hashable] = Counter()
    for node in model.graph:
        key = (node.meta.get(ORIGIN), node.op_type)
        count[key] += 1
        yield (key, count[key]), node


def _kept(node: ir.Node, old: ir.Node) -> str:
    sides = [dims_of(v) or () for n in (node, old) for v in (n.inputs[0], n.outputs[0])]
    for place, (have, gives, had, gave) in enumerate(zip(*sides, strict=False)):
        if had is None or had != gave:
            break
        if have not in (had, None) and gives == gave:
            return f"the file keeps {gave} for dimension {place}, as in its own input"
    return ""


def _stretched(node: ir.Node, old: ir.Node) -> str:
    now, then = ([(dims_of(value) or ())[::-1] for value in n.inputs] for n in (node, old))
    for first, second in combinations(range(min(len(now), len(then))), 2):
        for a, b, c, d in zip(now[first], now[second], then[first], then[second], strict=False):
            if None not in (a, b, c) and c == d and a != b:
                return f"dimensions that were both {c} are now {a} and {b}, so one is broadcast"
    return ""


def _refusal(name: str, node: ir.Node, reason: str) -> UnfitShapesError:
    given = " and ".join(str(list(shape_of(i))) for i in node.inputs if i is not None)
    origins: tuple[str, ...] = node.meta.get(ORIGIN, ())
    title = (origins[-1] if origins else node.name) or node.outputs[0].name or ""
    row = UnsupportedPrimitive(node.op_type, 1, title, f"{reason}; its inputs are {given}")
    return UnfitShapesError(name, [row])


def shape_of(value: ir.Value) -> Shape:
    """Return the shape of a value with -1 for free dimensions, (-2,) for an unknown rank."""
    dims = dims_of(value)
    return (-2,) if dims is None else tuple(-1 if d is None else d for d in dims)


# -- inputs that do not fit together, and that ONNX's inference accepts -------------------------------


def _dim(node: ir.Node, place: int, axis: int) -> int | None:
    """Return a dimension of an input; None if it is unknown."""
    found = dims_of(node.inputs[place]) if place < len(node.inputs) else None
    return found[axis] if found is not None and -len(found) <= axis < len(found) else None


def _differ(what: str, a: int | None, b: int | None) -> str:
    return "" if a is None or b is None or a == b else f"{what}: {a} and {b}"


def _channels(node: ir.Node) -> str:
    return _differ("channels and those of the weights differ", _dim(node, 0, 1), _dim(node, 1, 0))


def _convolution(node: ir.Node) -> str:
    weights, groups = _dim(node, 1, 1), node.attributes.get_int("group", 1)
    taken = None if weights is None else weights * groups
    return _differ("channels and those of the weights differ", _dim(node, 0, 1), taken) or _window(node)


def _window(node: ir.Node) -> str:
    left = dims_of(node.outputs[0]) or ()
    small = any(d is not None and d < 1 for d in left) and 0 not in (dims_of(node.inputs[0]) or ())
    return "its window is larger than its input" if small else ""


def _parts(node: ir.Node) -> str:
    size, count = _dim(node, 0, node.attributes.get_int("axis", 0)), node.attributes.get_int("num_outputs", 1)
    uneven = ORIGIN in node.meta and size is not None and size % count  # ONNX's last part may be smaller
    return f"{size} cannot be divided by {count}" if uneven else ""


def _slopes(node: ir.Node) -> str:
    pairs = zip(*((dims_of(x) or ())[::-1] for x in node.inputs[:2]), strict=False)
    return next((text for a, b in pairs if b != 1 and (text := _differ("slopes differ in number", a, b))), "")


def _reshape(node: ir.Node) -> str:
    have, wanted = dims_of(node.inputs[0]), shape_data.exact(node.inputs[-1])
    if len(node.inputs) < 2 or wanted is None or have is None or None in have:
        return ""
    keeps = 0 if node.attributes.get_int("allowzero", 0) else len(have)
    want = [have[i] if d == 0 and i < keeps else int(d) for i, d in enumerate(wanted)]
    size, fixed = math.prod(d or 0 for d in have), math.prod(d for d in want if d is not None and d >= 0)
    fits = size % fixed == 0 if -1 in want and fixed else size == fixed
    return "" if fits else f"the file asks for the shape {wanted.tolist()}"


def _gather(node: ir.Node) -> str:
    size, indices = _dim(node, 0, node.attributes.get_int("axis", 0)), shape_data.exact(node.inputs[-1])
    if size is None or indices is None:
        return ""
    outside = [i for i in indices.ravel() if not -size <= i < size]
    return f"it takes index {outside[0]} of {size}" if outside else ""


def _recurrent(node: ir.Node) -> str:
    return _differ("the input's size and that of the weights differ", _dim(node, 0, 2), _dim(node, 1, 2))


_MISFITS: dict[str, Callable[[ir.Node], str]] = {
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _window),
    **dict.fromkeys(("ConvTranspose", "GroupNormalization", "InstanceNormalization"), _channels),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    "Conv": _convolution,
    "Gather": _gather,
    "PRelu": _slopes,
    "Reshape": _reshape,
    "Split": _parts,
}
"""Functions that return the reason, "" for inputs that fit."""
