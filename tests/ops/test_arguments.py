"""Defaults of lowerings for arguments that a file does not give, and numbers that stand for words."""

from __future__ import annotations

import inspect
from functools import partial

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.graph.failures import Unsupported
from pinnace.ops import signatures
from pinnace.ops.builder import LoweringBuilder
from pinnace.ops.families import find, rows
from pinnace.program import Dialect, Layout

_IN_OTHER_WORDS = """
AvgPool3D.format Conv3D.format FractionalMaxPool3DWithFixedKsize.format MaxPool3D.format
ResizeNearestNeighborV2.data_format
"""
"""Layouts: `NCHW` stands for channels first of any rank, and MindSpore's kernel takes no other by default."""
_ONLY_INFERENCE = """
FakeLearnedScaleQuantPerChannel.training FakeLearnedScaleQuantPerLayer.training FakeQuantPerChannel.training
FakeQuantPerLayer.training
"""
_ALWAYS_GIVEN = "PromptFlashAttention.next_tokens"
_NOT_GIVEN_IS_0 = """
Activation.min_val Activation.max_val AdderFusion.group Affine.context Affine.transpose_b BatchNorm.epsilon
BinaryCrossEntropy.reduction Conv2DFusion.group Conv2dTransposeFusion.group DetectionPostProcess.scale
DetectionPostProcess.nms_iou_threshold DetectionPostProcess.max_detections
DetectionPostProcess.detections_per_class DetectionPostProcess.max_classes_per_detection
DetectionPostProcess.num_classes Elu.alpha FakeQuantWithMinMaxVars.num_bits
FakeQuantWithMinMaxVarsPerChannel.num_bits FullConnection.axis InstanceNorm.epsilon LRN.bias LRN.alpha
LRN.beta LSTM.num_layers LSTM.has_bias LayerNormFusion.begin_norm_axis LeakyRelu.negative_slope
LogSoftmax.axis LpNormalization.axis LpNormalization.p NLLLoss.reduction OneHot.axis PriorBox.flip
PriorBox.offset Resize.cubic_coeff SmoothL1Loss.beta Softmax.axis TensorArray.data_type TopKFusion.axis
"""
"""Fields that `.ms` gives as 0 and Lite's MindIR leaves out: there they have the default of the framework
that the model came from."""


def test_an_argument_that_is_not_given_is_mindspores_default():
    differ, compared = {dialect: set() for dialect in Dialect}, 0
    for row in rows():
        signature = signatures.find(row.dialect, row.name)
        parameters = [field for p in row._parameters for field in p.fields or (p,)]
        for p in parameters if signature else ():
            default = next((signature.defaults[n] for n in p.names if n in signature.defaults), None)
            if default in (None, signatures.GIVEN, signatures.DERIVED) or p.name in {*row.unused, "group_"}:
                continue
            if p.default in (inspect.Parameter.empty, None, ""):
                continue
            compared += 1
            if not _is(p, default):
                differ[row.dialect].add(f"{row.name}.{p.name}")
    others = (_IN_OTHER_WORDS, _ONLY_INFERENCE, _ALWAYS_GIVEN)
    assert compared > 700
    assert differ[Dialect.MINDSPORE] == {name for names in others for name in names.split()}
    assert differ[Dialect.LITE] == {*_NOT_GIVEN_IS_0.split()}


MAY_BE_TENSORS = {*["alpha", "beta", "crops", "margin", "off_value", "on_value", "paddings", "step", "value"]}
"""Numbers by default that the run may compute."""


def test_an_argument_that_must_be_known_is_refused_where_only_the_run_knows_it():
    b, compared = LoweringBuilder(Layout.NCHW), 0
    for p in [field for row in rows() for one in row._parameters for field in one.fields or (one,)]:
        if type(p.default) not in (bool, int, float, str, tuple):
            continue
        if p.convert is None:
            assert p.name in MAY_BE_TENSORS
            continue
        compared += 1
        with pytest.raises(Unsupported, match="must be known before the run"):
            p.convert(b, _input((1,)))
    assert compared > 800


