"""The work of a graph: what its nodes compute, in classes whose speed a machine's profile has.

Sizes are those of the graph, as far as they are known; free dimensions count as 1 (the first of a tensor) or 128.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from pinnace.compiler.nodes import inner_graphs

Shape = tuple[int, ...]

_FREE = 128
_MOST_KNOWN = 64
"""Elements of the largest constant whose values are shapes, axes or sizes."""


class Work(NamedTuple):
    """The work of one node: multiplications of a product or convolution, else bytes read and written.

    `size` is what its speed depends on beside its class: channels and pixels of a convolution, rows and inner
    dimension of a product and the `weights` of all products, elements of other nodes.
    """

    kind: str
    amount: float
    size: tuple[float, ...]
    weights: int = 0


def works(graph: ir.Graph) -> list[Work]:
    """Return the work of all nodes of a graph; nodes that engines fuse with the one before have none."""
    found = list(_Sizes().works(graph))
    weights = sum(work.weights for work in found)
    return [work._replace(size=(*work.size, float(weights))) if work.weights else work for work in found]


class _Sizes:
    """Shapes of values, by rules that are exact enough to count operations."""

    def __init__(self) -> None:
        self._shapes: dict[ir.Value, Shape] = {}

    def works(self, graph: ir.Graph) -> Iterator[Work]:
        """Yield the work of the nodes in order, after their nested graphs."""
        for node in graph:
            for inner in inner_graphs(node):
                yield from self.works(inner)
            given = [self.of(value) for value in node.inputs if value is not None]
            taken = self._results(node, given)
            work = _work(node, given, taken)
            if work is not None:
                yield work

    def of(self, value: ir.Value) -> Shape:
        """Return the shape of a value; () if it is unknown."""
        found = self._shapes.get(value)
        if found is None:
            constant = value.const_value
            dims = value.shape if constant is None else constant.shape
            found = () if dims is None else _sizes(dims)
            self._shapes[value] = found
        return found

    def _results(self, node: ir.Node, given: Sequence[Shape]) -> list[Shape]:
        found = []
        for value in node.outputs:
            shape = None if value.shape is None else _sizes(value.shape)
            if shape is None:
                rule = _RULES.get(node.op_type, _same)
                try:
                    shape = rule(node, given)
                except (ValueError, IndexError, TypeError, KeyError):  # the graph is wrong, or not constant enough
                    shape = given[0] if given else ()
            self._shapes[value] = shape
            found.append(shape)
        return found


def _sizes(shape: ir.Shape | Sequence[object]) -> Shape:
    return tuple(d if isinstance(d, int) else _FREE if place else 1 for place, d in enumerate(shape))


def _ints(node: ir.Node, name: str, place: int = -1) -> list[int] | None:
    """Return the ints of an attribute, or of a constant input."""
    if name in node.attributes:
        value = node.attributes[name]
        return [value.as_int()] if value.type is ir.AttributeType.INT else list(value.as_ints())
    if 0 <= place < len(node.inputs) and node.inputs[place] is not None:
        known = ir.convenience.get_const_tensor(node.inputs[place])
        if known is not None and known.size <= _MOST_KNOWN:
            return [int(one) for one in known.numpy().reshape(-1)]
    return None


def _same(node: ir.Node, given: Sequence[Shape]) -> Shape:
    return max(given, key=lambda shape: (len(shape), math.prod(shape))) if node.op_type in ELEMENTWISE else given[0]


def _windows(node: ir.Node, given: Sequence[Shape]) -> Shape:
    """Return the shape of a convolution or pool."""
    x = given[0]
    kernel = _ints(node, "kernel_shape") or list(given[1][2:])
    count = len(kernel)
    strides, dilations = _ints(node, "strides") or [1] * count, _ints(node, "dilations") or [1] * count
    pads = _ints(node, "pads") or [0] * 2 * count
    same = node.attributes.get_string("auto_pad", "NOTSET").startswith("SAME")
    channels = given[1][0] if node.op_type.startswith("Conv") else x[1]
    places = range(count)
    if node.op_type == "ConvTranspose":
        channels = given[1][1] * node.attributes.get_int("group", 1)
        return x[0], channels, *((x[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + count] for i in places)
    if same:
        return x[0], channels, *(-(-x[2 + i] // strides[i]) for i in places)
    spans = [(kernel[i] - 1) * dilations[i] + 1 for i in places]
    return x[0], channels, *((x[2 + i] + pads[i] + pads[i + count] - spans[i]) // strides[i] + 1 for i in places)


def _product(node: ir.Node, given: Sequence[Shape]) -> Shape:
    left, right = given[:2]
    if node.op_type == "Gemm":
        rows = left[1 if node.attributes.get_int("transA", 0) else 0]
        return rows, right[0 if node.attributes.get_int("transB", 0) else 1]
    return *np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1]


def _reshaped(node: ir.Node, given: Sequence[Shape]) -> Shape:
    wanted = _ints(node, "shape", 1)
    if wanted is None:
        return given[0]
    dims = [given[0][i] if d == 0 else d for i, d in enumerate(wanted)]
    rest = math.prod(d for d in dims if d > 0)
    return tuple(math.prod(given[0]) // max(rest, 1) if d < 0 else d for d in dims)


def _gathered(node: ir.Node, given: Sequence[Shape]) -> Shape:
    axis = node.attributes.get_int("axis", 0) % len(given[0])
    return *given[0][:axis], *given[1], *given[0][axis + 1 :]


def _joined(node: ir.Node, given: Sequence[Shape]) -> Shape:
    axis = node.attributes.get_int("axis", 0) % len(given[0])
    return *given[0][:axis], sum(shape[axis] for shape in given), *given[0][axis + 1 :]


def _split(node: ir.Node, given: Sequence[Shape]) -> Shape:
    axis = node.attributes.get_int("axis", 0) % len(given[0])
    return *given[0][:axis], given[0][axis] // len(node.outputs), *given[0][axis + 1 :]


def _sliced(node: ir.Node, given: Sequence[Shape]) -> Shape:
    dims = list(given[0])
    starts, ends = _ints(node, "starts", 1), _ints(node, "ends", 2)
    if starts is None or ends is None:
        return given[0]
    axes, steps = _ints(node, "axes", 3) or range(len(starts)), _ints(node, "steps", 4) or [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        dims[axis] = len(range(*slice(start, end, step).indices(dims[axis])))
    return tuple(dims)


def _reduced(node: ir.Node, given: Sequence[Shape]) -> Shape:
    rank = len(given[0])
    axes = {axis % rank for axis in _ints(node, "axes", 1) or range(rank)}
    kept = node.attributes.get_int("keepdims", 1)
    return tuple(1 if i in axes else d for i, d in enumerate(given[0]) if kept or i not in axes)


def _squeezed(node: ir.Node, given: Sequence[Shape]) -> Shape:
    axes = _ints(node, "axes", 1)
    rank = len(given[0])
    gone = [i for i, d in enumerate(given[0]) if d == 1] if axes is None else [a % rank for a in axes]
    return tuple(d for i, d in enumerate(given[0]) if i not in gone)


def _unsqueezed(node: ir.Node, given: Sequence[Shape]) -> Shape:
    axes, dims = _ints(node, "axes", 1) or [], list(given[0])
    for axis in sorted(a % (len(dims) + len(axes)) for a in axes):
        dims.insert(axis, 1)
    return tuple(dims)


def _resized(node: ir.Node, given: Sequence[Shape]) -> Shape:
    sizes = _ints(node, "sizes", 3)
    if sizes and len(sizes) == len(given[0]):
        return tuple(sizes)
    place = 1 if node.op_type == "Upsample" else 2
    known = ir.convenience.get_const_tensor(node.inputs[place]) if len(node.inputs) > place else None
    scales = [2.0 if i > 1 else 1.0 for i in range(len(given[0]))] if known is None else known.numpy().tolist()
    return tuple(int(d * s) for d, s in zip(given[0], scales, strict=True))


def _expanded(node: ir.Node, given: Sequence[Shape]) -> Shape:
    return np.broadcast_shapes(given[0], tuple(_ints(node, "shape", 1) or ()))


def _flat(node: ir.Node, given: Sequence[Shape]) -> Shape:
    axis = node.attributes.get_int("axis", 1)
    return math.prod(given[0][:axis]), math.prod(given[0][axis:])


_RULES: Mapping[str, Callable[[ir.Node, Sequence[Shape]], Shape]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "MaxPool", "AveragePool"), _windows),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), lambda _, given: (*given[0][:2], *(1 for _ in given[0][2:]))),
    **dict.fromkeys(("MatMul", "Gemm"), _product),
    **dict.fromkeys(("Resize", "Upsample"), _resized),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceL2", "ReduceSumSquare"), _reduced),
    "Concat": _joined,
    "Expand": _expanded,
    "Flatten": _flat,
    "Gather": _gathered,
    "Reshape": _reshaped,
    "Shape": lambda _, given: (len(given[0]),),
    "Slice": _sliced,
    "Split": _split,
    "Squeeze": _squeezed,
    "Transpose": lambda node, given: tuple(
        given[0][i] for i in _ints(node, "perm") or reversed(range(len(given[0])))
    ),
    "Unsqueeze": _unsqueezed,
}
"""Shapes of results by operator; other results have the shape of the first input."""

_SIMPLE = "Abs Add And Ceil Clip Div Equal Floor Greater LeakyRelu Less Max Min Mul Neg Not Or PRelu Relu Sub Where"
_FUNCTIONS = "Elu Erf Exp Gelu HardSigmoid HardSwish Log Mish Pow Reciprocal Sigmoid Softplus Sqrt Swish Tanh"
ELEMENTWISE = frozenset((_SIMPLE + " " + _FUNCTIONS).split())
_NOTHING = frozenset("BatchNormalization Constant Dropout Identity".split())
_VIEWS = frozenset("Flatten Reshape Shape Squeeze Unsqueeze".split())
_PRODUCTS = frozenset("BatchNormalization Conv ConvTranspose Gemm MatMul".split())
_KINDS = {
    **dict.fromkeys(_SIMPLE.split(), "elementwise"),
    **dict.fromkeys(_FUNCTIONS.split(), "function"),
    **dict.fromkeys("LayerNormalization RMSNormalization GroupNormalization InstanceNormalization".split(), "norm"),
    **dict.fromkeys("Softmax LogSoftmax".split(), "softmax"),
    **dict.fromkeys("MaxPool AveragePool".split(), "pool"),
    **dict.fromkeys("GRU LSTM RNN".split(), "recurrent"),
    **dict.fromkeys([op for op in _RULES if op.startswith(("Reduce", "Global"))], "reduction"),
}


def _work(node: ir.Node, given: Sequence[Shape], taken: Sequence[Shape]) -> Work | None:
    kind = node.op_type
    if kind in _NOTHING or not given or not taken or _is_fused(node):
        return None
    if kind in _VIEWS:
        return Work("view", 0.0, ())
    if kind.startswith("Conv"):
        return _convolution(given, taken[0], node.attributes.get_int("group", 1))
    if kind in ("MatMul", "Gemm"):
        return _matrices(node, given, taken[0])
    moved = float(sum(map(math.prod, taken)) + max(map(math.prod, given)))
    return Work(_KINDS.get(kind, "move"), moved, (moved,))


def _is_fused(node: ir.Node) -> bool:
    """Return True for an elementwise node that engines compute with the one before."""
    if node.op_type not in ELEMENTWISE:
        return False
    makers = [value.producer() for value in node.inputs if value is not None]
    before = [one for one in makers if one is not None]
    fused = any(one.op_type in _PRODUCTS or one.op_type in ELEMENTWISE for one in before)
    return fused and _KINDS[node.op_type] == "elementwise"


def _convolution(given: Sequence[Shape], taken: Shape, group: int) -> Work:
    kernel = given[1]
    inner = math.prod(kernel[1:])
    amount = float(math.prod(taken) * inner)
    size = float(min(kernel[0], kernel[1] * group)), float(math.prod(taken[2:]))
    if len(kernel) == 5:
        kind = "volume"
    elif group > 1:
        kind = "grouped" if kernel[1] > 1 else "depthwise" if kernel[0] % 16 == 0 else "unblocked"
    else:
        kind = "pointwise" if math.prod(kernel[2:]) == 1 else "conv"
    return Work(kind, amount, size)


def _matrices(node: ir.Node, given: Sequence[Shape], taken: Shape) -> Work:
    inner = given[0][-1] if node.op_type == "MatMul" else math.prod(given[1]) // max(taken[-1], 1)
    amount, rows = float(math.prod(taken) * inner), math.prod(taken[:-1])
    right = node.inputs[1]
    if right is None or ir.convenience.get_const_tensor(right) is None:
        return Work("attention", amount, (float(taken[-2] if len(taken) > 1 else 1), float(inner)))
    weights = inner * taken[-1]
    if rows <= 4:
        return Work("vector", float(weights), (), weights)
    return Work("product", amount, (float(rows), float(min(inner, taken[-1]))), weights)
