"""Special functions, in float64 where the engine can, by their textbook series.

The formulas are those of Abramowitz and Stegun, "Handbook of Mathematical Functions": 6.1.17 and 6.1.41
(log-gamma), 6.3.7 and 6.3.18 (digamma), 6.4.10 (polygamma), 23.1.30 (Euler's and Maclaurin's sum).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.math import floating
from pinnace.ops.room import span
from pinnace.ops.running import repeated
from pinnace.ops.table import Tensor, primitive, primitives
from pinnace.ops.values import Value

_STEPS = 8
"""The move of arguments up to where the series for large ones is used: exact to 1e-13 there."""
_FARTHEST = 4096
"""The lowest argument that is moved up to 0; those below are taken for it."""


def in_float64(b: Builder, x: Tensor) -> Tensor:
    """Numbers as what the series are computed in."""
    return b.cast(floating(b, x), ir.DataType.DOUBLE)


def _polynomial(b: Builder, x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's scheme; the coefficient of the highest power comes first."""
    total = b.like(coefficients[0], x)
    for number in coefficients[1:]:
        total = b.op("Add", b.op("Mul", total, x), number)
    return total


def _lgamma_above_zero(b: Builder, x: Tensor) -> Tensor:
    product = x
    for k in range(1, _STEPS):
        product = b.op("Mul", product, b.op("Add", x, float(k)))
    z = b.op("Add", x, float(_STEPS))
    inverse = b.op("Reciprocal", z)
    tail = _polynomial(b, b.op("Mul", inverse, inverse), (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12))
    main = b.op("Sub", b.op("Mul", b.op("Sub", z, 0.5), b.op("Log", z)), z)
    whole = b.op("Add", b.op("Add", main, 0.5 * math.log(2 * math.pi)), b.op("Mul", tail, inverse))
    return b.op("Sub", whole, b.op("Log", product))


