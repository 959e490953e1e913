"""A builder for graphs in an older ONNX operator set than lowerings write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from pinnace.graph.failures import Unsupported
from pinnace.graph.inference import OPSET, since
from pinnace.ops.builder import LoweringBuilder

_OLDEST = 13
_SAME = """
Add Cast Constant CumSum Div Equal GreaterOrEqual Identity LessOrEqual Mul Pow Reshape Scan ScatterElements
ScatterND Shape Split Squeeze Sub Transpose Unsqueeze Where
"""
"""Operators to which sets since 13 gave only element types, and attributes."""
_SINCE = {("Reshape", "allowzero"): 14, ("ScatterElements", "reduction"): 16, ("ScatterND", "reduction"): 16}
"""The sets that gave attributes."""
_REDUCING = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd")


class OlderBuilder(LoweringBuilder):
    """Writes the operators of a set since 13 where these were other ones."""

    def emit(
        self,
        op_type: str,
        outputs: int,
        operands: Sequence[ir.Value | None],
        attributes: Mapping[str, Any],
        domain: str = "",
    ) -> tuple[ir.Value, ...]:
        """Add a node in the form of the graph's set. Raises Unsupported if none is known."""
        given, left = list(operands), dict(attributes)
        if domain or since(op_type, self.opset) == since(op_type, OPSET):
            pass
        elif self.opset < _OLDEST:
            raise Unsupported(
                f"is in a model of operator set {self.opset}: export it with {_OLDEST} or later"
            )
        elif op_type in _REDUCING:
            left["axes"] = self.known(given.pop()).tolist()
        elif op_type == "Split" and len(given) == 1:  # in equal parts, of which older sets need no number
            del left["num_outputs"]
        elif op_type == "GridSample" and self.opset >= 16:
            left["mode"] = {"linear": "bilinear", "cubic": "bicubic"}.get(left["mode"], left["mode"])
        elif op_type == "Shape" and self.opset < 15 and left:
            (whole,) = super().emit(op_type, 1, given, {})
            start, end = ([left.pop(name)] for name in ("start", "end"))
            return super().emit("Slice", 1, [whole, *(self.vector(x) for x in (start, end))], {})
        elif op_type not in _SAME.split() or any(
            self.opset < _SINCE.get((op_type, name), 0) for name in left
        ):
            raise Unsupported(f"needs {op_type} of another operator set: export the model with {OPSET}")
        return super().emit(op_type, outputs, given, left, domain)
