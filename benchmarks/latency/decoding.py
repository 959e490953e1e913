"""Prefill and steps of a language model with a cache, as scripts for an Ascend write them, beside IOBinding.

    python -m benchmarks decoding [--rounds 7] [--steps 100] [--kept 512] [--length 64]

All compute the same run with one thread in one process, in turn: small inputs are set, keys and values go
from one of two buffers to the other, the logits come back to the host. "Tensors on a device" are those of a
simulated Ascend of all cores, given once and swapped; "arrays" are on the CPU. Caches have a fixed size, or a
free one, to which a bucket fits. The ratio is that of the least times, and the median of the rounds'.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import onnxruntime as ort

from benchmarks.models.language import cached_decoder

if TYPE_CHECKING:
    from pinnace import Context

WORDS, CACHE = 4096, (4, 1, 4, 64)
Step = Callable[[int], np.ndarray]
"""One step by its number; returns the logits."""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks decoding")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--kept", type=int, default=512)
    parser.add_argument("--length", type=int, default=64, help="tokens of the prefill")
    options = parser.parse_args(arguments)
    os.environ |= {"PINNACE_CACHE_DIR": "off", "PINNACE_SIMULATE": "ascend:1"}
    print("| part | caches | way | us | over IOBinding | by rounds |")
    print("| --- | --- | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for length, name in itertools.product((options.length, 1), ("fixed", "free", "free, resized")):
            declared = options.kept if name == "fixed" else "kept"
            path = cached_decoder(Path(folder, "decoder.onnx"), length, declared)
            given = path, Sizes(length, options.kept), "resized" in name
            ways = {
                "IOBinding": bound(*given[:2]),
                "tensors on a device": on_device(*given),
                "arrays": on_host(*given),
            }
            part = "step" if length == 1 else f"prefill of {length}"
            for way, figures in measured(ways, options.rounds, options.steps).items():
                print(f"| {part} | {name} | {way} | {figures} |", flush=True)


class Sizes(NamedTuple):
    """Tokens of a run, and places of a cache."""

    length: int
    kept: int

    def small(self, step: int) -> list[np.ndarray]:
        """The ids, places and mask of a step."""
        places = np.arange(step, step + self.length, dtype=np.int32)[np.newaxis]
        mask = np.zeros((1, self.kept), np.int32)
        mask[0, : step + self.length] = 1
        return [places % WORDS, places, mask]

    def caches(self) -> list[np.ndarray]:
        *front, size = CACHE
        return [np.zeros((*front, self.kept, size), np.float32) for _ in range(4)]


def measured(ways: dict[str, Step], rounds: int, steps: int) -> dict[str, str]:
    """Time the ways step by step in turn, and check that they agree."""
    expected: list[np.ndarray] = []
    for name, way in ways.items():
        logits = [way(step).copy() for step in range(4)]
        expected = expected or logits
        np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4, err_msg=name)
    least: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        taken = dict.fromkeys(ways, np.inf)
        for step in range(steps):
            for name, way in ways.items():
                began = perf_counter()
                way(step)
                taken[name] = min(taken[name], perf_counter() - began)
        for name in ways:
            least[name].append(taken[name])
    base = least["IOBinding"]
    return {
        name: f"{1e6 * min(times):.0f} | {min(times) / min(base):.3f} | "
        f"{statistics.median(t / b for t, b in zip(times, base, strict=True)):.3f}"
        for name, times in least.items()
    }


def bound(path: Path, sizes: Sizes) -> Step:
    """onnxruntime: two bindings are made once, and small inputs are written in place."""
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = 1
    session = ort.InferenceSession(path, chosen, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]
    value = ort.OrtValue.ortvalue_from_numpy
    inputs = [value(array) for array in sizes.small(0)]
    logits, *buffers = map(value, [np.zeros((1, WORDS), np.float32), *sizes.caches()])
    bindings = []
    for read, written in ((buffers[:2], buffers[2:]), (buffers[2:], buffers[:2])):
        binding = session.io_binding()
        for name, given in zip(names, [*inputs, *read], strict=True):
            binding.bind_ortvalue_input(name, given)
        for port, given in zip(session.get_outputs(), [logits, *written], strict=True):
            binding.bind_ortvalue_output(port.name, given)
        bindings.append(binding)

    def step(number: int) -> np.ndarray:
        for given, array in zip(inputs, sizes.small(number), strict=True):
            given.update_inplace(array)
        session.run_with_iobinding(bindings[number % 2])
        return logits.numpy()

    return step


def on_device(path: Path, sizes: Sizes, resized: bool) -> Step:
    """Tensors on a simulated Ascend, as in upstream's examples of language models."""
    import pinnace

    context = pinnace.Context()
    context.target = ["ascend"]
    return stepping(path, context, sizes, resized, device="ascend:0")


def on_host(path: Path, sizes: Sizes, resized: bool) -> Step:
    """Tensors in host memory, of which the outputs are given."""
    import pinnace

    context = pinnace.Context()
    context.cpu.provider = "onnxruntime"
    return stepping(path, context, sizes, resized, device=None)


def stepping(path: Path, context: Context, sizes: Sizes, resized: bool, device: str | None) -> Step:
    import pinnace

    context.cpu.thread_num = 1
    model = pinnace.Model()
    model.build_from_file(str(path), pinnace.ModelType.ONNX, context)
    if resized:
        *front, size = CACHE
        cache, ids = [*front, sizes.kept, size], [1, sizes.length]
        model.resize(model.get_inputs(), [ids, ids, [1, sizes.kept], cache, cache])
    inputs = [pinnace.Tensor(array, device=device) for array in sizes.small(0)]
    outputs = [np.zeros((1, WORDS), np.float32), *sizes.caches()]
    logits, *buffers = [pinnace.Tensor(array, device=device) for array in outputs]

    def step(number: int) -> np.ndarray:
        for tensor, array in zip(inputs, sizes.small(number), strict=True):
            tensor.set_data_from_numpy(array)
        read, written = (buffers[:2], buffers[2:])[:: 1 - 2 * (number % 2)]
        model.predict([*inputs, *read], [logits, *written])
        return logits.get_data_to_numpy()

    return step
