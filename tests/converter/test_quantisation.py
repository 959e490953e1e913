"""Quantised files of the converter."""

import csv
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from PIL import Image

import pinnace
from pinnace import Converter, FmkType, ModelType
from pinnace.converter.calibration import Calibration
from pinnace.converter.convert import Conversion, convert
from pinnace.errors import ConfigError, NotSupportedError, PinnaceWarning
from pinnace.formats.ms import reader
from pinnace.types import DataType, Port
from pinnace.weights.source import Source

FOLDER = Path(__file__).parent.parent / "data" / "converted"
MODEL = FOLDER / "network.onnx"
IMAGE = np.load(FOLDER / "network.npz")["x0"]
FULL = {"quant_type": "FULL_QUANT"}
LITE = Conversion(save_type=ModelType.MINDIR_LITE)
SIZES = {"resize": "256", "center_crop": "224"}
SMALLEST = {"min_quant_weight_channel": "0"}


@pytest.fixture
def calibrated(tmp_path):
    folder = tmp_path / "samples"
    folder.mkdir()
    IMAGE.tofile(folder / "0.bin")
    return {"calibrate_path": f"image:{folder}", "calibrate_size": "1", "input_type": "BIN"}


def converted(path, save_type=ModelType.MINDIR_LITE, **sections):
    converter = Converter()
    converter.save_type = save_type
    for section, values in sections.items():
        converter.set_config_info(section, values)
    converter.convert(FmkType.ONNX, MODEL, path)
    assert converter.summary is not None
    return converter.summary


# The largest error over the largest result, which half a step of each weight explains.
@pytest.mark.parametrize(("bits", "error"), [("16", 1e-4), ("12", 2e-3), ("8", 0.02), ("4", 0.5), ("0", 0.1)])
@pytest.mark.parametrize("save_type", [ModelType.MINDIR, ModelType.MINDIR_LITE])
def test_weights_of_few_bits(tmp_path, run_model, calibrated, save_type, bits, error):
    asked = {"quant_type": "WEIGHT_QUANT", "bit_num": bits, **SMALLEST}
    summary = converted(tmp_path / "q", save_type, common_quant_param=asked, data_preprocess_param=calibrated)
    (expected,), (given,) = (run_model(path, [IMAGE]) for path in (MODEL, summary.files[0]))
    assert 0 < np.abs(given - expected).max() < error * np.abs(expected).max()
    assert summary.likeness.error < error
    assert summary.precision.endswith("3 of 3 operators")


def test_fewer_bits_take_less_room(tmp_path):
    asked = ({}, *({"quant_type": "WEIGHT_QUANT", "bit_num": bits, **SMALLEST} for bits in ("8", "4")))
    sizes = [converted(tmp_path / "q", **({"common_quant_param": one} if one else {})).bytes for one in asked]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("name", ["dynamic8", "half", "int8"])
def test_mindspore_lite_runs_the_same(run_model, name):
    golden = np.load(FOLDER / "quantised" / f"network_{name}.npz")
    (given,) = run_model(FOLDER / "quantised" / f"network_{name}.ms", [golden["x0"]])
    # Its kernels round halves of a step otherwise.
    assert np.abs(given - golden["y0"]).max() < 0.02 * np.abs(golden["y0"]).max()


def test_weights_beyond_float16_stay(tmp_path, run_model):
    weight = np.full((8, 16), 1e5, np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Add", ["y", "v"], ["z"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 8])],
        [helper.make_tensor_value_info("z", 1, [2, 16])],
        [
            numpy_helper.from_array(weight, "w"),
            numpy_helper.from_array(np.full((8, 2, 16), 0.1, np.float32), "v"),
        ],
    )
    source = Source.of_buffer(helper.make_model(graph).SerializeToString())
    options = Conversion(save_type=ModelType.MINDIR_LITE, half=True)
    (path,) = convert(source, None, tmp_path / "q", options).files
    x = np.ones((2, 8), np.float32)
    (given,) = run_model(path, [x])
    np.testing.assert_allclose(given, np.broadcast_to(x @ weight + np.float16(0.1), given.shape), rtol=1e-6)


