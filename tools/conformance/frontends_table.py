"""Models of TFLite, TensorFlow and Caffe, converted, beside what their own runtimes compute.

    python -m tools.conformance.frontends_table              # what it makes itself
    python -m tools.conformance.frontends_table FILE.tflite ...

Wants tf2onnx, tensorflow-cpu, ai-edge-litert, opencv-python-headless<5 and scikit-learn. It makes a MobileNetV2 and
a network of LSTM and GRU with random weights (a SavedModel, a frozen graph, and TFLite in float, with int8 weights,
and all int8), and trains LeNet on the digits of scikit-learn. Prints the greatest difference over the greatest
result, of the .mindir and the .ms as Pinnace runs them, and sizes in kB.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PINNACE_CACHE_DIR": "off"}

import cv2
import keras
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from sklearn.datasets import load_digits
from tools.with_others.make_caffe_goldens import caffemodel

import pinnace as mslite

LENET = """\
layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: {batch} dim: 1 dim: 28 dim: 28 }} }} }}
layer {{ name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param {{ num_output: 20 kernel_size: 5 }} }}
layer {{ name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param {{ pool: MAX kernel_size: 2 stride: 2 }} }}
layer {{ name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2" convolution_param {{ num_output: 50 kernel_size: 5 }} }}
layer {{ name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2" pooling_param {{ pool: MAX kernel_size: 2 stride: 2 }} }}
layer {{ name: "ip1" type: "InnerProduct" bottom: "pool2" top: "ip1" inner_product_param {{ num_output: 500 }} }}
layer {{ name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }}
layer {{ name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param {{ num_output: 10 }} }}
layer {{ name: "prob" type: "Softmax" bottom: "ip2" top: "prob" }}
"""


def converted(
    framework: str, model: Path, weights: str, inputs: list[np.ndarray]
) -> list[tuple[int, list[np.ndarray]]]:
    """Size of each format, and what Pinnace computes with it."""
    found = []
    for kind in (mslite.ModelType.MINDIR, mslite.ModelType.MINDIR_LITE):
        converter = mslite.Converter()
        converter.save_type = kind
        if framework == "TF":
            converter.input_shape = {name: list(inputs[0].shape) for name in converter_inputs(model)}
        converter.convert(mslite.FmkType[framework], str(model), str(model.parent / "made"), weights)
        file = converter.summary.files[0]
        runner = mslite.Model()
        runner.build_from_file(file, kind, mslite.Context())
        tensors = runner.get_inputs()
        for tensor, x in zip(tensors, inputs, strict=True):
            if -1 in tensor.shape:
                runner.resize([tensor], [list(x.shape)])
        tensors = runner.get_inputs()
        for tensor, x in zip(tensors, inputs, strict=True):
            tensor.set_data_from_numpy(x)
        found.append((file.stat().st_size, [y.get_data_to_numpy() for y in runner.predict(tensors)]))
    return found


def converter_inputs(model: Path) -> list[str]:
    if model.is_dir():
        return list(
            tf.saved_model.load(str(model)).signatures["serving_default"].structured_input_signature[1]
        )
    return []


def row(
    name: str,
    runtime: str,
    framework: str,
    model: Path,
    inputs: list[np.ndarray],
    expected: list[np.ndarray],
    weights: str = "",
) -> None:
    files = [p for p in ([model] if model.is_file() else model.rglob("*")) if p.is_file()] + (
        [Path(weights)] if weights else []
    )
    try:
        results = converted(framework, model, weights, inputs)
    except mslite.PinnaceError as error:
        print(
            f"| {name} | {runtime} | {str(error).splitlines()[-2 if 'unsupported' in str(error) else 0].replace(str(model), '').strip(': ')} |",
            flush=True,
        )
        return
    errors = []
    for _, ys in results:
        wants = sorted(expected, key=lambda y: y.shape)
        ys = sorted(ys, key=lambda y: y.shape)
        worst = max(
            np.abs(y.astype(np.float64) - w).max() / max(np.abs(w.astype(np.float64)).max(), 1e-12)
            for y, w in zip(ys, wants, strict=True)
        )
        errors.append(f"{worst:.1e}")
    sizes = [sum(p.stat().st_size for p in files), *(size for size, _ in results)]
    print(
        f"| {name} | {runtime} | {' | '.join(errors)} | {' | '.join(f'{s / 1e3:.0f}' for s in sizes)} |",
        flush=True,
    )


def lite(file: Path) -> None:
    model = Interpreter(str(file))
    try:
        model.allocate_tensors()
    except RuntimeError as error:  # custom operators
        print(f"| {file.stem} | TFLite | its own runtime: {str(error).splitlines()[0]} |", flush=True)
        return
    random = np.random.default_rng(0)
    inputs = []
    for port in model.get_input_details():
        whole = np.issubdtype(port["dtype"], np.integer)
        x = random.integers(-128, 128, port["shape"]) if whole else random.random(port["shape"])
        inputs.append(x.astype(port["dtype"]))
        model.set_tensor(port["index"], inputs[-1])
    model.invoke()
    row(
        file.stem,
        "TFLite",
        "TFLITE",
        file,
        inputs,
        [model.get_tensor(p["index"]) for p in model.get_output_details()],
    )


def samples() -> Iterator[list[np.ndarray]]:
    random = np.random.default_rng(0)
    for _ in range(20):
        yield [random.random((1, 96, 96, 3)).astype(np.float32)]


def mobilenet(folder: Path) -> None:
    keras.utils.set_random_seed(0)
    net = keras.applications.MobileNetV2(
        weights=None, input_shape=(96, 96, 3), alpha=0.35, classes=10, classifier_activation=None
    )
    x = np.random.default_rng(1).random((1, 96, 96, 3)).astype(np.float32)
    net.export(folder / "saved", verbose=False)
    row("MobileNetV2 0.35, SavedModel", "TensorFlow", "TF", folder / "saved", [x], [net(x).numpy()])
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2 as frozen

    call = tf.function(lambda y: net(y)).get_concrete_function(tf.TensorSpec([1, 96, 96, 3], tf.float32))
    file = folder / "frozen.pb"
    file.write_bytes(frozen(call).graph.as_graph_def().SerializeToString())
    row("MobileNetV2 0.35, frozen graph", "TensorFlow", "TF", file, [x], [net(x).numpy()])
    for name in ("float", "int8 weights", "int8"):
        made = tf.lite.TFLiteConverter.from_keras_model(net)
        made.optimizations = [] if name == "float" else [tf.lite.Optimize.DEFAULT]
        if name == "int8":
            made.representative_dataset = samples
            made.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            made.inference_input_type = made.inference_output_type = tf.int8
        file = folder / f"MobileNetV2 0.35, {name}.tflite"
        with contextlib.redirect_stdout(io.StringIO()):  # the converter lists all variables
            content = made.convert()
        file.write_bytes(content)
        lite(file)


def recurrent(folder: Path) -> None:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    net = keras.Sequential(
        [
            keras.Input((12,)),
            layers.Embedding(50, 16),
            layers.LSTM(8, return_sequences=True),
            layers.GRU(8),
            layers.Dense(3),
        ]
    )
    net.export(folder / "recurrent", verbose=False)
    x = np.random.default_rng(1).integers(0, 50, (2, 12)).astype(np.float32)
    row("Embedding, LSTM, GRU; SavedModel", "TensorFlow", "TF", folder / "recurrent", [x], [net(x).numpy()])


def lenet(folder: Path) -> None:
    keras.utils.set_random_seed(0)
    digits = load_digits()
    pictures = np.stack([cv2.resize(p.astype(np.float32) / 16, (28, 28)) for p in digits.images])[..., None]
    layers = keras.layers
    net = keras.Sequential([
        keras.Input((28, 28, 1)), layers.Conv2D(20, 5), layers.MaxPool2D(), layers.Conv2D(50, 5), layers.MaxPool2D(),
        layers.Permute((3, 1, 2)), layers.Flatten(), layers.Dense(500, "relu"), layers.Dense(10, "softmax"),
    ])  # fmt: skip
    net.compile("adam", "sparse_categorical_crossentropy")
    net.fit(pictures[:1500], digits.target[:1500], epochs=3, verbose=0)
    blobs = {
        name: [w.transpose(3, 2, 0, 1) if w.ndim == 4 else w.T for w in layer.get_weights()]
        for name, layer in zip(
            ("conv1", "conv2", "ip1", "ip2"), (k for k in net.layers if k.get_weights()), strict=True
        )
    }
    x = np.ascontiguousarray(pictures[1500:].transpose(0, 3, 1, 2))
    text, weights = folder / "lenet.prototxt", folder / "lenet.caffemodel"
    text.write_text(LENET.format(batch=len(x)))
    weights.write_bytes(caffemodel(blobs))
    oracle = cv2.dnn.readNetFromCaffe(str(text), str(weights))
    oracle.setInput(x)
    y = oracle.forward()
    right = (y.argmax(1) == digits.target[1500:]).mean()
    row(f"LeNet, right on {right:.1%} of {len(x)} digits", "OpenCV", "CAFFE", text, [x], [y], str(weights))


def main(files: list[str]) -> None:
    print(
        "| model | its runtime | error .mindir | error .ms | kB | .mindir | .ms |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as name:
        for make in () if files else (lenet, mobilenet, recurrent):
            make(Path(name))
    for file in files:
        lite(Path(file))


if __name__ == "__main__":
    main(sys.argv[1:])
