"""Special functions, in float64 where the engine can, by their textbook series.

The formulas are those of Abramowitz and Stegun, "Handbook of Mathematical Functions": 6.1.17 and 6.1.41
(log-gamma), 6.3.7 and 6.3.18 (digamma), 6.4.10 (polygamma), 23.1.30 (Euler's and Maclaurin's sum). The
incomplete gamma and beta functions are integrals by Gauss's points; where the integrand has a pole at its
lower end, the parameter is raised first: 6.5.21 and 26.5.16.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.formulas import formulas, function, functions
from pinnace.ops.running import repeated
from pinnace.ops.table import Tensor

_STEPS = 8
"""The move of arguments up to where the series for large ones is used: exact to 1e-13 there."""
_FARTHEST = 4096
"""The lowest argument that is moved up to 0; those below are taken for it."""
_GAMMA = (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_DIGAMMA = (-1 / 240, 1 / 252, -1 / 120, 1 / 12)
_ZETA = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)

functions(
    __name__,
    """
    in_float64: x -> cast(floating(x), DOUBLE)
    polynomial: x, coefficients ->
        # Horner's scheme; the coefficient of the highest power comes first.
        total = like(coefficients[0], x)
        for number in coefficients[1:]:
            total = total * x + number
        total
    mirrored: x ->
        # A mask of what lies below 1/2, and `x` with 1 - x there.
        below = x < 0.5
        below, Where(below, 1.0 - x, x)
    angle: x -> (x - Round(x)) * pi
    lgamma_above_zero: x ->
        # Stirling's series.
        product = x
        for k in range(1, _STEPS):
            product = product * (x + k)
        z = x + _STEPS
        inverse = Reciprocal(z)
        tail = polynomial(inverse * inverse, _GAMMA)
        (z - 0.5) * Log(z) - z + 0.5 * log(2 * pi) + tail * inverse - Log(product)
    lgamma: x ->
        # The logarithm of the gamma function's absolute value, of float64.
        below, there = mirrored(x)
        value = lgamma_above_zero(there)
        reflected = log(pi) - Log(Abs(Sin(angle(x)))) - value
        Where(IsInf(x), Abs(x), Where(below, reflected, value))
    digamma: x ->
        # The derivative of Stirling's series, and the reflection formula below 1/2.
        below, there = mirrored(x)
        z = there + _STEPS
        inverse = Reciprocal(z)
        square = inverse * inverse
        value = Log(z) - inverse * 0.5 - polynomial(square, _DIGAMMA) * square
        for k in range(_STEPS):
            value = value - Reciprocal(there + k)
        turn = angle(x)
        reflected = value - Cos(turn) / Sin(turn) * pi
        pole = Where(x == 0.0, -1.0 / x, nan)
        Where((x == Floor(x)) & (x < 0.5), pole, Where(below, reflected, value))
    hurwitz_zeta: s, q ->
        # The sum of (q + k) ** -s over k = 0, 1, ..., of float64.
        power = -s
        before, q = below_zero(power, q)
        total = before + q**power
        for k in range(1, _STEPS + 1):
            total = total + (q + k) ** power
        z = q + (_STEPS + 1)
        first = z**power
        total = total + first * z / (s - 1.0) + first * 0.5
        term = first * s / z
        for k, number in enumerate(_ZETA):
            total = total + term * number
            term = term * ((s + (2 * k + 1)) * (s + (2 * k + 2))) / (z * z)
        total
    polygamma: a, x ->
        # Of orders `a`, of float64.
        s = cast(a, DOUBLE) + 1.0
        sign = Mod(s, 2.0, fmod=1) * -2.0 - -1.0
        pole = (x <= 0.0) & (x == Floor(x))
        value = Where(pole, inf, Exp(lgamma(s)) * hurwitz_zeta(s, x)) * sign
        Where(s == 1.0, digamma(x), value) if known(a) is None else value
    near_or_far: x, near, far -> Where(x > _FAR, far, near)
    scaled_i: x, order ->
        # The mean of Exp of x times a cosine over a full turn, over Exp of x; a series for large x.
        size = Abs(x)
        angles, weights = _around(order)
        near = Exp(Unsqueeze(size, [-1]) * (np.cos(angles) - 1)) @ weights
        series = polynomial(Reciprocal(size), _terms(order))
        value = near_or_far(size, near, series / Sqrt(size * (2 * pi)))
        Abs(value) * Sign(x) if order else value
    scaled_k: x, order ->
        # The integral of Exp of -x times a hyperbolic cosine, over Exp of -x; a series for large x.
        # Where x * (cosh(t) - 1) passes 40, nothing is left of the integral.
        end = 40.0 / x
        reach = Log(end + 1.0 + Sqrt(end * (end + 2.0)))
        t = Unsqueeze(reach, [-1]) * ((np.arange(_NODES) + 0.5) / _NODES)
        cosh = (Exp(t) + Exp(-t)) * 0.5
        grown = Exp(Unsqueeze(x, [-1]) * (1.0 - cosh))
        near = (grown * cosh if order else grown) @ np.full(_NODES, 1 / _NODES) * reach
        far = polynomial(Reciprocal(x), _terms(order, alternating=False)) * Sqrt(pi / 2 / x)
        Where(x <= 0.0, inf, near_or_far(x, near, far))
    bessel_i: x, order -> scaled_i(x, order) * Exp(Abs(x))
    bessel_k: x, order -> scaled_k(x, order) * Exp(-x)
    waves: x, order ->
        # J and Y of large arguments.
        square = Reciprocal(x * x)
        even = polynomial(square, _terms(order, 2))
        odd = polynomial(square, _terms(order, 2, 1)) / x
        phase = x - (order / 2 + 0.25) * pi
        size = Sqrt(2 / pi / x)
        cos, sin = size * Cos(phase), size * Sin(phase)
        even * cos - odd * sin, even * sin + odd * cos
    bessel_j: x, order ->
        # The mean of Cos of x times a sine over a full turn; a series for large x.
        size = Abs(x)
        angles, _ = _around(order)
        phase = Unsqueeze(size, [-1]) * np.sin(angles) - order * angles
        near = Cos(phase) @ np.full(_NODES, 1 / _NODES)
        value = near_or_far(size, near, waves(size, order)[0])
        Where(size > 0.0, value * Sign(x), x) if order else value  # a zero keeps its sign
    bessel_y: x, order ->
        # The integral of Sin over a half turn, less that of a decaying Exp; a series for large x.
        exact = Unsqueeze(x, [-1])
        places, weights = _gauss_points()
        angles = places * pi
        wave = Sin(exact * np.sin(angles) - order * angles) @ weights
        # Where x * sinh(t) passes 50, nothing is left of the second integral.
        reach = Log(120.0 / exact + 2.0)
        t = reach * places
        up, down = Exp(t), Exp(-t)
        grown = Exp(-(exact * ((up - down) * 0.5)))
        shape = up - down if order else like(2.0, exact)
        rest = (grown * shape * reach) @ (weights / pi)
        value = near_or_far(x, wave - rest, waves(x, order)[1])
        value = Where(x <= 0.0, -inf, value)
        # MindSpore's Y1 of 0 is NaN but in float64.
        Where(x == 0.0, nan, value) if order and result(x) is not DOUBLE else value
    integral: low, high, power, beta ->
        # Of t**p * exp(-t - c), or with `beta` t**p * (1 - t)**q * exp(-c); `power` is (p, q, c).
        places, weights = _gauss_points()
        p, q, c = [Unsqueeze(v, [-1]) for v in power]
        start, width = Unsqueeze(low, [-1]), Unsqueeze(high - low, [-1])
        t = start + width * places
        falling = q * Log(1.0 - t) if beta else -t
        Exp(p * Log(t) + falling - c) @ weights * Squeeze(width, [-1])
    log_beta: p, q -> lgamma(p) + lgamma(q) - lgamma(p + q)
    gammas: a, x ->
        # The regularised incomplete gamma function P, and Q, which is 1 - P, of float64.
        nothing = x == 0.0  # of any parameter, to MindSpore
        a, x = a + x * 0.0, x + a * 0.0
        small = x <= a + 1.0
        reach = Sqrt(a) * _REACH + 100.0
        # Below: from 0, with a raised parameter. Above: from x as far as there is anything.
        start, end = Where(small, Max(x - reach, 0.0), x), Where(small, x, x + reach)
        own = Where(small, a + _RAISED, a)
        part = integral(start, end, (own - 1.0, a * 0.0, lgamma(own)), beta=False)
        logarithm, terms = Log(x), a * 0.0
        for k in range(_RAISED):
            order = a + k
            terms = terms + Exp(order * logarithm - x - lgamma(order + 1.0))
        lower = part + terms
        p, q = Where(small, lower, 1.0 - part), Where(small, 1.0 - lower, part)
        outside = (x < 0.0) | (a <= 0.0)
        Where(nothing, 0.0, Where(outside, nan, p)), Where(outside, nan, q)
    """,
)


@function
def _below_zero(b: Builder, power: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of (q + k) ** power for which q + k is less than 0, and the first q + k that is not."""
    least = b.op(
        "ReduceMin", b.op("Concat", b.reshape(q, [-1]), b.constant([0.0], np.float64), axis=0), keepdims=0
    )
    turns = b.op("Min", b.op("Neg", b.op("Floor", least)), float(_FARTHEST))

    def turn(_: Tensor, carried: Sequence[Tensor]) -> Sequence[Tensor]:
        total, q = carried
        below = b.op("Less", q, 0.0)
        term = b.op("Where", below, b.op("Pow", q, power), b.like(0.0, q))
        return b.op("Add", total, term), b.op("Add", q, b.cast(below, b.dtype(q)))

    nothing = b.op("Mul", b.op("Add", power, q), 0.0)
    total, above = repeated(b, b.cast(turns, ir.DataType.INT64), (nothing, q), turn)
    return total, above