def _reflected(b: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """A mask of what lies below 1/2, and `x` with 1 - x there."""
    below = b.op("Less", x, 0.5)
    return below, b.op("Where", below, b.op("Sub", b.like(1.0, x), x), x)


def _turn(b: Builder, x: Tensor) -> Tensor:
    """Pi times x less the nearest whole number, for functions of period pi."""
    return b.op("Mul", b.op("Sub", x, b.op("Round", x)), math.pi)


def lgamma(b: Builder, x: Tensor) -> Tensor:
    """The logarithm of the gamma function's absolute value, of float64."""
    below, there = _reflected(b, x)
    value = _lgamma_above_zero(b, there)
    sine = b.op("Abs", b.op("Sin", _turn(b, x)))
    mirrored = b.op("Sub", b.op("Sub", b.like(math.log(math.pi), x), b.op("Log", sine)), value)
    return b.op("Where", b.op("IsInf", x), b.op("Abs", x), b.op("Where", below, mirrored, value))


@primitive("Lgamma")
def lgamma_(b: Builder, x: Tensor) -> Value:
    """Stirling's series, and the reflection formula below 1/2."""
    return b.cast(lgamma(b, in_float64(b, x)), b.result(x))


@primitive("Digamma")
def digamma(b: Builder, x: Tensor) -> Value:
    """The derivative of Stirling's series, and the reflection formula below 1/2."""
    return b.cast(_digamma(b, in_float64(b, x)), b.result(x))


def _digamma(b: Builder, exact: Tensor) -> Tensor:
    below, there = _reflected(b, exact)
    z = b.op("Add", there, float(_STEPS))
    inverse = b.op("Reciprocal", z)
    square = b.op("Mul", inverse, inverse)
    tail = _polynomial(b, square, (-1 / 240, 1 / 252, -1 / 120, 1 / 12))
    value = b.op("Sub", b.op("Log", z), b.op("Mul", inverse, 0.5))
    value = b.op("Sub", value, b.op("Mul", tail, square))
    for k in range(_STEPS):
        value = b.op("Sub", value, b.op("Reciprocal", b.op("Add", there, float(k))))
    turn = _turn(b, exact)
    cotangent = b.op("Div", b.op("Cos", turn), b.op("Sin", turn))
    mirrored = b.op("Sub", value, b.op("Mul", cotangent, math.pi))
    whole = b.op("And", b.op("Equal", exact, b.op("Floor", exact)), b.op("Less", exact, 0.5))
    zero = b.op("Equal", exact, 0.0)
    pole = b.op("Where", zero, b.op("Div", b.like(-1.0, exact), exact), b.like(math.nan, exact))
    return b.op("Where", whole, pole, b.op("Where", below, mirrored, value))


def hurwitz_zeta(b: Builder, s: Tensor, q: Tensor) -> Tensor:
    """The sum of (q + k) ** -s over k = 0, 1, ..., of float64."""
    power = b.op("Neg", s)
    before, q = _below_zero(b, power, q)
    total = b.op("Add", before, b.op("Pow", q, power))
    for k in range(1, _STEPS + 1):
        total = b.op("Add", total, b.op("Pow", b.op("Add", q, float(k)), power))
    z = b.op("Add", q, float(_STEPS + 1))
    first = b.op("Pow", z, power)
    total = b.op("Add", total, b.op("Div", b.op("Mul", first, z), b.op("Sub", s, 1.0)))
    total = b.op("Add", total, b.op("Mul", first, 0.5))
    term = b.op("Div", b.op("Mul", first, s), z)
    for k, number in enumerate((1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)):
        total = b.op("Add", total, b.op("Mul", term, number))
        step = b.op("Mul", b.op("Add", s, 2.0 * k + 1), b.op("Add", s, 2.0 * k + 2))
        term = b.op("Div", b.op("Mul", term, step), b.op("Mul", z, z))
    return total


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


@primitive("Zeta")
def zeta(b: Builder, x: Tensor, q: Tensor) -> Value:
    """Euler's and Maclaurin's sum; infinite, zero or NaN where MindSpore's is."""
    s, q_ = in_float64(b, x), in_float64(b, q)
    value = b.op(
        "Where", b.op("IsInf", b.op("Max", s, q_), detect_negative=0), b.like(0.0, s), hurwitz_zeta(b, s, q_)
    )
    below = b.op("LessOrEqual", q_, 0.0)
    even = b.op("Equal", b.op("Mod", s, 2.0, fmod=1), 0.0)
    whole = b.op("Where", b.op("Equal", q_, b.op("Floor", q_)), even, b.op("Equal", s, b.op("Floor", s)))
    value = b.op("Where", b.op("And", below, b.op("Not", whole)), b.like(math.nan, s), value)
    value = b.op("Where", b.op("Less", s, 1.0), b.like(math.nan, s), value)
    return b.cast(b.op("Where", b.op("Equal", s, 1.0), b.like(math.inf, s), value), b.result(x))


@primitive("Polygamma")
def polygamma(b: Builder, a: Tensor, x: Tensor) -> Value:
    """The factorial times Zeta; Digamma for order 0."""
    order = b.known(a)
    if order is not None and int(np.reshape(order, -1)[0]) == 0:
        return digamma(b, x)
    exact = in_float64(b, x)
    s = b.op("Add", b.cast(a, ir.DataType.DOUBLE), 1.0)
    sign = b.op("Sub", b.op("Mul", b.op("Mod", s, 2.0, fmod=1), -2.0), -1.0)
    size = b.op("Mul", b.op("Exp", lgamma(b, s)), hurwitz_zeta(b, s, exact))
    pole = b.op("And", b.op("LessOrEqual", exact, 0.0), b.op("Equal", exact, b.op("Floor", exact)))
    value = b.op("Mul", b.op("Where", pole, b.like(math.inf, size), size), sign)
    if order is None:
        value = b.op("Where", b.op("Equal", s, 1.0), _digamma(b, exact), value)
    return b.cast(value, b.result(x, 0) if not b.declared else b.result(exact))


@primitive("Mvlgamma")
def mvlgamma(b: Builder, x: Tensor, p: int) -> Value:
    """A sum of log-gammas."""
    exact = in_float64(b, x)
    halves = b.constant(np.arange(span(p)) / 2, b.dtype(exact).numpy())
    terms = lgamma(b, b.op("Sub", b.op("Unsqueeze", exact, [-1]), halves))
    total = b.op("ReduceSum", terms, [-1], keepdims=0)
    return b.cast(b.op("Add", total, p * (p - 1) / 4 * math.log(math.pi)), b.result(x))


_ERFINV_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_ERFINV_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


@primitive("Erfinv")
def erfinv(b: Builder, x: Tensor) -> Value:
    """Polynomials in log(1 - x * x), from M. Giles, "Approximating the erfinv function" (2010)."""
    exact = in_float64(b, x)
    one = b.like(1.0, exact)
    w = b.op("Neg", b.op("Log", b.op("Mul", b.op("Sub", one, exact), b.op("Add", one, exact))))
    near = _polynomial(b, b.op("Sub", w, 2.5), _ERFINV_NEAR)
    far = _polynomial(b, b.op("Sub", b.op("Sqrt", w), 3.0), _ERFINV_FAR)
    factor = b.op("Where", b.op("Less", w, 5.0), near, far)
    # At the ends the polynomial is infinite less infinite.
    limit = b.op("Where", b.op("IsInf", w), b.like(math.inf, w), factor)
    return b.cast(b.op("Mul", limit, exact), b.result(x))


# -- Bessel functions ------------------------------------------------------------------------------
#
# Integrals (9.1.18, 9.1.22, 9.6.16, 9.6.24), beyond `_FAR` the expansions for large arguments (9.2.5, 9.7.1).

_NODES = 256
"""Points at which the integrals are summed up: enough for arguments up to about 200."""
_FAR = 30.0
_TERMS = 16
"""Terms of the expansions: the last is less than 1e-13 beyond `_FAR`."""


def _terms(order: int) -> list[float]:
    """The factors of 1, 1 / x, 1 / x**2, ... in the expansions, without their signs."""
    found = [1.0]
    for k in range(1, _TERMS):
        found.append(found[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return found


def _around(power: int) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]:
    """Angles of a full turn, and cos(power * angle) over their number."""
    angles = (np.arange(_NODES) + 0.5) * (2 * math.pi / _NODES)
    return angles, np.cos(power * angles) / _NODES


def _either(b: Builder, x: Tensor, near: Tensor, far: Tensor) -> Tensor:
    return b.op("Where", b.op("Greater", x, _FAR), far, near)


def _scaled_i(b: Builder, x: Tensor, order: int) -> Tensor:
    size = b.op("Abs", x)
    angles, weights = _around(order)
    power = b.op("Mul", b.op("Unsqueeze", size, [-1]), np.cos(angles) - 1)
    near = b.op("MatMul", b.op("Exp", power), weights)
    signed = [a * (-1) ** k for k, a in enumerate(_terms(order))]
    series = _polynomial(b, b.op("Reciprocal", size), signed[::-1])
    value = _either(b, size, near, b.op("Div", series, b.op("Sqrt", b.op("Mul", size, 2 * math.pi))))
    return b.op("Mul", b.op("Abs", value), b.op("Sign", x)) if order else value


def _scaled_k(b: Builder, x: Tensor, order: int) -> Tensor:
    # Where x * (cosh(t) - 1) passes 40, nothing is left of the integral.
    end = b.op("Div", b.like(40.0, x), x)
    root = b.op("Sqrt", b.op("Mul", end, b.op("Add", end, 2.0)))
    reach = b.op("Log", b.op("Add", b.op("Add", end, 1.0), root))
    t = b.op("Mul", b.op("Unsqueeze", reach, [-1]), (np.arange(_NODES) + 0.5) / _NODES)
    cosh = b.op("Mul", b.op("Add", b.op("Exp", t), b.op("Exp", b.op("Neg", t))), 0.5)
    power = b.op("Mul", b.op("Unsqueeze", x, [-1]), b.op("Sub", b.like(1.0, x), cosh))
    inside = b.op("Mul", b.op("Exp", power), cosh) if order else b.op("Exp", power)
    near = b.op("Mul", b.op("MatMul", inside, np.full(_NODES, 1 / _NODES)), reach)
    series = _polynomial(b, b.op("Reciprocal", x), _terms(order)[::-1])
    far = b.op("Mul", series, b.op("Sqrt", b.op("Div", b.like(math.pi / 2, x), x)))
    return b.op("Where", b.op("LessOrEqual", x, 0.0), b.like(math.inf, x), _either(b, x, near, far))


def _i(b: Builder, x: Tensor, order: int) -> Tensor:
    return b.op("Mul", _scaled_i(b, x, order), b.op("Exp", b.op("Abs", x)))


def _k(b: Builder, x: Tensor, order: int) -> Tensor:
    return b.op("Mul", _scaled_k(b, x, order), b.op("Exp", b.op("Neg", x)))


def _waves(b: Builder, x: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """J and Y of large arguments."""
    terms = _terms(order)
    square = b.op("Reciprocal", b.op("Mul", x, x))
    even = _polynomial(b, square, [a * (-1) ** k for k, a in enumerate(terms[::2])][::-1])
    odd = _polynomial(b, square, [a * (-1) ** k for k, a in enumerate(terms[1::2])][::-1])
    odd = b.op("Div", odd, x)
    phase = b.op("Sub", x, (order / 2 + 0.25) * math.pi)
    size = b.op("Sqrt", b.op("Div", b.like(2 / math.pi, x), x))
    cos, sin = (b.op("Mul", size, b.op(name, phase)) for name in ("Cos", "Sin"))
    first = b.op("Sub", b.op("Mul", even, cos), b.op("Mul", odd, sin))
    return first, b.op("Add", b.op("Mul", even, sin), b.op("Mul", odd, cos))


def _j(b: Builder, x: Tensor, order: int) -> Tensor:
    size = b.op("Abs", x)
    angles, _ = _around(order)
    phase = b.op("Sub", b.op("Mul", b.op("Unsqueeze", size, [-1]), np.sin(angles)), order * angles)
    near = b.op("MatMul", b.op("Cos", phase), np.full(_NODES, 1 / _NODES))
    value = _either(b, size, near, _waves(b, size, order)[0])
    if not order:
        return value
    # A zero keeps its sign.
    return b.op("Where", b.op("Greater", size, 0.0), b.op("Mul", value, b.op("Sign", x)), x)


def gauss_points() -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]:
    """Gauss's points between 0 and 1, and their weights, for integrals."""
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    return (places + 1) / 2, weights / 2


def _y(b: Builder, x: Tensor, order: int) -> Tensor:
    exact = b.op("Unsqueeze", x, [-1])
    places, weights = gauss_points()
    angles = places * math.pi
    phase = b.op("Sub", b.op("Mul", exact, np.sin(angles)), order * angles)
    waves = b.op("MatMul", b.op("Sin", phase), weights)
    # Where x * sinh(t) passes 50, nothing is left of the second integral.
    reach = b.op("Log", b.op("Add", b.op("Div", b.like(120.0, exact), exact), 2.0))
    t = b.op("Mul", reach, places)
    up, down = b.op("Exp", t), b.op("Exp", b.op("Neg", t))
    sinh = b.op("Mul", b.op("Sub", up, down), 0.5)
    grown = b.op("Exp", b.op("Neg", b.op("Mul", exact, sinh)))
    shape = b.op("Sub", up, down) if order else b.like(2.0, exact)
    rest = b.op("MatMul", b.op("Mul", b.op("Mul", grown, shape), reach), weights / math.pi)
    value = _either(b, x, b.op("Sub", waves, rest), _waves(b, x, order)[1])
    value = b.op("Where", b.op("LessOrEqual", x, 0.0), b.like(-math.inf, x), value)
    if order and b.result(x) is not ir.DataType.DOUBLE:  # MindSpore's Y1 of 0 is NaN but in float64
        value = b.op("Where", b.op("Equal", x, 0.0), b.like(math.nan, x), value)
    return value


_FULL_TURN = "The mean of Exp of x times a cosine over a full turn"
_HYPERBOLIC = "The integral of Exp of -x times a hyperbolic cosine"


@primitives(
    {
        name.format(order): (order, value, about)
        for name, value, about in (
            ("BesselI{}", _i, _FULL_TURN),
            ("BesselI{}e", _scaled_i, _FULL_TURN),
            ("BesselJ{}", _j, "The mean of Cos of x times a sine over a full turn"),
            ("BesselK{}", _k, _HYPERBOLIC),
            ("BesselK{}e", _scaled_k, _HYPERBOLIC),
            ("BesselY{}", _y, "The integral of Sin over a half turn, less that of a decaying Exp"),
        )
        for order in (0, 1)
    },
)
def bessel(
    b: Builder, order: int, value: Callable[[Builder, Tensor, int], Tensor], about: str, x: Tensor
) -> Value:
    """{about}; a series for large x."""
    return b.cast(value(b, in_float64(b, x), order), b.result(x))
