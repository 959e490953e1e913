"""Keep models that Pinnace converts to `.ms` and MindSpore Lite runs to what onnxruntime computes.

    python -m tools.with_mindspore_lite.make_converted_goldens LITE tests/data/converted      # LITE: python with mindspore_lite 2.0.0

For each of ONNX's operator tests in `CASES`, and for networks, branches and a loop, it writes NAME.onnx, NAME.ms, and NAME.npz
with inputs (x0, x1, ...) and MindSpore Lite's results (y0, y1, ...). Ends with an error if one is not right.
In the folder `quantized` are the network in float16 and with calibrated integers, `.ms` and `.mindir`, and products
of matrices in dynamic integers.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests
from tools.conformance.converter_table import Server, arrays
from tools.conformance.onnx_backend import by_onnxruntime
from tools.with_mindspore_lite.make_ms_models import network

from pinnace.converter.convert import Conversion, convert
from pinnace.quantization.calibration import Calibration
from pinnace.quantization.files import Quantization
from pinnace.types import ModelType
from pinnace.weights.source import Source

CASES = """
add_bcast and_bcast4v3d argmax_keepdims_random attention_3d averagepool_2d_pads celu clip concat_3d_axis_1
conv_with_strides_and_asymmetric_padding convtranspose_pads depthtospace_crd_mode_example elu_example
argmin_keepdims_random_select_last_index expand_dim_changed flatten_axis2 gather_1 gelu_tanh_1
gemm_default_vector_bias globalaveragepool gridsample_zeros_padding hardmax_axis_1
group_normalization_example gru_defaults hardsigmoid if instancenorm_epsilon layer_normalization_4d_axis1
leakyrelu_example logsoftmax_axis_1 lrn lstm_defaults matmul_4d maxpool_2d_pads nonzero_example
prelu_broadcast resize_upsample_scales_nearest shape_start_1 resize_downsample_scales_linear_antialias resize_upsample_scales_linear_align_corners rms_normalization_4d_axis1 scatternd sinh slice
softmax_axis_1 spacetodepth_example tile transpose_all_permutations_4 unsqueeze_two_axes where_example xor3d
"""
BRANCHES = """<ir_version: 8, opset_import: ["" : 18]>
g (float[2, 4] x, float[4, 4] w) => (float[2, 4] y, float[2, 4] z) {
    sum = ReduceSum <keepdims = 0> (x)
    zero = Constant <value = float {0}> ()
    is_more = Greater (sum, zero)
    a, b = If (is_more) <
        then_branch = more () => (float[2, 4] c, float[2, 4] d) { m = MatMul (x, w) c = Relu (m) d = Neg (x) },
        else_branch = less () => (float[2, 4] e, float[2, 4] f) { e = Exp (x) f = Identity (x) }
    >
    y = Add (a, x)
    z = Sigmoid (b)
}
"""
PRODUCTS = """<ir_version: 8, opset_import: ["" : 18]>
g (float[4, 16] x) => (float[4, 16] y) {
    all = MatMul (x, v)
    a, b, c = Split <axis = 1, num_outputs = 3> (all)
    d = Sigmoid (a)
    e = Mul (d, b)
    f = Add (e, c)
    y = MatMul (f, w)
}
"""
DETECTOR = """<ir_version: 8, opset_import: ["" : 18]>
g (float[1, h, w, 3] picture, int64[1, 4] mask) => (float[1, 4, 6] boxes, bool[1, 4] hidden, float[n] line)
        <int64[1] two = {2}, int64[1] four = {4}, int64[1] axis = {2}, int64[3] wide = {1, 1, 6}, int64[1] first = {0},
         int64 zero = {0}, int64 one = {1}, int64[3] rows = {1, -1, 6}> {
    turned = Transpose <perm = [0, 3, 1, 2]> (picture)
    seen = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (turned, kernel)
    back = Transpose <perm = [0, 2, 3, 1]> (seen)
    all = Reshape (back, rows)
    scores = ReduceMax <keepdims = 0> (all, axis)
    best, places = TopK <axis = 1> (scores, four)
    column = Unsqueeze (places, axis)
    whole = Expand (column, wide)
    boxes = GatherElements <axis = 1> (all, whole)
    shown = Cast <to = 9> (mask)
    hidden = Not (shown)
    sizes = Shape (picture)
    height = Gather (sizes, two)
    part = Squeeze (height, first)
    numbers = Range (zero, part, one)
    line = Cast <to = 1> (numbers)
}
"""
GROWING = """<ir_version: 10, opset_import: ["" : 21]>
g (float[3] x, int64 n) => (float[u] y) <float[3] w = {1, 2, 0.5}> {
    all = Loop (n, , x) <
        body = round (int64 i, bool go, float[k] a) => (bool on, float[m] b) {
            on = Identity (go)
            c = Mul (a, a)
            b = Concat <axis = 0> (c, w)
        }
    >
    y = Neg (all)
}
"""
VOLUME = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1, 1, 4, 4, 4] x) => (float[1, 2, 4, 4, 4] y) <float[2] b = {1, -2}> {
    c = Conv <pads = [1, 1, 1, 1, 1, 1]> (x, w, b)
    y = Relu (c)
}
"""
TOLERANCE = 2e-5
"""MindSpore Lite's exponential is an approximation."""
ROUNDED = 0.03
"""Error over the largest result by integers of 8 bits."""


