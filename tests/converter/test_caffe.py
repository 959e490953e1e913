"""Caffe's networks give what OpenCV computes with them (tools/with_others/make_caffe_goldens.py)."""

from pathlib import Path

import numpy as np
import pytest

from pinnace import Converter, FmkType, ModelType
from pinnace.converter.caffe import prototxt
from pinnace.converter.caffe.weights import _TABLE
from pinnace.errors import ConfigError, ModelFormatError, UnsupportedModelError
from pinnace.formats.messages import message_class

FOLDER = Path(__file__).parent.parent / "data" / "caffe"
SUFFIX = {ModelType.MINDIR: ".mindir", ModelType.MINDIR_LITE: ".ms"}


def converted(network, weights, folder, save_type=ModelType.MINDIR, shape=None):
    converter = Converter()
    converter.save_type, converter.input_shape = save_type, shape or {}
    converter.convert(FmkType.CAFFE, str(network), str(folder / "made"), str(weights))
    return folder / f"made{SUFFIX[save_type]}"


def network_of(folder, text):
    """A network of this text, with the weights of `branches`."""
    path = folder / "network.prototxt"
    path.write_text(text)
    return path, FOLDER / "branches.caffemodel"


def layer(kind, rest=""):
    head = 'input: "x" input_shape { dim: 1 dim: 4 dim: 8 dim: 8 }'
    return f'{head} layer {{ name: "l" type: "{kind}" bottom: "x" top: "y" {rest} }}'


@pytest.mark.parametrize("save_type", SUFFIX)
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.prototxt")))
def test_networks_give_what_opencv_computes(name, save_type, tmp_path, run_model):
    check(name, FOLDER / f"{name}.caffemodel", tmp_path, save_type, run_model)


@pytest.mark.parametrize("name", ["convolutions", "first_version"])
def test_numbers_that_are_packed_as_caffe_packs_them_stay_in_the_file(name, tmp_path, run_model):
    net = message_class(_TABLE, "caffe", "NetParameter", "proto3")()  # whose numbers are packed
    net.ParseFromString((FOLDER / f"{name}.caffemodel").read_bytes())
    (tmp_path / "packed").write_bytes(net.SerializeToString())
    check(name, tmp_path / "packed", tmp_path, ModelType.MINDIR, run_model)


def check(name, weights, folder, save_type, run_model):
    golden = np.load(FOLDER / f"{name}.npz")
    model = converted(FOLDER / f"{name}.prototxt", weights, folder, save_type)
    results = run_model(model, [golden["arr_0"]])
    expected = [golden[key] for key in golden.files if key != "arr_0"]
    assert len(results) == len(expected)
    for y, want in zip(results, expected, strict=True):
        assert y.shape == want.shape
        # sums of up to a hundred float32 products, in another order
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=2e-5 * np.abs(want).max())


def test_an_input_gets_another_shape(tmp_path, run_model):
    files = FOLDER / "classifier.prototxt", FOLDER / "classifier.caffemodel"
    x = np.load(FOLDER / "classifier.npz")["arr_0"]
    model = converted(*files, tmp_path, shape={"x": [1, 2, 3, 4]})
    assert run_model(model, [x[:1]])[0].shape == (1, 5)
    with pytest.raises(ConfigError, match="no input z; its inputs are x"):
        converted(*files, tmp_path, shape={"z": [1, 2, 3, 4]})