def _is(parameter, default) -> bool:
    if isinstance(parameter.convert, partial):  # a table, and the default is what stands in it
        (table,) = parameter.convert.args
        words = [*default, *map(str, default.values())] if isinstance(default, dict) else [default]
        return parameter.default in {table[word] for word in words if word in table}
    if isinstance(default, list) and isinstance(parameter.default, tuple):  # one number for all dimensions
        return {*parameter.default} == {*default}
    value = parameter.default
    return signatures.same(int(value) if str(value).isdecimal() else value, default)


IMAGE, KERNEL, FEW, HEADS = (1, 2, 4, 4), (3, 2, 3, 3), (3, 4), (2, 3, 2, 2)
INDICES = np.zeros((3, 4), np.int64)
WORDS = [
    ("AvgPool", (IMAGE, [2, 2], [2, 2], "valid"), "format", "NCHW NHWC"),
    ("BCEWithLogitsLoss", (FEW, FEW), "reduction", "sum mean none"),
    ("Conv2D", (IMAGE, KERNEL), "pad_mode", "pad same valid"),
    ("Conv2DPadding", (IMAGE, KERNEL), "padding", "pad same valid"),
    ("Correlate", ((5,), (3,)), "pad_mode", "pad same valid full"),
    ("FlashAttentionScore", (HEADS, HEADS, HEADS), "input_layout", "BSH BNSD SBH BSND TND"),
    ("GridSampler2D", (IMAGE, (1, 3, 3, 2)), "interpolation_mode", "bilinear nearest bicubic"),
    ("GridSampler2D", (IMAGE, (1, 3, 3, 2)), "padding_mode", "zeros border reflection"),
    ("LinalgQr", (FEW,), "mode", "reduced complete r"),
    ("Meshgrid", (((3,), (4,)),), "indexing", "ij xy"),
    ("NLLLoss", (FEW, INDICES[:, 0]), "reduction", "sum mean none"),
    ("QuantV2", (FEW, (4,), (4,)), "rounding_mode", "ROUND TRUNC FLOOR CEIL"),
    (
        "ResizeLinear1D",
        ((1, 2, 5), [8]),
        "coordinate_transformation_mode",
        "asymmetric align_corners half_pixel",
    ),
    ("Scatter", (FEW, 1, INDICES, FEW), "reduce", "none add multiply update"),
    ("ScatterValue", (FEW, 1, INDICES, 2.0), "reduce", "none add multiply update"),
]
"""Words in order of their numbers, from 0: MindSpore's `_c_expression.op_enum.str_to_enum` says them."""


@pytest.mark.parametrize(
    ("name", "inputs", "argument", "words"), WORDS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_words_and_their_numbers_mean_the_same(name, inputs, argument, words):
    forms = [_form(name, inputs, argument, word) for word in words.split()]
    assert forms == [_form(name, inputs, argument, number) for number in range(len(forms))]
    assert len({*forms}) > 1


def _form(name, inputs, argument, value) -> str:
    """The nodes of an application, or that it is refused."""
    b = LoweringBuilder(Layout.NCHW)
    row = find(Dialect.MINDSPORE, name)
    assert row is not None
    try:
        row.lower(b, [_input(x) for x in inputs], {argument: value})
    except Unsupported:
        return "refused"
    constants = [
        v.const_value.numpy()
        for node in b.nodes
        for v in node.inputs
        if v is not None and v.const_value is not None
    ]
    return f"{[(n.op_type, [v and v.name for v in n.inputs], n.attributes) for n in b.nodes]} {constants}"


def _input(value):
    """A tensor for a shape; a list stands for a tuple of numbers."""
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, tuple):
        return value
    if isinstance(value[0], tuple):
        return tuple(_input(v) for v in value)
    return ir.Value(name="x", shape=ir.Shape(value), type=ir.TensorType(ir.DataType.FLOAT))
