"""Conversion of single operators to all formats, run by Pinnace beside the ONNX model itself."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace.building.origin import build
from pinnace.converter.convert import Conversion, convert
from pinnace.errors import UnsupportedModelError
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.types import ModelType
from pinnace.weights.source import Source


def model(op_type, shapes, weights=(), opset=21, **attributes):
    """The bytes of a model of one operator, with inputs x0, x1, ... and then weights."""
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, s) for i, s in enumerate(shapes)]
    stored = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    node = helper.make_node(
        op_type, [i.name for i in inputs] + [w.name for w in stored], ["y"], name="node", **attributes
    )
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", inputs, [output], stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return made.SerializeToString()


def run(given, *inputs):
    executable = build(given, None, Target(threads=1), Settings())
    try:
        return executable.execution().run(list(inputs))
    finally:
        executable.close()


@pytest.mark.parametrize(("kind", "suffix"), [(ModelType.MINDIR, ".mindir"), (ModelType.MINDIR_LITE, ".ms")])
@pytest.mark.parametrize(
    ("op_type", "weights", "attributes"),
    [
        ("Relu", (), {}),
        ("Conv", (np.ones((4, 2, 3, 3), np.float32), np.arange(4, dtype=np.float32)), {"pads": [1, 1, 0, 0]}),
        ("Reshape", (np.array([0, -1]),), {}),
        ("Transpose", (), {"perm": [0, 2, 3, 1]}),
    ],
)
def test_a_converted_operator_gives_the_same(op_type, weights, attributes, kind, suffix, tmp_path):
    x = np.random.default_rng(0).normal(size=(1, 2, 5, 6)).astype(np.float32)
    original = model(op_type, [x.shape], weights, **attributes)
    summary = convert(Source.of_buffer(original), None, tmp_path / "made", Conversion(save_type=kind))
    assert summary.files == (tmp_path / f"made{suffix}",)
    (expected,), (given,) = run(original, x), run(summary.files[0], x)
    np.testing.assert_allclose(given, expected, rtol=1e-6, atol=1e-6)  # sums in another order


def test_operators_without_a_way_are_named(tmp_path):
    unknown = onnx.load_from_string(model("Relu", [(2,)]))
    unknown.graph.node[0].op_type = "MelWeightMatrix"
    with pytest.raises(UnsupportedModelError, match="MelWeightMatrix"):
        convert(Source.of_buffer(unknown.SerializeToString()), None, tmp_path / "made", Conversion())
