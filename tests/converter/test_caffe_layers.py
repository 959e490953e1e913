"""Parameters of Caffe's layers, and their defaults, by the formulas of Caffe's documentation.

OpenCV computes networks of common layers in `test_caffe.py`; it has not all of these.
"""

import numpy as np
import pytest

from pinnace import Converter, FmkType
from pinnace.converter.caffe.weights import _TABLE
from pinnace.formats.messages import message_class

DICE = np.random.default_rng(5)
X = DICE.uniform(0.2, 2, (2, 4, 6, 5)).astype(np.float32)
S = X - 1  # of both signs
V = DICE.normal(size=4).astype(np.float32)
M = DICE.normal(size=(4, 6)).astype(np.float32)
WIDE = DICE.normal(size=(3, 120)).astype(np.float32)
DEEP = DICE.normal(size=(3, 30)).astype(np.float32)
ROWS = DEEP[0].reshape(6, 5)

TAKEN = M[X.astype(int)]


def corners(x, height, width):
    """Bilinear, with the corners where they are."""
    for axis, size in ((2, height), (3, width)):
        at = np.linspace(0, x.shape[axis] - 1, size)
        low = np.minimum(at.astype(int), x.shape[axis] - 2)
        part = (at - low).reshape([-1 if a == axis else 1 for a in range(4)])
        x = np.take(x, low, axis) * (1 - part) + np.take(x, low + 1, axis) * part
    return x


def channel(numbers):
    return numbers.reshape(-1, 1, 1)