@pytest.mark.parametrize("name", ["dynamic8", "int8"])
def test_files_have_the_nodes_that_mindspore_lite_runs(tmp_path, calibrated, name):
    asked = {"quant_type": {"dynamic8": "DYNAMIC_QUANT", "int8": "FULL_QUANT"}[name], **SMALLEST}
    (path,) = converted(tmp_path / "q", common_quant_param=asked, data_preprocess_param=calibrated).files
    made, golden = (
        reader.read(Source.of_file(one)).main for one in (path, FOLDER / "quantised" / f"network_{name}.ms")
    )
    assert [(n.primitive, n.attributes) for n in made.nodes] == [
        (n.primitive, n.attributes) for n in golden.nodes
    ]
    assert made.quantised.keys() == golden.quantised.keys()


def test_nodes_can_be_left_out(tmp_path, calibrated):
    name = "c"
    asked = {
        "quant_type": "FULL_QUANT",
        "skip_quant_node": name,
        "debug_info_save_path": str(tmp_path / "notes"),
    }
    summary = converted(tmp_path / "q", common_quant_param=asked, data_preprocess_param=calibrated)
    with (tmp_path / "notes" / "quantised.csv").open() as file:
        rows = list(csv.DictReader(file))
    done, _, every = summary.precision.partition(": ")[2].split()[:3]
    assert len(rows) == int(done) == int(every) - 1
    assert all(float(row["low"]) < float(row["high"]) for row in rows)
    assert name not in [row["operator"] for row in rows]


def test_a_real_network_in_integers_sees_the_same(tmp_path):
    data = Path(pinnace.__file__).parent / "data"
    for name in ("chelsea.png", "coffee.png"):
        shutil.copy(data / name, tmp_path)
    converter = Converter()
    converter.save_type = ModelType.MINDIR_LITE
    converter.set_config_info("common_quant_param", FULL)
    shape = {f"{what}_{side}": n for what, n in SIZES.items() for side in ("width", "height")}
    pixels = {"normalize_mean": "[123.675,116.28,103.53]", "normalize_std": "[58.395,57.12,57.375]", **shape}
    how = {
        "calibrate_path": f"x:{tmp_path}",
        "calibrate_size": "2",
        "input_type": "IMAGE",
        "image_to_format": "RGB",
    }
    converter.set_config_info("data_preprocess_param", {**how, **pixels})
    converter.convert(FmkType.MINDIR, data / "efficientnet_lite0.mindir", tmp_path / "q")
    likeness = converter.summary.likeness
    assert likeness.same_top == 1
    assert likeness.cosine > 0.99
    assert converter.summary.bytes < 0.35 * converter.summary.bytes_before


def test_a_quantised_onnx_model_is_a_quantised_ms(tmp_path, run_model):
    model = onnx.load(MODEL)
    model.opset_import[0].version = 13  # the first whose steps have an axis
    quantize_static(model, tmp_path / "q.onnx", _Sample(), per_channel=True)  # QDQ, of int8
    (path,) = convert(Source.of_file(tmp_path / "q.onnx"), None, tmp_path / "q", LITE).files
    main = reader.read(Source.of_file(path)).main
    whole = [node.primitive for node in main.nodes if node.attributes.get("quantType") == 5]
    assert whole.count("Conv2DFusion") == 3
    (expected,), (given,) = (run_model(file, [IMAGE]) for file in (tmp_path / "q.onnx", path))
    # onnxruntime quantises the Sigmoid, too.
    np.testing.assert_allclose(given, expected, atol=0.03 * np.abs(expected).max())


class _Sample(CalibrationDataReader):
    def __init__(self):
        self.rest = [{"image": IMAGE}]

    def get_next(self):
        return self.rest.pop() if self.rest else None


