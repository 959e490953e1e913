"""Bessel functions, in float64: integrals, and expansions where the argument is large.

The formulas are those of Abramowitz and Stegun: integrals 9.1.18, 9.1.22, 9.6.16 and 9.6.24, beyond `_FAR`
the expansions 9.2.5 and 9.7.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pinnace.graph.builder import Builder
from pinnace.ops.mindspore.special import NODES, gauss_points, in_float64, polynomial
from pinnace.ops.table import DOUBLE, Tensor, Tensors, primitives
from pinnace.ops.values import Value


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

_Numbers = npt.NDArray[np.floating]


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
