"""Special functions, in float64 where the engine can, by their textbook series.

The formulas are those of Abramowitz and Stegun, "Handbook of Mathematical Functions": 6.1.17 and 6.1.41
(log-gamma), 6.3.7 and 6.3.18 (digamma), 6.4.10 (polygamma), 23.1.30 (Euler's and Maclaurin's sum). The
incomplete gamma and beta functions are integrals by Gauss's points; where the integrand has a pole at its
lower end, the parameter is raised first: 6.5.21 and 26.5.16. Bessel functions are integrals (9.1.18, 9.1.22,
9.6.16 and 9.6.24), beyond `_FAR` expansions (9.2.5 and 9.7.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from inspect import signature

import numpy as np
import numpy.typing as npt

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported, span
from pinnace.ops.mindspore.array import repeated
from pinnace.ops.mindspore.math import floating
from pinnace.ops.table import Tensor, Tensors, primitive, primitives
from pinnace.ops.values import DOUBLE, INT64, Value

_STEPS = 8
"""The move of arguments up to where the series for large ones is used: exact to 1e-13 there."""
_FARTHEST = 4096
"""The lowest argument that is moved up to 0; those below are taken for it."""
_Numbers = npt.NDArray[np.floating]
_GAMMA = (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_DIGAMMA = (-1 / 240, 1 / 252, -1 / 120, 1 / 12)
_ZETA = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)


def in_float64(op: Builder, x: Tensor) -> Tensor:
    return op.cast(floating(op, x), DOUBLE)


def polynomial(op: Builder, x: Tensor, coefficients: Value) -> Tensor:
    """Horner's scheme; the coefficient of the highest power comes first."""
    total = op.like(coefficients[0], x)
    for number in coefficients[1:]:
        total = total * x + number
    return total


def _mirrored(op: Builder, x: Tensor) -> Tensors:
    """A mask of what lies below 1/2, and `x` with 1 - x there."""
    below = op.Less(x, 0.5)
    return below, op.Where(below, 1.0 - x, x)


def _angle(op: Builder, x: Tensor) -> Value:
    return (x - op.Round(x)) * math.pi


def _lgamma_above_zero(op: Builder, x: Tensor) -> Value:
    """Stirling's series."""
    product = x
    for k in range(1, _STEPS):
        product = product * (x + k)
    z = x + _STEPS
    inverse = op.Reciprocal(z)
    tail = polynomial(op, inverse * inverse, _GAMMA)
    return (z - 0.5) * op.Log(z) - z + 0.5 * math.log(2 * math.pi) + tail * inverse - op.Log(product)


def _lgamma(op: Builder, x: Tensor) -> Tensor:
    """The logarithm of the gamma function's absolute value, of float64."""
    below, there = _mirrored(op, x)
    value = _lgamma_above_zero(op, there)
    reflected = math.log(math.pi) - op.Log(op.Abs(op.Sin(_angle(op, x)))) - value
    return op.Where(op.IsInf(x), op.Abs(x), op.Where(below, reflected, value))


def _digamma(op: Builder, x: Tensor) -> Tensor:
    """The derivative of Stirling's series, and the reflection formula below 1/2."""
    below, there = _mirrored(op, x)
    z = there + _STEPS
    inverse = op.Reciprocal(z)
    square = inverse * inverse
    value = op.Log(z) - inverse * 0.5 - polynomial(op, square, _DIGAMMA) * square
    for k in range(_STEPS):
        value = value - op.Reciprocal(there + k)
    turn = _angle(op, x)
    reflected = value - op.Cos(turn) / op.Sin(turn) * math.pi
    pole = op.Where(op.Equal(x, 0.0), -1.0 / x, math.nan)
    return op.Where(
        op.And(op.Equal(x, op.Floor(x)), op.Less(x, 0.5)), pole, op.Where(below, reflected, value)
    )


def _hurwitz_zeta(op: Builder, s: Tensor, q: Tensor) -> Value:
    """The sum of (q + k) ** -s over k = 0, 1, ..., of float64."""
    power = -s
    before, q = _below_zero(op, power, q)
    total = before + op.Pow(q, power)
    for k in range(1, _STEPS + 1):
        total = total + op.Pow(q + k, power)
    z = q + (_STEPS + 1)
    first = op.Pow(z, power)
    total = total + first * z / (s - 1.0) + first * 0.5
    term = first * s / z
    for k, number in enumerate(_ZETA):
        total = total + term * number
        term = term * ((s + (2 * k + 1)) * (s + (2 * k + 2))) / (z * z)
    return total


