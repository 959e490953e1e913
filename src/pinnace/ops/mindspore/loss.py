"""Losses."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, room
from pinnace.ops.mindspore.arithmetic import squared_difference, xlogy
from pinnace.ops.mindspore.array import counting
from pinnace.ops.mindspore.math import log1p, promoted
from pinnace.ops.table import Tensor, formulas, primitive
from pinnace.ops.values import FLOAT, INT32, INT64, Value

_REDUCED = {"0": "sum", "1": "mean", "2": "none"}


def reduced(op: Builder, x: Tensor, reduction: str) -> Tensor:
    name = _REDUCED.get(reduction, reduction)
    if name not in ("mean", "sum", "none"):
        raise Unsupported(f"reduces by {reduction!r}, which is unknown")
    return x if name == "none" else op.op("ReduceMean" if name == "mean" else "ReduceSum", x, keepdims=0)


def _at(op: Builder, x: Tensor, labels: Tensor) -> Tensor:
    """Each row's element at its label."""
    return op.Squeeze(op.GatherElements(x, op.Unsqueeze(op.cast(labels, INT64), [1]), axis=1), [1])


def _distance(op: Builder, x: Tensor, y: Tensor) -> Tensor:
    return op.Abs(op.Sub(*promoted(op, x, y)))


def _distance_of_rows(op: Builder, x: Tensor, y: Tensor, p: int, eps: float) -> Tensor:
    return op.Pow(op.ReduceSum(op.Pow(op.Abs(x - y + eps), float(p)), [-1], keepdims=0), 1.0 / p)


def _weighted(op: Builder, x: Tensor, weight: Tensor | None) -> Tensor:
    return x if weight is None else op.Mul(*promoted(op, x, weight))


@primitive("BCEWithLogitsLoss")
def _bce_with_logits_loss(
    op: Builder,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    posWeight: Tensor | None = None,
    reduction: str = "mean",
) -> Value:
    x, target = promoted(op, x, target)
    off = (1.0 - target) * op.Softplus(x)
    on = target * op.Softplus(-x)
    return reduced(op, _weighted(op, off + _weighted(op, on, posWeight), weight), reduction)


