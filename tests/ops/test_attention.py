"""Attention in forms that no golden has, beside numpy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.applied import results

from pinnace.program import Dialect

RANDOM = np.random.default_rng(41)
BATCH, HEADS, KEYS, SIZE = 2, 3, 4, 5
QUERY = RANDOM.normal(size=(BATCH, HEADS, 1, SIZE)).astype(np.float32)
KEY, VALUE = RANDOM.normal(size=(2, BATCH, HEADS, KEYS, SIZE)).astype(np.float32)
HIDES = np.array([[False, True, False, False], [True, False, False, True]])


@pytest.mark.parametrize("shape", [(BATCH, KEYS), (BATCH, 1, KEYS), (BATCH, 1, 1, KEYS)], ids=len)
def test_a_mask_of_the_next_token_may_lack_the_query_and_the_heads(shape):
    scores = QUERY @ KEY.swapaxes(2, 3) / 2 + np.where(HIDES, -np.inf, 0)[:, None, None]
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    (found,) = results(Dialect.MINDSPORE, "IncreFlashAttention", [QUERY, (KEY,), (VALUE,)], num_heads=HEADS,
                       attn_mask=HIDES.reshape(shape), scale_value=0.5, input_layout="BNSD")  # fmt: skip
    np.testing.assert_allclose(found, weights @ VALUE, rtol=1e-5, atol=1e-6)  # sums of some float32


def test_the_logarithms_of_sums_that_nobody_asks_for_are_one_zero():
    found, logarithms = results(Dialect.MINDSPORE, "FusedInferAttentionScore", [QUERY, (KEY,), (VALUE,)],
                                num_heads=HEADS, scale_value=0.5, input_layout="BNSD")  # fmt: skip
    weights = np.exp(QUERY @ KEY.swapaxes(2, 3) / 2)
    expected = weights / weights.sum(-1, keepdims=True) @ VALUE
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)  # sums of some float32
    assert logarithms.tolist() == [0.0]
