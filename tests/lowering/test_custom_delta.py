"""The gated delta rule in nodes `Custom`, token by token in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from customs import HALF, arrays, ran, refusal, wide
from onnx import TensorProto

HEADS, KEYS, SIZE, WIDTH = 4, 2, 3, 8


def given(seed: int, tokens: int, states: int) -> list[np.ndarray]:
    q, k, v, beta = arrays(
        seed, (tokens, KEYS, WIDTH), (tokens, KEYS, WIDTH), (tokens, HEADS, SIZE), (tokens, HEADS)
    )
    (state, g) = arrays(seed + 1, (states, HEADS, SIZE, WIDTH), (tokens, HEADS))
    return [*(x.astype(np.float16) for x in (q / 3, k / 3, v, 1 / (1 + np.exp(-beta)), state)), -np.abs(g)]


def token(state: np.ndarray, q, k, v, beta, g, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The state of all heads after a token, and its result."""
    state, y = wide(state).copy(), np.empty((HEADS, SIZE))
    for head in range(HEADS):
        row = wide(k[head // (HEADS // KEYS)])
        faded = state[head] * np.exp(wide(g[head]))
        state[head] = faded + np.outer((v[head] - faded @ row) * wide(beta[head]), row)
        y[head] = state[head] @ wide(q[head // (HEADS // KEYS)]) * scale
    return state, y


@pytest.mark.parametrize("opset", [14, 18])
@pytest.mark.parametrize("lengths", [(5,), (3, 4)])
def test_chunk_gated_delta_rule(opset, lengths):
    count = sum(lengths)
    q, k, v, beta, state, g = given(1, count, len(lengths))
    inputs = {
        "query": q, "key": k, "value": v, "beta": beta, "initial_state": state,
        "actual_seq_lengths": np.array(lengths, np.int32), "g": g,
    }  # fmt: skip
    y, last = ran(
        "ChunkGatedDeltaRule", inputs, results=2, opset=opset, scale_value=0.4, dtype=TensorProto.FLOAT16
    )
    assert y.dtype == last.dtype == np.float16
    at = 0
    for sequence, length in enumerate(lengths):
        held = state[sequence]
        for _ in range(length):
            held, expected = token(held, q[at], k[at], v[at], beta[at], g[at], 0.4)
            np.testing.assert_allclose(y[at], expected, **HALF)
            at += 1
        np.testing.assert_allclose(last[sequence], held, **HALF)


@pytest.mark.parametrize("accepted", [None, (1, 2)])
def test_recurrent_gated_delta_rule_writes_the_state_of_every_token(accepted):
    q, k, v, beta, state, g = given(3, 5, 6)
    slots, lengths = np.array([4, 1, 0, 5, 2], np.int32), np.array([2, 3], np.int32)
    inputs = {
        "query": q, "key": k, "value": v, "beta": beta, "state": state, "actual_seq_lengths": lengths,
        "ssm_state_indices": slots, "g": g, "gk": None,
        "num_accepted_tokens": None if accepted is None else np.array(accepted, np.int32),
    }  # fmt: skip
    y, states = ran(
        "RecurrentGatedDeltaRule", inputs, results=2, output_types=[42, 42], outputs_shape="3,-1,4,3,",
        scale_value=0.4,
    )  # fmt: skip
    expected = wide(state)
    for first, length, taken in zip((0, 2), lengths, accepted or (1, 1), strict=True):
        held = state[slots[first + taken - 1]]
        for at in range(first, first + length):
            held, result = token(held, q[at], k[at], v[at], beta[at], g[at], 0.4)
            expected[slots[at]] = held
            np.testing.assert_allclose(y[at], result, **HALF)
    np.testing.assert_allclose(states, expected, **HALF)


@pytest.mark.parametrize(
    ("states", "attributes", "message"),
    [
        (np.s_[0], {}, "needs a state of 4 dimensions"),
        (np.s_[:], {"dtype": TensorProto.FLOAT}, "results in float, but only float16 is supported"),
    ],
)
def test_other_states_and_results_are_refused(states, attributes, message):
    q, k, v, beta, state, g = given(5, 1, 1)
    inputs = {
        "query": q, "key": k, "value": v, "beta": beta, "initial_state": state[states],
        "actual_seq_lengths": np.ones(1, np.int32), "g": g,
    }  # fmt: skip
    assert message in refusal("ChunkGatedDeltaRule", inputs, results=2, **attributes)


def test_a_decay_of_keys_is_refused_by_name():
    q, k, v, beta, state, g = given(5, 1, 1)
    one = np.ones(1, np.int32)
    inputs = {
        "query": q, "key": k, "value": v, "beta": beta, "state": state, "actual_seq_lengths": one,
        "ssm_state_indices": one - 1, "g": g, "gk": g,
    }  # fmt: skip
    assert "has an input 'gk', which is not supported" in refusal(
        "RecurrentGatedDeltaRule", inputs, results=2
    )
