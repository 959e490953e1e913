"""Small networks of Caffe's layers, and what OpenCV computes with them (tests/data/caffe).

    PYTHONPATH=src python tools/with_others/make_caffe_goldens.py      # wants opencv-python-headless<5

OpenCV's dnn reads Caffe's files by a parser and layers of its own; Caffe itself is in no package any more.
OpenCV ignores `k` of LRN, and adds `eps` of MVN before the root, Caffe after it: both are at their default here.
"""

from __future__ import annotations

import re
from pathlib import Path

import cv2
import numpy as np

from pinnace.converter.caffe.weights import _TABLE
from pinnace.formats.messages import message_class

FOLDER = Path(__file__).parents[2] / "tests" / "data" / "caffe"
C = "convolution_param"
CASES: dict[str, tuple[tuple[int, ...], list[tuple[str, str, list[tuple[int, ...]]]]]] = {
    # shape of the input; type, parameters, shapes of blobs of each layer
    "convolutions": (
        (1, 4, 13, 11),
        [
            ("Convolution", C + " { num_output: 6 kernel_size: 3 pad: 1 stride: 2 }", [(6, 4, 3, 3), (6,)]),
            (
                "Convolution",
                C + " { num_output: 6 kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0 group: 3 bias_term: false }",
                [(6, 2, 3, 1)],
            ),
            ("ReLU", "", []),
            ("Convolution", C + " { num_output: 8 kernel_size: 3 dilation: 2 pad: 2 }", [(8, 6, 3, 3), (8,)]),
            (
                "Deconvolution",
                C + " { num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 2 }",
                [(8, 2, 4, 4), (4,)],
            ),
        ],
    ),
    "normalization": (
        (1, 6, 7, 5),
        [
            ("LRN", "lrn_param { local_size: 3 alpha: 0.01 beta: 0.6 }", []),
            ("BatchNorm", "batch_norm_param { use_global_stats: true eps: 1e-3 }", [(6,), (6,), (1,)]),
            ("Scale", "scale_param { bias_term: true }", [(6,), (6,)]),
            ("MVN", "mvn_param { across_channels: true }", []),
            ("Normalize", "norm_param { across_spatial: false channel_shared: false }", [(6,)]),
        ],
    ),
    "activations": (
        (2, 3, 4, 5),
        [
            ("PReLU", "", [(3,)]),
            ("ReLU", "relu_param { negative_slope: 0.1 }", []),
            ("ELU", "elu_param { alpha: 0.5 }", []),
            ("Sigmoid", "", []),
            ("Power", "power_param { power: 2 scale: 0.5 shift: 0.3 }", []),
            ("TanH", "", []),
            ("AbsVal", "", []),
            ("BNLL", "", []),
            ("Exp", "", []),
            ("Dropout", "", []),
            ("Softmax", "", []),
        ],
    ),
    "classifier": (
        (3, 2, 3, 4),
        [
            ("InnerProduct", "inner_product_param { num_output: 7 }", [(7, 24), (7,)]),
            ("ReLU", "", []),
            ("InnerProduct", "inner_product_param { num_output: 5 bias_term: false }", [(1, 1, 5, 7)]),
            ("Softmax", "softmax_param { axis: -1 }", []),
        ],
    ),
    "shapes": (
        (2, 6, 4, 3),
        [
            ("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", []),
            ("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 6 } }", []),
            ("Flatten", "flatten_param { axis: 1 }", []),
        ],
    ),
}
GRAPHS: dict[str, tuple[str, dict[str, list[tuple[int, ...]]]]] = {
    "pooling": (
        """
        layer { name: "data" type: "Input" top: "x" input_param { shape { dim: 1 dim: 6 dim: 12 dim: 11 } } }
        layer { name: "a" type: "Pooling" bottom: "x" top: "max" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
        layer { name: "b" type: "Pooling" bottom: "x" top: "max_padded" pooling_param { kernel_size: 3 stride: 2 pad: 1 } }
        layer { name: "c" type: "Pooling" bottom: "x" top: "average" pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
        layer { name: "d" type: "Pooling" bottom: "x" top: "average_padded" pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 } }
        layer { name: "e" type: "Pooling" bottom: "x" top: "average_all" pooling_param { pool: AVE global_pooling: true } }
        layer { name: "f" type: "LRN" bottom: "x" top: "within" lrn_param { local_size: 3 alpha: 0.3 norm_region: WITHIN_CHANNEL } }
        layer { name: "g" type: "ShuffleChannel" bottom: "x" top: "shuffled" shuffle_channel_param { group: 3 } }
        """,
        {},
    ),
    "branches": (
        """
        name: "a # is no comment in a string"   # but this is
        layer { name: 'data' type: "Input" top: "data" input_param < shape: { dim: [1, 4, 8, 8] } > }
        layer { name: "s" type: "Slice" bottom: "data" top: "a" top: "b" slice_param { axis: 1 slice_point: 1 } }
        layer { name: "c" type: "Convolution" bottom: "b" top: "c" convolution_param { num_output: 1 kernel_size: 3 pad: 1 } }
        layer { name: "e" type: "Eltwise" bottom: "a" bottom: "c" top: "e" eltwise_param { operation: SUM coeff: 1 coeff: -0.5 } }
        layer { name: "m" type: "Eltwise" bottom: "a" bottom: "c" top: "m" eltwise_param { operation: MAX } }
        layer { name: "p" type: "Eltwise" bottom: "a" bottom: "c" top: "p" eltwise_param { operation: PROD } }
        layer { name: "r" type: "ReLU" bottom: "p" top: "p" }
        layer { name: "k" type: "Concat" bottom: "e" bottom: "m" bottom: "p" top: "k" }
        layer { name: "small" type: "Pooling" bottom: "b" top: "small" pooling_param { kernel_size: 2 stride: 2 } }
        layer { name: "crop" type: "Crop" bottom: "k" bottom: "small" top: "crop" crop_param { axis: 2 offset: 1 offset: 2 } }
        layer { name: "train" type: "Dropout" bottom: "crop" top: "crop" include { phase: TRAIN } }
        """,
        {"c": [(1, 3, 3, 3), (1,)]},
    ),
    "first_version": (
        """
        input: "data" input_dim: 1 input_dim: 1 input_dim: 9 input_dim: 9
        layers { name: "conv" type: CONVOLUTION bottom: "data" top: "conv" blobs_lr: 1 blobs_lr: 2 convolution_param { num_output: 2 kernel_size: 2 } }
        layers { name: "relu" type: RELU bottom: "conv" top: "conv" }
        layers { name: "pool" type: POOLING bottom: "conv" top: "pool" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
        layers { name: "ip" type: INNER_PRODUCT bottom: "pool" top: "ip" inner_product_param { num_output: 3 } }
        layers { name: "prob" type: SOFTMAX bottom: "ip" top: "prob" }
        """,
        {"conv": [(2, 1, 2, 2), (1, 1, 1, 2)], "ip": [(1, 1, 3, 32), (1, 1, 1, 3)]},
    ),
}


