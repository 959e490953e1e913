"""Products of integers of 8 bits, by scales that each run finds, or by ranges that a calibration found.

Weights have a scale for each channel of the result and no zero point; activations are unsigned.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.machine.processor import sums_of_bytes_overflow
from pinnace.quantising.form import Form
from pinnace.quantising.operators import Floats, Operator, matrix, normalised, weight_of
from pinnace.quantising.writing import Site
from pinnace.types import Array

_SHARED = "pinnace.integers"
"""Key of a value's metadata: its integers, which several operators read."""


def dynamic(operator: Operator, form: Form) -> None:
    """Compute a product in integers; each run finds the scale of its input."""
    place, x = Site(operator), operator.node.inputs[0]
    assert x is not None
    whole, scales = _rounded(matrix(operator.node), 1)
    if _SHARED not in x.meta:
        x.meta[_SHARED] = place.ops("DynamicQuantizeLinear", 3, x)
    values, scale, zero = x.meta[_SHARED]
    sums = place.op("MatMulInteger", values, place.constant(whole), zero)
    wide = place.op("Cast", sums, to=ir.DataType.FLOAT.value)
    place.finish(place.op("Mul", wide, place.op("Mul", scale, place.constant(scales))))


def static(operator: Operator, form: Form) -> None:
    """Write an operator between steps from and to integers, in whose place engines compute in integers."""
    node = operator.node
    weighted = weight_of(node) is not None
    read = [x for x in (node.inputs[:1] if weighted else node.inputs) if x is not None]
    if any(x.name not in form.ranges for x in read):
        return
    place = Site(operator)
    inputs: list[ir.Value | None] = [_stepped(place, x, form.ranges[x.name or ""]) for x in read]
    if weighted:
        weight, bias = normalised(operator)
        axis = 1 if node.op_type == "MatMul" or _untransposed(node) else 0
        whole, scales = _rounded(weight, axis)
        parts: list[Array] = [whole, scales, np.zeros(scales.shape, np.int8)]
        inputs.append(place.op("DequantizeLinear", *map(place.constant, parts), axis=axis))
        if bias is not None:
            steps = scales * _scale(form.ranges[read[0].name or ""])[0]
            inputs.append(_whole_bias(place, bias, steps))
    given = {attribute.name: attribute.value for attribute in node.attributes.values()}
    place.finish(place.op(node.op_type, *inputs, **given))


def _untransposed(node: ir.Node) -> bool:
    return node.op_type == "Gemm" and not node.attributes.get_int("transB", 0)


def _stepped(place: Site, x: ir.Value, ends: tuple[float, float]) -> ir.Value:
    """Return a value that went through integers."""
    if _SHARED not in x.meta:
        scale, zero = _scale(ends)
        steps = place.constant(np.array(scale)), place.constant(np.array(zero))
        x.meta[_SHARED] = place.op("QuantizeLinear", x, *steps), *steps
    known: ir.Value = place.op("DequantizeLinear", *x.meta[_SHARED])
    return known


def _whole_bias(place: Site, bias: Floats, steps: Floats) -> ir.Value:
    """Return a bias in the integers of the sums, whose steps are larger where 32 bits are too few."""
    steps = np.maximum(steps, np.abs(bias) / (1 << 30)).astype(np.float32)
    whole = place.constant(np.rint(bias / steps).astype(np.int32))
    return place.op("DequantizeLinear", whole, place.constant(steps), axis=0)


def _scale(ends: tuple[float, float]) -> tuple[np.float32, np.uint8]:
    """Return scale and zero point of values between these ends and zero."""
    low, high = min(ends[0], 0.0), max(ends[1], 0.0)
    scale = np.float32(max((high - low) / 255, 1e-20))
    return scale, np.uint8(np.clip(round(-low / scale), 0, 255))


def _rounded(weight: Floats, axis: int) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return a weight in integers, and the scale of each channel along `axis`.

    Processors that sum pairs of products in 16 bits get 7 bits, whose sums fit.
    """
    most = 63 if sums_of_bytes_overflow() else 127
    others = tuple(i for i in range(weight.ndim) if i != axis)
    scales = np.maximum(np.abs(weight).max(axis=others) / most, 1e-20).astype(np.float32)
    shape = [-1 if i == axis else 1 for i in range(weight.ndim)]
    return np.rint(weight / scales.reshape(shape)).astype(np.int8), scales
