"""What keeps quantised operators from the integer kernels of onnxruntime, written so that it does not.

It takes an operator for one of integers where all inputs come from DequantizeLinear, and where a
QuantizeLinear reads the result (a product of matrices may also give floats).
"""

from __future__ import annotations

import math

import onnx_ir as ir

from pinnace.engines.onnxruntime.rules.match import made_by, number, private
from pinnace.ops.builder import Builder

_WITH_KERNELS = ("Add", "Conv", "Gemm", "MatMul")
_ENDS = {ir.DataType.INT8: (-128, 127), ir.DataType.UINT8: (0, 255)}
"""What quantisation cuts off at; the integers that have kernels."""


def bias_of_integers(b: Builder, node: ir.Node) -> ir.Value | None:
    """Gemm of two dequantised matrices with a bias of floats -> Add(Gemm, bias).

    MindSpore Lite's dynamic quantisation leaves the bias in floats. A layer of 2048 inputs and 1000 outputs
    took 0.43 ms before and takes 0.08 ms, on one core of an EPYC without VNNI.
    """
    if len(node.inputs) < 3 or node.inputs[2] is None or not all(map(_dequantised, node.inputs[:2])):
        return None
    if _dequantised(node.inputs[2]) or any(k in node.attributes for k in ("alpha", "beta")):
        return None
    product = b.op("Gemm", *node.inputs[:2], **{a.name: a.value for a in node.attributes.values()})
    return b.op("Add", product, node.inputs[2])


def activation_of_integers(b: Builder, node: ir.Node) -> ir.Value | None:
    """QuantizeLinear(Relu or Clip(x)) -> QuantizeLinear(x), where an integer kernel gives x.

    Integers are cut off at their ends, which is what the activation does where its bounds are there; else it
    is done between two more steps. Both are exact: quantisation keeps order, so it can go before a bound.
    A Transpose, as layouts bring it, may lie between.
    """
    x, scale, zero_point = (*node.inputs, None)[:3]
    step, zero = number(scale), number(zero_point)
    moved = made_by(x, "Transpose") if private(x) else None
    act = made_by(moved.inputs[0] if moved else x, "Relu", "Clip")
    if step is None or zero is None or act is None or not private(act.outputs[0]):
        return None
    ends = None if zero_point is None or zero_point.dtype is None else _ENDS.get(zero_point.dtype)
    if ends is None or scale is None or b.shape(scale) != ():  # the kernel of Add takes no vector of one
        return None
    before = act.inputs[0]
    weighted = made_by(before, *_WITH_KERNELS)
    if weighted is None or not private(before) or not all(map(_dequantised, weighted.inputs[:2])):
        return None
    low, high = _bounds(act)
    assert before is not None
    attributes = {a.name: a.value for a in node.attributes.values()}
    moved_before = before if moved is None else b.transpose(before, moved.attributes["perm"].as_ints())
    integers = b.op("QuantizeLinear", moved_before, scale, zero_point, **attributes)
    if low / step + zero <= ends[0] and high / step + zero >= ends[1]:
        return integers
    floats = b.op("DequantizeLinear", integers, scale, zero_point)
    cut = b.op(act.op_type, floats, *act.inputs[1:])
    return b.op("QuantizeLinear", cut, scale, zero_point, **attributes)


def _dequantised(x: ir.Value | None) -> bool:
    """Whether a value was made of integers; onnxruntime looks through a Transpose."""
    moved = made_by(x, "Transpose")
    return made_by(moved.inputs[0] if moved else x, "DequantizeLinear") is not None


def _bounds(act: ir.Node) -> tuple[float, float]:
    if act.op_type == "Relu":
        return 0.0, math.inf
    low, high = (*act.inputs[1:], None, None)[:2]
    return _bound(low, -math.inf), _bound(high, math.inf)


def _bound(given: ir.Value | None, none: float) -> float:
    """A bound of a Clip: `none` where it is left out, the strictest there is where only the run knows it."""
    known = number(given)
    return none if given is None else -none if known is None else known
