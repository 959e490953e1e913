"""Products of integers of 8 bits, by scales that each run finds, or by ranges that a calibration found.

Weights have a scale for each channel of the result and no zero point; activations are unsigned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from pinnace.graph.editor import Editor
from pinnace.graph.matching import attributes
from pinnace.machine.processor import sums_of_bytes_overflow
from pinnace.quantization.operators import Floats, Operator, held, matrix, normalized, put_in_place, weight_of
from pinnace.quantization.scheme import QuantizationScheme

_SHARED = "pinnace.quantized"
"""Key of a value's metadata: its integers, which several operators read."""


@dataclass(frozen=True)
class Rounding:
    """The bits of a weight in integers, and one scale or one for each channel.

    `correction` is added to the bias.
    """

    bits: int = 8
    per_channel: bool = True
    correction: Floats | None = None


def dynamic(b: Editor, operator: Operator, form: QuantizationScheme) -> None:
    """Compute a product in integers; each run finds the scale of its input."""
    whole, scales = rounded(matrix(operator.node), 1, _summed_bits())
    values, scale, zero = _dynamically_quantized(b, operator)
    sums = b.op("MatMulInteger", values, *held(b, operator, whole), zero)
    wide = b.cast(sums, ir.DataType.FLOAT)
    put_in_place(b, operator, b.op("Mul", wide, b.op("Mul", scale, scales)))


def _dynamically_quantized(b: Editor, operator: Operator) -> tuple[ir.Value, ...]:
    """Return the integers of an operator's input, with scale and zero point."""
    x = operator.node.inputs[0]
    assert x is not None
    if _SHARED not in x.meta:
        x.meta[_SHARED] = b.ops("DynamicQuantizeLinear", 3, x)
    parts: tuple[ir.Value, ...] = x.meta[_SHARED]
    return parts


def static(b: Editor, operator: Operator, form: QuantizationScheme, rounding: Rounding | None = None) -> None:
    """Write an operator between steps from and to integers, in whose place engines compute in integers.

    By default weights have the bits that this processor sums without overflow.
    """
    node = operator.node
    weighted = weight_of(node) is not None
    read = [x for x in (node.inputs[:1] if weighted else node.inputs) if x is not None]
    if any(x.name not in form.ranges for x in read):
        return
    inputs = [_stepped(b, x, form.ranges[x.name or ""]) for x in read]
    if weighted:
        step = _scale(form.ranges[read[0].name or ""])[0]
        inputs += _constants(b, operator, rounding or Rounding(_summed_bits()), step)
    _write_again(b, operator, inputs)


def through(b: Editor, value: ir.Value, ends: tuple[float, float]) -> None:
    """Let all that read a value read it after it went through integers."""
    node = value.producer()
    assert node is not None
    graph = b.model.graph
    readers = [(reader, at) for reader, at in value.uses()]
    value.meta.pop(_SHARED, None)
    known = _stepped(b, value, ends)
    b.insert_after(node)
    for reader, at in readers:
        if reader.op_type == "QuantizeLinear":  # of the same ends
            reader.outputs[0].replace_all_uses_with(value.meta[_SHARED][0])
            graph.remove(reader, safe=True)
        else:
            reader.replace_input_with(at, known)
    known.type, known.shape = value.type, value.shape
    if value.is_graph_output():
        graph.outputs[list(graph.outputs).index(value)] = known
        value.name, known.name = known.name, value.name


def stored(b: Editor, operator: Operator, rounding: Rounding) -> None:
    """Hold a weight in integers; it is floats again where it is used."""
    _write_again(b, operator, [operator.node.inputs[0], *_constants(b, operator, rounding)])


def dynamic_steps(b: Editor, operator: Operator, rounding: Rounding) -> None:
    """Write a product between steps from and to integers; each run finds the scale of its input."""
    known = b.op("DequantizeLinear", *_dynamically_quantized(b, operator))
    _write_again(b, operator, [known, *_constants(b, operator, rounding)])


