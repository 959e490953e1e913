"""Attention and what large language models have beside it.

MindSpore has these for Ascend alone. They are lowered to what their documentation says that they compute,
in float32 and rounded once, as the device does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.mindspore.array import counting
from pinnace.ops.table import Arguments, Tensor, Tensors, primitive, primitives
from pinnace.ops.values import BOOL, FLOAT, INT64, Value

_LAYOUTS = {"0": "BSH", "1": "BNSD", "2": "SBH", "3": "BSND", "4": "TND", "8": "BNSD_BSND"}
_APART = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "SBH": (1, 2, 0, 3)}
"""The permutation from a layout with its heads apart to batch, heads, sequence, dimension."""
_EVERYTHING = 2147483647
_LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class _Layout:
    """Order of batch B, sequence S, heads N, dimension D of a head, all heads together H."""

    name: str
    result: str
    heads: int

    @staticmethod
    def of(name: str, heads: int) -> _Layout:
        """A layout by name or number; of two names the second is that of the result."""
        found = _LAYOUTS.get(name, name)
        if found not in (*_APART, "BNSD_BSND"):
            raise Unsupported(f"has the layout {found}, but only BSH, SBH, BSND, BNSD and BNSD_BSND work")
        first, _, second = found.partition("_")
        return _Layout(first, second or first, heads)

    def apart(self, op: LoweringBuilder, x: Tensor) -> Tensor:
        """`x` as batch, heads, sequence, dimension."""
        if self.name in ("BSH", "SBH"):
            size = op.shape(x)[2]
            if size is None:
                raise Unsupported("needs the size of all heads fixed")
            x = op.reshape(x, [op.dim(x, 0), op.dim(x, 1), self.heads, size // self.heads])
        return x if self.name == "BNSD" else op.transpose(x, _APART[self.name])

    def together(self, op: LoweringBuilder, y: Tensor) -> Tensor:
        perm = _APART[self.result]
        y = y if self.result == "BNSD" else op.transpose(y, [perm.index(i) for i in range(4)])
        return op.reshape(y, [op.dim(y, 0), op.dim(y, 1), -1]) if self.result in ("BSH", "SBH") else y


def _scores(op: LoweringBuilder, q: Tensor, k: Tensor) -> Tensor:
    """Products of all queries and keys (batch, heads, queries, keys); fewer heads of keys serve in groups."""
    return _grouped_product(op, q, op.transpose(k, (0, 1, 3, 2)))


def _grouped_product(op: LoweringBuilder, x: Tensor, y: Tensor) -> Tensor:
    (few,) = _fixed(op, y, 1)
    (many,) = _fixed(op, x, 1)
    if few == many:
        return op.MatMul(x, y)
    rows = op.dim(x, 2)
    grouped = op.reshape(x, [op.dim(x, 0), few, many // few, rows, op.dim(x, 3)])
    product = op.MatMul(grouped, op.Unsqueeze(y, [2]))
    return op.reshape(product, [op.dim(x, 0), many, rows, op.dim(y, 3)])


def _fixed(op: Builder, x: Tensor, *axes: int) -> tuple[int, ...]:
    sizes = tuple(d for d in (op.shape(x)[a] for a in axes) if d is not None)
    if len(sizes) != len(axes):
        raise Unsupported("needs the number of heads fixed")
    return sizes


def hidden(op: Builder, scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores with the lowest number where the mask, which may lack dimensions, is not zero."""
    if mask is None:
        return scores
    truth = op.cast(mask, BOOL)
    if op.rank(truth) == 3:
        truth = op.Unsqueeze(truth, [1])
    return op.Where(truth, op.like(_LOWEST, scores), scores)


def _band_mask(op: LoweringBuilder, q: Tensor, k: Tensor, mode: int, pre: int, following: int) -> Tensor:
    """(queries, keys): what a sparse mode hides.

    2 aligns the diagonal to the first query and key, 3 and 4 to the last ones; 4 shows `pre` keys before
    the diagonal and `following` after it.
    """
    rows, columns = (counting(op, op.dim(x, 2)) for x in (q, k))
    rows = op.Unsqueeze(rows, [1])
    if mode in (3, 4):
        shift = op.tensor(op.dim(k, 2)) - op.tensor(op.dim(q, 2))
        rows = rows + shift
    ahead = columns - rows
    if mode != 4:
        return op.Greater(ahead, 0)
    return op.Or(op.Greater(ahead, following), op.Less(ahead, -pre))