def main(interpreter: str, out: Path) -> None:
    out.mkdir(exist_ok=True)
    models = {
        case.name.removeprefix("test_"): (case.model, arrays(case.data_sets[0][0]))
        for case in load_model_tests(kind="node")
        if case.name.removeprefix("test_") in CASES.split()
    }
    image = np.random.default_rng(0).normal(size=(1, 3, 16, 16)).astype(np.float32)
    models["network"] = (network(), [image])
    some = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    models["branches"] = (onnx.parser.parse_model(BRANCHES), [some, np.eye(4, dtype=np.float32)])
    models["detector"] = (detector(), [image.transpose(0, 2, 3, 1), np.array([[1, 0, 3, 1 << 32]])])
    models["growing"] = (onnx.parser.parse_model(GROWING), [some[0, :3], np.array(3)])
    models["volume"] = (weighted(VOLUME, {"w": (2, 1, 3, 3, 3)}), [image[:, :1, :4].reshape(1, 1, 4, 4, 4)])
    models["other_branch"] = (models["branches"][0], [-some, np.eye(4, dtype=np.float32)])
    wrong = sorted(set(CASES.split()) - models.keys())
    with tempfile.TemporaryDirectory() as folder:
        server = Server(interpreter, "run_in_lite.py", Path(folder))
        for name, (model, inputs) in models.items():
            content = model.SerializeToString()
            expected = by_onnxruntime(content, inputs)
            try:
                options = Conversion(save_type=ModelType.MINDIR_LITE)
                (path,) = convert(Source.of_buffer(content), None, out / name, options).files
                given = server(path, inputs)
                for x, y in zip(given, expected, strict=True):
                    np.testing.assert_allclose(x, y, rtol=TOLERANCE, atol=TOLERANCE, strict=True)
            except Exception as error:
                (out / f"{name}.ms").unlink(missing_ok=True)
                print(f"{name}: {' '.join(str(error).split())[:150]}")
                wrong.append(name)
                continue
            onnx.save(model, out / f"{name}.onnx")
            named = {f"x{i}": x for i, x in enumerate(inputs)} | {f"y{i}": y for i, y in enumerate(given)}
            np.savez_compressed(out / f"{name}.npz", **named)
        write_quantized(server, image, out)
    if wrong:
        sys.exit(f"not right: {' '.join(wrong)}")


def detector() -> onnx.ModelProto:
    """Pictures with channels last and free sizes, places of the greatest elements, and a mask."""
    return weighted(DETECTOR, {"kernel": (6, 3, 3, 3)})


def products() -> onnx.ModelProto:
    """Products of matrices, with a node of several results between them."""
    return weighted(PRODUCTS, {"v": (16, 48), "w": (16, 16)})


def weighted(text: str, weights: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
    model = onnx.parser.parse_model(text)
    random = np.random.default_rng(0)
    for name, shape in weights.items():
        weight = random.normal(size=shape).astype(np.float32) / 4
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    return model


def write_quantized(server: Server, image: np.ndarray, folder: Path) -> None:
    out = folder / "quantized"
    out.mkdir(exist_ok=True)
    samples = server.folder / "samples"
    samples.mkdir()
    image.tofile(samples / "image.bin")
    onnx.save(products(), out / "products.onnx")
    rows = np.random.default_rng(0).normal(size=(4, 16)).astype(np.float32)
    integers = Quantization("int8", calibration=Calibration({"image": samples}, 1))
    for source, name, x, how in (
        (folder / "network.onnx", "network_int8", image, integers),
        (folder / "network.onnx", "network_half", image, None),
        (out / "products.onnx", "products_dynamic8", rows, Quantization("dynamic8")),
    ):
        model = source.read_bytes()
        (expected,) = by_onnxruntime(model, [x])
        for kind in (ModelType.MINDIR_LITE, *((ModelType.MINDIR,) if how else ())):
            options = Conversion(save_type=kind, quantize=how, half=how is None)
            (path,) = convert(Source.of_buffer(model), None, out / name, options).files
            (given,) = server(path, [x])
            assert np.abs(given - expected).max() < ROUNDED * np.abs(expected).max(), path
            np.savez_compressed(path.with_suffix(".npz"), x0=x, y0=given)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
