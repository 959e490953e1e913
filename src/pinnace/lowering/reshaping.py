"""Input shapes other than a file's, and checks that the graph supports them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from pinnace.errors import UnsupportedModelError, UnsupportedPrimitive
from pinnace.graph.inference import infer_node, opset_of
from pinnace.graph.nodes import ORIGIN
from pinnace.shapes import Shape

Values = npt.NDArray[np.generic]
_WHOLE = (ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL)
_MAX_KNOWN = 64  # elements of values that are computed here
_UNKNOWN_SIZE = 1 << 48
_BROADCASTING = {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max"}
_BROADCASTING |= {"Min", "Mod", "Mul", "Or", "Pow", "Sub", "Where", "Xor"}

_Dims = list[tuple[int | None, ...] | None]
"""The dimensions of a node's inputs; free dimensions and unknown ranks are None."""


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


def infer_all(model: ir.Model, name: str) -> Mapping[ir.Value, ir.TensorProtocol]:
    """Infer the shapes of all values of a graph, except those in nested graphs.

    Returns the small integers that constants and fixed shapes determine. Raises UnsupportedModelError for the
    first node whose inputs do not fit together.
    """
    opset = opset_of(model)
    known: dict[ir.Value, ir.TensorProtocol] = {}
    for node in model.graph:
        try:
            _infer(node, opset, known)
            _compute(node, known)
            reason = _misfit(node, known)
        except onnx.shape_inference.InferenceError as error:
            reason = str(error).rpartition("] ")[2]
        if reason:
            raise _refusal(name, node, reason)
    return known


def compare(model: ir.Model, before: ir.Model, name: str) -> None:
    """Raise UnsupportedModelError for constants that an exporter took from shapes, and that now mean another.

    Examples are a Reshape that keeps the old batch size while other dimensions grow, and a constant with the
    input's old size to which an input of size 1 is now broadcast. `before` is the graph with those of the
    file.
    """
    infer_all(before, name)
    known = dict(_counted(before))
    for key, node in _counted(model):
        old = known.get(key)
        if old is None or node.domain:
            continue
        reason = _kept(node, old) if node.op_type == "Reshape" else ""
        reason = _stretched(node, old) if node.op_type in _BROADCASTING else reason
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
    sides = [_dims(v) or () for n in (node, old) for v in (n.inputs[0], n.outputs[0])]
    for place, (have, gives, had, gave) in enumerate(zip(*sides, strict=False)):
        if had is None or had != gave:
            break
        if have not in (had, None) and gives == gave:
            return f"the file keeps {gave} for dimension {place}, as in its own input"
    return ""


def _stretched(node: ir.Node, old: ir.Node) -> str:
    now, then = ([(_dims(value) or ())[::-1] for value in n.inputs] for n in (node, old))
    for first, second in combinations(range(min(len(now), len(then))), 2):
        for a, b, c, d in zip(now[first], now[second], then[first], then[second], strict=False):
            if None not in (a, b, c) and c == d and a != b:
                return f"dimensions that were both {c} are now {a} and {b}, so one is broadcast"
    return ""


def _refusal(name: str, node: ir.Node, reason: str) -> UnsupportedModelError:
    given = " and ".join(str(list(shape_of(i))) for i in node.inputs if i is not None)
    row = UnsupportedPrimitive(node.op_type, 1, _name(node), f"{reason}; its inputs are {given}")
    return UnsupportedModelError(name, [row])


def _infer(node: ir.Node, opset: int, known: Mapping[ir.Value, ir.TensorProtocol]) -> None:
    """Infer the shapes of a node's results again, now that more of its inputs is known."""
    before = [output.shape for output in node.outputs]
    for output in node.outputs:
        output.shape = None
    try:
        infer_node(node, opset, known)
    finally:
        for output, shape in zip(node.outputs, before, strict=True):
            found = output.shape
            if found is None or shape is None:
                output.shape = found or shape
            elif len(found) == len(shape):
                pairs = zip(found, shape, strict=True)
                output.shape = ir.Shape([f if isinstance(f, int) else s for f, s in pairs])


