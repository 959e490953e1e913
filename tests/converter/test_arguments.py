"""Arguments that ONNX files leave out or seldom give mean the same in converted files."""

import numpy as np
import onnx
import pytest
from tests.converted import same

from pinnace.types import ModelType

DICE = np.random.default_rng(7)


def onnx_file(node, shape, opset=19):
    sizes = ", ".join(map(str, shape))
    dims = ", ".join("abcd"[: len(shape)])
    text = f"g (float[{sizes}] x) => (float[{dims}] y) {{ y = {node} }}"
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : {opset}]>\n{text}'
    ).SerializeToString()


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
@pytest.mark.parametrize(
    "node", ["LogSoftmax(x)", "Softmax(x)", "LogSoftmax<axis=1>(x)", "Hardmax(x)", "Flatten(x)", "Gelu(x)"]
)
def test_an_axis_that_is_left_out_is_onnxs(node, kind, tmp_path):
    opset = 20 if "Gelu" in node else 19
    same(
        onnx_file(node, (2, 3, 4), opset),
        tmp_path,
        [DICE.normal(0, 2, (2, 3, 4)).astype(np.float32)],
        kind=kind,
    )


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
@pytest.mark.parametrize(
    "node",
    [
        "AveragePool<kernel_shape=[2, 2], dilations=[2, 2]>(x)",
        "AveragePool<kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0], count_include_pad=1>(x)",
        "AveragePool<kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0]>(x)",
        "MaxPool<kernel_shape=[2, 3], dilations=[2, 1], strides=[1, 2]>(x)",
        "LRN<size=3, alpha=0.2, beta=0.6, bias=1.5>(x)",
    ],
)
def test_windows_keep_their_gaps_and_borders(node, kind, tmp_path):
    x = DICE.normal(0, 2, (1, 4, 7, 6)).astype(np.float32)
    same(onnx_file(node, x.shape), tmp_path, [x], kind=kind)
