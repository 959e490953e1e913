"""Guards against graphs for which onnxruntime ends the process, where no Python can catch it (seen in 1.31).

* Attributes that kernels divide by: a ConvTranspose of group 0, or a DepthToSpace of blocksize 1 << 32, is a
  SIGFPE when the session is built. `check_divisors` refuses them.
* Integer division of the least number by -1, whose quotient overflows: some processors raise SIGFPE. If
  the divisor is -1, the negative is divided by 1.
* Pools in blocks of channels (NchwcTransformer) divide by zero if an image is one smaller than the window. A
  Reshape to the same shape before such a pool keeps it out of the blocks; the convolutions keep theirs.
* STFT with a step or a length of 0 or less.
* Operators that are not known to be right without elements (`engines.elements`). Where elements may be
  lacking inside of a model although its inputs have them, Reshapes that copy nothing raise an error before
  the operator runs: with -1 for one dimension, the others must not be 0.
* Concat takes inputs without elements of any shape, counts their sizes, and returns memory that nobody wrote
  in their place (seen in 1.32). So a Reshape after it fails if the result has more elements than the inputs.
  If another input has elements, and in models with a cache, which begins without elements, a cheaper Reshape
  of the input fails if another dimension than the joined one is 0; likewise of the past of an Attention.
* Pools with dilations and auto_pad end nothing, but forget the dilations (seen in 1.32). `check_dilations`
  refuses them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx_ir as ir

from pinnace.engines.elements import GUARDED, maybe_empty
from pinnace.engines.nonempty import SELECTING, NonEmpty, is_fixed, windows_may_exceed
from pinnace.errors import EngineError
from pinnace.graph.builder import Builder
from pinnace.graph.constants import array
from pinnace.graph.editor import Editor, remove_unread, replace_value
from pinnace.graph.failures import Unsupported
from pinnace.graph.nodes import origins
from pinnace.graph.walk import nodes
from pinnace.graph.windows import windows

_DIVISORS = {"block_size", "blocksize", "dilations", "group", "groups", "kernel_shape", "kv_num_heads"}
_DIVISORS |= {"num_groups", "num_heads", "num_outputs", "q_num_heads", "strides"}
_MAX_SIZE = 1 << 31
_POOLS = ("AveragePool", "LpPool", "MaxPool")

ENGINE = "onnxruntime"


def check_divisors(model: ir.Model, name: str) -> None:
    """Raise EngineError if an attribute that must be at least 1 is not, or overflows when it is squared."""
    for node in nodes(model.graph):
        for key in _DIVISORS.intersection(node.attributes):
            value = node.attributes[key].value
            numbers = [value] if isinstance(value, int) else value
            if isinstance(numbers, list | tuple) and not all(0 < n < _MAX_SIZE for n in numbers):
                what = f"node {origins(node)[0]!r} ({node.op_type}) has {key} {value}, which is no size"
                raise EngineError(f"{name}: {what}")


def check_dilations(model: ir.Model, name: str) -> None:
    """Raise EngineError if a pool has dilations and auto_pad, which lets kernels forget the dilations.

    Rules have written pads where these are known and small, and nobody reads places of a MaxPool.
    """
    for node in nodes(model.graph):
        same = node.op_type in _POOLS and node.attributes.get_string("auto_pad", "").startswith("SAME")
        if same and max(node.attributes.get_ints("dilations", (1,))) > 1:
            what = f"node {origins(node)[0]!r} ({node.op_type}) has auto_pad and dilations"
            remedy = "use fixed sizes, and dilations of at most 2"
            raise EngineError(f"{name}: {what}, for which onnxruntime's result has another shape: {remedy}")


def guard(model: ir.Model, on_cpu: bool = True) -> None:
    """Insert the guards before the nodes of a model and of its nested graphs that may need them."""
    b = Editor(model, "%guard")
    own = _GUARDS if on_cpu else {}
    for node in list(nodes(model.graph)):
        guarded = (_OF_FOREIGN if node.domain else own).get(node.op_type)
        if guarded is None or not node.inputs or node.inputs[0] is None:
            continue
        for place, value in guarded(b, node).items():
            node.replace_input_with(place, value)
        _insert(b, node)
    if on_cpu:
        guard_elements(b)
    b.finish()


_Inputs = Mapping[int, ir.Value]
"""The inputs of a node to replace, by position."""


def _division(b: Builder, node: ir.Node) -> _Inputs:
    x, y = (*node.inputs, None)[:2]
    if x is None or y is None or not _may_be_minus_one(b, y):
        return {}
    overflows = b.op("Equal", y, b.like(-1, y))
    divisor = {1: _chosen(b, overflows, b.like(1, y), y)}
    if node.op_type == "Mod":  # the remainder is 0 by either divisor
        return divisor
    return {0: _chosen(b, overflows, b.op("Neg", x), x), **divisor}


def _chosen(b: Builder, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return integers `x` where the condition holds, `y` elsewhere."""
    if b.opset >= 9:
        return b.op("Where", condition, x, y)
    chosen = b.op("Cast", condition, to=b.dtype(y).value)
    return b.op("Add", y, b.op("Mul", chosen, b.op("Sub", x, y)))


