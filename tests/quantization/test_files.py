"""Quantized files of the converter."""

import csv
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from PIL import Image

import pinnace
from pinnace import Converter, FmkType, ModelType
from pinnace.converter.convert import Conversion, convert
from pinnace.errors import ConfigError, FileWriteError, NotSupportedError, PinnaceWarning
from pinnace.formats import read
from pinnace.formats.ms import reader
from pinnace.quantization.calibration import Calibration
from pinnace.quantization.files import Quantization, quantized
from pinnace.types import DataType, Port
from pinnace.weights.source import Source

FOLDER = Path(__file__).parent.parent / "data" / "converted"
MODEL = FOLDER / "network.onnx"
PRODUCTS = FOLDER / "quantized" / "products.onnx"
QUANTIZED = sorted(path for path in (FOLDER / "quantized").iterdir() if path.suffix in (".ms", ".mindir"))
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


def test_a_sample_is_not_written_to(tmp_path, calibrated):
    sample = tmp_path / "samples" / "0.ms"
    (tmp_path / "samples" / "0.bin").rename(sample)
    before = sample.read_bytes()
    with pytest.raises(FileWriteError, match=r"0\.ms cannot be written: it is read for this"):
        converted(sample, common_quant_param=FULL, data_preprocess_param=calibrated)
    assert sample.read_bytes() == before


def test_fewer_bits_take_less_room(tmp_path):
    asked = ({}, *({"quant_type": "WEIGHT_QUANT", "bit_num": bits, **SMALLEST} for bits in ("8", "4")))
    sizes = [converted(tmp_path / "q", **({"common_quant_param": one} if one else {})).bytes for one in asked]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("path", QUANTIZED, ids=lambda path: path.name)
def test_mindspore_lite_runs_the_same(run_model, path):
    golden = np.load(path.with_suffix(".npz"))
    (given,) = run_model(path, [golden["x0"]])
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


@pytest.mark.parametrize(
    "golden", [path for path in QUANTIZED if "8" in path.stem], ids=lambda path: path.name
)
def test_files_have_the_nodes_that_mindspore_lite_runs(tmp_path, calibrated, golden):
    calibration = Calibration({"image": Path(calibrated["calibrate_path"].partition(":")[2])}, 1)
    network, _, method = golden.stem.partition("_")
    how = Quantization(method, calibration=calibration if method == "int8" else None)
    kind = ModelType.MINDIR_LITE if golden.suffix == ".ms" else ModelType.MINDIR
    source = Source.of_file(MODEL if network == "network" else PRODUCTS)
    (path,) = convert(source, None, tmp_path / "q", Conversion(kind, quantize=how)).files
    made, kept = (read(Source.of_file(one)).main for one in (path, golden))
    assert _nodes(made) == _nodes(kept)
    assert any(n.primitive in ("DynamicQuant", "QuantDTypeCast") for n in made.nodes)


def _nodes(function):
    """Nodes with what is quantized of their inputs and outputs, without scales, which differ by processor."""
    return [
        (
            n.primitive,
            {name: value for name, value in n.attributes.items() if name != "quant_param"},
            [name in function.quantized for name in n.inputs],
            [name in function.quantized for name in n.outputs],
        )
        for n in function.nodes
    ]


def test_both_kinds_of_file_compute_the_same(tmp_path, run_model, calibrated):
    for kind in ({"quant_type": "FULL_QUANT"}, {"quant_type": "DYNAMIC_QUANT", **SMALLEST}):
        files = [
            converted(
                tmp_path / "q", save_type, common_quant_param=kind, data_preprocess_param=calibrated
            ).files[0]
            for save_type in (ModelType.MINDIR, ModelType.MINDIR_LITE)
        ]
        (first,), (second,) = (run_model(file, [IMAGE]) for file in files)
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-5)  # sums in another order


