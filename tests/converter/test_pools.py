"""Pools and padding of `.mindir`, in primitives that both MindSpore and MindSpore Lite 2.0 have."""

import numpy as np
import onnx
import pytest
from tests.converted import same

from pinnace.formats.mindir.reader import read
from pinnace.weights.source import Source

POOLS = {
    "stem": ("Relu(x)", "kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]", {"Pad", "MaxPool"}),
    "rounded_up": ("Relu(x)", "kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1", {"Pad", "MaxPool"}),
    "same": ("Neg(x)", "kernel_shape=[5, 5], pads=[2, 2, 2, 2]", {"MaxPool"}),
    "below_zero": (
        "Neg(x)",
        "kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]",
        {"Pad", "Add", "MaxPool"},
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_that_pads_has_no_primitive_that_mindspore_lite_lacks(name, tmp_path):
    before, attributes, wanted = POOLS[name]
    nodes = f"a = {before}\n y = MaxPool<{attributes}>(a)"
    text = f"g (float[1, 4, 16, 16] x) => (float[1, 4, h, w] y) {{ {nodes} }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}').SerializeToString()
    x = np.random.default_rng(0).normal(3, 1, (1, 4, 16, 16)).astype(np.float32)
    # Real MindSpore 2.10 and MindSpore Lite 2.0 give the same of these files.
    summary = same(model, tmp_path, [x], [-x], rtol=0, atol=0)
    program = read(Source.of_file(summary.files[0]))
    nodes = [node for function in program.functions.values() for node in function.nodes]
    assert {node.primitive for node in nodes} - {"ReLU", "Neg"} == wanted