def _may_be_minus_one(b: Builder, divisor: ir.Value) -> bool:
    known = array(divisor)
    if known is not None and known.dtype.kind in "iu":
        return bool((known == -1).any())
    try:
        kind = b.dtype(divisor)
    except Unsupported:
        return False
    return kind.is_integer() and kind.is_signed() and not _is_size(divisor)


def _is_size(divisor: ir.Value) -> bool:
    """Return True if it is of a Shape, which contains no -1 unless it is cast to fewer than 64 bits."""
    node = divisor.producer()
    while node is not None and not node.domain and node.op_type in SELECTING:
        divisor = node.inputs[0] or divisor
        node = divisor.producer()
    return node is not None and not node.domain and node.op_type in ("Shape", "Size")


def _pool(b: Builder, node: ir.Node) -> _Inputs:
    x = node.inputs[0]
    return {0: b.op("Reshape", x, b.op("Shape", x))} if windows_may_exceed(b, node) else {}


def _required(b: Builder, x: ir.Value, condition: ir.Value) -> ir.Value:
    """Return `x`, which has at least one dimension, by a Reshape that fails unless the condition is true."""
    grown = b.op("Cast", b.op("Not", condition), to=ir.DataType.INT64.value)
    return b.op("Reshape", x, b.op("Add", b.op("Shape", x), grown))


def _size(b: Builder, x: ir.Value, *axes: int) -> ir.Value:
    return b.op("Gather", b.op("Shape", x), list(axes))


def _positive(b: Builder, x: ir.Value) -> ir.Value:
    least = b.op("ReduceMin", b.op("Cast", x, to=ir.DataType.INT64.value), keepdims=0)
    return b.op("Greater", least, b.constant(0, np.int64))


def _frames(b: Builder, node: ir.Node) -> _Inputs:
    """The kernel divides by the step between frames, and computes none of no length."""
    signal, *counts = (node.inputs[place] for place in (0, 1, 3) if place < len(node.inputs))
    free = [x for x in counts if x is not None and not _is_positive(x)]
    if signal is None or not free:
        return {}
    for x in free:
        signal = _required(b, signal, _positive(b, x))
    return {0: signal}


def _is_positive(x: ir.Value) -> bool:
    known = array(x)
    return known is not None and known.dtype.kind in "iu" and bool((known > 0).all())


def _attention(b: Builder, node: ir.Node) -> _Inputs:
    """The kernel takes a past value for as wide as the value."""
    inputs = (*node.inputs, *[None] * 8)
    value, past_key, past_value = inputs[2], inputs[6], inputs[7]
    if value is None or past_key is None or past_value is None:
        return {}
    flat = b.op("Reshape", value, [0, 0, -1])
    width = b.op("Div", _size(b, flat, 2), [node.attributes.get_int("num_heads", 1)])
    shape = b.op("Concat", _size(b, past_key, 0, 1, 2), width, axis=0)
    return {2: flat, 7: b.op("Reshape", past_value, shape)}