SHAPES = {"pooling": (1, 6, 12, 11), "branches": (1, 4, 8, 8), "first_version": (1, 1, 9, 9)}


def prototxt(shape: tuple[int, ...], layers: list[tuple[str, str, list[tuple[int, ...]]]]) -> str:
    dims = " ".join(f"dim: {d}" for d in shape)
    rows = [f'layer {{ name: "data" type: "Input" top: "x" input_param {{ shape {{ {dims} }} }} }}']
    for i, (kind, parameters, _) in enumerate(layers):
        rows.append(
            f'layer {{ name: "l{i}" type: "{kind}" bottom: "{f"y{i - 1}" if i else "x"}" top: "y{i}" {parameters} }}'
        )
    return "\n".join(rows) + "\n"


def caffemodel(blobs: dict[str, list[np.ndarray]], first: bool = False) -> bytes:
    net = message_class(_TABLE, "caffe", "NetParameter", "proto2")()
    for name, arrays in {"data": [], **blobs}.items():
        layer = (net.layers if first else net.layer).add(name=name)
        for array in arrays:
            blob = layer.blobs.add(data=array.ravel().tolist())
            if first:
                blob.num, blob.channels, blob.height, blob.width = array.shape
            else:
                blob.shape.dim.extend(array.shape)
    return net.SerializeToString()


def write(name: str, text: str, shape: tuple[int, ...], shapes: dict[str, list[tuple[int, ...]]]) -> None:
    random = np.random.default_rng(0)
    blobs = {
        # positive where they are variances
        k: [random.uniform(0.2 if len(s) == 1 else -1, 1, s).astype(np.float32) for s in v]
        for k, v in shapes.items()
    }
    first = name == "first_version"
    (FOLDER / f"{name}.prototxt").write_text(text)
    (FOLDER / f"{name}.caffemodel").write_bytes(caffemodel(blobs, first))
    x = random.standard_normal(shape).astype(np.float32)
    net = cv2.dnn.readNetFromCaffe(str(FOLDER / f"{name}.prototxt"), str(FOLDER / f"{name}.caffemodel"))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableFusion(False)
    net.setInput(x)
    names = net.getUnconnectedOutLayersNames()
    tops = [re.search(rf'name: "{n}".*top: "(\w+)"', text)[1] for n in names]
    results = dict(zip(tops, net.forward(names), strict=True))
    np.savez_compressed(FOLDER / f"{name}.npz", x, **results)
    print(name, x.shape, {k: v.shape for k, v in results.items()})


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, (shape, layers) in CASES.items():
        write(name, prototxt(shape, layers), shape, {f"l{i}": b for i, (_, _, b) in enumerate(layers) if b})
    for name, (text, blobs) in GRAPHS.items():
        write(name, "\n".join(line.strip() for line in text.strip().splitlines()) + "\n", SHAPES[name], blobs)


if __name__ == "__main__":
    main()