def _name(node: ir.Node) -> str:
    """Return the name of a node in the file, or of its result."""
    origins: tuple[str, ...] = node.meta.get(ORIGIN, ())
    return (origins[-1] if origins else node.name) or node.outputs[0].name or ""


def shape_of(value: ir.Value) -> Shape:
    """Return the shape of a value with -1 for free dimensions, (-2,) for an unknown rank."""
    return (-2,) if value.shape is None else tuple(d if isinstance(d, int) else -1 for d in value.shape)


def _compute(node: ir.Node, known: dict[ir.Value, ir.TensorProtocol]) -> None:
    """Compute the output of a node if it is a few integers, as these may become part of a shape."""
    output = node.outputs[0]
    dims = _dims(output)
    whole = output.dtype in _WHOLE and len(node.outputs) == 1 and not node.domain
    if not whole or dims is None or math.prod(_UNKNOWN_SIZE if d is None else d for d in dims) > _MAX_KNOWN:
        return
    if node.op_type == "Shape":
        have = _dims(node.inputs[0])
        part = have and have[node.attributes.get_int("start", 0) : node.attributes.get_int("end", len(have))]
        if part is not None and None not in part:
            known[output] = ir.tensor(np.asarray(part, np.int64))
        return
    given = {i.name or "": _constant(i, known) for i in node.inputs if i is not None}
    if given and all(value is not None for value in given.values()):
        from onnx.reference import ReferenceEvaluator  # takes 25 ms, which only a resize needs

        with suppress(Exception):  # the reference may raise anything; then the value stays unknown
            (result,) = ReferenceEvaluator(ir.serde.serialize_node(node)).run(None, given)
            known[output] = ir.tensor(result)


def _misfit(node: ir.Node, known: Mapping[ir.Value, ir.TensorProtocol]) -> str:
    """Return the reason why inputs do not fit that ONNX's inference accepts; "" if they do."""
    rule = _RULES.get(node.op_type) if not node.domain else None
    if rule is None:
        return ""
    dims = [_dims(value) for value in node.inputs]
    second = _constant(node.inputs[1], known) if len(dims) > 1 else None
    return "" if dims[0] is None else rule(node, dims, second)


def _dims(value: ir.Value | None) -> tuple[int | None, ...] | None:
    if value is None or value.shape is None:
        return None
    return tuple(d if isinstance(d, int) else None for d in value.shape)


def _constant(value: ir.Value | None, known: Mapping[ir.Value, ir.TensorProtocol]) -> Values | None:
    """Return the known elements of a short tensor of integers; else None."""
    if value is None or value.dtype not in _WHOLE:
        return None
    tensor = known.get(value) or ir.convenience.get_const_tensor(value)
    return None if tensor is None or tensor.size > _MAX_KNOWN else tensor.numpy()


def _at(dims: _Dims, index: int, axis: int) -> int | None:
    """Return a dimension of an input; None if it is unknown."""
    found = dims[index] if index < len(dims) else None
    return found[axis] if found is not None and -len(found) <= axis < len(found) else None