def _polygamma(op: Builder, a: Tensor, x: Tensor) -> Tensor:
    """Of orders `a`, of float64."""
    s = op.cast(a, DOUBLE) + 1.0
    sign = op.Mod(s, 2.0, fmod=1) * -2.0 - -1.0
    pole = op.And(op.LessOrEqual(x, 0.0), op.Equal(x, op.Floor(x)))
    value = op.Where(pole, math.inf, op.Exp(_lgamma(op, s)) * _hurwitz_zeta(op, s, x)) * sign
    return op.Where(op.Equal(s, 1.0), _digamma(op, x), value) if op.known(a) is None else value


def _integral(op: Builder, low: Tensor, high: Tensor, power: Tensors, beta: bool) -> Value:
    """Of t**p * exp(-t - c), or with `beta` t**p * (1 - t)**q * exp(-c); `power` is (p, q, c)."""
    places, weights = gauss_points()
    p, q, c = [op.Unsqueeze(v, [-1]) for v in power]
    start, width = op.Unsqueeze(low, [-1]), op.Unsqueeze(high - low, [-1])
    t = start + width * places
    falling = q * op.Log(1.0 - t) if beta else -t
    return op.MatMul(op.Exp(p * op.Log(t) + falling - c), weights) * op.Squeeze(width, [-1])


def _log_beta(op: Builder, p: Tensor, q: Tensor) -> Value:
    return _lgamma(op, p) + _lgamma(op, q) - _lgamma(op, p + q)


def _gammas(op: Builder, a: Tensor, x: Tensor) -> Tensors:
    """The regularized incomplete gamma function P, and Q, which is 1 - P, of float64."""
    nothing = op.Equal(x, 0.0)  # of any parameter, to MindSpore
    a, x = a + x * 0.0, x + a * 0.0
    small = op.LessOrEqual(x, a + 1.0)
    reach = op.Sqrt(a) * _REACH + 100.0
    # Below: from 0, with a raised parameter. Above: from x as far as there is anything.
    start, end = op.Where(small, op.Max(x - reach, 0.0), x), op.Where(small, x, x + reach)
    own = op.Where(small, a + _RAISED, a)
    part = _integral(op, start, end, (own - 1.0, a * 0.0, _lgamma(op, own)), beta=False)
    logarithm, terms = op.Log(x), a * 0.0
    for k in range(_RAISED):
        order = a + k
        terms = terms + op.Exp(order * logarithm - x - _lgamma(op, order + 1.0))
    lower = part + terms
    p, q = op.Where(small, lower, 1.0 - part), op.Where(small, 1.0 - lower, part)
    outside = op.Or(op.Less(x, 0.0), op.LessOrEqual(a, 0.0))
    return op.Where(nothing, 0.0, op.Where(outside, math.nan, p)), op.Where(outside, math.nan, q)


