"""Losses and activations, beside their formulas in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.ops.applied import results

from pinnace.graph.failures import Unsupported
from pinnace.program import Dialect

RANDOM = np.random.default_rng(29)
X, Y, Z = (RANDOM.normal(size=(4, 5)).astype(np.float32) for _ in range(3))
P, Q = (1 / (1 + np.exp(-v)) for v in (X, Y))
SIGNS, LABELS, WEIGHT = np.sign(Z), np.array([3, 0, 4, 1]), np.array([0.5, 2, 1, 0.25, 3], np.float32)
ENDS = np.array([0, 1, 0.5, 1e-20], np.float32)


def soft(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def far(a: np.ndarray, b: np.ndarray, p: int) -> np.ndarray:
    return (abs(a - b + 1e-6) ** p).sum(-1) ** (1 / p)


def margins(p: int, margin: float, weight: np.ndarray) -> np.ndarray:
    own = X[range(4), LABELS][:, None]
    gaps = np.maximum(margin - own + X, 0) ** p * weight[LABELS][:, None]
    gaps[range(4), LABELS] = 0
    return gaps.mean(1)


def of_several(x: np.ndarray, targets: list[list[int]]) -> np.ndarray:
    """The mean over classes of how far those that are no targets come within 1 of those that are."""
    losses = []
    for row, own in zip(x, targets, strict=True):
        others = [c for c in range(len(row)) if c not in own]
        losses.append(sum(max(0.0, 1 - row[t] + row[c]) for t in own for c in others) / len(row))
    return np.array(losses)


ONES = np.ones(5, np.float32)
LOSSES = [
    ("BCEWithLogitsLoss", [X, Q], {}, soft(X) - X * Q),
    ("BCEWithLogitsLoss", [X, Q, WEIGHT, WEIGHT[::-1]], {},
     (Q * soft(-X) * WEIGHT[::-1] + (1 - Q) * soft(X)) * WEIGHT),
    ("BinaryCrossEntropy", [P, Q], {}, -Q * np.log(P) - (1 - Q) * np.log(1 - P)),
    ("BinaryCrossEntropy", [P, Q, WEIGHT], {}, (-Q * np.log(P) - (1 - Q) * np.log(1 - P)) * WEIGHT),
    ("BinaryCrossEntropy", [ENDS, 1 - ENDS], {},
     -(1 - ENDS) * np.log(np.maximum(ENDS, 1e-12)) - ENDS * np.log(np.maximum(1 - ENDS, 1e-12))),
    ("KLDivLoss", [X, Q], {}, Q * (np.log(Q) - X)),
    ("KLDivLoss", [X, 0 * Q], {}, 0 * Q),
    ("KLDiv", [X, Q], {}, Q * (np.log(Q) - X)),
    ("KLDiv", [X, Y], {"log_target": True}, np.exp(Y) * (Y - X)),
    ("L1LossExt", [X, Y], {}, abs(X - Y)),
    ("MSELossExt", [X, Y], {}, (X - Y) ** 2),
    ("SoftMarginLoss", [X, SIGNS], {}, soft(-X * SIGNS)),
    ("MultiMarginLoss", [X, LABELS, ONES], {}, margins(1, 1.0, ONES)),
    ("MultiMarginLoss", [X, LABELS, WEIGHT], {"p": 2, "margin": 0.5}, margins(2, 0.5, WEIGHT)),
    ("MultilabelMarginLoss", [X[:2], np.array([[3, 0, -1, 1, 2], [4, -1, 0, 0, 0]])], {},
     of_several(X[:2], [[3, 0], [4]])),
    ("TripletMarginLoss", [X, Y, Z, np.array(0.5, np.float32)], {},
     np.maximum(far(X, Y, 2) - far(X, Z, 2) + 0.5, 0)),
    ("TripletMarginLoss", [X, Y, Z, np.array(2, np.float32)], {"p": 1, "swap": True},
     np.maximum(far(X, Y, 1) - np.minimum(far(X, Z, 1), far(Y, Z, 1)) + 2, 0)),
]  # fmt: skip


@pytest.mark.parametrize("case", LOSSES, ids=lambda case: case[0])
def test_losses_are_reduced_in_three_ways(case):
    name, given, attributes, each = case
    for reduction, expected in (("none", each), ("mean", each.mean()), ("sum", each.sum())):
        found, *_ = results(Dialect.MINDSPORE, name, given, reduction=reduction, **attributes)
        assert found.shape == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_another_reduction_is_refused():
    with pytest.raises(Unsupported, match="reduces by 'half', which is unknown"):
        results(Dialect.MINDSPORE, "L1LossExt", [X, Y], reduction="half")


def test_the_mean_of_a_batch_is_over_its_rows():
    (found,) = results(Dialect.MINDSPORE, "KLDivLoss", [X, Q], reduction="batchmean")
    np.testing.assert_allclose(found, (Q * (np.log(Q) - X)).sum() / 4, rtol=1e-5)


@pytest.mark.parametrize("ignored", [-100, 4])
def test_the_likelihood_of_labels(ignored):
    counted = np.not_equal(LABELS, ignored)
    shares = WEIGHT[LABELS] * counted
    each = -X[range(4), LABELS] * shares
    for reduction, expected in (("none", each), ("mean", each.sum() / shares.sum()), ("sum", each.sum())):
        found, total = results(
            Dialect.MINDSPORE, "NLLLoss", [X, LABELS, WEIGHT], reduction=reduction, ignore_index=ignored
        )
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(total, shares.sum())


def test_entropies_of_classes():
    logs = X - np.log(np.exp(X).sum(1, keepdims=True))
    loss, slope = results(Dialect.MINDSPORE, "SoftmaxCrossEntropyWithLogits", [X, Q])
    np.testing.assert_allclose(loss, -(logs * Q).sum(1), rtol=1e-5)
    np.testing.assert_allclose(slope, np.exp(logs) - Q, rtol=1e-5, atol=1e-6)
    (loss,) = results(Dialect.MINDSPORE, "SparseSoftmaxCrossEntropyWithLogits", [X, LABELS])
    np.testing.assert_allclose(loss, -logs[range(4), LABELS].mean(), rtol=1e-5)
    (loss,) = results(Dialect.MINDSPORE, "SigmoidCrossEntropyWithLogits", [X, Q])
    np.testing.assert_allclose(loss, soft(X) - X * Q, rtol=1e-5, atol=1e-6)


W = np.linspace(-7, 7, 29, dtype=np.float32)
ERF = np.vectorize(math.erf)
S = 1 / (1 + np.exp(-W))
UP, DOWN, NEVER = math.inf, -math.inf, math.nan
STRANGE = np.array([1, UP, DOWN, NEVER], np.float32)
ACTIVATIONS = [
    ("CeLU", [W], {"alpha": 0.5}, np.where(W < 0, 0.5 * np.expm1(W / 0.5), W)),
    ("CeLU", [W], {}, np.where(W < 0, np.expm1(W), W)),
    ("Elu", [W], {"alpha": 1.0}, np.where(W < 0, np.expm1(W), W)),
    ("EluExt", [W, 0.5], {}, np.where(W < 0, 0.5 * np.expm1(W), W)),
    ("FastGeLU", [W], {}, W / (1 + np.exp(-1.702 * W))),
    ("GeLU", [W], {}, W / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (W + 0.044715 * W**3)))),
    ("GeluExt", [W], {}, W / 2 * (1 + ERF(W / np.sqrt(2)))),
    ("GLU", [X[:, :4]], {}, X[:, :2] * P[:, 2:4]),
    ("GLU", [X, 0], {}, X[:2] * P[2:]),
    ("Swiglu", [X[:, :4]], {}, X[:, :2] * P[:, :2] * X[:, 2:4]),
    ("Hardtanh", [W], {}, W.clip(-1, 1)),
    ("Hardtanh", [W, -2.0, 0.5], {}, W.clip(-2, 0.5)),
    ("HShrink", [W, 2.0], {}, np.where(abs(W) <= 2, 0, W)),
    ("SoftShrink", [W, 2.0], {}, np.sign(W) * np.maximum(abs(W) - 2, 0)),
    ("SoftShrink", [W], {}, np.sign(W) * np.maximum(abs(W) - 0.5, 0)),
    *((name, [W.astype(kind)], {}, factor * (W / 6 + 0.5).clip(0, 1))
      for name, factor in (("HSigmoid", 1), ("HSwish", W)) for kind in (np.float32, np.float64)),
    ("LeakyReLUExt", [W, 0.3], {}, np.where(W < 0, 0.3 * W, W)),
    ("LogSigmoid", [W], {}, np.log(S)),
    ("Mish", [W], {}, W * np.tanh(soft(W))),
    ("ReLU6", [W], {}, W.clip(0, 6)),
    ("ReLU", [W.astype(np.int32)], {}, W.astype(np.int32).clip(0)),
    ("SeLU", [W], {}, 1.0507009873554805 * np.where(W < 0, 1.6732632423543772 * np.expm1(W), W)),
    *(("SeLU", [np.array([-100, -18, -17, -1, 0, 9], kind)], {}, [-1, -1, 0, 0, 0, 9])  # MindSpore 2.10's
      for kind in (np.int8, np.int32)),
    ("SiLU", [W], {}, W * S),
    ("Softplus", [W], {}, soft(W)),
    ("SoftplusExt", [W, 2.0, 3.0], {}, np.where(2 * W > 3, W, soft(2 * W) / 2)),
    ("Softsign", [W], {}, W / (1 + abs(W))),
    ("Threshold", [W, 1.5, -2.0], {}, np.where(W > 1.5, W, -2)),
    ("Softmax", [X], {"axis": (0,)}, np.exp(X) / np.exp(X).sum(0)),
    ("Softmax", [X], {"axis": (0, 1)}, np.exp(X) / np.exp(X).sum()),
    ("LogSoftmax", [X, 0], {}, X - np.log(np.exp(X).sum(0))),
    ("Log10", [S], {}, np.log10(S)),
    ("Log2", [S], {}, np.log2(S)),
    ("Log1p", [np.array([1e-7, 0.5, 1, 30], np.float32)], {}, np.log1p([1e-7, 0.5, 1, 30])),
    ("Expm1", [np.array([-60, -1, 1e-7, 2], np.float32)], {}, np.expm1([-60, -1, 1e-7, 2])),
    ("Exp2", [W], {}, 2.0**W),
    ("Erfc", [W / 3], {}, 1 - ERF(W / 3)),
    ("Rsqrt", [S], {}, S**-0.5),
    ("Frac", [W * 0.3], {}, np.modf(W * 0.3)[0]),
    ("Trunc", [W * 0.3], {}, np.trunc(W * 0.3)),
    ("Rint", [W], {}, np.rint(W)),
    ("Square", [W], {}, W**2),
    ("Sign", [STRANGE], {}, [1, 1, -1, 0]),
    ("IsFinite", [STRANGE], {}, [True, False, False, False]),
    ("IsInf", [STRANGE], {}, [False, True, True, False]),
    ("IsNegInf", [STRANGE], {}, [False, False, True, False]),
    ("IsNan", [STRANGE], {}, [False, False, False, True]),
    *((name, [LABELS], {}, [name == "IsFinite"] * 4) for name in ("IsFinite", "IsInf", "IsNegInf", "IsNan")),
    ("NanToNum", [STRANGE, 2.0, 3.0, 4.0], {}, [1, 3, 4, 2]),
    ("NanToNum", [STRANGE], {}, np.nan_to_num(STRANGE)),
    ("Angle", [STRANGE], {}, [0, 0, np.pi, np.nan]),
    ("Imag", [W], {}, 0 * W),
    ("Eps", [W[:2]], {}, [np.finfo(np.float32).eps] * 2),
    ("Round", [W * 0.37, 1], {}, np.round(W * 0.37, 1)),
    ("Round", [W * 37, -1], {}, np.round(W * 37, -1)),
]  # fmt: skip


@pytest.mark.parametrize("case", ACTIVATIONS, ids=lambda case: case[0])
def test_functions_of_elements_are_their_formulas(case):
    name, given, attributes, expected = case
    found, *_ = results(Dialect.MINDSPORE, name, given, **attributes)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)
