"""The incomplete gamma and beta functions, in float64, as integrals by Gauss's points.

Where the integrand has a pole at its lower end, the parameter is raised first: Abramowitz and Stegun,
"Handbook of Mathematical Functions", 6.5.21 and 26.5.16.
"""

from __future__ import annotations

import math

from pinnace.ops.builder import Builder
from pinnace.ops.special import gauss_points, in_float64, lgamma
from pinnace.ops.table import Tensor, primitive
from pinnace.ops.values import Value

_RAISED = 4
"""The number by which a parameter is raised: the integrand is smooth enough then for errors below 1e-12."""
_REACH = 24.0
"""Standard deviations of the integrand that the integral covers: less than 1e-14 lies beyond."""


def _integral(b: Builder, low: Tensor, high: Tensor, power: tuple[Tensor, ...], beta: bool) -> Tensor:
    """Of t**p * exp(-t - c), or with `beta` t**p * (1 - t)**q * exp(-c); `power` is (p, q, c)."""
    places, weights = gauss_points()
    p, q, c = (b.op("Unsqueeze", v, [-1]) for v in power)
    start, width = b.op("Unsqueeze", low, [-1]), b.op("Unsqueeze", b.op("Sub", high, low), [-1])
    t = b.op("Add", start, b.op("Mul", width, places))
    falling = b.op("Mul", q, b.op("Log", b.op("Sub", b.like(1.0, t), t))) if beta else b.op("Neg", t)
    exponent = b.op("Sub", b.op("Add", b.op("Mul", p, b.op("Log", t)), falling), c)
    inside = b.op("MatMul", b.op("Exp", exponent), weights)
    return b.op("Mul", inside, b.op("Squeeze", width, [-1]))


def _gammas(b: Builder, a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The regularised incomplete gamma function P, and Q, which is 1 - P."""
    a, x = in_float64(b, a), in_float64(b, x)
    nothing = b.op("Equal", x, 0.0)  # of any parameter, to MindSpore
    a, x = b.op("Add", a, b.op("Mul", x, 0.0)), b.op("Add", x, b.op("Mul", a, 0.0))
    small = b.op("LessOrEqual", x, b.op("Add", a, 1.0))
    reach = b.op("Add", b.op("Mul", b.op("Sqrt", a), _REACH), 100.0)
    # Below: from 0, with a raised parameter. Above: from x as far as there is anything.
    raised = b.op("Add", a, float(_RAISED))
    low = b.op("Max", b.op("Sub", x, reach), 0.0)
    zero = b.op("Mul", a, 0.0)
    start, end = b.op("Where", small, low, x), b.op("Where", small, x, b.op("Add", x, reach))
    own = b.op("Where", small, raised, a)
    part = _integral(b, start, end, (b.op("Sub", own, 1.0), zero, lgamma(b, own)), beta=False)
    log = b.op("Log", x)
    terms = zero
    for k in range(_RAISED):
        order = b.op("Add", a, float(k))
        exponent = b.op("Sub", b.op("Mul", order, log), x)
        terms = b.op("Add", terms, b.op("Exp", b.op("Sub", exponent, lgamma(b, b.op("Add", order, 1.0)))))
    lower = b.op("Add", part, terms)
    rest_below, rest_above = (b.op("Sub", b.like(1.0, x), v) for v in (lower, part))
    p = b.op("Where", small, lower, rest_above)
    q = b.op("Where", small, rest_below, part)
    outside = b.op("Or", b.op("Less", x, 0.0), b.op("LessOrEqual", a, 0.0))
    p = b.op("Where", nothing, b.like(0.0, x), _nan_where(b, outside, p))
    return p, _nan_where(b, outside, q)


def _nan_where(b: Builder, outside: Tensor, x: Tensor) -> Tensor:
    return b.op("Where", outside, b.like(math.nan, x), x)


@primitive("Igamma")
def igamma(b: Builder, a: Tensor, x: Tensor) -> Value:
    """The integral, by Gauss's points."""
    finite = b.op("Min", in_float64(b, x), b.like(1e300, in_float64(b, x)))  # as good as infinity
    return b.cast(_gammas(b, a, finite)[0], b.result(x))


@primitive("Igammac")
def igammac(b: Builder, a: Tensor, x: Tensor) -> Value:
    """The integral, by Gauss's points."""
    return b.cast(_gammas(b, a, x)[1], b.result(x))


@primitive("Betainc")
def betainc(b: Builder, p: Tensor, q: Tensor, x: Tensor) -> Value:
    """The integral, by Gauss's points, from the nearer end."""
    first, second, place = in_float64(b, p), in_float64(b, q), in_float64(b, x)
    middle = b.op("Div", b.op("Add", first, 1.0), b.op("Add", b.op("Add", first, second), 2.0))
    mirrored = b.op("Greater", place, middle)
    p, q = b.op("Where", mirrored, second, first), b.op("Where", mirrored, first, second)
    t = b.op("Where", mirrored, b.op("Sub", b.like(1.0, place), place), place)
    log = b.op("Log", t)
    rest = b.op("Mul", q, b.op("Log", b.op("Sub", b.like(1.0, t), t)))
    terms = b.op("Mul", p, 0.0)
    for k in range(_RAISED):
        order = b.op("Add", p, float(k))
        scale = b.op("Add", _log_beta(b, order, q), b.op("Log", order))
        terms = b.op(
            "Add", terms, b.op("Exp", b.op("Sub", b.op("Add", b.op("Mul", order, log), rest), scale))
        )
    raised = b.op("Add", p, float(_RAISED))
    total = b.op("Add", raised, q)
    spread = b.op("Sqrt", b.op("Div", b.op("Mul", raised, q), b.op("Mul", b.op("Mul", total, total), total)))
    low = b.op("Max", b.op("Sub", t, b.op("Mul", spread, _REACH)), 0.0)
    power = (b.op("Sub", raised, 1.0), b.op("Sub", q, 1.0), _log_beta(b, raised, q))
    value = b.op("Add", _integral(b, low, t, power, beta=True), terms)
    return b.cast(b.op("Where", mirrored, b.op("Sub", b.like(1.0, value), value), value), b.result(x))


def _log_beta(b: Builder, p: Tensor, q: Tensor) -> Tensor:
    return b.op("Sub", b.op("Add", lgamma(b, p), lgamma(b, q)), lgamma(b, b.op("Add", p, q)))