def test_interp_and_upsample(tmp_path, run_model):
    x = np.arange(4 * 64, dtype=np.float32).reshape(1, 4, 8, 8)
    model = converted(*network_of(tmp_path, layer("Interp", "interp_param { zoom_factor: 2 }")), tmp_path)
    y = run_model(model, [x])[0]
    assert y.shape == (1, 4, 15, 15)
    np.testing.assert_allclose(y[:, :, ::2, ::2], x, rtol=1e-6)  # DeepLab keeps the corners where they are
    model = converted(*network_of(tmp_path, layer("Upsample", "upsample_param { scale: 2 }")), tmp_path)
    assert (run_model(model, [x])[0] == x.repeat(2, 2).repeat(2, 3)).all()


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("\0\1", ModelFormatError, "line 1: .* is unexpected"),
        ("layer {", ModelFormatError, "line 1: the file ends"),
        ("layer {" * 9999, ModelFormatError, "nested more than 64 deep"),
        ('name: "only"', ModelFormatError, "no layers that compute"),
        (layer("ReLU").replace('bottom: "x"', 'bottom: "z"'), ModelFormatError, "reads 'z', which no layer"),
        (layer("ReLU").replace('bottom: "x"', ""), ModelFormatError, "layer 'l' has no input 0"),
        (layer("Data"), ModelFormatError, "training data: give the network's deploy.prototxt"),
        (layer("DetectionOutput"), UnsupportedModelError, "DetectionOutput x1, first at node 'l'"),
        (layer("InnerProduct", "inner_product_param { num_output: 4 }"), ModelFormatError, "has 0 blobs"),
        (layer("Pooling", "pooling_param { kernel_size: 9 }"), UnsupportedModelError, "9., .* larger"),
        (layer("Eltwise", "eltwise_param { operation: MEAN }"), UnsupportedModelError, "MEAN over 1 inputs"),
        (layer("ReLU", "relu_param { negative_slope: big }"), RuntimeError, "is 'big', not float"),
        (layer("ReLU").replace("dim: 8", "dim: 1000000000000"), ModelFormatError, "cannot have dimensions"),
        (layer("ReLU").replace("input_shape {", "shape {"), ModelFormatError, "1 inputs, and shapes of 0"),
        ('layer { name: "l" type: "Input" top: "x" }', ModelFormatError, "input 'l' has no shape"),
        (layer("ReLU", 'relu_param: 1'), ModelFormatError, "relu_param is 1, not a message"),
        (layer("ReLU", "top: 1"), ModelFormatError, "top is 1, not str"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(text, error, message, tmp_path):
    with pytest.raises(error, match=message):
        converted(*network_of(tmp_path, text), tmp_path)


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("BatchNorm", "batch_norm_param { use_global_stats: false }", "as for training"),
        ("Slice", "slice_param { slice_point: 0 }", r"cuts 4 elements at \[0\] for 1 tops"),
        ("Slice", "slice_param { slice_point: 4 } top: 'z'", r"cuts 4 elements at \[4\] for 2 tops"),
        ("Slice", "slice_param { slice_point: 2 }", r"cuts 4 elements at \[2\] for 1 tops"),
        ("Reshape", "reshape_param { shape { dim: 3 dim: -1 } }", r"makes \[3, -1\] of"),
        ("Reshape", "reshape_param { shape { dim: 4 dim: 8 } }", r"makes \[4, 8\] of"),
        ("Reshape", "reshape_param { shape { dim: -1 dim: -1 } }", r"makes \[-1, -1\] of"),
        ("Reshape", "reshape_param { shape { dim: [0, 0, 0, 0, 0] } }", "from axis 0: name axes"),
        ("Reshape", "reshape_param { shape { dim: 1 } axis: 5 }", "from axis 5: name axes"),
        ("Reshape", "reshape_param { shape { dim: 64 } axis: 3 num_axes: 2 }", "from axis 3: name axes"),
        ("Reshape", "reshape_param { shape { dim: 1 } axis: -6 }", "from axis -6: name axes"),
        ("ArgMax", "", "or has no axis"),
        ("ArgMax", "argmax_param { axis: 1 top_k: 2 }", "gives several or greatest values"),
        ("ArgMax", "argmax_param { axis: 1 out_max_val: true }", "gives several or greatest values"),
        ("Reduction", "reduction_param { operation: MAX }", "operation MAX: write SUM or ASUM or"),
        ("ShuffleChannel", "shuffle_channel_param { group: 3 }", "has 3 groups over 4 channels"),
        ("ShuffleChannel", "shuffle_channel_param { group: 0 }", "has 0 groups over 4 channels"),
        ("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }", "pools by STOCHASTIC with 1 tops"),
        ("Pooling", "pooling_param { kernel_size: 2 } top: 'z'", "pools by MAX with 2 tops"),
        ("Pooling", "", r"has kernel \[0, 0\], stride \[1, 1\]"),
        ("Pooling", "pooling_param { kernel_size: 2 stride: 0 }", r"stride \[0, 0\]"),
        ("Pooling", "pooling_param { kernel_size: 2 pad: -1 }", r"pad \[-1, -1\]"),
        ("Convolution", "convolution_param { num_output: 3 kernel_size: 1 group: 3 }", "and 3 groups over"),
        ("Convolution", "convolution_param { num_output: 3 kernel_size: 1 group: 2 }", "3 outputs and 2 gr"),
        ("Convolution", "convolution_param { num_output: 4 kernel_size: 1 group: 0 }", "and 0 groups over"),
        ("Convolution", "convolution_param { num_output: 4 }", r"has kernel \[0, 0\]"),
        ("Convolution", "convolution_param { kernel_size: 1 }", "0 outputs"),
        ("Concat", "concat_param { axis: 4 }", "axis 4, and its input 4 dimensions: name one of -4 to 3"),
        ("Concat", "concat_param { axis: -5 }", "axis -5, and its input 4 dimensions"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(kind, parameters, message, tmp_path):
    with pytest.raises(UnsupportedModelError, match=f"{kind} x1, first at node 'l'.*{message}"):
        converted(*network_of(tmp_path, layer(kind, parameters)), tmp_path)


def test_all_layers_without_a_rule_are_named(tmp_path):
    text = (
        layer("Lost")
        + """
    layer { name: "m" type: "ReLU" bottom: "y" top: "z" }
    layer { name: "n" type: "Gone" bottom: "x" top: "u" }
    """
    )
    with pytest.raises(UnsupportedModelError) as raised:
        converted(*network_of(tmp_path, text), tmp_path)
    rows = ("Lost x1, first at node 'l'", "Gone x1, first at node 'n'", "'m': reads what was not converted")
    assert all(row in str(raised.value) for row in rows)


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("a: 1 a: -2, a: +3; a: 04", int, [1, -2, 3, 4]),
        ("a: [1, 2] a: []", int, [1, 2]),
        ("a: 1.5f a: 1e-3 a: .5 a: 2F a: -7", float, [1.5, 1e-3, 0.5, 2.0, -7.0]),
        ("a: true a: false", bool, [True, False]),
        ("a: 'x' 'y' a: \"it's\" a: SUM a: _k", str, ["xy", "it's", "SUM", "_k"]),
    ],
)
def test_values_of_the_text_format(text, kind, values):
    assert prototxt.parse(text, "net").all("a", kind) == values


