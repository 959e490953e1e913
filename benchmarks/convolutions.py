"""3x3 convolutions by Winograd's algorithm beside onnxruntime's own: of which the gains with AVX2 are.

    python -m benchmarks convolutions [--threads 1] [--rounds 5]

Four times a convolution of 3x3 and one of 1x1 after it, with Relu; images of batch 1. The ratio is that of
the fastest runs in turn, for tiles with 4 and with 2 results beside each other. Then rounding errors, against
float64: of direct sums, and of the algorithm.
"""

from __future__ import annotations

import argparse
import importlib
import time

import numpy as np
import onnx_ir as ir
import onnxruntime as ort

from pinnace.engines.onnxruntime.rules import rewrite
from pinnace.engines.speed.gains import Gains

# By its name, because the package has a function that is called the same.
winograd = importlib.import_module("pinnace.engines.onnxruntime.rules.winograd")

CHANNELS, SIZES = (16, 32, 48, 64, 128, 256, 512), (7, 14, 20, 28, 40, 56, 80)
_REST = 0.05
"""Seconds after which the threads of the session before have stopped to spin."""
_LARGEST = 256 * 256 * 28 * 28  # products, by 9


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks convolutions")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    print("Time over onnxruntime's own, tiles of 4 / of 2:\n")
    print("| channels | " + " | ".join(f"{size} x {size}" for size in SIZES) + " |")
    print("| ---: " * (1 + len(SIZES)) + "|")
    for channels in CHANNELS:
        cells = [_cell(channels, size, options) for size in SIZES]
        print(f"| {channels} | " + " | ".join(cells) + " |", flush=True)
    direct, ours = _errors()
    print(
        f"\nRounding errors over those of direct sums, tiles of 4: {ours / direct:.1f} (direct: {direct:.1e})"
    )


def _cell(channels: int, size: int, options: argparse.Namespace) -> str:
    if channels * channels * size * size > _LARGEST:
        return ""
    x = np.random.default_rng(0).random((1, channels, size, size), np.float32)
    sessions = [_session(channels, size, side, options.threads) for side in (0, 4, 2)]
    least = [np.inf] * 3
    for _ in range(options.rounds):
        for place, session in enumerate(sessions):
            time.sleep(_REST)
            session.run(None, {"x": x})
            least[place] = min(least[place], *(_seconds(session, x) for _ in range(5)))
    return f"{least[1] / least[0]:.2f} / {least[2] / least[0]:.2f}"


def _session(channels: int, size: int, side: int, threads: int) -> ort.InferenceSession:
    """Of a network whose convolutions are in tiles of `side` x `side` results; 0 is as they are."""
    model = _network(channels, size)
    if side:
        rewrite(model, Gains({}, settings=f"+winograd:{side}"))
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return ort.InferenceSession(ir.to_proto(model).SerializeToString(), options)


def _network(channels: int, size: int) -> ir.Model:
    random = np.random.default_rng(1)
    x = ir.Value(name="x", shape=ir.Shape([1, channels, size, size]), type=ir.TensorType(ir.DataType.FLOAT))
    nodes, weights, y = [], [], x
    for window in (3, 1) * 4:
        kernel = random.normal(size=(channels, channels, window, window)) / window / channels**0.5
        tensor = ir.tensor(kernel.astype(np.float32))
        name = f"kernel{len(weights)}"
        weights.append(ir.Value(name=name, const_value=tensor, shape=tensor.shape))
        weights[-1].type = ir.TensorType(tensor.dtype)
        nodes.append(ir.node("Conv", [y, weights[-1]], {"pads": [window // 2] * 4}))
        nodes.append(ir.node("Relu", nodes[-1].outputs))
        y = nodes[-1].outputs[0]
    y.name, y.type = "y", x.type
    graph = ir.Graph([x], [y], nodes=nodes, initializers=weights, opset_imports={"": 21}, name="g")
    return ir.Model(graph, ir_version=10)


def _seconds(session: ort.InferenceSession, x: np.ndarray) -> float:
    begun = time.perf_counter()
    session.run(None, {"x": x})
    return time.perf_counter() - begun


def _errors(channels: int = 128, tiles: int = 1000) -> tuple[float, float]:
    """Root mean squares, of direct sums and of the algorithm."""
    random = np.random.default_rng(2)
    data = np.abs(random.normal(size=(tiles, channels, 6, 6))).astype(np.float32)
    kernel = (random.normal(size=(channels, 3, 3)) / 34).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), axis=(2, 3))
    windows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(tiles * 16, -1)
    exact = windows.astype(np.float64) @ kernel.reshape(-1).astype(np.float64)
    transform = winograd._Transform.of(4)
    g = transform.kernel
    places = np.einsum("ia,cab,jb->ijc", g, kernel.astype(np.float64), g).astype(np.float32)
    there = transform.data @ data @ transform.data.T
    products = np.stack([there[:, :, i, j] @ places[i, j] for i in range(6) for j in range(6)], -1)
    tiled = (transform.result @ products.reshape(tiles, 6, 6) @ transform.result.T).reshape(-1)
    direct, ours = (float(np.sqrt(np.mean((y - exact) ** 2))) for y in (windows @ kernel.reshape(-1), tiled))
    return direct, ours