def _grouped_attention(b: Builder, node: ir.Node) -> _Inputs:
    """The kernel takes a bias for as long as `seqlens_k` says."""
    given, total = node.inputs[5:7]
    if given is None or total is None:
        return {}
    lengths, total = (b.op("Cast", x, to=ir.DataType.INT64.value) for x in (given, total))
    most = b.op("Greater", b.op("ReduceMax", total, keepdims=0), b.op("ReduceMax", lengths, keepdims=0))
    least = b.op("Greater", b.op("ReduceMin", lengths, keepdims=0), b.constant(-1, np.int64))
    return {5: _required(b, given, b.op("And", least, most))}


def _rotary(b: Builder, node: ir.Node) -> _Inputs:
    """The kernel leaves what is beyond the last whole head as the memory was."""
    x, cosine = node.inputs[0], node.inputs[2 if node.domain else 1]
    if x is None or cosine is None or node.attributes.get_int("rotary_embedding_dim", 0) > 0:
        return {}
    rest = b.op("Mod", _size(b, x, -1), b.op("Mul", _size(b, cosine, -1), [2]))
    return {0: _required(b, x, b.op("Equal", rest, [0]))}


def _square(b: Builder, node: ir.Node) -> _Inputs:
    x = node.inputs[0]
    return {} if x is None else {0: _required(b, x, b.op("Equal", _size(b, x, -2), _size(b, x, -1)))}


def _window(b: Builder, node: ir.Node) -> _Inputs:
    """The kernels divide by zero if a window is larger than the image."""
    x = node.inputs[0]
    if x is None or not node.attributes.get_ints("kernel_shape", ()):  # without, the engine refuses it
        return {}
    try:
        over = windows(b, node)
    except Unsupported:  # the engine refuses it
        return {}
    if over.is_same:
        return {}
    count, first = len(over.reach), 1 if node.attributes.get_int("channels_last", 0) else 2
    needed = [r - 1 - p - q for r, p, q in zip(over.reach, over.pads, over.pads[count:], strict=False)]
    room = b.op("Sub", _size(b, x, *range(first, first + count)), needed)
    return {0: _required(b, x, b.op("Greater", b.op("ReduceMin", room, keepdims=1), [0]))}


def _scales(b: Builder, node: ir.Node) -> _Inputs:
    """The kernels multiply results in place by scales, of which there may be more than results."""
    place = 2 if node.op_type == "DynamicQuantizeMatMul" else 3
    matrix, scale = node.inputs[1], node.inputs[place]
    if matrix is None or scale is None:
        return {}
    last = b.op("Gather", b.op("Concat", [1], b.op("Shape", scale), axis=0), [-1])
    size, columns = b.op("Size", scale), _size(b, matrix, -1)
    each = b.op("Mul", size, _size(b, matrix, -2))
    whole = b.op("Or", b.op("Equal", size, columns), b.op("Equal", each, b.op("Size", matrix)))
    fits = b.op("Or", b.op("Equal", size, [1]), b.op("And", b.op("Equal", last, columns), whole))
    one = {} if place == 2 else {2: b.op("Reshape", node.inputs[2], b.constant([], np.int64))}
    return {**one, place: _required(b, scale, fits)}


_OF_FOREIGN = {
    "AveragePool": _window,
    "DynamicQuantizeMatMul": _scales,
    "GroupQueryAttention": _grouped_attention,
    "Inverse": _square,
    "MatMulIntegerToFloat": _scales,
    "MaxPool": _window,
    "MultiHeadAttention": _attention,
    "QLinearAveragePool": _window,
    "RotaryEmbedding": _rotary,
}
"""Operators outside of ONNX's own domain, whose kernels believe what a request says."""

_GUARDS = {
    "AveragePool": _pool,
    "Div": _division,
    "MaxPool": _pool,
    "Mod": _division,
    "RotaryEmbedding": _rotary,
    "STFT": _frames,
}

_NO_TENSORS = {"ConcatFromSequence", "If", "Loop", "Optional", "OptionalGetElement", "OptionalHasElement"}
_NO_TENSORS |= {"SequenceAt", "SequenceErase", "SequenceLength", "SequenceMap"}
"""Operators that may take sequences; the nodes of nested graphs have guards of their own."""

_PAST = (4, 5)
"""The inputs of an Attention with the keys and values of earlier tokens: [batch, heads, tokens, width]."""