def _below_zero(op: Builder, power: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of (q + k) ** power for which q + k is less than 0, and the first q + k that is not."""
    least = op.ReduceMin(op.Concat(op.reshape(q, [-1]), op.constant([0.0], np.float64), axis=0), keepdims=0)
    turns = op.Min(-op.Floor(least), float(_FARTHEST))

    def turn(_: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        total, q = carried
        below = op.Less(q, 0.0)
        term = op.Where(below, op.Pow(q, power), op.like(0.0, q))
        return total + term, q + op.cast(below, op.dtype(q))

    nothing = (power + q) * 0.0
    total, above = repeated(op, op.cast(turns, INT64), (nothing, q), turn)
    return total, above


_ERFINV_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_ERFINV_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def _betainc(op: Builder, first: Tensor, second: Tensor, place: Tensor) -> Tensor:
    """The integral, by Gauss's points, from the nearer end."""
    mirrored = op.Greater(place, (first + 1.0) / (first + second + 2.0))
    p, q = op.Where(mirrored, second, first), op.Where(mirrored, first, second)
    t = op.Where(mirrored, 1.0 - place, place)
    logarithm, rest, terms = op.Log(t), q * op.Log(1.0 - t), p * 0.0
    for k in range(_RAISED):
        order = p + k
        terms = terms + op.Exp(order * logarithm + rest - (_log_beta(op, order, q) + op.Log(order)))
    raised = p + _RAISED
    total = raised + q
    std = op.Sqrt(raised * q / (total * total * total))
    power = raised - 1.0, q - 1.0, _log_beta(op, raised, q)
    value = _integral(op, op.Max(t - std * _REACH, 0.0), t, power, beta=True) + terms
    return op.Where(mirrored, 1.0 - value, value)


def _erfinv(op: Builder, x: Tensor) -> Value:
    """Polynomials in log(1 - x * x), from M. Giles, "Approximating the erfinv function" (2010)."""
    w = -op.Log((1.0 - x) * (1.0 + x))
    near, far = polynomial(op, w - 2.5, _ERFINV_NEAR), polynomial(op, op.Sqrt(w) - 3.0, _ERFINV_FAR)
    # At the ends the polynomial is infinite less infinite.
    return op.Where(op.IsInf(w), math.inf, op.Where(op.Less(w, 5.0), near, far)) * x


@primitive("Mvlgamma")
def _mvlgamma(op: Builder, x: Tensor, p: int) -> Value:
    """A sum of log-gammas."""
    terms = _lgamma(op, op.Unsqueeze(in_float64(op, x), [-1]) - np.arange(span(p)) / 2)
    return op.cast(op.ReduceSum(terms, [-1], keepdims=0) + p * (p - 1) / 4 * math.log(math.pi), op.result(x))


@primitive("Polygamma")
def _lower_polygamma(op: Builder, a: Tensor, x: Tensor) -> Value:
    """The factorial times Zeta; Digamma for order 0."""
    exact, order = in_float64(op, x), op.known(a)
    digammas = order is not None and np.ravel(order)[0] == 0
    return op.cast(_digamma(op, exact) if digammas else _polygamma(op, a, exact), op.result(x))


def _zeta(op: Builder, s: Tensor, q: Tensor) -> Tensor:
    """Euler's and Maclaurin's sum; infinite, zero or NaN where MindSpore's is."""
    value = op.Where(op.IsInf(op.Max(s, q), detect_negative=0), 0.0, _hurwitz_zeta(op, s, q))
    is_whole, even = op.Equal(q, op.Floor(q)), op.Equal(op.Mod(s, 2.0, fmod=1), 0.0)
    whole = op.Where(is_whole, even, op.Equal(s, op.Floor(s)))
    value = op.Where(op.And(op.LessOrEqual(q, 0.0), op.Not(whole)), math.nan, value)
    return op.Where(op.Equal(s, 1.0), math.inf, op.Where(op.Less(s, 1.0), math.nan, value))


@primitives(
    {
        "Betainc": _betainc,
        "Digamma": _digamma,
        "Erfinv": _erfinv,
        "Igamma": lambda op, a, x: _gammas(op, a, op.Min(x, 1e300))[0],  # which is as good as infinity
        "Igammac": lambda op, a, x: _gammas(op, a, x)[1],
        "Lgamma": _lgamma,
        "Zeta": _zeta,
    }
)
def _special(op: Builder, function: Callable[..., Tensor], *arguments: Tensor) -> Value:
    wanted = len(signature(function).parameters) - 1  # without the builder
    if len(arguments) != wanted:
        raise Unsupported(f"takes {wanted} inputs, but has {len(arguments)}")
    return op.cast(function(op, *[in_float64(op, x) for x in arguments]), op.result(arguments[0]))


NODES = 256
"""Points at which the integrals are summed up: enough for Bessel functions of up to about 200."""
_RAISED = 4
"""The number by which a parameter is raised: the integrand is smooth enough then for errors below 1e-12."""
_REACH = 24.0
"""Standard deviations of the integrand that the integral covers: less than 1e-14 lies beyond."""


def gauss_points() -> tuple[_Numbers, _Numbers]:
    """Gauss's points between 0 and 1, and their weights, for integrals."""
    places, weights = np.polynomial.legendre.leggauss(NODES)
    return (places + 1) / 2, weights / 2


def _near_or_far(op: Builder, x: Tensor, near: Tensor, far: Tensor) -> Tensor:
    return op.Where(op.Greater(x, _FAR), far, near)


def _scaled_i(op: Builder, x: Tensor, order: int) -> Tensor:
    """The mean of Exp of x times a cosine over a full turn, over Exp of x; a series for large x."""
    size = op.Abs(x)
    angles, weights = _around(order)
    near = op.MatMul(op.Exp(op.Unsqueeze(size, [-1]) * (np.cos(angles) - 1)), weights)
    series = polynomial(op, op.Reciprocal(size), _terms(order))
    value = _near_or_far(op, size, near, series / op.Sqrt(size * (2 * math.pi)))
    return op.Abs(value) * op.Sign(x) if order else value


def _scaled_k(op: Builder, x: Tensor, order: int) -> Tensor:
    """The integral of Exp of -x times a hyperbolic cosine, over Exp of -x; a series for large x."""
    # Where x * (cosh(t) - 1) passes 40, nothing is left of the integral.
    end = 40.0 / x
    reach = op.Log(end + 1.0 + op.Sqrt(end * (end + 2.0)))
    t = op.Unsqueeze(reach, [-1]) * ((np.arange(NODES) + 0.5) / NODES)
    cosh = (op.Exp(t) + op.Exp(-t)) * 0.5
    grown = op.Exp(op.Unsqueeze(x, [-1]) * (1.0 - cosh))
    near = op.MatMul(grown * cosh if order else grown, np.full(NODES, 1 / NODES)) * reach
    far = polynomial(op, op.Reciprocal(x), _terms(order, alternating=False)) * op.Sqrt(math.pi / 2 / x)
    return op.Where(op.LessOrEqual(x, 0.0), math.inf, _near_or_far(op, x, near, far))


def _bessel_i(op: Builder, x: Tensor, order: int) -> Value:
    return _scaled_i(op, x, order) * op.Exp(op.Abs(x))


def _bessel_k(op: Builder, x: Tensor, order: int) -> Value:
    return _scaled_k(op, x, order) * op.Exp(-x)


def _waves(op: Builder, x: Tensor, order: int) -> Tensors:
    """J and Y of large arguments."""
    square = op.Reciprocal(x * x)
    even = polynomial(op, square, _terms(order, 2))
    odd = polynomial(op, square, _terms(order, 2, 1)) / x
    phase = x - (order / 2 + 0.25) * math.pi
    size = op.Sqrt(2 / math.pi / x)
    cos, sin = size * op.Cos(phase), size * op.Sin(phase)
    return even * cos - odd * sin, even * sin + odd * cos


def _bessel_j(op: Builder, x: Tensor, order: int) -> Tensor:
    """The mean of Cos of x times a sine over a full turn; a series for large x."""
    size = op.Abs(x)
    angles, _ = _around(order)
    phase = op.Unsqueeze(size, [-1]) * np.sin(angles) - order * angles
    near = op.MatMul(op.Cos(phase), np.full(NODES, 1 / NODES))
    value = _near_or_far(op, size, near, _waves(op, size, order)[0])
    # A zero keeps its sign.
    return op.Where(op.Greater(size, 0.0), value * op.Sign(x), x) if order else value


def _bessel_y(op: Builder, x: Tensor, order: int) -> Tensor:
    """The integral of Sin over a half turn, less that of a decaying Exp; a series for large x."""
    exact = op.Unsqueeze(x, [-1])
    places, weights = gauss_points()
    angles = places * math.pi
    wave = op.MatMul(op.Sin(exact * np.sin(angles) - order * angles), weights)
    # Where x * sinh(t) passes 50, nothing is left of the second integral.
    reach = op.Log(120.0 / exact + 2.0)
    t = reach * places
    up, down = op.Exp(t), op.Exp(-t)
    grown = op.Exp(-(exact * ((up - down) * 0.5)))
    shape = up - down if order else op.like(2.0, exact)
    rest = op.MatMul(grown * shape * reach, weights / math.pi)
    value = _near_or_far(op, x, wave - rest, _waves(op, x, order)[1])
    value = op.Where(op.LessOrEqual(x, 0.0), -math.inf, value)
    # MindSpore's Y1 of 0 is NaN but in float64.
    return op.Where(op.Equal(x, 0.0), math.nan, value) if order and op.result(x) is not DOUBLE else value


@primitives(
    {
        "BesselI0": (_bessel_i, 0),
        "BesselI0e": (_scaled_i, 0),
        "BesselI1": (_bessel_i, 1),
        "BesselI1e": (_scaled_i, 1),
        "BesselJ0": (_bessel_j, 0),
        "BesselJ1": (_bessel_j, 1),
        "BesselK0": (_bessel_k, 0),
        "BesselK0e": (_scaled_k, 0),
        "BesselK1": (_bessel_k, 1),
        "BesselK1e": (_scaled_k, 1),
        "BesselY0": (_bessel_y, 0),
        "BesselY1": (_bessel_y, 1),
    }
)
def bessel(op: Builder, function: Callable[[Builder, Tensor, int], Tensor], order: int, x: Tensor) -> Value:
    """Its integral as MatMul of a function at many places, in float64; for J and Y far out its series."""
    return op.cast(function(op, in_float64(op, x), order), op.result(x))


_FAR = 30.0
_TERMS = 16
"""Terms of the expansions: the last is less than 1e-13 beyond `_FAR`."""


def _terms(order: int, step: int = 1, start: int = 0, alternating: bool = True) -> list[float]:
    """The factors of 1 / x**k in the expansions, k from `start` on by `step`, that of the highest first."""
    found = [1.0]
    for k in range(1, _TERMS):
        found.append(found[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return [a * (-1) ** k if alternating else a for k, a in enumerate(found[start::step])][::-1]


def _around(power: int) -> tuple[_Numbers, _Numbers]:
    """Angles of a full turn, and cos(power * angle) over their number."""
    angles = (np.arange(NODES) + 0.5) * (2 * math.pi / NODES)
    return angles, np.cos(power * angles) / NODES
