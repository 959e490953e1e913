"""Attention and what large language models have beside it.

MindSpore has these for Ascend alone. They are lowered to what their documentation says that they compute,
in float32 and rounded once, as the device does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from pinnace.graph.failures import Unsupported
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.mindspore.array import counting
from pinnace.ops.table import Arguments, Tensor, Tensors, primitive, primitives
from pinnace.ops.values import Value

_FLOAT, _INT64 = ir.DataType.FLOAT, ir.DataType.INT64
_LAYOUTS = {"0": "BSH", "1": "BNSD", "2": "SBH", "3": "BSND", "4": "TND", "8": "BNSD_BSND"}
_EVERYTHING = 2147483647
_LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class _Layout:
    """Order of batch B, sequence S, heads N, dimension D of a head, all heads together H.

    Of two names the second is that of the result.
    """

    name: str
    heads: int

    @staticmethod
    def of(name: str, heads: int) -> _Layout:
        """A layout by name or by number."""
        found = _LAYOUTS.get(name, name)
        if found not in ("BSH", "BNSD", "SBH", "BSND", "BNSD_BSND"):
            raise Unsupported(f"has the layout {found}, but only BSH, SBH, BSND, BNSD and BNSD_BSND work")
        return _Layout(found, heads)

    def apart(self, b: LoweringBuilder, x: Tensor) -> Tensor:
        """`x` as batch, heads, sequence, dimension."""
        match self.name:
            case "BNSD" | "BNSD_BSND":
                return x
            case "BSND":
                return b.transpose(x, (0, 2, 1, 3))
            case "BSH":
                return b.transpose(self._split(b, x), (0, 2, 1, 3))
            case _:
                return b.transpose(self._split(b, x), (1, 2, 0, 3))

    def _split(self, b: LoweringBuilder, x: Tensor) -> Tensor:
        size = b.shape(x)[2]
        if size is None:
            raise Unsupported("needs the size of all heads fixed")
        return b.reshape(x, [b.dim(x, 0), b.dim(x, 1), self.heads, size // self.heads])

    def together(self, b: LoweringBuilder, y: Tensor) -> Tensor:
        """The inverse of `apart`."""
        match self.name:
            case "BNSD":
                return y
            case "BSND" | "BNSD_BSND":
                return b.transpose(y, (0, 2, 1, 3))
            case "BSH":
                turned = b.transpose(y, (0, 2, 1, 3))
            case _:
                turned = b.transpose(y, (2, 0, 1, 3))
        return b.reshape(turned, [b.dim(turned, 0), b.dim(turned, 1), -1])


# -- scores ----------------------------------------------------------------------------------------


def _scores(b: LoweringBuilder, q: Tensor, k: Tensor) -> Tensor:
    """Products of all queries and keys (batch, heads, queries, keys); fewer heads of keys serve in groups."""
    return _grouped_product(b, q, b.transpose(k, (0, 1, 3, 2)))


def _grouped_product(b: LoweringBuilder, x: Tensor, y: Tensor) -> Tensor:
    (few,) = _fixed(b, y, 1)
    (many,) = _fixed(b, x, 1)
    if few == many:
        return b.op("MatMul", x, y)
    rows = b.dim(x, 2)
    grouped = b.reshape(x, [b.dim(x, 0), few, many // few, rows, b.dim(x, 3)])
    product = b.op("MatMul", grouped, b.op("Unsqueeze", y, [2]))
    return b.reshape(product, [b.dim(x, 0), many, rows, b.dim(y, 3)])


def _fixed(b: LoweringBuilder, x: Tensor, *axes: int) -> tuple[int, ...]:
    sizes = tuple(d for d in (b.shape(x)[a] for a in axes) if d is not None)
    if len(sizes) != len(axes):
        raise Unsupported("needs the number of heads fixed")
    return sizes


def _hidden(b: LoweringBuilder, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores with the lowest number where the mask, which may lack dimensions, is not zero."""
    if mask is None:
        return scores
    truth = b.cast(mask, ir.DataType.BOOL)
    if b.rank(truth) == 3:
        truth = b.op("Unsqueeze", truth, [1])
    return b.op("Where", truth, b.like(_LOWEST, scores), scores)