def test_several_results_keep_their_names_and_types(tmp_path):
    model = onnx.load(PRODUCTS)
    for name in ("a", "b"):
        model.graph.output.append(helper.make_tensor_value_info(name, 1, [4, 16]))
    source = Source.of_buffer(model.SerializeToString())
    for kind in (ModelType.MINDIR, ModelType.MINDIR_LITE):
        (path,) = convert(source, None, tmp_path / "q", Conversion(kind)).files
        opened = pinnace.Model(path)
        assert [x.name for x in opened.get_inputs()] == ["x"]
        assert [x.name for x in opened.get_outputs()] == ["y", "a", "b"]
        main = read(Source.of_file(path)).main
        (split,) = (node for node in main.nodes if node.primitive == "Split")
        assert [t.shape for t in split.types] == [(4, 16)] * 3


def test_nodes_can_be_left_out(tmp_path, calibrated):
    name = "c"
    asked = {
        "quant_type": "FULL_QUANT",
        "skip_quant_node": name,
        "debug_info_save_path": str(tmp_path / "notes"),
    }
    summary = converted(tmp_path / "q", common_quant_param=asked, data_preprocess_param=calibrated)
    with (tmp_path / "notes" / "quantized.csv").open() as file:
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


def test_a_quantized_onnx_model_is_a_quantized_ms(tmp_path, run_model):
    model = onnx.load(MODEL)
    model.opset_import[0].version = 13  # the first whose steps have an axis
    quantize_static(model, tmp_path / "q.onnx", _Sample(), per_channel=True)  # QDQ, of int8
    (path,) = convert(Source.of_file(tmp_path / "q.onnx"), None, tmp_path / "q", LITE).files
    main = reader.read(Source.of_file(path)).main
    whole = [node.primitive for node in main.nodes if node.attributes.get("quantType") == 5]
    assert whole.count("Conv2DFusion") == 3
    (expected,), (given,) = (run_model(file, [IMAGE]) for file in (tmp_path / "q.onnx", path))
    # onnxruntime quantizes the Sigmoid, too.
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
    ("sections", "error", "message"),
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
def test_wrong_keys_are_named(tmp_path, sections, error, message):
    with pytest.raises(error, match=message):
        converted(tmp_path / "q", **sections)


def test_keys_without_effect_are_named(tmp_path):
    with pytest.warns(PinnaceWarning, match=r"\[weight_quant_param\] max_segments"):
        converted(
            tmp_path / "q",
            common_quant_param={"quant_type": "WEIGHT_QUANT"},
            weight_quant_param={"max_segments": "2"},
        )


def scales_of(path):
    main = reader.read(Source.of_file(path)).main
    return {
        n.primitive: main.quantized[n.inputs[1]].scale for n in main.nodes if n.primitive == "Conv2DFusion"
    }


def test_a_weight_may_have_one_scale(tmp_path, calibrated):
    for value, count in (("true", 8), ("false", 1)):
        summary = converted(
            tmp_path / "q",
            common_quant_param=FULL,
            full_quant_param={"per_channel": value},
            data_preprocess_param=calibrated,
        )
        assert [len(scales) for scales in scales_of(summary.files[0]).values()] == [count]
        assert summary.likeness.cosine > 0.999


def test_the_mean_of_rounding_goes_into_the_bias(tmp_path, run_model, calibrated):
    """Of a convolution in 3 bits, whose rounding is all that differs."""
    random = np.random.default_rng(0)
    weight, picture = (random.random(shape).astype(np.float32) for shape in ((8, 3, 3, 3), (1, 3, 16, 16)))
    graph = helper.make_graph(
        [helper.make_node("Conv", ["image", "w"], ["y"], pads=[1] * 4)],
        "g",
        [helper.make_tensor_value_info("image", 1, picture.shape)],
        [helper.make_tensor_value_info("y", 1, [1, 8, 16, 16])],
        [numpy_helper.from_array(weight, "w")],
    )
    source = Source.of_buffer(helper.make_model(graph).SerializeToString())
    folder = Path(calibrated["calibrate_path"].partition(":")[2])
    picture.tofile(folder / "0.bin")
    expected = ReferenceEvaluator(helper.make_model(graph)).run(None, {"image": picture})[0]
    means = []
    for corrected in (True, False):
        how = Quantization("stored", 3, calibration=Calibration({"image": folder}, 1), corrected=corrected)
        (path,) = convert(source, None, tmp_path / "q", Conversion(quantize=how)).files
        (given,) = run_model(path, [picture])
        means.append(np.abs((given - expected).mean((0, 2, 3))).max())
    assert means[0] < 1e-5  # sums in another order
    assert means[1] > 1e-2


