"""Elementwise arithmetic, comparison and logic."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.ops.builder import Builder
from pinnace.ops.table import Tensor, primitive, same
from pinnace.ops.values import Value

same(
    __name__,
    {
        "Abs": "Abs",
        "ACos": "Acos",
        "Acosh": "Acosh",
        "Asin": "Asin",
        "Asinh": "Asinh",
        "Atan": "Atan",
        "Atanh": "Atanh",
        "Ceil": "Ceil",
        "Cos": "Cos",
        "Cosh": "Cosh",
        "Erf": "Erf",
        "Exp": "Exp",
        "Floor": "Floor",
        "IsNan": "IsNaN",
        "IsInf": "IsInf",
        "LogicalNot": "Not",
        "Log": "Log",
        "Neg": "Neg",
        "Reciprocal": "Reciprocal",
        "Sign": "Sign",
        "Sin": "Sin",
        "Sinh": "Sinh",
        "Sqrt": "Sqrt",
        "Tan": "Tan",
    },
)


def _promoted(b: Builder, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the type that holds both: MindSpore's binary primitives mix types, ONNX's do not."""
    first, second = b.dtype(x), b.dtype(y)
    if first is second:
        return x, y
    wide = _wider(first, second)
    return b.cast(x, wide), b.cast(y, wide)


def _wider(first: ir.DataType, second: ir.DataType) -> ir.DataType:
    if first.is_floating_point() != second.is_floating_point():
        return first if first.is_floating_point() else second
    return first if first.bitwidth >= second.bitwidth else second


def _binary(op_type: str, *names: str) -> None:
    def lowering(b: Builder, x: Tensor, y: Tensor) -> Value:
        return b.op(op_type, *_promoted(b, x, y))

    lowering.__doc__ = f"{op_type}, both operands in the wider type."
    primitive(*names)(lowering)


_binary("Add", "Add", "ScalarAdd")
_binary("Sub", "Sub", "ScalarSub")
_binary("Mul", "Mul", "Muls", "ScalarMul")
_binary("Equal", "Equal", "ScalarEq")
_binary("Greater", "Greater", "ScalarGt")
_binary("GreaterOrEqual", "GreaterEqual", "ScalarGe")
_binary("Less", "Less", "ScalarLt")
_binary("LessOrEqual", "LessEqual", "ScalarLe")
_binary("Max", "Maximum")
_binary("Min", "Minimum")