def _band_mask(b: LoweringBuilder, q: Tensor, k: Tensor, mode: int, pre: int, following: int) -> Tensor:
    """(queries, keys): what a sparse mode hides.

    2 aligns the diagonal to the first query and key, 3 and 4 to the last ones; 4 shows `pre` keys before
    the diagonal and `following` after it.
    """
    rows, columns = (counting(b, b.dim(x, 2)) for x in (q, k))
    rows = b.op("Unsqueeze", rows, [1])
    if mode in (3, 4):
        shift = b.op("Sub", b.tensor(b.dim(k, 2)), b.tensor(b.dim(q, 2)))
        rows = b.op("Add", rows, shift)
    ahead = b.op("Sub", columns, rows)
    if mode != 4:
        return b.op("Greater", ahead, 0)
    return b.op("Or", b.op("Greater", ahead, following), b.op("Less", ahead, -pre))


def _beyond(b: LoweringBuilder, k: Tensor, lengths: Value) -> Tensor:
    """(batch, 1, 1, keys): the keys behind the length of each batch."""
    counts = b.reshape(b.cast(b.tensor(lengths), _INT64), [-1, 1, 1, 1])
    return b.op("GreaterOrEqual", counting(b, b.dim(k, 2)), counts)


class _Masking(Arguments):
    """The layout of queries, keys and values, the factor of scores, and what hides some of them."""

    attn_mask: Tensor | None = None
    scale_value: float = 1.0
    input_layout: str = "BSH"
    sparse_mode: int = 0
    pre_tokens: int = _EVERYTHING
    next_tokens: int = _EVERYTHING

    def hide(self, b: LoweringBuilder, scores: Tensor, q: Tensor, k: Tensor) -> Tensor:
        """Scores of queries and keys, those that the mask or the sparse mode hides at the lowest number."""
        mode = self.sparse_mode
        if mode in (2, 3, 4):
            return _hidden(b, scores, _band_mask(b, q, k, mode, self.pre_tokens, self.next_tokens))
        if mode not in (0, 1):
            raise Unsupported(f"has the sparse_mode {mode}, but only 0 to 4 are supported")
        return _hidden(b, scores, self.attn_mask)


def _mixed(b: LoweringBuilder, scores: Tensor, v: Tensor) -> Tensor:
    return _grouped_product(b, b.op("Softmax", scores, axis=-1), v)


# -- attention -------------------------------------------------------------------------------------


@primitive("FlashAttentionScore", unused="inner_precise")
def flash_attention_score(
    b: LoweringBuilder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    real_shift: Tensor | None = None,
    drop_mask: Tensor | None = None,
    head_num: int = 1,
    keep_prob: float = 1.0,
    masking: _Masking,
) -> Value:
    """MatMul, Where, Softmax, MatMul."""
    if drop_mask is not None and keep_prob < 1:
        raise Unsupported("drops elements, which is for training")
    layout = _Layout.of(masking.input_layout, head_num)
    q, k, v = _qkv(b, layout, query, key, value)
    scores = b.op("Mul", _shifted(b, _scores(b, q, k), real_shift), masking.scale_value)
    scores = masking.hide(b, scores, q, k)
    peak = b.op("ReduceMax", scores, [-1], keepdims=1)
    total = b.op("ReduceSum", b.op("Exp", b.op("Sub", scores, peak)), [-1], keepdims=1)
    # The device keeps both in eight equal columns.
    columns = b.constant([1, 1, 1, 8], np.int64)
    y = layout.together(b, b.cast(_mixed(b, scores, v), b.dtype(query)))
    nothing = b.constant(np.zeros(1, b.dtype(query).numpy()))
    return b.op("Expand", peak, columns), b.op("Expand", total, columns), nothing, y


def _shifted(b: LoweringBuilder, scores: Tensor, shift: Tensor | None) -> Tensor:
    return scores if shift is None else b.op("Add", scores, b.cast(shift, _FLOAT))


