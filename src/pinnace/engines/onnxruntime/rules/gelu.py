"""Fusion of GELU."""

from __future__ import annotations

import math

import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.constants import number
from pinnace.graph.matching import is_float32, made_by, private

_TOLERANCE = 1e-4
"""Relative tolerance of constants, which are written with 4 digits or more."""


def gelu(b: Builder, node: ir.Node) -> ir.Value | None:
    """x * 0.5 * (1 + erf(x / sqrt(2))), in any order -> Gelu; 1 + tanh(...) -> its tanh form.

    The tanh form's argument is sqrt(2 / pi) * (x + 0.044715 * x * x * x).
    """
    factors = _factors(node)
    half = next((f for f in factors if _is(f, 0.5)), None)
    rise = next((f for f in factors if _beside(made_by(f, "Add"), 1.0)), None)
    if len(factors) != 3 or half is None or rise is None or not private(rise):
        return None
    (x,) = (f for f in factors if f is not half and f is not rise)
    curve = _beside(made_by(rise, "Add"), 1.0)
    for op_type, form, is_argument in (("Erf", "none", _is_of_erf), ("Tanh", "tanh", _is_of_tanh)):
        inner = made_by(curve, op_type)
        if inner is not None and private(curve) and is_argument(inner.inputs[0], x) and is_float32(b, x):
            return b.op("Gelu", x, approximate=form)
    return None


def _factors(node: ir.Node) -> list[ir.Value]:
    """Return the operands of a Mul; in place of one that is a Mul itself, the operands of that."""
    factors: list[ir.Value] = []
    for value in node.inputs:
        inner = made_by(value, "Mul") if len(node.inputs) == 2 and private(value) else None
        parts = node.inputs[:0] if inner is None else inner.inputs
        factors += [p for p in (parts or (value,)) if p is not None]
    return factors


def _is(value: ir.Value | None, wanted: float) -> bool:
    given = number(value)
    return given is not None and math.isclose(given, wanted, rel_tol=_TOLERANCE)


def _beside(node: ir.Node | None, wanted: float) -> ir.Value | None:
    """Return the other operand of a node if one is this number; else None."""
    if node is None or len(node.inputs) != 2:
        return None
    first, second = node.inputs
    return second if _is(first, wanted) else first if _is(second, wanted) else None


def _is_of_erf(value: ir.Value | None, x: ir.Value) -> bool:
    scaled = _beside(made_by(value, "Mul"), math.sqrt(0.5))
    divided = made_by(value, "Div")
    if divided is not None and _is(divided.inputs[1], math.sqrt(2)):
        scaled = divided.inputs[0]
    return scaled is x


def _is_of_tanh(value: ir.Value | None, x: ir.Value) -> bool:
    total = made_by(_beside(made_by(value, "Mul"), math.sqrt(2 / math.pi)), "Add")
    if total is None:
        return False
    first, second = total.inputs
    cube = _beside(made_by(second if first is x else first, "Mul"), 0.044715)
    return (first is x or second is x) and _is_cube(cube, x)


def _is_cube(value: ir.Value | None, x: ir.Value) -> bool:
    power, product = made_by(value, "Pow"), made_by(value, "Mul")
    if power is not None:
        return power.inputs[0] is x and _is(power.inputs[1], 3)
    if product is None or not any(i is x for i in product.inputs):
        return False
    square = made_by(product.inputs[1] if product.inputs[0] is x else product.inputs[0], "Mul")
    return square is not None and all(i is x for i in square.inputs)