def _beyond(op: LoweringBuilder, k: Tensor, lengths: Value) -> Tensor:
    """(batch, 1, 1, keys): the keys behind the length of each batch."""
    counts = op.reshape(op.cast(op.tensor(lengths), INT64), [-1, 1, 1, 1])
    return op.GreaterOrEqual(counting(op, op.dim(k, 2)), counts)


class _Masking(Arguments):
    """The layout of queries, keys and values, the factor of scores, and what hides some of them."""

    attn_mask: Tensor | None = None
    scale_value: float = 1.0
    input_layout: str = "BSH"
    sparse_mode: int = 0
    pre_tokens: int = _EVERYTHING
    next_tokens: int = _EVERYTHING

    def hide(self, op: LoweringBuilder, scores: Tensor, q: Tensor, k: Tensor) -> Tensor:
        """Scores of queries and keys, those that the mask or the sparse mode hides at the lowest number."""
        mode = self.sparse_mode
        if mode in (2, 3, 4):
            return hidden(op, scores, _band_mask(op, q, k, mode, self.pre_tokens, self.next_tokens))
        if mode not in (0, 1):
            raise Unsupported(f"has the sparse_mode {mode}, but only 0 to 4 are supported")
        return hidden(op, scores, self.attn_mask)


def _mixed(op: LoweringBuilder, scores: Tensor, v: Tensor) -> Tensor:
    return _grouped_product(op, op.Softmax(scores, axis=-1), v)