# type, parameters, input, blobs, results
LAYERS = [
    ("Log", "log_param { }", X, [], [np.log(X)]),
    ("Log", "log_param { base: 2 scale: 0.5 shift: 3 }", X, [], [np.log2(X / 2 + 3)]),
    ("Exp", "exp_param { base: 2 scale: 0.5 shift: 3 }", X, [], [2 ** (X / 2 + 3)]),
    ("Exp", "exp_param { scale: 0.5 }", X, [], [np.exp(X / 2)]),
    ("Power", "power_param { power: 3 }", X, [], [X**3]),
    ("Slice", "slice_param { axis: 2 }", X, [], [X[:, :, :2], X[:, :, 2:4], X[:, :, 4:]]),
    ("Slice", "slice_param { axis: -1 slice_point: 1 }", X, [], [X[..., :1], X[..., 1:]]),
    ("Slice", "slice_param { slice_dim: 2 slice_point: 4 }", X, [], [X[:, :, :4], X[:, :, 4:]]),
    ("Slice", "", X, [], [X[:, :2], X[:, 2:]]),
    ("Reduction", "", X, [], [X.sum()]),
    ("Reduction", "reduction_param { operation: ASUM axis: 1 }", S, [], [np.abs(S).sum((1, 2, 3))]),
    ("Reduction", "reduction_param { operation: SUMSQ axis: -1 }", S, [], [(S * S).sum(-1)]),
    ("Reduction", "reduction_param { operation: MEAN axis: 2 coeff: 3 }", S, [], [3 * S.mean((2, 3))]),
    ("ArgMax", "argmax_param { axis: 1 }", S, [], [S.argmax(1, keepdims=True)]),
    ("ArgMax", "argmax_param { axis: -2 top_k: 1 out_max_val: false }", S, [], [S.argmax(2, keepdims=True)]),
    ("Tile", "tile_param { tiles: 3 }", X, [], [np.tile(X, (1, 3, 1, 1))]),
    ("Tile", "tile_param { axis: -1 tiles: 2 }", X, [], [np.tile(X, (1, 1, 1, 2))]),
    ("Threshold", "threshold_param { threshold: 0.5 }", X, [], [X > 0.5]),
    ("Threshold", "", S, [], [S > 0]),
    ("Interp", "interp_param { pad_beg: -1 pad_end: -2 }", X, [], [X[:, :, 1:-2, 1:-2]]),
    ("Interp", "interp_param { height: 4 width: 9 }", X, [], [corners(X, 4, 9)]),
    ("Interp", "interp_param { shrink_factor: 2 }", X, [], [corners(X, 3, 3)]),
    ("Interp", "interp_param { shrink_factor: 2 zoom_factor: 3 }", X, [], [corners(X, 7, 7)]),
    ("Upsample", "", X, [], [X.repeat(2, 2).repeat(2, 3)]),
    ("Normalize", "", X, [V[:1]], [X / np.sqrt((X * X).sum((1, 2, 3), keepdims=True) + 1e-10) * V[0]]),
    (
        "Normalize",
        "norm_param { across_spatial: false channel_shared: false eps: 0.5 }",
        *(X, [V], [X / np.sqrt((X * X).sum(1, keepdims=True) + 0.5) * channel(V)]),
    ),
    ("MVN", "mvn_param { normalize_variance: false }", X, [], [X - X.mean((2, 3), keepdims=True)]),
    (
        "MVN",
        "mvn_param { eps: 0.5 }",
        *(X, [], [(X - X.mean((2, 3), keepdims=True)) / (X.std((2, 3), keepdims=True) + 0.5)]),
    ),
    ("ReLU6", "", 5 * X, [], [np.minimum(5 * X, 6)]),
    ("ReLU6", "", 5 * S, [], [np.clip(5 * S, 0, 6)]),
    ("Swish", "", S, [], [S / (1 + np.exp(-S))]),
    ("ELU", "", S, [], [np.where(S > 0, S, np.expm1(S))]),
    ("PReLU", "prelu_param { channel_shared: true }", S, [V[:1]], [np.where(S > 0, S, S * V[0])]),
    ("PReLU", "", S, [V], [np.where(S > 0, S, S * channel(V))]),
    ("Split", "", X, [], [X, X]),
    ("Bias", "", X, [V], [X + channel(V)]),
    ("Bias", "bias_param { axis: -1 }", X, [WIDE[0, :5]], [X + WIDE[0, :5]]),
    ("Scale", "", X, [V], [X * channel(V)]),
    ("Scale", "scale_param { axis: 1 num_axes: 2 }", X, [M], [X * M[..., np.newaxis]]),
    ("Scale", "scale_param { axis: 2 num_axes: -1 }", X, [ROWS], [X * ROWS]),
    ("Scale", "scale_param { bias_term: true }", X, [V, V[::-1]], [X * channel(V) + channel(V[::-1])]),
    ("Embed", "embed_param { num_output: 6 input_dim: 4 }", np.floor(X), [M, M[0]], [TAKEN + M[0]]),
    (
        "Embed",
        "embed_param { num_output: 6 input_dim: 4 bias_term: false }",
        *(np.floor(X), [M], [TAKEN]),
    ),
    ("Flatten", "", X, [], [X.reshape(2, -1)]),
    ("Flatten", "flatten_param { axis: 1 end_axis: 2 }", X, [], [X.reshape(2, 24, 5)]),
    ("Flatten", "flatten_param { axis: 0 end_axis: -2 }", X, [], [X.reshape(48, 5)]),
    ("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }", X, [], [X.reshape(2, -1)]),
    (
        "Reshape",
        "reshape_param { shape { dim: 2 dim: 3 } axis: 2 num_axes: 1 }",
        *(X, [], [X.reshape(2, 4, 2, 3, 5)]),
    ),
    ("Reshape", "reshape_param { shape { dim: 1 dim: 1 } axis: -1 }", X, [], [X.reshape(2, 4, 6, 5, 1, 1)]),
    ("Softmax", "", S, [], [np.exp(S) / np.exp(S).sum(1, keepdims=True)]),
    ("Softmax", "softmax_param { axis: 2 }", S, [], [np.exp(S) / np.exp(S).sum(2, keepdims=True)]),
    ("ShuffleChannel", "", X, [], [X]),
    ("ShuffleChannel", "shuffle_channel_param { group: 2 }", X, [], [X[:, [0, 2, 1, 3]]]),
    (
        "InnerProduct",
        "inner_product_param { num_output: 3 }",
        *(S, [WIDE, V[:3]], [S.reshape(2, -1) @ WIDE.T + V[:3]]),
    ),
    (
        "InnerProduct",
        "inner_product_param { num_output: 3 axis: 2 transpose: true bias_term: false }",
        *(S, [DEEP.reshape(30, 3)], [(S.reshape(8, 30) @ DEEP.reshape(30, 3)).reshape(2, 4, 3)]),
    ),
    ("Pooling", "pooling_param { pool: AVE kernel_size: 2 stride: 2 round_mode: FLOOR }", X, [],
     [X[..., :4].reshape(2, 4, 3, 2, 2, 2).mean((3, 5))]),
    ("Pooling", "pooling_param { kernel_h: 3 kernel_w: 1 stride_h: 3 }", X, [],
     [X.reshape(2, 4, 2, 3, 5).max(3)]),
    ("Pooling", "pooling_param { global_pooling: true }", X, [], [X.max((2, 3), keepdims=True)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "parameters", "x", "blobs", "results"),
    LAYERS,
    ids=[f"{kind} {parameters}".replace(" ", "_") for kind, parameters, *_ in LAYERS],
)
def test_a_layer_computes_its_formula(kind, parameters, x, blobs, results, tmp_path, run_model):
    dims = " ".join(f"dim: {n}" for n in x.shape)
    tops = " ".join(f'top: "y{i}"' for i in range(len(results)))
    own = f'name: "l" type: "{kind}" bottom: "x" {tops} {parameters}'
    text = f'input: "x" input_shape {{ {dims} }} layer {{ {own} }}'
    (tmp_path / "m.prototxt").write_text(text)
    net = message_class(_TABLE, "caffe", "NetParameter", "proto2")()
    layer = net.layer.add(name="l")
    for blob in blobs:
        layer.blobs.add(data=blob.ravel().tolist()).shape.dim.extend(blob.shape)
    (tmp_path / "m.caffemodel").write_bytes(net.SerializeToString())
    Converter().convert(
        FmkType.CAFFE, str(tmp_path / "m.prototxt"), str(tmp_path / "m"), str(tmp_path / "m.caffemodel")
    )
    given = run_model(tmp_path / "m.mindir", [x])
    assert [y.shape for y in given] == [np.shape(want) for want in results]
    for y, want in zip(given, results, strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)  # sums of float32 in another order


def test_an_operand_that_another_layer_makes(tmp_path, run_model):
    """Scale and Bias by a second input, whose dimensions are those from an axis on."""
    text = """
    input: "x" input_shape { dim: 2 dim: 4 dim: 6 dim: 5 } input: "v" input_shape { dim: 2 dim: 4 }
    layer { name: "s" type: "Scale" bottom: "x" bottom: "v" top: "s" scale_param { axis: 0 } }
    layer { name: "b" type: "Bias" bottom: "x" bottom: "v" top: "b" bias_param { axis: 0 } }
    layer { name: "e" type: "Eltwise" bottom: "s" bottom: "b" top: "e" }
    layer { name: "c" type: "Concat" bottom: "e" bottom: "x" top: "c" concat_param { axis: -2 } }
    layer { name: "d" type: "Concat" bottom: "e" bottom: "x" top: "d" concat_param { concat_dim: 0 } }
    layer { name: "k" type: "Concat" bottom: "e" bottom: "x" top: "k" }
    """
    (tmp_path / "m.prototxt").write_text(text)
    net = message_class(_TABLE, "caffe", "NetParameter", "proto2")()
    net.layer.add(name="s")
    (tmp_path / "m.caffemodel").write_bytes(net.SerializeToString())
    Converter().convert(
        FmkType.CAFFE, str(tmp_path / "m.prototxt"), str(tmp_path / "m"), str(tmp_path / "m.caffemodel")
    )
    v = DICE.normal(size=(2, 4)).astype(np.float32)
    beside = v[..., np.newaxis, np.newaxis]
    e = X * beside + (X + beside)
    for y, axis in zip(run_model(tmp_path / "m.mindir", [X, v]), (2, 0, 1), strict=True):
        np.testing.assert_allclose(y, np.concatenate([e, X], axis), rtol=1e-5, atol=1e-6)
