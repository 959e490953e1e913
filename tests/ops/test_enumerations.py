"""Numbers of MindSpore Lite's enumerations mean what the names of the schema of `.ms` say."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.graph.builder import Builder
from pinnace.ops.families import find
from pinnace.program import Dialect, Layout

ENUMERATIONS = json.loads(resources.files("pinnace.formats.ms").joinpath("schema.json").read_text())["enums"]

OPERATORS = {
    ("ReduceFusion", "mode", "ReduceMode"): """
        ReduceMean ReduceMax ReduceMin ReduceProd ReduceSum ReduceSumSquare ReduceASum=ReduceL1
        ReduceAll=ReduceMin ReduceL2
    """,
    ("Eltwise", "mode", "EltwiseMode"): "PROD=Mul SUM=Add MAXIMUM=Max",
    ("Activation", "activation_type", "ActivationType"): """
        RELU=Relu SIGMOID=Sigmoid RELU6=Clip ELU=Elu LEAKY_RELU=LeakyRelu ABS=Abs RELU1=Clip
        SOFTSIGN=Softsign SOFTPLUS=Softplus TANH=Tanh SELU=Selu HSWISH=HardSwish
    """,
    ("PadFusion", "padding_mode", "PaddingMode"): "CONSTANT=Pad:constant REFLECT=Pad:reflect",
    ("Resize", "method", "ResizeMethod"): "LINEAR=Resize:linear NEAREST=Resize:nearest CUBIC=Resize:cubic",
}
"""Names, and the operator of ONNX, with its mode, if that has another one."""
CASES = [
    pytest.param(*where, *word.partition("=")[::2], id=f"{where[0]} {word}")
    for where, words in OPERATORS.items()
    for word in words.split()
]
IMAGE = (1, 4, 5, 3)
INPUTS = {
    "ReduceFusion": [IMAGE, np.array([1], np.int32)],
    "Eltwise": [IMAGE, IMAGE],
    "Activation": [IMAGE],
    "PadFusion": [IMAGE, np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)],
    "Resize": [IMAGE],
}
OTHERS = {
    "Activation": {"alpha": 0.5},
    "Resize": {"new_height": 8, "new_width": 10, "nearest_mode": 3, "cubic_coeff": -0.5},
}


@pytest.mark.parametrize(("name", "argument", "enumeration", "word", "expected"), CASES)
def test_a_number_means_what_its_name_says(name, argument, enumeration, word, expected):
    number = ENUMERATIONS[enumeration][1][word]
    b = Builder(Layout.NHWC)
    inputs = [x if isinstance(x, np.ndarray) else value(x) for x in INPUTS[name]]
    find(Dialect.LITE, name).lower(b, inputs, {argument: number, **OTHERS.get(name, {})})
    operator, _, mode = (expected or word).partition(":")
    found = [node for node in b.nodes if node.op_type == operator]
    assert len(found) == 1
    assert not mode or found[0].attributes.get_string("mode", "constant") == mode


def value(shape) -> ir.Value:
    return ir.Value(name="x", shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))


@pytest.mark.parametrize(
    ("argument", "enumeration", "attribute", "words"),
    [
        (
            "coordinate_transform_mode",
            "CoordinateTransformMode",
            "coordinate_transformation_mode",
            "ASYMMETRIC=asymmetric ALIGN_CORNERS=align_corners HALF_PIXEL=half_pixel",
        ),
        (
            "nearest_mode",
            "NearestMode",
            "nearest_mode",
            "ROUND_HALF_DOWN=round_prefer_floor ROUND_HALF_UP=round_prefer_ceil FLOOR=floor CEIL=ceil",
        ),
    ],
)
def test_a_resize_goes_by_the_names(argument, enumeration, attribute, words):
    for word, expected in (pair.split("=") for pair in words.split()):
        b = Builder(Layout.NHWC)
        given = {"method": 1, "new_height": 8, "new_width": 10, "nearest_mode": 3}
        given[argument] = ENUMERATIONS[enumeration][1][word]
        find(Dialect.LITE, "Resize").lower(b, [value(IMAGE)], given)
        (resize,) = (node for node in b.nodes if node.op_type == "Resize")
        assert resize.attributes.get_string(attribute, "") == expected