@primitive("FlashAttentionScore", unused="inner_precise")
def flash_attention_score(
    op: LoweringBuilder,
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
    if drop_mask is not None and keep_prob < 1:
        raise Unsupported("drops elements, which is for training")
    layout = _Layout.of(masking.input_layout, head_num)
    q, k, v = _qkv(op, layout, query, key, value)
    scores = _shifted(op, _scores(op, q, k), real_shift) * masking.scale_value
    scores = masking.hide(op, scores, q, k)
    peak = op.ReduceMax(scores, [-1], keepdims=1)
    total = op.ReduceSum(op.Exp(scores - peak), [-1], keepdims=1)
    # The device keeps both in eight equal columns.
    columns = op.constant([1, 1, 1, 8], np.int64)
    y = layout.together(op, op.cast(_mixed(op, scores, v), op.dtype(query)))
    nothing = op.constant(np.zeros(1, op.dtype(query).numpy()))
    return op.Expand(peak, columns), op.Expand(total, columns), nothing, y


def _shifted(op: LoweringBuilder, scores: Tensor, shift: Tensor | None) -> Tensor:
    return scores if shift is None else scores + op.cast(shift, FLOAT)


def _qkv(op: LoweringBuilder, layout: _Layout, query: Tensor, *keys_and_values: Tensor) -> tuple[Tensor, ...]:
    """Query, key and value as batch, heads, sequence, dimension, in float32."""
    q, few = layout.apart(op, query), layout
    if layout.name in ("BSH", "SBH"):
        (size,) = _fixed(op, q, 3)
        (width,) = _fixed(op, keys_and_values[0], 2)
        few = replace(layout, heads=width // size)
    return tuple(op.cast(x, FLOAT) for x in (q, *(few.apart(op, x) for x in keys_and_values)))


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
    op: LoweringBuilder,
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
        if mask is not None and op.rank(mask) < 4:
            # (batch, keys) or (batch, 1, keys): all heads and the one query alike.
            masking = masking.but(attn_mask=op.reshape(mask, [op.dim(mask, 0), 1, 1, -1]))
    layout = _Layout.of(masking.input_layout, num_heads)
    q, k, v = _qkv(op, layout, query, *key, *value)
    scores = _shifted(op, _scores(op, q, k) * masking.scale_value, pse_shift)
    scores = masking.hide(op, scores, q, k)
    if lengths is not None:
        scores = hidden(op, scores, _beyond(op, k, lengths))
    y = layout.together(op, op.cast(_mixed(op, scores, v), op.dtype(query)))
    return (y, op.constant(np.zeros(1, np.float32))) if stage == "both" else y


def _turned(op: Builder, x: Tensor) -> Tensor:
    """The second half negative and before the first."""
    first, second = op.ops("Split", 2, x, axis=-1, num_outputs=2)
    return op.Concat(-second, first, axis=-1)


def _turned_pairs(op: Builder, x: Tensor) -> Tensor:
    """Of each pair the second negative and before the first."""
    (size,) = _fixed(op, x, -1)
    lead = op.dims(x, stop=-1)
    first, second = op.ops("Split", 2, op.reshape(x, [*lead, size // 2, 2]), axis=-1, num_outputs=2)
    return op.reshape(op.Concat(-second, first, axis=-1), [*lead, size])


@primitive("RotaryPositionEmbedding")
def rotary_position_embedding(op: Builder, x: Tensor, cos: Tensor, sin: Tensor, mode: int = 0) -> Value:
    """Mul by the cosines, and Add of the turned halves or pairs by the sines."""
    turned = _turned_pairs(op, x) if mode else _turned(op, x)
    return x * cos + turned * sin


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


@primitive("ReshapeAndCache")
def reshape_and_cache(
    op: LoweringBuilder,
    key: Tensor,
    value: Tensor | None,
    key_cache: Tensor,
    value_cache: Tensor | None,
    slot_mapping: Tensor,
) -> Value:
    """ScatterND into the slots of the caches, which hold the result from here on."""
    slots = op.Unsqueeze(op.reshape(op.cast(slot_mapping, INT64), [-1]), [1])
    for new, cache in ((key, key_cache), (value, value_cache)):
        if new is None or cache is None:
            continue
        held = op.memory.effects.read(cache)
        heads = [op.dim(held, i) for i in (2, 3)]
        flat = op.reshape(held, [-1, *heads])
        filled = op.ScatterND(flat, slots, op.reshape(new, [-1, *heads]))
        op.memory.assign(cache, op.Reshape(filled, op.Shape(held)))
    return key


@primitive("PagedAttention", unused="antiquant_offset")
def paged_attention(
    op: LoweringBuilder,
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
    (size,) = _fixed(op, key_cache, 3)
    blocks = op.Max(op.cast(block_tables, INT64), op.constant(0, np.int64))

    def gathered(cache: Tensor) -> Tensor:
        parts = op.Gather(op.cast(op.memory.effects.read(cache), FLOAT), blocks, axis=0)
        return op.transpose(op.reshape(parts, [op.dim(blocks, 0), -1, kv_head_num, size]), (0, 2, 1, 3))

    k, v = gathered(key_cache), gathered(value_cache)
    q = op.cast(op.reshape(query, [-1, head_num, 1, size]), FLOAT)
    scores = hidden(op, _scores(op, q, k) * scale_value, _beyond(op, k, context_lens))
    y = op.cast(_mixed(op, scores, v), op.dtype(query))
    return op.Reshape(y, op.Shape(query))


@primitive("KVCacheScatterUpdate")
def kv_cache_scatter_update(
    op: LoweringBuilder,
    var: Tensor,
    indices: Tensor,
    updates: Tensor,
    axis: int,
    reduce: Literal["none", "update", "0", "3"] = "none",
) -> Value:
    """ScatterElements from each batch's index on; the cache holds the result from here on."""
    return op.memory.assign(var, written(op, op.memory.effects.read(var), indices, updates, axis))


def written(op: LoweringBuilder, cache: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """A cache with updates along an axis, from the index of each batch on."""
    place = op.axis(axis, updates)
    steps = counting(op, op.dim(updates, place))
    starts = op.reshape(op.cast(indices, INT64), [-1, *[1] * (op.rank(updates) - 1)])
    places = starts + op.reshape(steps, [-1, *[1] * (op.rank(updates) - 1 - place)])
    places = op.Expand(places, op.Shape(updates))
    return op.ScatterElements(cache, places, updates, axis=place)