def guard_elements(b: Editor) -> None:
    """Insert the guards into a model and its nested graphs."""
    nonempty, graph = NonEmpty(b.model), b.model.graph
    for node in list(nodes(graph)):
        places = maybe_empty(b, node, ENGINE, lambda value: value not in nonempty and not is_fixed(b, value))
        if places and node.op_type != "Concat":
            _check_inputs(b, node, places)
        elif places and not (any(x in nonempty for x in node.inputs if x) and _check_others(b, node, places)):
            _check_size(b, node)
    if any(map(_joins_cache, nodes(graph))):
        for node in list(nodes(graph)):
            places = maybe_empty(b, node, ENGINE, lambda value: not is_fixed(b, value))
            joined = [place for place in places if place in _joined(node)]
            if joined:
                _check_others(b, node, joined)
            if len(joined) < len(places):
                _check_inputs(b, node, [place for place in places if place not in joined])


def _insert(b: Editor, node: ir.Node) -> None:
    """Insert what was written before a node."""
    for new in b.nodes:
        # `session.message_of` reads it from an error.
        new.name = f"{new.outputs[0].name}, guard of {node.op_type} {origins(node)[0]}"
    b.insert_before(node)


def _check_inputs(b: Editor, node: ir.Node, places: list[int]) -> None:
    for place in () if node.op_type in _NO_TENSORS else places:
        x = node.inputs[place]
        if x is not None and (node.op_type, place) != ("SequenceInsert", 0):
            row = b.op("Reshape", x, [1, -1])
            node.replace_input_with(place, b.op("Reshape", b.op("Reshape", row, [-1, 0]), b.op("Shape", x)))
            node.meta[GUARDED] = {*node.meta.get(GUARDED, ()), place}
    _insert(b, node)


def _check_size(b: Editor, node: ir.Node) -> None:
    """Replace a Concat by one whose result is checked."""
    joined = b.op("Concat", *node.inputs, axis=node.attributes.get_int("axis", 1))
    b.nodes[0].meta[GUARDED] = {*range(len(node.inputs))}
    lost = b.op("Size", joined)
    for x in node.inputs:
        lost = b.op("Sub", lost, b.op("Size", x))
    any_lost = b.op("Cast", b.op("Cast", lost, to=ir.DataType.BOOL.value), to=ir.DataType.INT64.value)
    impossible = b.op("Mul", any_lost, b.constant(1 << 62, np.int64))
    checked = b.op("Reshape", joined, b.op("Sub", b.op("Shape", joined), impossible))
    b.nodes[0].metadata_props.update(node.metadata_props)
    _insert(b, node)
    replace_value(node.outputs[0], checked)
    remove_unread(node)


def _joined(node: ir.Node) -> Collection[int]:
    """Return the positions of the inputs that a node joins with others, along `_axis`."""
    places = {"Concat": range(len(node.inputs)), "Attention": _PAST}
    return () if node.domain else places.get(node.op_type, ())


def _axis(join: ir.Node) -> int:
    return 2 if join.op_type == "Attention" else join.attributes.get_int("axis", 1)


def _joins_cache(node: ir.Node) -> bool:
    """Return True if a node extends an input of the model along a free dimension."""
    given = (x for place, x in enumerate(node.inputs) if place in _joined(node) and x is not None)
    shapes = [tuple(x.shape) for x in given if x.is_graph_input() and x.shape is not None]
    return any(
        -len(dims) <= _axis(node) < len(dims) and not isinstance(dims[_axis(node)], int) for dims in shapes
    )


def _check_others(b: Editor, join: ir.Node, places: list[int]) -> bool:
    """Return True if the ranks of what is joined are known, which the guards need."""
    try:
        ranks = {b.rank(x) for place in _joined(join) if (x := join.inputs[place]) is not None}
    except Unsupported:
        return False
    if len(ranks) != 1:
        return False
    kept = [0] * ranks.pop()
    kept[_axis(join)] = -1
    for place in places:
        join.replace_input_with(place, b.op("Reshape", join.inputs[place], list(kept)))
    join.meta[GUARDED] = {*join.meta.get(GUARDED, ()), *places}
    _insert(b, join)
    return True
