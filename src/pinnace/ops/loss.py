"""Losses."""

from __future__ import annotations

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function, functions
from pinnace.ops.table import Tensor
from pinnace.ops.values import Unsupported

_REDUCED = {"0": "sum", "1": "mean", "2": "none"}


@function
def reduced(b: Builder, x: Tensor, reduction: str) -> Tensor:
    """ReduceMean, ReduceSum or nothing."""
    match _REDUCED.get(reduction, reduction):
        case "mean":
            return b.op("ReduceMean", x, keepdims=0)
        case "sum":
            return b.op("ReduceSum", x, keepdims=0)
        case "none":
            return x
    raise Unsupported(f"reduces by {reduction!r}, which is unknown")


functions(
    __name__,
    """
    at: x, labels ->
        # Each row's element at its label.
        Squeeze(GatherElements(x, Unsqueeze(cast(labels, INT64), [1]), axis=1), [1])
    distance: x, y, p, eps -> ReduceSum(Abs(x - y + eps) ** float(p), [-1], keepdims=0) ** (1.0 / p)
    weighted: x, weight -> x if weight is None else Mul(*promoted(x, weight))
    """,
)


formulas(
    __name__,
    """
    BCEWithLogitsLoss: x, target, weight = None, posWeight = None, reduction: str = "mean" ->
        # Softplus of both sides, weighted by the target.
        x, target = promoted(x, target)
        off = (1.0 - target) * Softplus(x)
        on = target * Softplus(-x)
        reduced(weighted(off + weighted(on, posWeight), weight), reduction)
    BinaryCrossEntropy: x, target, weight = None, reduction: str = "mean" ->
        # Logs of the probability and of its rest, weighted by the target.
        one = like(1.0, x)
        # MindSpore keeps the logarithms finite by this much.
        there = Log(Max(x, 1e-12))
        rest = Log(Max(one - x, 1e-12))
        value = target * there + (one - target) * rest
        reduced(weighted(-value, weight), reduction)
    KLDiv: x, target, reduction: str = "mean", log_target: bool = False ->
        reduced(Exp(target) * (target - x) if log_target else xlogy(target, target) - target * x, reduction)
    KLDivLoss: logits, labels, reduction: str = "mean" ->
        # The label times the difference of its Log and the input; 0 for labels that are not positive.
        value = labels * (Log(labels) - logits)
        value = Where(labels > 0.0, value, 0.0)
        if reduction == "batchmean":
            total = ReduceSum(value, keepdims=0)
            return total / cast(tensor(dim(logits, 0)), dtype(total))
        reduced(value, reduction)
    L1LossExt: x, target, reduction: str = "mean" -> reduced(Abs(Sub(*promoted(x, target))), reduction)
    MSELossExt: x, target, reduction: str = "mean" ->
        # Sub, and Mul with itself.
        distance = Sub(*promoted(x, target))
        reduced(distance * distance, reduction)
    MultilabelMarginLoss: x, target, reduction: str = "mean" ->
        # Relu of one less every difference between a target's element and one that is none, and which are.
        rows = x if rank(x) == 2 else Unsqueeze(x, [0])
        labels = cast(target if rank(x) == 2 else Unsqueeze(target, [0]), INT64)
        # What stands after the first -1 is no target.
        ended = CumSum(cast(labels < 0, INT64), constant(1, np.int64))
        named = ended == 0
        place = Where(named, labels, constant(0, np.int64))
        ones = cast(named, FLOAT)
        is_target = ScatterElements(ones * 0.0, place, ones, axis=1, reduction="max")
        own = Unsqueeze(GatherElements(rows, place, axis=1), [2])
        gap = Relu(Unsqueeze(rows, [1]) - own + 1.0)
        others = 1.0 - is_target
        counted = Unsqueeze(ones, [2]) * Unsqueeze(others, [1])
        gap = gap * cast(counted, dtype(x))
        total = ReduceMean(ReduceSum(gap, [1], keepdims=0), [1], keepdims=0)
        total = Squeeze(total, [0]) if rank(x) == 1 else total
        marks = Reshape(cast(is_target, INT32), Shape(target))
        (reduced(total, reduction), marks)
    MultiMarginLoss: x, target, weight = None, *, p: Literal[1, 2] = 1, margin: float = 1.0,
        reduction: str = "mean" ->
        # The mean over classes of Relu of the margin less the distance from the target's.
        places = Unsqueeze(cast(target, INT64), [1])
        own = GatherElements(x, places, axis=1)
        gap = x - own + margin
        # MindSpore counts no NaN
        gap = Where(gap > 0.0, gap, 0.0)
        gap = gap * gap if p == 2 else gap
        gap = gap * Gather(weight, places, axis=0) if weight is not None else gap
        classes = dim(x, 1)
        others = places == counting(classes)
        total = ReduceSum(Where(others, 0.0, gap), [1], keepdims=0)
        reduced(total / cast(tensor(classes), dtype(total)), reduction)
    NLLLoss NLLLoss2d: logits, labels, weight = None, reduction: str = "mean", ignore_index: int = -100 ->
        # NegativeLogLikelihoodLoss; the sum of the weights that took part beside it.
        places, classes = cast(labels, INT64), shape(logits)[1] or 1
        weight = constant(np.ones(room(classes), dtype(logits).numpy())) if weight is None else weight
        counted = places != constant(ignore_index, np.int64)
        safe = Where(counted, places, constant(0, np.int64))
        shares = Gather(weight, safe, axis=0) * cast(counted, dtype(weight))
        loss = Where(counted, -(at(logits, safe) * shares), 0.0)  # what does not take part may be NaN
        total = ReduceSum(shares, keepdims=0)
        if _REDUCED.get(reduction, reduction) == "mean":
            return ReduceSum(loss, keepdims=0) / total, total
        reduced(loss, reduction), total
    SigmoidCrossEntropyWithLogits: logits, label -> Softplus(logits) - logits * label
    SmoothL1Loss: prediction, target, beta: float = 1.0, reduction: str = "none" ->
        # Half the square over beta below beta, the difference less half of beta from there on.
        distance = Abs(Sub(*promoted(prediction, target)))
        far = distance - 0.5 * beta
        if beta == 0:
            return reduced(far, reduction)
        near = distance * distance * (0.5 / beta)
        reduced(Where(distance < beta, near, far), reduction)
    SoftMarginLoss: x, target, reduction: str = "mean" -> reduced(log1p(Exp(-(x * target))), reduction)
    SoftmaxCrossEntropyWithLogits: logits, labels ->
        # LogSoftmax, Mul, ReduceSum; and what training would read.
        loss = -ReduceSum(LogSoftmax(logits, axis=-1) * labels, [-1], keepdims=0)
        (loss, Softmax(logits, axis=-1) - labels)
    SparseSoftmaxCrossEntropyWithLogits; sens: logits, labels ->
        # LogSoftmax at the labels, their mean.
        -ReduceMean(at(LogSoftmax(logits, axis=-1), labels), keepdims=0)
    TripletMarginLoss: x, positive, negative, margin: Value = 1.0, *, p: int = 2, swap: bool = False,
        eps: float = 1e-6, reduction: str = "mean" ->
        # The distance to the positive less that to the negative, where the margin is not kept.
        away = distance(x, negative, p, eps)
        away = Min(away, distance(positive, negative, p, eps)) if swap else away
        beyond = distance(x, positive, p, eps) - away + cast(operand(margin, x), dtype(x))
        reduced(Relu(beyond), reduction)
    """,
)