_ERFINV_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_ERFINV_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip

formulas(
    __name__,
    """
    BesselI0: x -> cast(bessel_i(in_float64(x), 0), result(x))
    BesselI0e: x -> cast(scaled_i(in_float64(x), 0), result(x))
    BesselI1: x -> cast(bessel_i(in_float64(x), 1), result(x))
    BesselI1e: x -> cast(scaled_i(in_float64(x), 1), result(x))
    BesselJ0: x -> cast(bessel_j(in_float64(x), 0), result(x))
    BesselJ1: x -> cast(bessel_j(in_float64(x), 1), result(x))
    BesselK0: x -> cast(bessel_k(in_float64(x), 0), result(x))
    BesselK0e: x -> cast(scaled_k(in_float64(x), 0), result(x))
    BesselK1: x -> cast(bessel_k(in_float64(x), 1), result(x))
    BesselK1e: x -> cast(scaled_k(in_float64(x), 1), result(x))
    BesselY0: x -> cast(bessel_y(in_float64(x), 0), result(x))
    BesselY1: x -> cast(bessel_y(in_float64(x), 1), result(x))
    Betainc: p, q, x ->
        # The integral, by Gauss's points, from the nearer end.
        first, second, place = in_float64(p), in_float64(q), in_float64(x)
        mirrored = place > (first + 1.0) / (first + second + 2.0)
        p, q = Where(mirrored, second, first), Where(mirrored, first, second)
        t = Where(mirrored, 1.0 - place, place)
        logarithm, rest, terms = Log(t), q * Log(1.0 - t), p * 0.0
        for k in range(_RAISED):
            order = p + k
            terms = terms + Exp(order * logarithm + rest - (log_beta(order, q) + Log(order)))
        raised = p + _RAISED
        total = raised + q
        spread = Sqrt(raised * q / (total * total * total))
        power = raised - 1.0, q - 1.0, log_beta(raised, q)
        value = integral(Max(t - spread * _REACH, 0.0), t, power, beta=True) + terms
        cast(Where(mirrored, 1.0 - value, value), result(x))
    Digamma: x -> cast(digamma(in_float64(x)), result(x))
    Erfinv: x ->
        # Polynomials in log(1 - x * x), from M. Giles, "Approximating the erfinv function" (2010).
        exact = in_float64(x)
        w = -Log((1.0 - exact) * (1.0 + exact))
        near, far = polynomial(w - 2.5, _ERFINV_NEAR), polynomial(Sqrt(w) - 3.0, _ERFINV_FAR)
        # At the ends the polynomial is infinite less infinite.
        limit = Where(IsInf(w), inf, Where(w < 5.0, near, far))
        cast(limit * exact, result(x))
    Igamma: a, x ->
        # The integral, by Gauss's points.
        finite = Min(in_float64(x), 1e300)  # as good as infinity
        cast(gammas(in_float64(a), finite)[0], result(x))
    Igammac: a, x -> cast(gammas(in_float64(a), in_float64(x))[1], result(x))
    Lgamma: x -> cast(lgamma(in_float64(x)), result(x))
    Mvlgamma: x, p: int ->
        # A sum of log-gammas.
        terms = lgamma(Unsqueeze(in_float64(x), [-1]) - np.arange(span(p)) / 2)
        cast(ReduceSum(terms, [-1], keepdims=0) + p * (p - 1) / 4 * log(pi), result(x))
    Polygamma: a, x ->
        # The factorial times Zeta; Digamma for order 0.
        exact, order = in_float64(x), known(a)
        digammas = order is not None and np.ravel(order)[0] == 0
        cast(digamma(exact) if digammas else polygamma(a, exact), result(x))
    Zeta: x, q ->
        # Euler's and Maclaurin's sum; infinite, zero or NaN where MindSpore's is.
        s, q_ = in_float64(x), in_float64(q)
        value = Where(IsInf(Max(s, q_), detect_negative=0), 0.0, hurwitz_zeta(s, q_))
        whole = Where(q_ == Floor(q_), Mod(s, 2.0, fmod=1) == 0.0, s == Floor(s))
        value = Where((q_ <= 0.0) & ~whole, nan, value)
        cast(Where(s == 1.0, inf, Where(s < 1.0, nan, value)), result(x))
    """,
)


