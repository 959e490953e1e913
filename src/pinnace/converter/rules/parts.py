"""Operators without a primitive, as formulas of other ONNX operators (see `converter.parts`).

After the arrow stand ONNX's operators, as in the lowerings of `ops/`.
"""

from __future__ import annotations

from pinnace.converter.rules import Rules, rules

RULES: Rules = rules(
    __name__,
    """
    Gemm: A, B, C = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0 ->
        a = Transpose(A, perm=[1, 0]) if transA else A
        y = a @ (Transpose(B, perm=[1, 0]) if transB else B)
        y = y if alpha == 1 else y * alpha
        if C is None:
            return y
        y + (C if beta == 1 else C * beta)
    Mean: *inputs -> Sum(*inputs) / len(inputs)
    """,
)
