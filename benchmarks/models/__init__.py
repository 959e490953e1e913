"""Networks of well-known shapes with random weights, written as ONNX files.

MindSpore's files of the same networks are made by `tools/with_mindspore/make_benchmark_models.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.models.detector import yolo
from benchmarks.models.images import efficientnet_lite0, mobilenet_v2, resnet50
from benchmarks.models.language import PAST, bert_base, bert_free, gpt2_step
from benchmarks.models.small import mlp

Arrays = dict[str, np.ndarray]


def _random(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _image(size: int = 224) -> Arrays:
    return {"image": _random(1, 3, size, size)}


def _ids() -> Arrays:
    return {"ids": np.arange(128, dtype=np.int64).reshape(1, 128)}


def _step() -> Arrays:
    """A token, its place, and keys and values of those before."""
    known = {"ids": np.array([[7]]), "position": np.array([[PAST]])}
    names = [f"past.{layer}.{part}" for layer in range(12) for part in ("key", "value")]
    return known | {name: _random(1, 12, PAST, 64, seed=seed) for seed, name in enumerate(names)}


MAKERS: dict[str, Callable[[Path], Path]] = {
    make.__name__: make
    for make in (mobilenet_v2, efficientnet_lite0, resnet50, yolo, bert_base, gpt2_step, mlp, bert_free)
}
"""Functions that write a file, by the stem of its name."""

INPUTS: dict[str, Callable[[], Arrays]] = {
    **dict.fromkeys(("mobilenet_v2", "efficientnet_lite0", "resnet50"), _image),
    "yolo": lambda: _image(640),
    **dict.fromkeys(("bert_base", "bert_free"), _ids),
    "gpt2_step": _step,
    "mlp": lambda: {"x": _random(1, 16)},
}
"""Inputs of one prediction by their names, in the order of the file; by the same stem."""
