"""Recurrent layers step by step in numpy, and what is decoded of their results."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.applied import results

from pinnace.program import Dialect

RANDOM = np.random.default_rng(31)
STEPS, BATCH, WIDTH, HIDDEN = 4, 2, 3, 5
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def run(name: str, *given, **attributes) -> list[np.ndarray]:
    return results(Dialect.MINDSPORE, name, list(given), **attributes)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


X = normal(STEPS, BATCH, WIDTH)


def lstm(x, h, c, w, r, b) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One direction; gates are input, forget, cell and output."""
    y = []
    for step in x:
        i, f, g, o = np.split(step @ w.T + h @ r.T + b, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        y.append(h)
    return np.stack(y), h, c


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("biases", [0, 1, 2])
def test_lstm_has_all_its_weights_in_one_vector(layers, ways, biases):
    h, c = (normal(layers * ways, BATCH, HIDDEN) for _ in range(2))
    widths = [WIDTH, ways * HIDDEN][:layers]
    weights = [(normal(4 * HIDDEN, n), normal(4 * HIDDEN, HIDDEN)) for n in widths for _ in range(ways)]
    offsets = [normal(biases, 4 * HIDDEN) for _ in weights]
    vector = np.concatenate(
        [*(part.ravel() for pair in weights for part in pair), *(b.ravel() for b in offsets)]
    )
    y, ends_h, ends_c = X, [], []
    for layer in range(layers):
        parts = []
        for way in range(ways):
            n = layer * ways + way
            part, *ends = lstm(y[::-1] if way else y, h[n], c[n], *weights[n], offsets[n].sum(0))
            parts.append(part[::-1] if way else part)
            ends_h.append(ends[0])
            ends_c.append(ends[1])
        y = np.concatenate(parts, -1)
    attributes = {"input_size": WIDTH, "hidden_size": HIDDEN, "num_layers": layers, "has_bias": bool(biases)}
    for dialect in Dialect:
        found = results(
            dialect, "LSTM", [X, h, c, vector[:, None, None]], bidirectional=ways == 2, **attributes
        )
        for result, expected in zip(found, (y, ends_h, ends_c), strict=False):
            np.testing.assert_allclose(result, expected, **CLOSE)


@pytest.mark.parametrize("started", [False, True])
def test_lstm_of_lite_has_weights_as_onnx_has_them(started):
    w, r, b = normal(4, HIDDEN, WIDTH), normal(4, HIDDEN, HIDDEN), normal(4, HIDDEN)
    h, c = (normal(BATCH, HIDDEN) * started for _ in range(2))
    y, *ends = lstm(X, h, c, w.reshape(-1, WIDTH), r.reshape(-1, HIDDEN), b.ravel())
    weights = [part[[0, 3, 1, 2]].reshape(1, 4 * HIDDEN, -1) for part in (w, r, b)]
    weights[2] = np.concatenate([weights[2][:, :, 0], np.zeros((1, 4 * HIDDEN), np.float32)], -1)
    found = results(Dialect.LITE, "LSTM", [X, *weights, *([h[None], c[None]] if started else [])])
    np.testing.assert_allclose(found[0][:, 0], y, **CLOSE)
    for result, expected in zip(found[1:], ends, strict=True):
        np.testing.assert_allclose(result[0], expected, **CLOSE)


@pytest.mark.parametrize("more", [0.0, 0.75])
def test_dynamic_rnn_shows_its_gates(more):
    w, b = normal(WIDTH + HIDDEN, 4 * HIDDEN), normal(4 * HIDDEN)
    h, c = normal(1, BATCH, HIDDEN), normal(1, BATCH, HIDDEN)
    found = run("DynamicRNN", X, w, b, None, h, c, forget_bias=more)
    held, cell = h[0], c[0]
    for step in range(STEPS):
        i, g, f, o = np.split(np.concatenate([X[step], held], -1) @ w + b, 4, -1)
        i, g, f, o = sigmoid(i), np.tanh(g), sigmoid(f + more), sigmoid(o)
        cell = f * cell + i * g
        held = o * np.tanh(cell)
        for result, expected in zip(found, (held, held, cell, i, g, f, o, np.tanh(cell)), strict=True):
            np.testing.assert_allclose(result[step], expected, **CLOSE)


@pytest.mark.parametrize("order", ["rzh", "zrh"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_dynamic_gru_resets_before_or_after_the_product(order, after, biased):
    w, r, h = normal(WIDTH, 3 * HIDDEN), normal(HIDDEN, 3 * HIDDEN), normal(BATCH, HIDDEN)
    first, second = (normal(3 * HIDDEN) if biased else None for _ in range(2))
    found, *_ = run("DynamicGRUV2", X, w, r, first, second, None, h, gate_order=order, reset_after=after)

    def part(x: np.ndarray | None, gate: str) -> np.ndarray:
        return np.zeros(HIDDEN) if x is None else np.split(x, 3, -1)[order.index(gate)]

    for step in range(STEPS):
        reset, keep = (
            sigmoid(X[step] @ part(w, g) + part(first, g) + h @ part(r, g) + part(second, g)) for g in "rz"
        )
        if after:
            inner = reset * (h @ part(r, "h") + part(second, "h"))
        else:
            inner = (reset * h) @ part(r, "h") + part(second, "h")
        h = (1 - keep) * np.tanh(X[step] @ part(w, "h") + part(first, "h") + inner) + keep * h
        np.testing.assert_allclose(found[step], h, **CLOSE)


@pytest.mark.parametrize("merged", [False, True])
def test_the_likeliest_classes_without_blanks(merged):
    classes = np.array([[1, 1, 3, 1, 0, 0], [0, 3, 2, 2, 2, 1]])  # 3 is the blank
    lengths = np.array([5, 4], np.int32)
    x = RANDOM.uniform(0, 1, (6, 2, 4)).astype(np.float32)
    for batch, step in np.ndindex(classes.shape):
        x[step, batch, classes[batch, step]] += 1
    indices, values, size, likely = run("CTCGreedyDecoder", x, lengths, merge_repeated=merged)
    expected = [[1, 1, 0], [0, 2]] if merged else [[1, 1, 1, 0], [0, 2, 2]]
    assert indices.tolist() == [[b, i] for b, row in enumerate(expected) for i in range(len(row))]
    assert values.tolist() == [value for row in expected for value in row]
    assert size.tolist() == [2, max(map(len, expected))]
    peaks = [x[:length, batch].max(-1).sum() for batch, length in enumerate(lengths)]
    np.testing.assert_allclose(likely, -np.array(peaks)[:, None], rtol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_words_that_would_repeat_a_stretch_are_banned(size):
    words = np.array([[[1, 2, 3, 1, 2, 0, 1, 2]], [[4, 4, 4, 1, 0, 4, 4, 4]]], np.int32)
    scores = normal(2, 1, 6)
    expected = scores.copy()
    for row, _ in np.ndindex(2, 1):
        said = words[row, 0].tolist()
        tail = said[len(said) - size + 1 :]
        for at in range(len(said) - size + 1):
            if said[at : at + size - 1] == tail:
                expected[row, 0, said[at + size - 1]] = np.finfo(np.float32).min
    (found,) = run("NoRepeatNGram", words, scores, ngram_size=size)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("length", [1, 2, 7, 8])
@pytest.mark.parametrize("periodic", [False, True])
def test_windows_of_signals_are_numpys(length, periodic):
    given = {"periodic": periodic}
    whole = length + 1 if periodic and length > 1 else length
    for name, window in (("BartlettWindow", np.bartlett), ("BlackmanWindow", np.blackman)):
        if length > 1:
            np.testing.assert_allclose(run(name, length, **given)[0], window(whole)[:length], atol=1e-6)
    if length > 1:
        np.testing.assert_allclose(
            run("HammingWindow", length, **given)[0], np.hamming(whole)[:length], atol=1e-6
        )


@pytest.mark.parametrize(("length", "step"), [(5, 1.0), (8, 0.25)])
def test_frequencies_are_numpys(length, step):
    np.testing.assert_allclose(run("FFTFreq", length, step)[0], np.fft.fftfreq(length, step), rtol=1e-6)
    np.testing.assert_allclose(run("RFFTFreq", length, step)[0], np.fft.rfftfreq(length, step), rtol=1e-6)
