"""Images with their channels last cost no transposes but those that the model itself asks for."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from pinnace.formats import read
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.lowering.graph import compilable
from pinnace.ops.families import find
from pinnace.ops.layout import channels_back, channels_first, permuted
from pinnace.program import Dialect, Layout
from pinnace.weights.source import Source


@pytest.fixture
def b():
    return Builder(Layout.NHWC)


@pytest.fixture
def image():
    return ir.Value(name="x", shape=ir.Shape((1, 8, 6, 3)), type=ir.TensorType(ir.DataType.FLOAT))


def test_there_and_back_is_nothing(b, image):
    assert channels_back(b, channels_first(b, image), image) is image


def test_two_permutations_are_one(b, image):
    once = permuted(b, permuted(b, image, (0, 3, 1, 2)), (3, 2, 1, 0))
    assert once.producer().inputs[0] is image
    assert list(once.producer().attributes["perm"].as_ints()) == [2, 1, 3, 0]


def test_a_weight_of_which_only_single_dimensions_move_stays_in_its_file(b):
    stored = ir.ExternalTensor(
        "w.bin", 64, 288, ir.DataType.FLOAT, shape=ir.Shape((8, 3, 3, 1)), name="w", base_dir="models"
    )
    moved = permuted(b, b.weight(stored), (0, 3, 1, 2)).const_value
    assert isinstance(moved, ir.ExternalTensor)
    assert (moved.location, moved.offset, moved.length) == ("w.bin", 64, 288)
    assert tuple(moved.shape) == (8, 1, 3, 3)


def test_a_weight_that_must_move_is_transposed(b):
    weight = b.weight(ir.tensor(np.zeros((8, 3, 3, 2), np.float32), name="w"))
    assert permuted(b, weight, (0, 3, 1, 2)).producer().op_type == "Transpose"


def test_no_permutation_is_refused(b, image):
    with pytest.raises(Unsupported, match="order of dimensions"):
        permuted(b, image, (0, 1, 1, 2))


def test_onnxruntime_keeps_only_the_first_and_last_transpose(data, tmp_path):
    """Strided, depthwise and pointwise convolutions, a residual, pools and an activation lie between."""
    source = Source.of_file(data / "ms" / "network.ms")
    model = compilable(read(source), "network", str(source.folder)).model
    options = ort.SessionOptions()
    options.log_severity_level = 3
    # Fused blocked layouts differ between processors; what is counted here comes before.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(source.folder)
    )
    ort.InferenceSession(ir.to_proto(model).SerializeToString(), options)
    optimized = onnx.load(tmp_path / "optimized.onnx", load_external_data=False)
    counts = Counter(node.op_type for node in optimized.graph.node)
    assert counts["Transpose"] <= 2


@pytest.mark.parametrize("exchanged", [False, True])
def test_integers_of_a_weight_are_reordered_when_they_are_read_unless_they_may_change(exchanged):
    stored = ir.tensor(np.arange(8 * 3 * 2, dtype=np.int8).reshape(8, 3, 2), name="w")
    b = Builder(Layout.NHWC, frozenset({id(stored)} if exchanged else ()))
    scale = b.constant(np.ones(8, np.float32))
    turned = permuted(b, b.DequantizeLinear(b.weight(stored), scale, axis=0), (1, 2, 0)).producer()
    assert turned.op_type == "DequantizeLinear"
    assert turned.attributes["axis"].as_int() == 2
    integers = turned.inputs[0]
    if exchanged:
        assert integers.producer().op_type == "Transpose"
        assert list(integers.producer().attributes["perm"].as_ints()) == [1, 2, 0]
    else:
        np.testing.assert_array_equal(integers.const_value.numpy(), stored.numpy().transpose(1, 2, 0))


def test_integers_of_a_weight_of_which_only_single_dimensions_move_are_not_reordered():
    b = Builder(Layout.NHWC)
    stored = ir.tensor(np.arange(24, dtype=np.int8).reshape(8, 3, 1), name="w")
    scale = b.constant(np.ones(8, np.float32))
    turned = permuted(b, b.DequantizeLinear(b.weight(stored), scale, axis=0), (0, 2, 1)).producer()
    assert turned.inputs[0].shape == (8, 1, 3)
    assert turned.inputs[0].const_value.numpy().tobytes() == stored.numpy().tobytes()


@pytest.mark.parametrize(
    ("source", "target", "order"), [(1, 0, [0, 3, 1, 2]), (0, 1, [0, 2, 3, 1]), (1, 1, None), (0, 0, None)]
)
def test_formats_of_mindspore_lite_are_turned_into_each_other(b, image, source, target, order):
    row = find(Dialect.LITE, "FormatTranspose")
    y = row.lower(b, [image], {"src_format": source, "dst_format": target})
    assert y is image if order is None else list(y.producer().attributes["perm"].as_ints()) == order


def test_a_format_that_is_not_known_is_refused(b, image):
    with pytest.raises(Unsupported, match="from format 1 to 4"):
        find(Dialect.LITE, "FormatTranspose").lower(b, [image], {"src_format": 1, "dst_format": 4})
