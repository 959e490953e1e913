"""Precisions of single nodes: float32 among 16 bits, and weights of 16 bits that are converted when used.

OpenVINO's passes look for marks of nodes. Exports keep them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset1
from openvino import opset13 as opset
from openvino.op.util import Variable, VariableInfo

from pinnace.engines.protocol import HALF_WEIGHTS

_FUSED = frozenset(("Add", "Clamp", "Elu", "HSwish", "Multiply", "PRelu", "Relu", "Sigmoid", "Swish"))
"""Types of nodes that OpenVINO computes with the convolution before them, which must have its type (2026.4
fails to compile a convolution in float32 with a sum in bfloat16)."""

_MERGED = {
    "MatMul": ("Add", "Multiply"),
    "Convolution": ("BatchNormInference", "Multiply"),
    "GroupConvolution": ("BatchNormInference", "Multiply"),
}
"""Types of nodes that lose their marks when OpenVINO merges them with readers of these types."""

_MARKED = """<net name="m" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1" element_type="f32"/>
<rt_info><attribute name="{}" version="0" value="{}"/></rt_info>
<output><port id="0" precision="FP32"><dim>1</dim></port></output></layer>
<layer id="1" name="y" type="Result" version="opset1">
<input><port id="0" precision="FP32"><dim>1</dim></port></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>"""
"""A model with a mark. Only OpenVINO's reader of its own format makes marks; Python can pass them on."""


def keep_float32(model: ov.Model, names: Collection[str]) -> set[str]:
    """Mark the nodes that compute these results, with the parts into which OpenVINO's reader split them, and
    what it computes together with them. Returns OpenVINO's unique names of all.
    """
    marked: set[str] = set()
    if not names:
        return marked
    named = [
        node for node in model.get_ops() if any(not o.get_names().isdisjoint(names) for o in node.outputs())
    ]
    for node in named:
        for part in (*_parts(node), *_fused(node)):
            marked.add(_kept_wide(part).get_name())
            if part.get_type_name() in _MERGED:
                _set_apart(part)
            elif part.get_type_name() == "Softmax":
                _renew(part)
    return marked


def keep_halves(model: ov.Model) -> None:
    """Let OpenVINO keep the float16 weights of products.

    Its CPU plugin (2026.4) converts them at the build unless it takes the model for a language model, which
    has a variable and a `ScaledDotProductAttention`. So the model gets the smallest of both. A step of GPT-2
    takes about 0.8 of the time of float32, with AVX2 and with AVX-512.
    """
    for node in model.get_ops():
        if node.get_type_name() == "Convert":
            read = node.input_value(0)
            if read.get_node().get_type_name() == "Constant" and read.get_element_type() == ov.Type.f16:
                kept_compressed(node)
    info = VariableInfo()
    info.data_shape, info.data_type = ov.PartialShape([1, 1, 1, 16]), ov.Type.f32
    info.variable_id = HALF_WEIGHTS
    variable = Variable(info)
    value = opset.read_value(opset.constant(np.zeros((1, 1, 1, 16), np.float32)), variable)
    attention = opset.scaled_dot_product_attention(value, value, value)
    model.add_variables([variable])
    model.add_sinks([opset.assign(attention, variable)])


def kept_compressed(conversion: ov.Node) -> ov.Node:
    """Mark a conversion of a constant that is left to the run. Returns it."""
    conversion.set_rt_info(*(_mark("decompression") or ("", "decompression_0")))
    return conversion


def _kept_wide(node: ov.Node) -> ov.Node:
    """Mark a node that keeps its type where others are computed in 16 bits. Returns it."""
    before_2026 = ("", "precise_0")
    node.set_rt_info(*(_mark("DisablePrecisionConversion", "dynamic:f16") or before_2026))
    return node


@cache
def _mark(name: str, value: str = "") -> tuple[Any, str] | None:
    """Return value and key of a mark; None if OpenVINO does not know it."""
    known = ov.Core().read_model(_MARKED.format(name, value).encode()).get_parameters()[0].get_rt_info()
    key = f"{name}_0"
    return (known[key], key) if key in known else None


def _set_apart(node: ov.Node) -> None:
    """Put operators that change nothing between a node and its neighbors.

    OpenVINO (2026.4) loses the marks of a product that it merges with a bias or transposition, and of a
    convolution that it merges with a normalization. It does not see that a PRelu of slope 1 changes nothing.
    """
    slope = opset.constant(np.ones(1, np.float32))
    for place, value in enumerate(node.input_values()):
        if value.get_node().get_type_name() == "Transpose":
            node.input(place).replace_source_output(_kept_wide(opset.prelu(value, slope)).output(0))
    for reader in node.output(0).get_target_inputs():
        if reader.get_node().get_type_name() in _MERGED[node.get_type_name()]:
            reader.replace_source_output(_kept_wide(opset.prelu(node, slope)).output(0))


def _renew(softmax: ov.Node) -> None:
    """Write a Softmax as OpenVINO's plugin for CPUs does, which loses the mark when it does so."""
    axis = softmax.get_attributes()["axis"] % softmax.get_output_partial_shape(0).rank.get_length()
    renewed = _kept_wide(opset1.softmax(softmax.input_value(0), axis))
    renewed.set_friendly_name(softmax.get_friendly_name())
    softmax.output(0).replace(renewed.output(0))


def _parts(node: ov.Node) -> list[ov.Node]:
    """Return a node and those before it whose results have no name in the file."""
    found = [node]
    for part in found:
        makers = (value.get_node() for value in part.input_values())
        found += [
            one for one in makers if one.get_input_size() and not any(o.get_names() for o in one.outputs())
        ]
    return found


def _fused(node: ov.Node) -> list[ov.Node]:
    """Return the nodes that may be computed with a convolution; none for another node."""
    if not any("Convolution" in part.get_type_name() for part in _parts(node)):
        return []
    found = [node]
    for part in found:
        readers = (reader.get_node() for output in part.outputs() for reader in output.get_target_inputs())
        found += [one for one in readers if one.get_type_name() in _FUSED]
    return found[1:]
