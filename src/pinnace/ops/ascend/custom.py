"""Operators of Ascend (CANN's) that a file holds in nodes `Custom`, as exports for MindSpore Lite write them.

Such a node names its operator in `type`, and its inputs in `input_names`; a reader calls it `Custom:TYPE`.
Operators are lowered to what CANN's documentation says that they compute, or, where MindSpore Lite's examples
define one, to what these compute in its place. Arguments are bound by name alone, so whatever a lowering does
not take is refused by name. No lowering asks for shapes that such exports leave open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import RankUnknown, Unsupported
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.families import find
from pinnace.ops.mindspore import norm, quantized
from pinnace.ops.mindspore.attention import hidden, rotary_position_embedding, written
from pinnace.ops.mindspore.quantized import dequantizing, stored
from pinnace.ops.table import TABLE, Dtype, Lowering, Primitive, Tensor
from pinnace.ops.values import BOOL, FLOAT, FLOAT16, INT8, UINT8, Value
from pinnace.program import Dialect

PREFIX = "Custom:"
"""The beginning of the name of a primitive that is a node `Custom`; its type follows."""

_OF_MASKS = (BOOL, INT8, UINT8, FLOAT16)
_OF_PORTS = """
type reg_op_name input_names input_index optional_input_names output_names output_num output_shapes
output_types outputs_shape
"""
"""Attributes that name inputs and outputs, or say of these what follows from the operator."""
_TRUTHS = {"true": True, "True": True, "false": False, "False": False}
"""Text that MindSpore Lite's converter reads as a truth value."""


class Custom(Primitive):
    """A row for the nodes `Custom` of one type."""

    def lower(self, op: Builder, inputs: Sequence[Value], attributes: Mapping[str, Value]) -> Value:
        own = {n: value for n, value in attributes.items() if n not in _OF_PORTS.split()}
        plain = {n: _TRUTHS.get(v, v) if isinstance(v, str) else v for n, v in own.items()}
        given = _named(inputs, attributes)
        for name in given:
            if name in plain or name not in self.taken:
                raise Unsupported(f"has an input {name!r}, which is not supported")
        return super().lower(op, (), plain | given)


def _named(inputs: Sequence[Value], attributes: Mapping[str, Value]) -> dict[str, Value]:
    """The inputs by name.

    `input_index` has their places among the names; some exports give the operator's own places, and the
    names of just the inputs.
    """
    names, places = (_items(attributes, name) for name in ("input_names", "input_index"))
    if places and max(places) < len(names):
        names = tuple(names[place] for place in places)
    if len(names) < len(inputs) or (places and (len(places) != len(inputs) or min(places) < 0)):
        raise Unsupported(f"has {len(inputs)} inputs, which its input_names and input_index do not name")
    given = {name: value for name, value in zip(names, inputs, strict=False) if value is not None}
    if len(given) < sum(value is not None for value in inputs):
        raise Unsupported("has two inputs of one name")
    return given


def _items(attributes: Mapping[str, Value], name: str) -> tuple[Any, ...]:
    """A list of names or places; () where there is none."""
    kind, value = (int if name == "input_index" else str), attributes.get(name) or ()
    if not isinstance(value, tuple) or not all(isinstance(item, kind) for item in value):
        raise Unsupported(f"has {name} {value!r}, which is no list of {kind.__name__}")
    return value


def custom(*names: str, unused: str = "") -> Callable[[Lowering], Lowering]:
    def enter(lowering: Lowering) -> Lowering:
        for name in names:
            row = Custom(f"{PREFIX}{name}", Dialect.MINDSPORE, lowering, frozenset(unused.split()))
            TABLE[row.dialect, row.name] = row
        return lowering

    return enter


def _mindspore(op: Builder, name: str, *inputs: Value) -> Value:
    row = find(Dialect.MINDSPORE, name)
    assert row is not None
    return row.lower(op, inputs, {})


