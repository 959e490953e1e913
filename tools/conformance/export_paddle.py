"""Small networks of PaddlePaddle as paddle2onnx writes them, for `exporters_table.py`.

    python tools/conformance/export_paddle.py FOLDER      # wants paddlepaddle and paddle2onnx

Each becomes NAME.onnx, with its inputs (x0, x1, ...) in NAME.npz.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import paddle
import paddle2onnx
from paddle import Tensor, _C_ops, nn
from paddle.nn import functional as F
from paddle.static import InputSpec


def block(i: int, o: int, stride: int = 1, groups: int = 1) -> nn.Layer:
    conv = nn.Conv2D(i, o, 3, stride, 1, groups=groups, bias_attr=False)
    return nn.Sequential(conv, nn.BatchNorm2D(o), nn.Hardswish())


class Classifier(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        parts = block(3, 16, 2), block(16, 16, 1, 16), block(16, 32, 2), nn.Conv2D(32, 32, 1), nn.ReLU6()
        self.body = nn.Sequential(*parts)
        weigh = nn.AdaptiveAvgPool2D(1), nn.Conv2D(32, 8, 1), nn.ReLU(), nn.Conv2D(8, 32, 1), nn.Hardsigmoid()
        self.weigh, self.pool, self.head = nn.Sequential(*weigh), nn.MaxPool2D(3, 2, 1), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return F.softmax(self.head(paddle.mean(self.pool(y * self.weigh(y)), [2, 3])), -1)


class Tagger(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 24, num_layers=2, direction="bidirect")
        self.gru, self.head = nn.GRU(48, 20), nn.Linear(20, 7)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        y = self.head(self.gru(self.lstm(self.words(words))[0])[0])
        return paddle.argmax(y, -1), y


class Detector(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2D(3, 7, 8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = paddle.transpose(paddle.flatten(self.body(x), 2), [0, 2, 1])
        middle, half = y[:, :, :2] * 5 + 16, F.relu(y[:, :, 2:4]) * 4 + 3
        boxes = paddle.concat([middle - half, middle + half], -1)
        scores = F.sigmoid(paddle.transpose(y[:, :, 4:], [0, 2, 1]))
        found, _, count = _C_ops.multiclass_nms3(boxes, scores, None, 0.3, 50, 20, 0.5, True, 1.0, -1)
        return found, count


class Segmenter(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2D(3, 8, 3, 2, 1), nn.Conv2D(8, 8, 3, 2, 1)
        self.up, self.head = nn.Conv2DTranspose(8, 8, 2, 2), nn.Conv2D(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = F.relu(self.a(x))
        b = F.relu(self.b(a))
        up = self.up(b)[:, :, : a.shape[2], : a.shape[3]]
        y = self.head(paddle.concat([up, F.interpolate(b, a.shape[2:], mode="nearest")], 1))
        return paddle.argmax(F.interpolate(y, x.shape[2:], mode="bilinear", align_corners=False), 1)


class Encoder(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(100, 32), nn.Embedding(64, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", dropout=0.0)
        self.layers, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(32, 5)

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        y = self.words(words) + self.places(paddle.arange(words.shape[1]).unsqueeze(0))
        hidden = (1.0 - mask.astype("float32").unsqueeze([1, 2])) * -1e4
        return self.head(self.layers(y, hidden)[:, 0])


class Recognizer(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        first = nn.Conv2D(3, 16, 3, (2, 1), 1), nn.BatchNorm2D(16), nn.Swish()
        last = nn.Conv2D(16, 24, 3, (2, 2), 1), nn.GELU(), nn.AvgPool2D(2, 2, ceil_mode=True)
        self.body, self.norm = nn.Sequential(*first, *last), nn.LayerNorm(24)
        self.lstm, self.head = nn.LSTM(24, 16, direction="bidirect"), nn.Linear(32, 12)

    def forward(self, x: Tensor) -> Tensor:
        y = paddle.transpose(paddle.mean(self.body(x), 2), [0, 2, 1])
        return F.log_softmax(self.head(self.lstm(self.norm(y))[0]), -1)


NETWORKS = {
    "classifier": (Classifier, {"x": ([None, 3, 32, 32], [1, 3, 32, 32])}),
    "tagger": (Tagger, {"words": ([1, 12], [1, 12])}),
    "detector": (Detector, {"x": ([1, 3, 64, 64], [1, 3, 64, 64])}),
    "segmenter": (Segmenter, {"x": ([1, 3, None, None], [1, 3, 32, 40])}),
    "encoder": (Encoder, {"words": ([None, None], [1, 9]), "mask": ([None, None], [1, 9])}),
    "recognizer": (Recognizer, {"x": ([None, 3, 16, None], [1, 3, 16, 48])}),
}
"""Classes, and the shapes of their inputs: with what is free, and of an example."""


def main(folder: Path) -> None:
    paddle.seed(0)
    random = np.random.default_rng(0)
    for name, (kind, inputs) in NETWORKS.items():
        network = kind()
        network.eval()
        dtypes = {i: "float32" if i == "x" else "int64" for i in inputs}
        specs = [InputSpec(free, dtypes[i], i) for i, (free, _) in inputs.items()]
        given = {
            i: random.normal(size=shape) if i == "x" else random.integers(0, 50 if i == "words" else 2, shape)
            for i, (_, shape) in inputs.items()
        }
        np.savez(
            folder / f"{name}.npz", **{f"x{n}": x.astype(dtypes[i]) for n, (i, x) in enumerate(given.items())}
        )
        saved = folder / name
        paddle.jit.save(paddle.jit.to_static(network, input_spec=specs, full_graph=True), str(saved))
        paddle2onnx.export(f"{saved}.json", f"{saved}.pdiparams", f"{saved}.onnx", opset_version=16)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