@primitive("BinaryCrossEntropy")
def _binary_cross_entropy(
    op: Builder, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Value:
    one = op.like(1.0, x)
    # MindSpore keeps the logarithms finite by this much.
    there = op.Log(op.Max(x, 1e-12))
    rest = op.Log(op.Max(one - x, 1e-12))
    value = target * there + (one - target) * rest
    return reduced(op, _weighted(op, -value, weight), reduction)


@primitive("KLDivLoss")
def _kl_div_loss(op: Builder, logits: Tensor, labels: Tensor, reduction: str = "mean") -> Value:
    """The label times the difference of its Log and the input; 0 for labels that are not positive."""
    value = labels * (op.Log(labels) - logits)
    value = op.Where(op.Greater(labels, 0.0), value, 0.0)
    if reduction == "batchmean":
        total = op.ReduceSum(value, keepdims=0)
        return total / op.cast(op.tensor(op.dim(logits, 0)), op.dtype(total))
    return reduced(op, value, reduction)


@primitive("MultilabelMarginLoss")
def _multilabel_margin_loss(op: Builder, x: Tensor, target: Tensor, reduction: str = "mean") -> Value:
    """Relu of one less every difference between a target's element and one that is none, and which are."""
    rows = x if op.rank(x) == 2 else op.Unsqueeze(x, [0])
    labels = op.cast(target if op.rank(x) == 2 else op.Unsqueeze(target, [0]), INT64)
    # What stands after the first -1 is no target.
    ended = op.CumSum(op.cast(op.Less(labels, 0), INT64), op.constant(1, np.int64))
    named = op.Equal(ended, 0)
    place = op.Where(named, labels, op.constant(0, np.int64))
    ones = op.cast(named, FLOAT)
    is_target = op.ScatterElements(ones * 0.0, place, ones, axis=1, reduction="max")
    own = op.Unsqueeze(op.GatherElements(rows, place, axis=1), [2])
    gap = op.Relu(op.Unsqueeze(rows, [1]) - own + 1.0)
    others = 1.0 - is_target
    counted = op.Unsqueeze(ones, [2]) * op.Unsqueeze(others, [1])
    gap = gap * op.cast(counted, op.dtype(x))
    total = op.ReduceMean(op.ReduceSum(gap, [1], keepdims=0), [1], keepdims=0)
    total = op.Squeeze(total, [0]) if op.rank(x) == 1 else total
    marks = op.Reshape(op.cast(is_target, INT32), op.Shape(target))
    return (reduced(op, total, reduction), marks)


@primitive("MultiMarginLoss")
def _multi_margin_loss(
    op: Builder,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    p: Literal[1, 2] = 1,
    margin: float = 1.0,
    reduction: str = "mean",
) -> Value:
    """The mean over classes of Relu of the margin less the distance from the target's."""
    places = op.Unsqueeze(op.cast(target, INT64), [1])
    own = op.GatherElements(x, places, axis=1)
    gap = x - own + margin
    # MindSpore counts no NaN
    gap = op.Where(op.Greater(gap, 0.0), gap, 0.0)
    gap = gap * gap if p == 2 else gap
    gap = gap * op.Gather(weight, places, axis=0) if weight is not None else gap
    classes = op.dim(x, 1)
    others = op.Equal(places, counting(op, classes))
    total = op.ReduceSum(op.Where(others, 0.0, gap), [1], keepdims=0)
    return reduced(op, total / op.cast(op.tensor(classes), op.dtype(total)), reduction)


@primitive("NLLLoss", "NLLLoss2d")
def _nll_loss(
    op: Builder,
    logits: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Value:
    """NegativeLogLikelihoodLoss; the sum of the weights that took part beside it, in their type."""
    places, classes = op.cast(labels, INT64), op.shape(logits)[1] or 1
    dtype = op.dtype(logits if weight is None else weight)
    weight = op.constant(np.ones(room(classes), dtype.numpy())) if weight is None else weight
    weight = op.cast(weight, op.dtype(logits))
    counted = op.Not(op.Equal(places, op.constant(ignore_index, np.int64)))
    safe = op.Where(counted, places, op.constant(0, np.int64))
    shares = op.Gather(weight, safe, axis=0) * op.cast(counted, op.dtype(weight))
    loss = op.Where(counted, -(_at(op, logits, safe) * shares), 0.0)  # what does not take part may be NaN
    total = op.ReduceSum(shares, keepdims=0)
    sum_of_weights = op.cast(total, dtype)
    if _REDUCED.get(reduction, reduction) == "mean":
        return op.ReduceSum(loss, keepdims=0) / total, sum_of_weights
    return reduced(op, loss, reduction), sum_of_weights


@primitive("SmoothL1Loss")
def _smooth_l1_loss(
    op: Builder, prediction: Tensor, target: Tensor, beta: float = 1.0, reduction: str = "none"
) -> Value:
    """Half the square over beta below beta, the difference less half of beta from there on."""
    distance = _distance(op, prediction, target)
    far = distance - 0.5 * beta
    if beta == 0:
        return reduced(op, far, reduction)
    near = distance * distance * (0.5 / beta)
    return reduced(op, op.Where(op.Less(distance, beta), near, far), reduction)


@primitive("SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy_with_logits(op: Builder, logits: Tensor, labels: Tensor) -> Value:
    """LogSoftmax, Mul, ReduceSum; and what training would read."""
    loss = -op.ReduceSum(op.LogSoftmax(logits, axis=-1) * labels, [-1], keepdims=0)
    return (loss, op.Softmax(logits, axis=-1) - labels)


@primitive("TripletMarginLoss")
def _triplet_margin_loss(
    op: Builder,
    x: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: Value = 1.0,
    *,
    p: int = 2,
    swap: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Value:
    """The distance to the positive less that to the negative, where the margin is not kept."""
    away = _distance_of_rows(op, x, negative, p, eps)
    away = op.Min(away, _distance_of_rows(op, positive, negative, p, eps)) if swap else away
    beyond = _distance_of_rows(op, x, positive, p, eps) - away + op.cast(op.operand(margin, x), op.dtype(x))
    return reduced(op, op.Relu(beyond), reduction)


formulas(
    {
        "KLDiv": lambda op, x, target, reduction="mean", log_target=False: reduced(
            op,
            op.Exp(target) * (target - x) if log_target else xlogy(op, target, target) - target * x,
            reduction,
        ),
        "L1LossExt": lambda op, x, target, reduction="mean": reduced(op, _distance(op, x, target), reduction),
        "MSELossExt": lambda op, x, target, reduction="mean": reduced(
            op, squared_difference(op, *promoted(op, x, target)), reduction
        ),
        "SigmoidCrossEntropyWithLogits": lambda op, logits, label: op.Softplus(logits) - logits * label,
        "SoftMarginLoss": lambda op, x, target, reduction="mean": reduced(
            op, log1p(op, op.Exp(-(x * target))), reduction
        ),
        "SparseSoftmaxCrossEntropyWithLogits": lambda op, logits, labels: (
            -op.ReduceMean(_at(op, op.LogSoftmax(logits, axis=-1), labels), keepdims=0)
        ),
    },
    unused="sens",
)