@custom("RmsNorm", "FusedRmsNormNZ")
def rms_norm(op: Builder, x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Value:
    """Div by the root of the mean square over gamma's dimensions, in float32, and Mul by gamma."""
    return norm.rms_norm(op, x, gamma, epsilon)


custom("AddRmsNorm")(norm.add_rms_norm)


@custom("SwiGlu")
def swiglu(op: Builder, x: Tensor, dim: int = -1) -> Value:
    gate, up = op.ops("Split", 2, x, axis=dim, num_outputs=2)
    return gate * op.Sigmoid(gate) * up


@custom("FusedGeluTanhNZ")
def gelu(op: Builder, x: Tensor) -> Value:
    """Gelu by its approximation with Tanh, written with Sigmoid."""
    cube = x * x * x
    inner = (x + cube * 0.044715) * (2 * float(np.sqrt(2 / np.pi)))
    return x * op.Sigmoid(inner)


@custom("RotaryMul")
def rotary_mul(
    op: Builder, x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: Literal["half"] = "half"
) -> Value:
    return rotary_position_embedding(op, x, r1, r2)


@custom("ApplyRotaryPosEmb")
def apply_rotary(
    op: Builder,
    query: Tensor,
    key: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: Literal[1, 3] = 1,
    rotary_mode: Literal["half"] = "half",
) -> Value:
    return rotary_position_embedding(op, query, cos, sin), rotary_position_embedding(op, key, cos, sin)


@custom("FusedQKNormRopeBSH")
def norm_and_rotary(
    op: Builder,
    q: Tensor,
    k: Tensor,
    gamma_q: Tensor,
    gamma_k: Tensor,
    cos: Tensor,
    sin: Tensor,
    epsilon: float = 1e-6,
) -> Value:
    """RmsNorm of every head and RotaryMul, in float32; cosines and sines are those of one half."""
    (size,) = op.static_shape(gamma_q)
    angles = [op.Unsqueeze(op.Concat(*[op.cast(t, FLOAT)] * 2, axis=-1), [-2]) for t in (cos, sin)]

    def turned(x: Tensor, gamma: Tensor) -> Tensor:
        heads = op.Reshape(op.cast(x, FLOAT), [0, 0, -1, size])
        y, _ = rms_norm(op, heads, gamma, epsilon)
        return op.cast(
            op.Reshape(rotary_position_embedding(op, y, angles[0], angles[1]), [0, 0, -1]), op.dtype(x)
        )

    return turned(q, gamma_q), turned(k, gamma_k)


_LONGEST = 65536
"""The most tokens that these operators take: a window of so many shows all, and so does 0 to come."""
_LAYOUTS = {"BSH": "BSH", "BNSD": "BNSD", "BSND": "BSND", "BNSD_BSND": "BNSD"}
"""The order of dimensions of query, key and value, by `input_layout`, whose end is that of the result."""


def _heads(op: Builder, x: Tensor, layout: str, heads: int) -> Tensor:
    x = op.Reshape(x, [0, 0, heads, -1]) if layout == "BSH" else x
    return op.cast(x if layout == "BNSD" else op.transpose(x, (0, 2, 1, 3)), FLOAT)


def _hidden(op: Builder, scores: Tensor, mask: Tensor) -> Tensor:
    """Scores with the lowest number where a mask is not zero."""
    if op.dtype(mask) not in _OF_MASKS:
        raise Unsupported(
            f"has a mask of {op.dtype(mask).name.lower()}, but only bool, int8, uint8 and float16, whose "
            "numbers other than 0 hide a key, are supported"
        )
    truth = op.cast(mask, BOOL)
    try:
        rank = op.rank(truth)
    except RankUnknown:  # the run fails for fewer dimensions than 4
        rank, truth = 4, op.Reshape(truth, [0, 0, -1, 0])
    if rank not in (2, 3, 4):
        raise Unsupported(f"has a mask of {rank} dimensions, but only 2 to 4 are supported")
    return hidden(op, scores, truth)


@custom("PromptFlashAttention", "InnerPromptFlashAttention", "IncreFlashAttention")
def attention(
    op: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    atten_mask: Tensor | None = None,
    scale_value: float = 1.0,
    input_layout: Literal["BSH", "BNSD", "BSND", "BNSD_BSND"] = "BSH",
    num_key_value_heads: int = 0,
    pre_tokens: int = _LONGEST,
    next_tokens: int = 0,
    sparse_mode: Literal[0, 1] = 0,
    inner_precise: Literal[0, 1, 4] = 1,
    block_size: Literal[0] = 0,
) -> Value:
    if atten_mask is not None and (pre_tokens < _LONGEST or 0 < next_tokens < _LONGEST):
        raise Unsupported(
            f"shows {pre_tokens} keys before a query and {next_tokens} after it, but beside a mask only all "
            f"keys ({_LONGEST} or more; 0 after it) are supported"
        )
    few = num_key_value_heads or num_heads
    if few < 1 or num_heads % few:
        raise Unsupported(f"has {num_heads} heads of queries and {few} of keys, which do not divide them")
    layout = _LAYOUTS[input_layout]
    q = _heads(op, query, layout, num_heads) * scale_value
    k, v = (_heads(op, x, layout, few) for x in (key, value))

    def regrouped(x: Tensor, heads: int) -> Tensor:
        """The queries of all heads that share keys as those of one, or back."""
        return x if few == num_heads else op.Reshape(x, [0, heads, -1, 0])

    scores = op.MatMul(regrouped(q, few), op.transpose(k, (0, 1, 3, 2)))
    if atten_mask is not None:
        scores = _hidden(op, regrouped(scores, num_heads), atten_mask)
        scores = regrouped(scores, few)
    y = regrouped(op.MatMul(op.Softmax(scores, axis=-1), v), num_heads)
    y = op.cast(y, op.dtype(query))
    y = y if input_layout == "BNSD" else op.transpose(y, (0, 2, 1, 3))
    return op.Reshape(y, [0, 0, -1]) if layout == "BSH" else y


@custom("MultiScaleDeformableAttnFunction", unused="value_level_start_index")
def deformable_attention(
    op: Builder,
    value: Tensor,
    value_spatial_shapes: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
) -> Value:
    """As MindSpore's MultiScaleDeformableAttn; levels begin where the sizes of those before say."""
    given = value, value_spatial_shapes, None, sampling_locations, attention_weights
    return _mindspore(op, "MultiScaleDeformableAttn", *given)


@custom("Scatter")
def scatter(
    op: LoweringBuilder,
    var: Tensor,
    indices: Tensor,
    updates: Tensor,
    reduce: Literal["update"],
    axis: int = 0,
) -> Value:
    if op.rank(indices) != 1 and op.shape(indices)[1:] != (1,):
        raise Unsupported("has several indices for a batch, but only one is supported")
    with suppress(Unsupported):
        op.shape(updates)
    updates.shape = updates.shape or ir.Shape([None] * op.rank(var))
    return written(op, var, indices, updates, axis)


@custom("MatMulV2")
def matmul(
    op: Builder, x1: Tensor, x2: Tensor, transpose_x1: bool = False, transpose_x2: bool = False
) -> Value:
    first, second = (
        op.transpose(x, (1, 0)) if turned else x for x, turned in ((x1, transpose_x1), (x2, transpose_x2))
    )
    return op.MatMul(first, second)


@custom("AscendQuant")
def ascend_quant(
    op: Builder,
    x: Tensor,
    scale: Tensor,
    offset: float = 0.0,
    src_t: Literal[1] = 1,
    dst_t: Literal[3] = 3,
    dst_type: Literal[2] = 2,
    dtype: Dtype = INT8,
) -> Value:
    if dtype is not INT8:
        raise Unsupported(f"stores {dtype.name.lower()}, but only int8 is supported")
    return stored(op, op.cast(x, FLOAT) * op.cast(scale, FLOAT) + offset)


@custom("AscendDequant")
def ascend_dequant(op: Builder, x: Tensor, deq_scale: Tensor) -> Value:
    """Cast, Mul by the scale, Cast to float16."""
    return op.cast(op.cast(x, FLOAT) * dequantizing(op, deq_scale), FLOAT16)


@custom("QuantBatchMatmul", "QuantBatchMatmulV3")
def quant_batch_matmul(op: Builder, given: quantized.QuantizedProduct) -> Value:
    """As MindSpore's QuantBatchMatmul; an offset, which is for results of int8, must be 0."""
    known = None if given.offset is None else op.known(given.offset)
    if given.offset is not None and (known is None or np.any(known)):
        raise Unsupported("has an offset other than a constant of 0")
    if given.dtype not in (FLOAT, FLOAT16, ir.DataType.BFLOAT16):
        raise Unsupported(f"results in {given.dtype.name.lower()}, but only floats are supported")
    return quantized.quant_batch_matmul(op, given.but(offset=None))


@custom("UnsortedSegmentSum")
def unsorted_segment_sum(op: Builder, x: Tensor, segment_ids: Tensor, num_segments: Tensor) -> Value:
    """As MindSpore's."""
    return _mindspore(op, "UnsortedSegmentSum", x, segment_ids, num_segments)
