"""Models in a line of ONNX's text, whose names of values say what they hold, and what onnxruntime gives."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi import onnxruntime_pybind11_state as errors

_TYPES = dict.fromkeys("wxsfg", np.float32) | {"b": np.bool_}
_TYPES |= {"u": np.uint8, "q": np.int8, "v": np.uint8, "p": np.int8}
_TYPES |= {
    "i": np.int64,
    "n": np.int64,
    "k": np.int64,
    "j": np.int32,
    "l": np.int32,
    "t": np.uint8,
    "r": np.int8,
}
_NAME = re.compile(rf"\b[{''.join(_TYPES)}](?:_m?\d+(?:x\d+)*[a-e]?)+\b")
_INPUTS = "xvpnl"
"""Inputs of the run: floats of a shape x_2x3, bytes v_2 and p_2, the integers n_1_m2 and l_5."""


def held(name):
    """The array that a name describes.

    Of a shape: w_2x3 and x_2x3 floats, s_2x3 scales, b_2 truths, u_2 and v_2, q_2 and p_2 bytes. With their
    values: i_1_m2 and n_1_m2, j_1_2 and l_1_2 integers of 64 and 32 bits, g_50_100 floats in hundredths. One
    number: k_5, t_5, r_m5, f_50.
    """
    kind, _, rest = name.partition("_")
    dtype = _TYPES[kind]
    if kind in "inkjltrfg":
        numbers = [int(n.replace("m", "-")) for n in rest.split("_")]
        whole = np.array(numbers, np.float64) / (100 if kind in "fg" else 1)
        return whole.astype(dtype).reshape(() if kind in "ktrf" else len(numbers))
    random = np.random.default_rng(sum(name.encode()))
    shape = [int(n) for n in rest.rstrip("abcde").split("x")]
    if dtype in (np.uint8, np.int8):
        return random.integers(0 if dtype is np.uint8 else -100, 100, shape).astype(dtype)
    numbers = random.normal(size=shape)
    return (np.abs(numbers) / 4 + 0.1 if kind == "s" else numbers).astype(dtype)


def model(nodes, opset=21):
    """A model of these nodes with the results y, z, a, c."""
    imports = f'"" : {opset}, "ai.onnx.ml" : 3'
    made = onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{imports}]> g () => () {{ {nodes} }}")
    for name in sorted(set(_NAME.findall(nodes))):
        array = held(name)
        if name[0] in _INPUTS:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            made.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
        else:
            made.graph.initializer.append(numpy_helper.from_array(array, name))
    results = [name for name in ("y", "z", "a", "c") if re.search(rf"\b{name}\b(?=[ ,=])", nodes)]
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in results)
    return onnx.shape_inference.infer_shapes(made)


def given(made):
    """The inputs of a model."""
    return {port.name: held(port.name) for port in made.graph.input}


def expected(made):
    """The results of onnxruntime, and of ONNX's reference where that has no kernel."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    except (errors.Fail, errors.NotImplemented):
        return ReferenceEvaluator(made).run(None, given(made))
    return session.run(None, given(made))
