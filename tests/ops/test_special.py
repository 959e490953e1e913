"""Special functions in float64, beside mpmath's, which are exact to any digit."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from tests.ops.applied import results

from pinnace.program import Dialect

BETWEEN = (-4.3, -1.5, -0.25, 0.01, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.7, 7.9, 8.4, 20.0, 150.5)
ABOVE = (0.01, 0.3, 1.0, 2.5, 9.0, 29.5, 30.5, 45.0, 300.0)
"""On both sides of 30, where Bessel functions change their formula."""
BESSEL = {
    "BesselI0": lambda x: mpmath.besseli(0, x),
    "BesselI0e": lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
    "BesselI1": lambda x: mpmath.besseli(1, x),
    "BesselI1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
    "BesselJ0": lambda x: mpmath.besselj(0, x),
    "BesselJ1": lambda x: mpmath.besselj(1, x),
    "BesselK0": lambda x: mpmath.besselk(0, x),
    "BesselK0e": lambda x: mpmath.besselk(0, x) * mpmath.exp(x),
    "BesselK1": lambda x: mpmath.besselk(1, x),
    "BesselK1e": lambda x: mpmath.besselk(1, x) * mpmath.exp(x),
    "BesselY0": lambda x: mpmath.bessely(0, x),
    "BesselY1": lambda x: mpmath.bessely(1, x),
}
PAIRS = [
    (a, x)
    for a in (0.05, 0.5, 1.0, 3.5, 12.0, 200.0)
    for x in (0.01, 0.4, 1.7, 4.4, 12.5, 30.0, 190.0, 230.0)
]
SUMS = [(s, q) for s in (1.1, 2.0, 3.5, 9.0) for q in (0.1, 0.5, 1.0, 2.5, 20.0)]
SHARES = [
    (a, b, x)
    for a in (0.1, 0.5, 2.0, 30.0)
    for b in (0.1, 0.7, 3.0, 40.0)
    for x in (0.01, 0.3, 0.5, 0.8, 0.99)
]
ONE = [((x,),) for x in BETWEEN]
CASES = {
    "Lgamma": (BETWEEN, lambda x: mpmath.log(abs(mpmath.gamma(x)))),
    "Digamma": (BETWEEN, mpmath.digamma),
    "Igamma": (PAIRS, lambda a, x: mpmath.gammainc(a, 0, x, regularized=True)),
    "Igammac": (PAIRS, lambda a, x: mpmath.gammainc(a, x, regularized=True)),
    "Zeta": (SUMS, mpmath.zeta),
    "Betainc": (SHARES, lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True)),
    **{name: (ABOVE, function) for name, function in BESSEL.items()},
}

WITHIN = {"Betainc": 1e-10, "Digamma": 1e-11, "Lgamma": 1e-12, "Igamma": 1e-12, "Igammac": 1e-12}
"""Those whose results are sums of larger numbers, and the error that leaves."""


@pytest.mark.parametrize("name", CASES)
def test_a_function_is_exact_in_float64(name):
    places, function = CASES[name]
    given = [np.array(column) for column in np.array(places).reshape(len(places), -1).T]
    with mpmath.workdps(30):
        expected = np.array([float(function(*map(float, row))) for row in zip(*given, strict=True)])
    (found,) = results(Dialect.MINDSPORE, name, given)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=WITHIN.get(name, 1e-14))


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_derivatives_of_digamma_are_exact_in_float64(order):
    x = np.array([0.1, 0.5, 1.0, 2.5, 20.0])
    (found,) = results(
        Dialect.MINDSPORE,
        "Polygamma",
        [np.array(order), x],
    )
    (known,) = results(Dialect.MINDSPORE, "Polygamma", [(order,), x])
    expected = [float(mpmath.polygamma(order, p)) for p in x]
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    np.testing.assert_allclose(known, expected, rtol=1e-11)


@pytest.mark.parametrize("p", [1, 3])
def test_the_gamma_function_of_several_dimensions_is_exact_in_float64(p):
    x = np.array([1.5, 2.0, 9.0])
    expected = [
        p * (p - 1) / 4 * np.log(np.pi) + sum(float(mpmath.loggamma(v - j / 2)) for j in range(p)) for v in x
    ]
    (found,) = results(Dialect.MINDSPORE, "Mvlgamma", [x], p=p)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


def test_the_inverse_of_the_error_function_has_the_digits_of_float32():
    x = np.array([-0.999999, -0.99, -0.5, 0.0, 1e-3, 0.9, 0.996, 0.9999])
    (found,) = results(Dialect.MINDSPORE, "Erfinv", [x])
    np.testing.assert_allclose(found, [float(mpmath.erfinv(v)) for v in x], rtol=3e-7)
