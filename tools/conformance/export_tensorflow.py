"""Small networks of Keras and TensorFlow as tf2onnx writes them, for `exporters_table.py`.

    python tools/conformance/export_tensorflow.py FOLDER      # wants tensorflow-cpu and tf2onnx

Each becomes a SavedModel and NAME.onnx of it, with its input x0 in NAME.npz.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from runpy import run_path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SCRIPT = Path(__file__).parents[2] / "src/pinnace/converter/frontends/with_tf2onnx.py"
"""The converter's own way to call tf2onnx."""


def takes(*shape: int | None) -> Callable:
    """Compile a function of an input of float32."""
    return tf.function(input_signature=[tf.TensorSpec(shape, tf.float32, name="x")])


def sequence(shape: tuple[int, ...], *parts: keras.Layer, dtype: str = "float32") -> keras.Model:
    return keras.Sequential([keras.Input(shape, batch_size=1, dtype=dtype), *parts])


def classifier() -> keras.Model:
    return sequence(
        (32, 32, 3), layers.Conv2D(8, 3, 2, padding="same", use_bias=False), layers.BatchNormalization(),
        layers.ReLU(6.0), layers.DepthwiseConv2D(3, padding="same"), layers.SeparableConv2D(16, 3),
        layers.AveragePooling2D(2), layers.GlobalAveragePooling2D(), layers.Dense(10, activation="softmax"),
    )  # fmt: skip


def recurrent() -> keras.Model:
    both = layers.Bidirectional(layers.LSTM(6, return_sequences=True))
    return sequence((7, 5), both, layers.GRU(4), layers.Dense(3))


def simple() -> keras.Model:
    return sequence((7, 5), layers.SimpleRNN(6), layers.Dense(3))


def pictures_in_time() -> keras.Model:
    return sequence((6, 8, 8, 1), layers.ConvLSTM2D(2, 3, padding="same"))


def attention() -> keras.Model:
    x = keras.Input((9, 16), batch_size=1)
    y = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x))
    return keras.Model(x, layers.Dense(16)(layers.Dense(32, activation="gelu")(y)) + y)


def unet() -> keras.Model:
    x = keras.Input((32, 32, 3), batch_size=1)
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(16, 3, 2, padding="same", activation="swish")(a)
    up = layers.Conv2DTranspose(8, 3, 2, padding="same")(b)
    wide = layers.UpSampling2D(2, interpolation="bilinear")(b)
    return keras.Model(x, layers.Conv2D(1, 1, activation="sigmoid")(layers.Concatenate()([a, up, wide])))


def text() -> keras.Model:
    return sequence(
        (12,), layers.Embedding(50, 8), layers.Conv1D(16, 3, activation="relu"),
        layers.GlobalMaxPooling1D(), layers.Dense(2, activation="elu"), dtype="int32",
    )  # fmt: skip


def volume() -> keras.Model:
    return sequence(
        (8, 16, 16, 1), layers.Conv3D(4, 3, activation="relu"), layers.MaxPooling3D(2), layers.Flatten(),
        layers.Dense(3),
    )  # fmt: skip


class Detector(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(tf.random.normal((8, 8, 3, 7), stddev=0.07))

    @takes(1, 64, 64, 3)
    def call(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        y = tf.reshape(tf.nn.conv2d(x, self.w, 8, "VALID"), (64, 7))
        middle = tf.sigmoid(y[:, :2])
        boxes = tf.concat([middle - 0.1, middle + 0.1 + 0.05 * tf.sigmoid(y[:, 2:4])], -1)
        scores = tf.sigmoid(y[:, 4])
        kept = tf.image.non_max_suppression(boxes, scores, 10, 0.5, 0.3)
        return {"boxes": tf.gather(boxes, kept), "scores": tf.gather(scores, kept)}


class Functions(tf.Module):
    @takes(2, 6, 8)
    def call(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "cumsum": tf.cumsum(x, 1),
            "one_hot": tf.one_hot(tf.argmax(x, -1), 8),
            "top_k": tf.nn.top_k(x, 3)[0],
            "einsum": tf.einsum("bij,bkj->bik", x, x),
            "scatter": tf.scatter_nd([[1], [3]], x[0, :2], (6, 8)),
            "where": tf.where(x > 0, x, tf.exp(x)),
            "resize": tf.image.resize(x[..., None], (9, 5)),
            "pad": tf.pad(x, [[0, 0], [1, 2], [0, 0]], "REFLECT"),
            "band": tf.linalg.band_part(x, 1, 2),
            "modulo": tf.math.floormod(tf.cast(x * 10, tf.int32), 7),
            "reverse": tf.reverse(x, [1]),
        }


class FreePictures(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(tf.random.normal((3, 3, 3, 8)))

    @takes(1, None, None, 3)
    def call(self, x: tf.Tensor) -> tf.Tensor:
        y = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, self.w, 2, "SAME")), 3, 2, "SAME")
        return tf.reduce_mean(y, (1, 2))


class While(tf.Module):
    @takes(3)
    def call(self, x: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(4):
            x = x * 1.5 - 1
        return x


class WhileValues(tf.Module):
    @takes(None, 3)
    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Newton's method for a square root, until it is exact or a limit of rounds."""
        wanted = 1.0 + x * x
        y, rounds = wanted, 0
        while tf.reduce_max(tf.abs(y * y - wanted)) > 1e-4 and rounds < 50:
            y, rounds = (y + wanted / y) / 2, rounds + 1
        return y


FREE = {"free_pictures": (1, 21, 34, 3), "while_values": (2, 3)}
"""Shapes of inputs that have free dimensions."""
NETWORKS: tuple[Callable[[], keras.Model | tf.Module], ...] = (
    *(classifier, recurrent, simple, pictures_in_time, attention, unet, text, volume),
    *(Detector, Functions, FreePictures, While, WhileValues),
)


def main(folder: Path) -> None:
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    export = run_path(str(SCRIPT))["main"]
    for make in NETWORKS:
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in make.__name__).strip("_")
        network, saved = make(), folder / name
        if isinstance(network, keras.Model):
            network.export(saved, verbose=False)
            shape = network.inputs[0].shape
        else:
            tf.saved_model.save(network, saved, signatures=network.call)
            shape = FREE.get(name) or network.call.input_signature[0].shape
        kind = np.int32 if name == "text" else np.float32
        x = random.integers(0, 50, shape) if name == "text" else random.normal(size=shape)
        np.savez(folder / f"{name}.npz", x0=x.astype(kind))
        export("TF", str(saved), str(folder / f"{name}.onnx"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