def _constants(
    b: Editor, operator: Operator, rounding: Rounding, step: np.float32 | None = None
) -> list[ir.Value]:
    """Return weight and bias through integers; the bias stays floats unless the input has a step."""
    weight, bias = normalized(operator)
    axis = channels(operator.node)
    whole, scales = rounded(weight, axis if rounding.per_channel else None, rounding.bits)
    zeros = np.zeros(scales.shape, whole.dtype)
    made = [b.op("DequantizeLinear", *held(b, operator, whole), scales, zeros, axis=axis)]
    if rounding.correction is not None:
        bias = rounding.correction if bias is None else bias + rounding.correction
    if bias is not None:
        made.append(b.constant(bias) if step is None else _whole_bias(b, bias, scales * step))
    return made


def _write_again(b: Editor, operator: Operator, inputs: Sequence[ir.Value | None]) -> None:
    """Write the operator over other inputs."""
    new = b.op(operator.node.op_type, *inputs, **attributes(operator.node))
    put_in_place(b, operator, new, has_bias=len(inputs) > 2)


def channels(node: ir.Node) -> int:
    """Return the axis of the channels of a node's weight that each have a scale."""
    untransposed = node.op_type == "Gemm" and not node.attributes.get_int("transB", 0)
    return 1 if node.op_type == "MatMul" or untransposed else 0


def _summed_bits() -> int:
    """The bits of weights whose products with bytes this processor sums exactly."""
    return 7 if sums_of_bytes_overflow() else 8


def _stepped(b: Editor, x: ir.Value, ends: tuple[float, float]) -> ir.Value:
    """Return a value that went through integers."""
    if _SHARED not in x.meta:
        steps = [b.constant(number) for number in _scale(ends)]
        x.meta[_SHARED] = b.op("QuantizeLinear", x, *steps), *steps
    return b.op("DequantizeLinear", *x.meta[_SHARED])


def _whole_bias(b: Editor, bias: Floats, steps: Floats) -> ir.Value:
    """Return a bias in the integers of the sums, whose steps are larger where 32 bits are too few."""
    steps = np.maximum(steps, np.abs(bias) / (1 << 30)).astype(np.float32)
    return b.op("DequantizeLinear", np.rint(bias / steps).astype(np.int32), steps, axis=0)


def _scale(ends: tuple[float, float]) -> tuple[np.float32, np.uint8]:
    """Return scale and zero point of values between these ends and zero."""
    low, high = min(ends[0], 0.0), max(ends[1], 0.0)
    scale = np.float32(max((high - low) / 255, 1e-20))
    return scale, np.uint8(np.clip(round(-low / scale), 0, 255))


def rounded(
    weight: Floats, axis: int | None, bits: int = 8
) -> tuple[npt.NDArray[np.signedinteger[Any]], Floats]:
    """Return a weight in integers of so many bits, and the scale of each channel along `axis`, or of all."""
    most = (1 << (bits - 1)) - 1
    others = None if axis is None else tuple(i for i in range(weight.ndim) if i != axis)
    scales = np.asarray(np.maximum(np.abs(weight).max(axis=others) / most, 1e-20), np.float32)
    dtype = np.int8 if bits <= 8 else np.int16
    return np.rint(weight / _beside(scales, weight, axis)).astype(dtype), scales


def rest(weight: Floats, node: ir.Node, rounding: Rounding) -> Floats:
    """Return what the rounding of a node's weight leaves."""
    axis = channels(node) if rounding.per_channel else None
    whole, scales = rounded(weight, axis, rounding.bits)
    return weight - whole * _beside(scales, weight, axis)


def _beside(scales: Floats, weight: Floats, axis: int | None) -> Floats:
    """Return the scales of a weight's channels in the shape that broadcasts over it."""
    return scales.reshape([-1 if i == axis else 1 for i in range(weight.ndim)])