def _blocks(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    size = node.attributes.get_int("blocksize", 1)
    parts = {"DepthToSpace": {1: size * size}, "SpaceToDepth": {2: size, 3: size}}[node.op_type]
    uneven = [(have, by) for axis, by in parts.items() if (have := _at(dims, 0, axis)) and have % by]
    return f"{uneven[0][0]} cannot be divided by {uneven[0][1]}" if uneven else ""


def _parts(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    size, count = _at(dims, 0, node.attributes.get_int("axis", 0)), node.attributes.get_int("num_outputs", 1)
    uneven = ORIGIN in node.meta and size is not None and size % count  # ONNX's last part may be smaller
    return f"{size} cannot be divided by {count}" if uneven else ""


def _slopes(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    pairs = zip((dims[0] or ())[::-1], (dims[1] or ())[::-1], strict=False)
    return next((text for a, b in pairs if b != 1 and (text := _differ("slopes differ in number", a, b))), "")


def _differ(what: str, a: int | None, b: int | None) -> str:
    return "" if a is None or b is None or a == b else f"{what}: {a} and {b}"


def _reshape(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    have = dims[0]
    if second is None or have is None or None in have:
        return ""
    keeps = 0 if node.attributes.get_int("allowzero", 0) else len(have)
    want = [have[i] if d == 0 and i < keeps else int(d) for i, d in enumerate(second)]
    size, fixed = math.prod(d or 0 for d in have), math.prod(d for d in want if d is not None and d >= 0)
    fits = size % fixed == 0 if -1 in want and fixed else size == fixed
    return "" if fits else f"the file asks for the shape {second.tolist()}"


def _product(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    a = _at(dims, 0, 0 if node.attributes.get_int("transA", 0) else 1)
    b = _at(dims, 1, 1 if node.attributes.get_int("transB", 0) else 0)
    return _differ("inner dimensions differ", a, b)


def _convolution(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    weights = _at(dims, 1, 1)
    taken = None if weights is None else weights * node.attributes.get_int("group", 1)
    return _differ("channels and those of the weights differ", _at(dims, 0, 1), taken) or (
        _window(node, dims, second)
    )


def _window(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    given, left = dims[0] or (), _dims(node.outputs[0]) or ()
    small = any(d is not None and d < 1 for d in left) and 0 not in given
    return "its window is larger than its input" if small else ""


def _channels(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    return _differ("channels and those of the weights differ", _at(dims, 0, 1), _at(dims, 1, 0))


def _gather_elements(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    axis, have, want = node.attributes.get_int("axis", 0), dims[0] or (), dims[1] or ()
    if len(have) != len(want):
        return ""
    axis %= len(have)
    small = (i for i, (h, w) in enumerate(zip(have, want, strict=True)) if i != axis and h and w and h < w)
    reach = next((f"its indices reach to {want[i]} of {have[i]}" for i in small), "")
    return reach or _gather(node, dims, second)


def _gather_nd(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    have = (dims[0] or ())[node.attributes.get_int("batch_dims", 0) :]
    rows = [] if second is None or not second.ndim else second.reshape(-1, second.shape[-1]).tolist()
    pairs = (pair for row in rows for pair in zip(row, have, strict=False))
    return next((f"it takes index {i} of {size}" for i, size in pairs if size and not -size <= i < size), "")


def _scatter_nd(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    data, indices, updates = (*dims, None, None)[:3]
    if not data or not indices or updates is None or indices[-1] is None:
        return ""
    want = (*indices[:-1], *data[indices[-1] :])
    differ = len(want) != len(updates) or any(_differ("", a, b) for a, b in zip(want, updates, strict=True))
    return "the shapes of indices and updates do not match" if differ else ""


def _gather(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    size = _at(dims, 0, node.attributes.get_int("axis", 0))
    if second is None or size is None:
        return ""
    outside = [i for i in second.ravel().tolist() if not -size <= i < size]
    return f"it takes index {outside[0]} of {size}" if outside else ""


def _recurrent(node: ir.Node, dims: _Dims, second: Values | None) -> str:
    batch = 0 if node.attributes.get_int("layout", 0) else 1
    return _differ("the input's size and that of the weights differ", _at(dims, 0, 2), _at(dims, 1, 2)) or (
        _differ("the batch and that of the first state differ", _at(dims, 0, batch), _at(dims, 5, batch))
    )


_Rule = Callable[[ir.Node, _Dims, Values | None], str]
_RULES: dict[str, _Rule] = {
    "AveragePool": _window,
    "BatchNormalization": _channels,
    "Conv": _convolution,
    "ConvTranspose": _channels,
    "DepthToSpace": _blocks,
    "GRU": _recurrent,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Gemm": _product,
    "GroupNormalization": _channels,
    "InstanceNormalization": _channels,
    "LSTM": _recurrent,
    "LpPool": _window,
    "MaxPool": _window,
    "PRelu": _slopes,
    "RNN": _recurrent,
    "Reshape": _reshape,
    "ScatterND": _scatter_nd,
    "SpaceToDepth": _blocks,
    "Split": _parts,
}