def _qkv(b: LoweringBuilder, layout: _Layout, query: Tensor, *keys_and_values: Tensor) -> tuple[Tensor, ...]:
    """Query, key and value as batch, heads, sequence, dimension, in float32."""
    q, few = layout.apart(b, query), layout
    if layout.name in ("BSH", "SBH"):
        (size,) = _fixed(b, q, 3)
        (width,) = _fixed(b, keys_and_values[0], 2)
        few = _Layout(layout.name, width // size)
    return tuple(b.cast(x, _FLOAT) for x in (q, *(few.apart(b, x) for x in keys_and_values)))


@primitives(
    {
        "PromptFlashAttention": "prompt",
        "IncreFlashAttention": "increment",
        "FusedInferAttentionScore": "both",
    },
    # Offsets and lengths of what is refused by its scale or its prefix.
    unused="quant_offset2 antiquant_offset key_antiquant_offset value_antiquant_offset"
    " value_shared_prefix actual_shared_prefix_len num_key_value_heads inner_precise block_size"
    " antiquant_mode key_antiquant_mode value_antiquant_mode",
)
def attention_for_inference(
    b: LoweringBuilder,
    stage: str,
    query: Tensor,
    key: Tensors,
    value: Tensors,
    *,
    actual_seq_lengths: Value = None,
    actual_seq_lengths_kv: Value = None,
    pse_shift: Tensor | None = None,
    num_heads: int = 1,
    masking: _Masking,
) -> Value:
    """MatMul, Where, Softmax, MatMul; queries behind actual_seq_lengths are computed like the others."""
    if len(key) != 1 or len(value) != 1:
        raise Unsupported("has keys or values in several tensors, but only one is supported")
    mask, lengths = masking.attn_mask, actual_seq_lengths_kv
    if stage == "increment":
        lengths = actual_seq_lengths  # of the keys: there is one query
        if mask is not None and b.rank(mask) < 4:
            # (batch, keys) or (batch, 1, keys): all heads and the one query alike.
            masking = masking.but(attn_mask=b.reshape(mask, [b.dim(mask, 0), 1, 1, b.dim(mask, -1)]))
    layout = _Layout.of(masking.input_layout, num_heads)
    q, k, v = _qkv(b, layout, query, *key, *value)
    scores = _shifted(b, b.op("Mul", _scores(b, q, k), masking.scale_value), pse_shift)
    scores = masking.hide(b, scores, q, k)
    if lengths is not None:
        scores = _hidden(b, scores, _beyond(b, k, lengths))
    y = layout.together(b, b.cast(_mixed(b, scores, v), b.dtype(query)))
    return (y, b.constant(np.zeros(1, np.float32))) if stage == "both" else y


# -- rotary positions ------------------------------------------------------------------------------


def _turned(b: LoweringBuilder, x: Tensor) -> Tensor:
    """The second half negative and before the first."""
    first, second = b.ops("Split", 2, x, axis=-1, num_outputs=2)
    return b.op("Concat", b.op("Neg", second), first, axis=-1)


def _turned_pairs(b: LoweringBuilder, x: Tensor) -> Tensor:
    """Of each pair the second negative and before the first."""
    (size,) = _fixed(b, x, -1)
    lead = b.dims(x, stop=-1)
    first, second = b.ops("Split", 2, b.reshape(x, [*lead, size // 2, 2]), axis=-1, num_outputs=2)
    return b.reshape(b.op("Concat", b.op("Neg", second), first, axis=-1), [*lead, size])


@primitive("RotaryPositionEmbedding")
def rotary_position_embedding(
    b: LoweringBuilder, x: Tensor, cos: Tensor, sin: Tensor, mode: int = 0
) -> Value:
    """Mul by the cosines, and Add of the turned halves or pairs by the sines."""
    turned = _turned_pairs(b, x) if mode else _turned(b, x)
    return b.op("Add", b.op("Mul", x, cos), b.op("Mul", turned, sin))


@primitive("ApplyRotaryPosEmb", unused="position_ids")
def _apply_rotary_pos_emb(op: LoweringBuilder, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> Value:
    """As RotaryPositionEmbedding, of the halves of every head of query and key."""
    (size,) = _fixed(op, cos, -1)
    return tuple([_by_heads(op, x, cos, sin, size) for x in (query, key)])


def _by_heads(op: LoweringBuilder, x: Tensor, cos: Tensor, sin: Tensor, size: int) -> Tensor:
    """Heads of a size, turned by the angles of their places."""
    lead = op.dims(x, stop=-1)
    heads = op.reshape(x, [*lead, -1, size])
    cosines, sines = [op.Unsqueeze(t, [-2]) if op.rank(t) < op.rank(heads) else t for t in (cos, sin)]
    return op.reshape(rotary_position_embedding(op, heads, cosines, sines), [*lead, op.dim(x, -1)])


# -- caches ----------------------------------------------------------------------------------------


@primitive("ReshapeAndCache")
def reshape_and_cache(
    b: LoweringBuilder,
    key: Tensor,
    value: Tensor | None,
    key_cache: Tensor,
    value_cache: Tensor | None,
    slot_mapping: Tensor,
) -> Value:
    """ScatterND into the slots of the caches, which hold the result from here on."""
    slots = b.op("Unsqueeze", b.reshape(b.cast(slot_mapping, _INT64), [-1]), [1])
    for new, cache in ((key, key_cache), (value, value_cache)):
        if new is None or cache is None:
            continue
        held = b.memory.effects.read(cache)
        heads = [b.dim(held, i) for i in (2, 3)]
        flat = b.reshape(held, [-1, *heads])
        filled = b.op("ScatterND", flat, slots, b.reshape(new, [-1, *heads]))
        b.memory.assign(cache, b.op("Reshape", filled, b.op("Shape", held)))
    return key


@primitive("PagedAttention", unused="antiquant_offset")
def paged_attention(
    b: LoweringBuilder,
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    *,
    head_num: int = 1,
    scale_value: float = 1.0,
    kv_head_num: int = 1,
) -> Value:
    """Gather of the blocks of each sequence, then MatMul, Where, Softmax, MatMul."""
    (size,) = _fixed(b, key_cache, 3)
    blocks = b.op("Max", b.cast(block_tables, _INT64), b.constant(0, np.int64))

    def gathered(cache: Tensor) -> Tensor:
        parts = b.op("Gather", b.cast(b.memory.effects.read(cache), _FLOAT), blocks, axis=0)
        return b.transpose(b.reshape(parts, [b.dim(blocks, 0), -1, kv_head_num, size]), (0, 2, 1, 3))

    k, v = gathered(key_cache), gathered(value_cache)
    q = b.cast(b.reshape(query, [-1, head_num, 1, size]), _FLOAT)
    scores = _hidden(b, b.op("Mul", _scores(b, q, k), scale_value), _beyond(b, k, context_lens))
    y = b.cast(_mixed(b, scores, v), b.dtype(query))
    return b.op("Reshape", y, b.op("Shape", query))


@primitive("KVCacheScatterUpdate")
def kv_cache_scatter_update(
    b: LoweringBuilder,
    var: Tensor,
    indices: Tensor,
    updates: Tensor,
    axis: int,
    reduce: Literal["none", "update", "0", "3"] = "none",
) -> Value:
    """ScatterElements from each batch's index on; the cache holds the result from here on."""
    return b.memory.assign(var, written(b, b.memory.effects.read(var), indices, updates, axis))


def written(b: LoweringBuilder, cache: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """A cache with updates along an axis, from the index of each batch on."""
    place = b.axis(axis, updates)
    steps = counting(b, b.dim(updates, place))
    starts = b.reshape(b.cast(indices, _INT64), [-1, *[1] * (b.rank(updates) - 1)])
    places = b.op("Add", starts, b.reshape(steps, [-1, *[1] * (b.rank(updates) - 1 - place)]))
    places = b.op("Expand", places, b.op("Shape", updates))
    return b.op("ScatterElements", cache, places, updates, axis=place)
