"""What a converted model gives for the values of requests, one after another."""

import numpy as np
import onnx
import pytest
from tests.converted import KINDS, run

from pinnace import Model
from pinnace.converter.convert import Conversion, convert
from pinnace.weights.source import Source


@pytest.fixture(params=KINDS)
def converted(request, tmp_path):
    """Converts a graph in ONNX's text to a file."""

    def made(text):
        model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> {text}')
        source = Source.of_buffer(model.SerializeToString())
        return convert(source, None, tmp_path / "made", Conversion(save_type=KINDS[request.param])).files[0]

    return made


def test_a_scatter_into_a_constant_keeps_nothing_of_the_request_before(converted):
    made = converted(
        "g (int32[1,1] i, float[1,2] u) => (float[3,2] y) <float[3,2] z = {0,0,0,0,0,0}>"
        "{ k = Cast<to=7>(i) y = ScatterND(z, k, u) }"
    )
    model = Model(str(made))
    for place in range(3):
        (y,) = model.predict([np.array([[place]], np.int32), np.full((1, 2), 7, np.float32)])
        assert np.flatnonzero(y.get_data_to_numpy()[:, 0]).tolist() == [place]


def test_a_scatter_does_not_change_its_operand(converted):
    made = converted(
        "g (float[2,2] x, float[2,2] u) => (float[2,2] y, float[2,2] m)"
        "<int64[2,1] i = {0,1}> { m = MatMul(x, x) y = ScatterND(m, i, u) }"
    )
    x, u = np.array([[1, 2], [3, 4]], np.float32), np.full((2, 2), 7, np.float32)
    y, m = run(made, x, u)
    np.testing.assert_array_equal(y, u)
    np.testing.assert_array_equal(m, x @ x)


@pytest.mark.parametrize(
    "node", ["HardSigmoid(x)", "Clip(x, a, b)", "Max(x, a)", "Min(x, b)"], ids=lambda node: node[:4]
)
def test_nan_stays_nan_beside_a_bound(converted, node):
    made = converted(f"g (float[3] x) => (float[3] y) <float a = {{-1}}, float b = {{2}}> {{ y = {node} }}")
    (y,) = run(made, np.array([np.nan, 0.5, np.nan], np.float32))
    assert np.isnan(y).tolist() == [True, False, True]


@pytest.mark.parametrize("length", [3, 4, 5, 6])
def test_a_convolution_over_one_dimension_with_same_padding_keeps_the_length(converted, length):
    weights = ",".join(map(str, np.arange(length) + 1))
    made = converted(
        f"g (float[1,1,4] x) => (float[a,b,c] y) <float[1,1,{length}] w = {{{weights}}}>"
        '{ y = Conv<auto_pad="SAME_LOWER">(x, w) }'
    )
    x = np.array([1, -2, 3, 0.5], np.float32)
    (y,) = run(made, x.reshape(1, 1, 4))
    before = length // 2  # SAME_LOWER has an odd element of padding in front
    padded = np.pad(x, (before, length - 1 - before))
    np.testing.assert_allclose(y[0, 0], np.convolve(padded, np.arange(length, 0, -1), "valid"), rtol=1e-6)
