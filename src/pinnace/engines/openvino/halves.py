"""Weights of float16 that are converted when they are used, with float32 everywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino as ov

HALVED = "pinnace.halved"
"""Key of a graph's metadata: there are float16 weights to keep as they are."""


def keep_halves(model: ov.Model) -> None:
    """Let OpenVINO keep the float16 weights of products.

    Its CPU plugin (2026.4) converts them at the build unless it takes the model for a language model, which
    has a variable and a `ScaledDotProductAttention`. So the model gets the smallest of both. A step of GPT-2
    takes about 0.8 of the time of float32, with AVX2 and with AVX-512.
    """
    import numpy as np
    import openvino as ov
    from openvino import opset13 as ops
    from openvino.op.util import Variable, VariableInfo

    from pinnace.engines.openvino.marks import kept_compressed

    for node in model.get_ops():
        read = node.input_value(0) if node.get_type_name() == "Convert" else None
        if read is None or read.get_element_type() != ov.Type.f16:
            continue
        if read.get_node().get_type_name() == "Constant":
            kept_compressed(node)
    info = VariableInfo()
    info.data_shape, info.data_type = ov.PartialShape([1, 1, 1, 16]), ov.Type.f32
    info.variable_id = HALVED
    variable = Variable(info)
    value = ops.read_value(ops.constant(np.zeros((1, 1, 1, 16), np.float32)), variable)
    attention = ops.scaled_dot_product_attention(value, value, value)
    model.add_variables([variable])
    model.add_sinks([ops.assign(attention, variable)])