# -- Bessel functions ------------------------------------------------------------------------------
#
# Integrals (9.1.18, 9.1.22, 9.6.16, 9.6.24), beyond `_FAR` the expansions for large arguments (9.2.5, 9.7.1).

_NODES = 256
"""Points at which the integrals are summed up: enough for arguments up to about 200."""
_FAR = 30.0
_TERMS = 16
"""Terms of the expansions: the last is less than 1e-13 beyond `_FAR`."""

_Numbers = npt.NDArray[np.floating]


def _terms(order: int, step: int = 1, start: int = 0, alternating: bool = True) -> list[float]:
    """The factors of 1 / x**k in the expansions, k from `start` on by `step`, that of the highest first."""
    found = [1.0]
    for k in range(1, _TERMS):
        found.append(found[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return [a * (-1) ** k if alternating else a for k, a in enumerate(found[start::step])][::-1]


def _around(power: int) -> tuple[_Numbers, _Numbers]:
    """Angles of a full turn, and cos(power * angle) over their number."""
    angles = (np.arange(_NODES) + 0.5) * (2 * math.pi / _NODES)
    return angles, np.cos(power * angles) / _NODES


def _gauss_points() -> tuple[_Numbers, _Numbers]:
    """Gauss's points between 0 and 1, and their weights, for integrals."""
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    return (places + 1) / 2, weights / 2


# -- incomplete gamma and beta functions -----------------------------------------------------------

_RAISED = 4
"""The number by which a parameter is raised: the integrand is smooth enough then for errors below 1e-12."""
_REACH = 24.0
"""Standard deviations of the integrand that the integral covers: less than 1e-14 lies beyond."""
