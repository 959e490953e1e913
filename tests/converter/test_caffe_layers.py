"""Parameters of Caffe's layers, and their defaults, by the formulas of Caffe's documentation.

OpenCV computes networks of common layers in `test_caffe.py`; it has not all of these.
"""

import numpy as np
import pytest

from pinnace import Converter, FmkType, Model
from pinnace.converter.caffe.weights import _TABLE
from pinnace.errors import ModelFormatError
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


def windows(x, w, stride=(1, 1), pad=(0, 0), dilation=(1, 1), group=1):
    """The sums of products of windows."""
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], dilation, strict=True)]
    parts = w.reshape(group, len(w) // group, *w.shape[1:])
    total = 0
    for i, j in np.ndindex(*w.shape[2:]):
        down, right = i * dilation[0], j * dilation[1]
        seen = x[..., down : x.shape[2] - reach[0] + down, right : x.shape[3] - reach[1] + right]
        seen = seen[..., :: stride[0], :: stride[1]]
        groups = seen.reshape(len(x), group, -1, *seen.shape[2:])
        total = total + np.einsum("ngchw,goc->ngohw", groups, parts[..., i, j])
    return total.reshape(len(x), len(w), *total.shape[3:])


def sums(x, kernel, **how):
    return windows(x, np.ones((4, 1, kernel, kernel)), group=4, **how)


def neighbours(x, size):
    """The sums over channels around each."""
    wide = np.pad(x, [(0, 0), (size // 2,) * 2, (0, 0), (0, 0)])
    return sum(wide[:, i : i + x.shape[1]] for i in range(size))


TALL, FLAT, SMALL = (DICE.normal(size=(4, 1, *s)).astype(np.float32) for s in ((3, 1), (2, 2), (2, 3)))
FULL = DICE.normal(size=(3, 4, 2, 3)).astype(np.float32)
UP = DICE.normal(size=(4, 2, 2, 2)).astype(np.float32)
FACTOR, NONE = np.array([2], np.float32), np.zeros(1, np.float32)
WIDTHS = np.abs(V) + 0.1

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
    ("Pooling", "pooling_param { pool: AVE kernel_size: 2 stride: 2 ceil_mode: false }", X, [],
     [sums(X, 2, stride=(2, 2)) / 4]),
    ("Pooling", "pooling_param { pool: AVE kernel_size: 2 stride_h: 2 stride_w: 5 pad_h: 1 pad_w: 0 }", X, [],
     [np.pad(X, [(0, 0), (0, 0), (1, 1), (0, 0)]).reshape(2, 4, 4, 2, 5)[..., :2].mean((3, 4))[..., None]]),
    ("Pooling", "pooling_param { pool: AVE kernel_size: 3 pad: 1 }", X, [], [sums(X, 3, pad=(1, 1)) / 9]),
    ("Pooling", "pooling_param { pool: AVE kernel_size: 2 stride: 3 pad: 1 }", X, [],
     [sums(X, 2, stride=(3, 3), pad=(1, 1)) / 4]),  # no window begins in the padding after the picture
    ("BatchNorm", "", S, [V, WIDTHS, FACTOR],
     [(S - channel(V / 2)) / np.sqrt(channel(WIDTHS / 2) + 1e-5)]),
    ("BatchNorm", "batch_norm_param { eps: 0.5 }", S, [V, WIDTHS, NONE], [S / np.sqrt(0.5)]),
    ("Power", "power_param { scale: 2 shift: 1 }", X, [], [2 * X + 1]),
    ("Tile", "", X, [], [X]),
    ("MVN", "", S, [], [(S - S.mean((2, 3), keepdims=True)) / S.std((2, 3), keepdims=True)]),
    ("Normalize", "norm_param { channel_shared: false }", X, [V],
     [X / np.sqrt((X * X).sum((1, 2, 3), keepdims=True)) * channel(V)]),
    ("Reshape", "reshape_param { shape { dim: 30 } axis: -3 num_axes: 2 }", X, [], [X.reshape(2, 4, 30)]),
    ("Reshape", "reshape_param { shape { dim: 8 dim: 30 } }", X, [], [X.reshape(8, 30)]),
    ("Interp", "interp_param { pad_beg: -1 }", X, [], [X[:, :, 1:, 1:]]),
    ("Interp", "interp_param { pad_end: -1 }", X, [], [X[:, :, :-1, :-1]]),
    ("Upsample", "upsample_param { scale: 3 }", X, [], [X.repeat(3, 2).repeat(3, 3)]),
    ("LRN", "", S, [], [S / (1 + neighbours(S * S, 5) / 5) ** 0.75]),
    ("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.5 k: 2 }", S, [],
     [S / (2 + 0.5 * neighbours(S * S, 3) / 3) ** 0.5]),
    ("LRN", "lrn_param { norm_region: WITHIN_CHANNEL }", S, [],
     [S / (1 + sums(S * S, 5, pad=(2, 2)) / 25) ** 0.75]),
    ("Convolution", "convolution_param { num_output: 3 kernel_h: 2 kernel_w: 3 }", S, [FULL, V[:3]],
     [windows(S, FULL) + channel(V[:3])]),
    ("ConvolutionDepthwise",
     "convolution_param { num_output: 4 kernel_size: [3, 1] pad: 1 pad: 0 stride_h: 2 }",
     S, [TALL, V], [windows(S, TALL, (2, 1), (1, 0), group=4) + channel(V)]),
    ("DepthwiseConvolution",
     "convolution_param { num_output: 4 group: 4 kernel_size: 2 dilation: 2 stride_w: 2 bias_term: false }",
     S, [FLAT], [windows(S, FLAT, (1, 2), dilation=(2, 2), group=4)]),
    ("Convolution", "convolution_param { num_output: 4 group: 4 kernel_h: 2 kernel_w: 3 pad_w: 1 }", S,
     [SMALL, V], [windows(S, SMALL, pad=(0, 1), group=4) + channel(V)]),
    ("Deconvolution", "convolution_param { num_output: 2 kernel_size: 2 stride: 2 bias_term: false }",
     S, [UP], [np.einsum("nchw,coij->nohiwj", S, UP).reshape(2, 2, 12, 10)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "parameters", "x", "blobs", "results"),
    LAYERS,
    ids=[f"{kind} {parameters}".replace(" ", "_") for kind, parameters, *_ in LAYERS],
)
def test_a_layer_computes_its_formula(kind, parameters, x, blobs, results, tmp_path, run_model):
    tops = " ".join(f'top: "y{i}"' for i in range(len(results)))
    text = f'{ports(x)} layer {{ name: "l" type: "{kind}" bottom: "x" {tops} {parameters} }}'
    given = run_model(network(text, tmp_path, {"l": blobs}), [x])
    assert [y.shape for y in given] == [np.shape(want) for want in results]
    for y, want in zip(given, results, strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)  # sums of float32 in another order


def ports(*arrays):
    """The inputs x, v, ... of a network."""
    dims = [" ".join(f"dim: {n}" for n in array.shape) for array in arrays]
    return " ".join(f'input: "{name}" input_shape {{ {d} }}' for name, d in zip("xv", dims, strict=False))


def network(text, folder, blobs, field="data", more=()):
    """The converted file of a network, with blobs by layer, each with `more` dimensions."""
    (folder / "m.prototxt").write_text(text)
    net = message_class(_TABLE, "caffe", "NetParameter", "proto2")()
    for name, arrays in blobs.items():
        layer = net.layer.add(name=name)
        for blob in arrays:
            layer.blobs.add(**{field: blob.ravel().tolist()}).shape.dim.extend((*blob.shape, *more))
    (folder / "m.caffemodel").write_bytes(net.SerializeToString())
    files = (str(folder / name) for name in ("m.prototxt", "m", "m.caffemodel"))
    Converter().convert(FmkType.CAFFE, *files)
    return folder / "m.mindir"


PART = X[:, :3, :4, :3]


@pytest.mark.parametrize(
    ("kind", "parameters", "v", "result"),
    [
        ("Crop", "", X[:, :, :4, :3], X[:, :, :4, :3]),
        ("Crop", "crop_param { offset: 1 }", X[:, :, :4, :3], X[:, :, 1:5, 1:4]),
        ("Crop", "crop_param { axis: 1 offset: 1 offset: 2 offset: 0 }", PART, X[:, 1:, 2:, :3]),
        ("Crop", "crop_param { axis: 3 offset: 2 }", PART, X[..., 2:]),
        ("Eltwise", "", S, X + S),
        ("Eltwise", "eltwise_param { coeff: 1 coeff: 2 }", S, X + 2 * S),
        ("Eltwise", "eltwise_param { operation: PROD }", S, X * S),
        ("Eltwise", "eltwise_param { operation: MAX }", 2 * S, np.maximum(X, 2 * S)),
        ("Scale", "scale_param { axis: 0 bias_term: true }", V[:2], X * V[:2].reshape(-1, 1, 1, 1) + V[0]),
    ],
)
def test_a_layer_of_two_inputs_computes_its_formula(kind, parameters, v, result, tmp_path, run_model):
    own = f'name: "l" type: "{kind}" bottom: "x" bottom: "v" top: "y" {parameters}'
    blobs = [np.full(2, V[0])] if kind == "Scale" else []
    made = network(f"{ports(X, v)} layer {{ {own} }}", tmp_path, {"l": blobs})
    given = run_model(made, [X, v])
    np.testing.assert_allclose(given[0], result, rtol=1e-5, atol=1e-5, strict=True)


def test_weights_of_float64_become_float32(tmp_path, run_model):
    text = f'{ports(X)} layer {{ name: "l" type: "Bias" bottom: "x" top: "y" }}'
    y = run_model(network(text, tmp_path, {"l": [V]}, "double_data"), [X])[0]
    np.testing.assert_array_equal(y, X + channel(V))


def test_blobs_of_fewer_numbers_than_their_shape_has_are_refused(tmp_path):
    text = f'{ports(X)} layer {{ name: "l" type: "Bias" bottom: "x" top: "y" }}'
    with pytest.raises(ModelFormatError, match=r"blob 'l/0' is FLOAT\[4, 2\], 32 bytes, but 16 are there"):
        network(text, tmp_path, {"l": [V]}, more=[2])


def test_a_result_that_is_written_into_an_input_gets_a_name_of_its_own(tmp_path, run_model):
    made = network(f'{ports(X)} layer {{ name: "l" type: "ReLU" bottom: "x" top: "x" }}', tmp_path, {"l": []})
    assert [output.name for output in Model(str(made)).get_outputs()] == ["x_result"]
    np.testing.assert_array_equal(run_model(made, [X])[0], np.maximum(X, 0))


def test_layers_of_the_training_are_left_out(tmp_path, run_model):
    """Each layer adds a power of two, so that a sum says which are there."""
    phases = [
        "",
        "include { phase: TEST }",
        "include { phase: TRAIN }",
        "include { phase: TRAIN } include { phase: TEST }",
        "exclude { phase: TEST }",
        "exclude { phase: TRAIN }",
        "include { stage: 'deploy' }",
    ]
    layers = [
        f'layer {{ type: "Power" bottom: "y" top: "y" power_param {{ shift: {1 << i} }} {phase} }}'
        for i, phase in enumerate(phases)
    ]
    text = f'{ports(X)} layer {{ type: "AbsVal" bottom: "x" top: "y" }} {" ".join(layers)}'
    y = run_model(network(text, tmp_path, {"none": []}), [X])[0]
    np.testing.assert_allclose(y, X + 0b1101011, rtol=1e-6)


@pytest.mark.parametrize(("shapes", "second"), [(1, X), (2, X[:1])])
def test_an_input_layer_of_two_tops(shapes, second, tmp_path, run_model):
    """The last shape is that of all further tops."""
    rows = " ".join(f"shape {{ {' '.join(f'dim: {n}' for n in x.shape)} }}" for x in (X, second)[:shapes])
    text = f"""
    layer {{ type: "Input" top: "x" top: "v" input_param {{ {rows} }} }}
    layer {{ type: "Silence" bottom: "v" }} layer {{ type: "TanH" bottom: "v" top: "unread" }}
    layer {{ type: "AbsVal" bottom: "x" top: "y" }}
    """
    unread, y = run_model(network(text, tmp_path, {"none": []}), [-X, second])
    np.testing.assert_array_equal(y, X)
    np.testing.assert_allclose(unread, np.tanh(second), rtol=1e-6, strict=True)


def test_an_operand_that_another_layer_makes(tmp_path, run_model):
    """Scale and Bias by a second input, whose dimensions are those from an axis on."""
    v = DICE.normal(size=(2, 4)).astype(np.float32)
    text = f"""{ports(X, v)}
    layer {{ name: "s" type: "Scale" bottom: "x" bottom: "v" top: "s" scale_param {{ axis: 0 }} }}
    layer {{ name: "b" type: "Bias" bottom: "x" bottom: "v" top: "b" bias_param {{ axis: 0 }} }}
    layer {{ name: "e" type: "Eltwise" bottom: "s" bottom: "b" top: "e" }}
    layer {{ name: "c" type: "Concat" bottom: "e" bottom: "x" top: "c" concat_param {{ axis: -2 }} }}
    layer {{ name: "d" type: "Concat" bottom: "e" bottom: "x" top: "d" concat_param {{ concat_dim: 0 }} }}
    layer {{ name: "k" type: "Concat" bottom: "e" bottom: "x" top: "k" }}
    """
    made = network(text, tmp_path, {"s": []})
    beside = v[..., np.newaxis, np.newaxis]
    e = X * beside + (X + beside)
    for y, axis in zip(run_model(made, [X, v]), (2, 0, 1), strict=True):
        np.testing.assert_allclose(y, np.concatenate([e, X], axis), rtol=1e-5, atol=1e-6)