@pytest.mark.parametrize("method", ["KL", "REMOVAL_OUTLIER"])
def test_the_ends_of_a_range_leave_outliers_out(tmp_path, calibrated, method):
    """Of an input in which one number is far from the others."""
    x = np.random.default_rng(0).normal(size=(1, 3, 64, 64)).astype(np.float32)
    x.reshape(-1)[0] = 30
    model = onnx.load(MODEL)
    for port in (model.graph.input[0], model.graph.output[0]):
        port.type.tensor_type.shape.dim[0].dim_value = 1
    for axis in (2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = 64
    del model.graph.value_info[:]
    folder = Path(calibrated["calibrate_path"].partition(":")[2])
    x.tofile(folder / "0.bin")
    how = Quantization("int8", calibration=Calibration({"image": folder}, 1), ends=method)
    source = Source.of_buffer(model.SerializeToString())
    (path,) = convert(source, None, tmp_path / "q", Conversion(ModelType.MINDIR_LITE, quantize=how)).files
    main = reader.read(Source.of_file(path)).main
    step = next(main.quantized[n.outputs[0]] for n in main.nodes if n.primitive == "QuantDTypeCast")
    whole = step.scale[0] * 255
    assert 4 < whole < 20  # of numbers that are nearly all between -4 and 4


def test_a_folder_of_notes_is_used_again(tmp_path):
    """The file of the operators is written anew, in a folder that is there already."""
    notes = tmp_path / "deep" / "notes"
    asked = {"quant_type": "WEIGHT_QUANT", "bit_num": "8", "debug_info_save_path": str(notes), **SMALLEST}
    for _ in range(2):
        converted(tmp_path / "q", common_quant_param=asked)
        assert len((notes / "quantized.csv").read_text().splitlines()) == 1 + 3


def chosen(folder=None, **how):
    """The number of operators that are quantized of a product of 8 rows and 16 columns, and its bits."""
    weight = np.random.default_rng(9).normal(size=(8, 16)).astype(np.float32)
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[2,8] x) => (float[2,16] y) { y = MatMul(x, w) }'
    model = ir.from_onnx_text(text, initializers=[ir.tensor(weight, name="w")])
    model.graph[0].name = "product"
    notes = {} if folder is None else {"notes": str(folder)}
    done, samples = quantized(model, Quantization("stored", **how, **notes), Source.of_file(MODEL))
    assert not samples
    return done, weight


@pytest.mark.parametrize(
    ("how", "count"),
    [
        ({}, 1),
        ({"least_size": 127}, 1),
        ({"least_size": 128}, 0),
        ({"least_channels": 15}, 1),
        ({"least_channels": 16}, 0),
        ({"skipped": {"y"}}, 0),
        ({"skipped": {"product"}}, 0),
    ],
)
def test_small_weights_and_named_operators_stay(how, count):
    assert chosen(**how)[0] == f"weights of 8 bits: {count} of 1 operators"


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("bits", [2, 3, 5, 8])
def test_a_weight_has_the_fewest_bits_that_its_error_allows(tmp_path, bits, per_channel):
    def error(bits, weight):
        steps = np.abs(weight).max(axis=0 if per_channel else None) / (2 ** (bits - 1) - 1)
        return np.linalg.norm(np.rint(weight / steps) * steps - weight) / np.linalg.norm(weight)

    _, weight = chosen()
    allowed = error(bits, weight) * 1.001
    done, _ = chosen(tmp_path, bits=0, error=allowed, per_channel=per_channel)
    assert done == "weights of 2 to 8 bits: 1 of 1 operators"
    (row,) = csv.DictReader((tmp_path / "quantized.csv").open())
    assert (row["operator"], row["type"], row["bits"]) == ("product", "MatMul", str(bits))
    assert float(row["error"]) == pytest.approx(error(bits, weight), rel=0.01)
    assert (row["low"], row["high"]) == ("", "")


def test_a_weight_that_no_bits_keep_has_eight(tmp_path):
    chosen(tmp_path, bits=0, error=0.0)
    (row,) = csv.DictReader((tmp_path / "quantized.csv").open())
    assert row["bits"] == "8"
