"""Write small ONNX models, and let MindSpore Lite quantize their weights; one of TFLite is quantized already.

    python tools/with_mindspore_lite/make_lite_quantized.py models MODELS                             # needs onnx and onnxruntime
    python tools/with_mindspore_lite/make_lite_quantized.py tflite MODELS                             # needs tensorflow
    python tools/with_mindspore_lite/make_lite_quantized.py convert MODELS tests/data/lite_quantized  # needs mindspore_lite 2.0.0

A model NAME_dynamic is quantized dynamically, NAME_8bit has weights of 8 bits, NAME_16bit of float16. Each
becomes NAME.ms and NAME_lite.mindir beside NAME.npz, with the input x0 and the output y0: what MindSpore Lite's
own runtime gives, close to what onnxruntime gives in floats, and the latter for weights of 8 bits. tflite_int8
computes in integers throughout.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

SMALLEST = {"min_quant_weight_size": "0", "min_quant_weight_channel": "0", "bit_num": "8"}
FILTER = {"kernel_shape": [3, 2], "strides": [1, 1], "dilations": [1, 1], "pads": [0] * 4, "group": 1}


def cases(random):
    """Name, nodes (operator, inputs, attributes), inputs and weights; the last node's result is the output."""

    def normal(*shape):
        return random.standard_normal(shape).astype(np.float32)

    def channels(*shape):  # their sizes differ, so that a scale of another channel is seen
        sizes = np.logspace(-2, 0, shape[1], dtype=np.float32)
        return normal(*shape) * sizes.reshape(1, -1, *[1] * (len(shape) - 2))

    index = np.array([[0, 7, 3]], np.int32)
    yield "columns_dynamic", [("Gather", "wi", {"axis": 1})], {"i": index}, {"w": channels(8, 8)}
    dense = {"w": normal(16, 8), "v": normal(16, 8)}
    yield "stack_dynamic", [("MatMul", "xw", {})], {"x": normal(2, 3, 16)}, {"w": normal(2, 16, 8)}
    for name, second in (("shared_dynamic", "w"), ("two_dynamic", "v")):
        nodes = [
            ("MatMul", "xw", {}),
            ("Relu", "x", {}),
            ("MatMul", ["t1", second], {}),
            ("Add", ["t0", "t2"], {}),
        ]
        yield name, nodes, {"x": normal(3, 16)}, {key: dense[key] for key in sorted({"w", second})}
    deconvolution = [("ConvTranspose", "xw", FILTER)]
    yield "deconv_8bit", deconvolution, {"x": normal(1, 8, 6, 6)}, {"w": channels(8, 8, 3, 2)}

    limits = {"n": np.array([12], np.int64), "o": np.float32([0.4]), "s": np.float32([0.3])}
    corner = random.uniform(0, 4, (1, 12, 2)).astype(np.float32)
    boxes = np.concatenate([corner, corner + 2], -1)
    scores = random.uniform(0, 1, (1, 1, 12)).astype(np.float32)
    yield "boxes_16bit", [("NonMaxSuppression", "bxnos", {})], {"x": scores}, {"b": boxes, **limits}


def write_models(folder):
    import onnx
    import onnxruntime as ort
    from onnx import helper, numpy_helper

    for name, nodes, inputs, weights in cases(np.random.default_rng(7)):
        made = [
            helper.make_node(operator, list(read), [f"t{i}" if i + 1 < len(nodes) else "y"], **attributes)
            for i, (operator, read, attributes) in enumerate(nodes)
        ]
        ports = [
            helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for key, x in inputs.items()
        ]
        constants = [numpy_helper.from_array(w, key) for key, w in weights.items()]
        graph = helper.make_graph(made, "g", ports, [helper.make_empty_tensor_value_info("y")], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7)
        model = onnx.shape_inference.infer_shapes(model)
        (result,) = ort.InferenceSession(model.SerializeToString()).run(None, inputs)
        onnx.save(model, folder / f"{name}.onnx")
        np.savez(folder / f"{name}.npz", **{f"x{i}": x for i, x in enumerate(inputs.values())}, y0=result)


def write_tflite(folder):
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    layers = keras.layers
    net = keras.Sequential(
        [
            keras.Input((16, 16, 3), batch_size=1),
            layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
            layers.DepthwiseConv2D(3, padding="same", activation="relu6"),
            layers.Conv2D(8, 1),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(5),
        ]
    )
    samples = np.random.default_rng(0).standard_normal((20, 1, 16, 16, 3)).astype(np.float32)
    converter = tf.lite.TFLiteConverter.from_keras_model(net)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([x] for x in samples)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    (folder / "tflite_int8.tflite").write_bytes(converter.convert())
    np.savez(folder / "tflite_int8.npz", x0=samples[0], y0=net(samples[0]).numpy())


def convert(models, out):
    import mindspore_lite as mslite

    for model in sorted([*models.glob("*.onnx"), *models.glob("*.tflite")]):
        fmk = mslite.FmkType.ONNX if model.suffix == ".onnx" else mslite.FmkType.TFLITE
        settings = {"_8bit": "WEIGHT_QUANT", "_dynamic": "DYNAMIC_QUANT"}
        kind = next((k for end, k in settings.items() if model.stem.endswith(end)), None)
        for target, save in (
            (out / (model.stem + ".ms"), mslite.ModelType.MINDIR_LITE),
            (out / (model.stem + "_lite.mindir"), mslite.ModelType.MINDIR),
        ):
            converter = mslite.Converter()
            converter.save_type = save
            if kind:
                converter.set_config_info("common_quant_param", dict(SMALLEST, quant_type=kind))
            converter.weight_fp16 = model.stem.endswith("_16bit")
            converter.convert(fmk, str(model), str(target.with_suffix("")))
            os.chmod(str(target), 0o644)
        golden = dict(np.load(str(model.with_suffix(".npz"))))
        if kind != "WEIGHT_QUANT":
            result = run(target, save, golden["x0"])
            assert np.abs(result - golden["y0"]).max() < 0.02 * np.abs(golden["y0"]).max()
            golden["y0"] = result
        np.savez(str(out / (model.stem + ".npz")), **golden)


def run(file, kind, x):
    import mindspore_lite as mslite

    lite = mslite.Model()
    lite.build_from_file(str(file), kind)
    inputs = lite.get_inputs()
    inputs[0].set_data_from_numpy(x.copy())
    (result,) = lite.predict(inputs)
    return result.get_data_to_numpy().copy()


if __name__ == "__main__":
    paths = [Path(p) for p in sys.argv[2:]]
    {"models": write_models, "tflite": write_tflite, "convert": convert}[sys.argv[1]](*paths)
