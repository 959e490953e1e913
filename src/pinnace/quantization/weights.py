"""Weights of fewer bits, which products of matrices read in place of floats.

Where reading weights takes the time (one token, one row), the product takes as much less.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnxruntime.capi._pybind_state import quantize_matmul_4bits, quantize_matmul_8bits

from pinnace.graph.editor import Editor
from pinnace.quantization.int8 import rounded
from pinnace.quantization.operators import Operator, held, matrix, put_in_place
from pinnace.quantization.scheme import QuantizationScheme

_BLOCK = 32
"""Elements with a scale of their own. With 128, a step of GPT-2 takes 0.9 of the time, and errs 1.3 times as
much."""
_INTEGERS = 4
"""The accuracy level of products of integers; with floats they take 30 times as long with 8 bits."""
_KERNELS = {"weights8": (8, quantize_matmul_8bits), "weights4": (4, quantize_matmul_4bits)}
_MOST_HALF = 65504.0


def halve(b: Editor, operator: Operator, form: QuantizationScheme) -> None:
    """Hold a weight in float16; it is float32 again where it is used."""
    weight = matrix(operator.node)
    if np.abs(weight).max() > _MOST_HALF:
        return
    (half,) = held(b, operator, weight.T.astype(np.float16))
    _multiply(b, operator, b.cast(half, ir.DataType.FLOAT))


def hold_in_blocks(b: Editor, operator: Operator, form: QuantizationScheme) -> None:
    """Hold a weight in blocks of integers with a scale; it is float32 again where it is used."""
    weight = matrix(operator.node).T
    columns, rows = weight.shape
    block = rows if rows % _BLOCK else _BLOCK
    whole, scales = rounded(weight.reshape(-1, block), 0)
    parts = whole.reshape(columns, -1, block), scales.reshape(columns, -1, 1)
    wide, scale = held(b, operator, *parts)
    _multiply(b, operator, b.reshape(b.op("Mul", b.cast(wide, ir.DataType.FLOAT), scale), [columns, rows]))


def _multiply(b: Editor, operator: Operator, weight: ir.Value) -> None:
    """Write a product with a weight in the order in which OpenVINO reads and widens it."""
    put_in_place(b, operator, b.op("MatMul", operator.node.inputs[0], b.transpose(weight, [1, 0])))


def in_blocks(b: Editor, operator: Operator, form: QuantizationScheme) -> None:
    """Hold a weight in blocks of integers with scale and zero point, and compute in integers of 8 bits."""
    bits, quantize = _KERNELS[form.method]
    weight = matrix(operator.node)
    rows, columns = weight.shape
    blocks = -(-rows // _BLOCK)
    weight = np.pad(weight, ((0, blocks * _BLOCK - rows), (0, 0)))
    packed = np.zeros((columns, blocks, _BLOCK * bits // 8), np.uint8)
    scales = np.zeros((columns, blocks), np.float32)
    zeros = np.zeros((columns, -(-blocks * bits // 8)), np.uint8)
    quantize(packed, weight, scales, zeros, _BLOCK, columns, rows, False)
    parts = held(b, operator, packed, scales, zeros)
    facts = {"K": rows, "N": columns, "bits": bits, "block_size": _BLOCK, "accuracy_level": _INTEGERS}
    x = operator.node.inputs[0]
    put_in_place(b, operator, b.op("MatMulNBits", x, *parts, domain="com.microsoft", **facts))