def test_pictures_are_prepared_as_the_keys_say(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    port = Port("x", DataType.FLOAT32, (1, 3, 4, 6))
    how = Calibration({"x": tmp_path}, 1, True, "BGR", [1, 2, 3], [2, 4, 8], crop=(6, 4))
    ((given,),) = how.samples([port])
    wanted = (pixels[1:5, 1:7, ::-1] - np.array([1, 2, 3])) / np.array([2, 4, 8])
    np.testing.assert_allclose(given, wanted.transpose(2, 0, 1)[np.newaxis], rtol=1e-6)
    ((half,),) = Calibration({"x": tmp_path}, 1, True, "GRAY", size=(4, 3)).samples(
        [Port("x", DataType.FLOAT32, (1, 3, 4, 1))]
    )
    assert half.shape == (1, 3, 4, 1)


PATH = {"calibrate_path": "image:.", "calibrate_size": "1", "input_type": "BIN"}


@pytest.mark.parametrize(
    ("sections", "error", "said"),
    [
        (
            {"common_quant_param": {"quant_typ": "x"}},
            ConfigError,
            r"\[common_quant_param\] quant_typ is not known",
        ),
        ({"common_quant_param": {"quant_type": "x"}}, ConfigError, r"quant_type must be one of"),
        ({"common_quant_param": FULL}, ConfigError, "FULL_QUANT needs calibrate_path"),
        (
            {"common_quant_param": {**FULL, "bit_num": "4"}, "data_preprocess_param": PATH},
            ConfigError,
            "bit_num must be 8 with FULL_QUANT",
        ),
        (
            {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": "1"}},
            ConfigError,
            "bit_num must be 0 or 2 to 16",
        ),
        (
            {"full_quant_param": {"per_channel": "true"}},
            ConfigError,
            r"needs quant_type in \[common_quant_param\]",
        ),
        (
            {"full_quant_param": {"per_channel": "no"}},
            ConfigError,
            r"\[full_quant_param\] per_channel must be one",
        ),
        ({"dynamic_quant_param": {"quant_strategy": "ACWL"}}, NotSupportedError, "choose ALWC"),
        ({"mixed_bit_weight_quant_param": {"init_scale": "2"}}, ConfigError, "init_scale='2'"),
        (
            {"common_quant_param": FULL, "data_preprocess_param": {**PATH, "calibrate_size": "0"}},
            ConfigError,
            "calibrate_size is missing",
        ),
        (
            {"common_quant_param": FULL, "data_preprocess_param": {**PATH, "calibrate_path": "image"}},
            ConfigError,
            "calibrate_path='image'",
        ),
        (
            {"common_quant_param": FULL, "data_preprocess_param": {**PATH, "calibrate_path": "y:."}},
            ConfigError,
            "must name the inputs of the model, 'image'",
        ),
        (
            {"common_quant_param": FULL, "data_preprocess_param": {**PATH, "calibrate_size": "9999"}},
            ConfigError,
            "calibrate_size is 9999",
        ),
        (
            {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "skip_quant_node": "no"}},
            ConfigError,
            "skip_quant_node names no",
        ),
    ],
)
def test_wrong_keys_are_named(tmp_path, sections, error, said):
    with pytest.raises(error, match=said):
        converted(tmp_path / "q", **sections)


def test_keys_without_effect_are_named(tmp_path):
    with pytest.warns(PinnaceWarning, match=r"\[weight_quant_param\] max_segments"):
        converted(
            tmp_path / "q",
            common_quant_param={"quant_type": "WEIGHT_QUANT"},
            weight_quant_param={"max_segments": "2"},
        )


def test_mindir_has_no_operators_on_integers(tmp_path):
    with pytest.raises(NotSupportedError, match="choose MINDIR_LITE"):
        converted(tmp_path / "q", ModelType.MINDIR, common_quant_param=FULL, data_preprocess_param=PATH)