@pytest.mark.parametrize(
    "text", ["a { b: 1 } a { b: 2 c: 3 }", "a: < b: 2 >", "a <b: 1, b: 2>", "a: [{b: 2}]"]
)
def test_messages_of_the_text_format(text):
    message = prototxt.parse(text, "net").message("a")
    assert message.get("b", 0) == 2
    assert message.get("d", 5) == 5


def test_messages_are_read_64_deep():
    assert prototxt.parse("a{" * 64 + "}" * 64, "net")
    with pytest.raises(ModelFormatError, match="nested more than 64 deep"):
        prototxt.parse("a{" * 65 + "}" * 65, "net")


def test_weights_of_other_networks_and_damaged_ones(tmp_path):
    network = FOLDER / "classifier.prototxt"
    with pytest.raises(ModelFormatError, match="needs its weights: give weight_file"):
        converted(network, "", tmp_path)
    with pytest.raises(ModelFormatError, match="layer 'l0' has 0 blobs in the weights"):
        converted(network, FOLDER / "branches.caffemodel", tmp_path)
    with pytest.raises(ModelFormatError, match=r"blob 0 is \[6, 4, 3, 3\] in the weights, not \[7, 24\]"):
        converted(network, FOLDER / "convolutions.caffemodel", tmp_path)
    whole = (FOLDER / "classifier.caffemodel").read_bytes()
    for name, content in (("cut", whole[:-9]), ("other", network.read_bytes())):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelFormatError, match=name):
            converted(network, tmp_path / name, tmp_path)
    with pytest.raises(ModelFormatError, match="is not text: give"):
        converted(FOLDER / "convolutions.npz", FOLDER / "branches.caffemodel", tmp_path)
