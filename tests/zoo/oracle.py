"""MindSpore's side: make a network, export it, and say what it computes.

    python -m tests.zoo.oracle NAME FOLDER [MINDYOLO]

Run by the oracle's interpreter. FOLDER gets NAME.mindir, NAME.onnx where MindSpore can write one, and
NAME.npz: inputs run0_x0, run0_x1, ... and outputs run0_y0, ... of runs one after the other, which differ in
their inputs. Weights and inputs have fixed seeds. MINDYOLO is a checkout of mindyolo, whose configuration
files its package lacks.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import sys
import types
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from tests.zoo.catalog import ENTRIES, Entry
from tests.zoo.talk import Answer, seconds_of, serve

Run = tuple[np.ndarray, ...]


class Oracle:
    """A network as MindSpore runs it."""

    def __init__(
        self, entry: Entry, folder: Path, mindyolo: str = "", sizes: Mapping[str, Any] | None = None
    ) -> None:
        self._entry, self._folder = entry, folder
        self._mindyolo, self._sizes = mindyolo, sizes or {}
        self._net: ms.nn.Cell
        self._runs: list[Run]

    def first(self) -> Answer:
        """Make the files that are not there; {"failed": reason, "stop": True} where MindSpore cannot."""
        path = self._folder / f"{self._entry.name}.mindir"
        doing = "make"
        try:
            self._net, self._runs = make(self._entry, self._mindyolo, self._sizes)
            self._net.set_train(False)
            random = np.random.default_rng(zlib.crc32(self._entry.name.encode()))
            randomize(self._net, random)
            made = path.with_suffix(".json")
            if made.exists():
                return json.loads(made.read_text())
            doing = "run"
            settle_averages(self._net, self._runs, random, self._entry.calm)
            doing = "export"
            onnx = self._export(path)
            doing = "run"
            answer = {"moved": self._goldens(), "onnx": onnx, "versions": versions()}
            made.write_text(json.dumps(answer))
        except Exception as error:
            return {"failed": f"cannot {doing} it: {_line(error)}", "stop": True}
        return answer

    def further(self) -> Answer:
        """Seconds of a prediction."""
        return {"seconds": seconds_of(lambda: compute(self._net, self._runs[0]))}

    def _export(self, path: Path) -> str | None:
        """Write the files; returns why there is no ONNX file."""
        tensors = [ms.Tensor(x) for x in self._runs[0]]
        for old in (path, path.with_suffix(".onnx")):
            old.unlink(missing_ok=True)
        ms.export(self._net, *tensors, file_name=str(path), file_format="MINDIR")
        try:
            ms.export(self._net, *tensors, file_name=str(path.with_suffix(".onnx")), file_format="ONNX")
        except Exception as error:
            return _line(error)
        return None

    def _goldens(self) -> float:
        """Write inputs and outputs; returns how far the second inputs move the outputs, relatively."""
        saved: dict[str, np.ndarray] = {}
        results = [compute(self._net, run) for run in self._runs]
        for i, (run, result) in enumerate(zip(self._runs, results, strict=True)):
            saved |= {f"run{i}_x{j}": x for j, x in enumerate(run)}
            saved |= {f"run{i}_y{j}": y for j, y in enumerate(result)}
        np.savez_compressed(self._folder / f"{self._entry.name}.npz", **saved)
        if not all(np.isfinite(y).all() for result in results for y in result):
            raise ValueError("its outputs are not finite with these weights")
        pairs = zip(results[0], results[1], strict=True)
        return min(float(np.abs(a - b).max() / (np.abs(a).max() or 1)) for a, b in pairs)


def compute(net: ms.nn.Cell, run: Run) -> list[np.ndarray]:
    """The outputs of a network."""
    return leaves(net(*(ms.Tensor(x) for x in run)))


def make(entry: Entry, mindyolo: str, sizes: Mapping[str, Any]) -> tuple[ms.nn.Cell, list[Run]]:
    """The network and the inputs of its runs."""
    if entry.source == "own":
        from tests.zoo import networks

        return getattr(networks, entry.name)(**sizes)
    runs = [(picture(entry.size, seed),) for seed in (5, 6)]
    if entry.source == "mindcv":
        import mindcv

        return mindcv.create_model(entry.name, num_classes=10), runs
    return _yolo(Path(mindyolo), entry.source.removeprefix("mindyolo/")), runs


def picture(size: int, seed: int) -> np.ndarray:
    """(1, 3, size, size): colored patches and noise. Pictures of noise alone are one as the other."""
    random = np.random.default_rng(seed)
    patches = random.normal(size=(1, 3, 8, 8)).repeat(-(-size // 8), 2).repeat(-(-size // 8), 3)
    noise = random.normal(size=(1, 3, size, size))
    return (patches[:, :, :size, :size] + 0.5 * noise).astype(np.float32)


def _yolo(checkout: Path, config: str) -> ms.nn.Cell:
    # The package's own __init__ imports what only training needs.
    package = types.ModuleType("mindyolo")
    package.__path__ = [str(checkout / "mindyolo")]
    sys.modules["mindyolo"] = package
    from mindyolo.models.model_factory import create_model
    from mindyolo.utils.config import Config, load_config

    network = Config(load_config(str(checkout / "configs" / f"{config}.yaml"))[0]).network
    return create_model(network.model_name, model_cfg=network, num_classes=4)


def randomize(net: ms.nn.Cell, random: np.random.Generator) -> None:
    """Weights that keep a signal alive over many layers."""
    for parameter in net.get_parameters():
        if parameter.dtype == ms.float32 and parameter.requires_grad:
            parameter.set_data(ms.Tensor(_weights(parameter.name, parameter.shape, random), ms.float32))


def _weights(name: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    if name.endswith("gamma"):
        return random.uniform(0.8, 1.2, shape)
    if len(shape) < 2:
        return random.uniform(-0.1, 0.1, shape)
    return random.normal(scale=1.2 / math.sqrt(max(1, math.prod(shape[1:]))), size=shape)


def settle_averages(net: ms.nn.Cell, runs: list[Run], random: np.random.Generator, calm: float) -> None:
    """Moving averages near those of all runs together, as training leaves them, each off by a factor of its own.

    With others the signal of many networks dies out on the way, so that their outputs hardly depend on
    their inputs, and every mistake before the last layers hides. The opposite happens in very deep ones:
    every layer that subtracts what its inputs have in common, and stretches the rest, stretches rounding
    errors with it. There `calm` is the share of the mean that is left in.
    """
    kind = ms.nn.layer.normalization._BatchNorm
    if not any(isinstance(cell, kind) for _, cell in net.cells_and_names()):
        return

    def settling(cell: ms.nn.Cell, x: ms.Tensor) -> ms.Tensor:
        values = x.asnumpy().astype(np.float64)
        axes = (0, *range(2, values.ndim))
        mean, variance = values.mean(axes), values.var(axes)
        scale = random.uniform(0.7, 1.4, variance.shape)
        wide = variance + calm * mean**2
        cell.moving_mean.set_data(ms.Tensor((1 - calm) * mean * scale, ms.float32))
        cell.moving_variance.set_data(ms.Tensor((wide + 0.2 * wide.mean() + 1e-3) * scale, ms.float32))
        return usual(cell, x)

    usual, kind.construct = kind.construct, settling
    ms.set_context(mode=ms.PYNATIVE_MODE)
    compute(net, tuple(np.concatenate(arrays) for arrays in zip(*runs, strict=True)))
    ms.set_context(mode=ms.GRAPH_MODE)
    kind.construct = usual


def leaves(value: object) -> list[np.ndarray]:
    """The tensors of nested tuples, in order."""
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value.asnumpy() if isinstance(value, ms.Tensor) else np.asarray(value)]


def versions() -> dict[str, str]:
    """Of the libraries that made the networks."""
    known = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    return {name: known[name] for name in ("mindspore", "mindcv") if name in known}


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -")]
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU", runtime_num_threads=1)
    side = Oracle(ENTRIES[sys.argv[1]], Path(sys.argv[2]), "".join(sys.argv[3:]))
    serve(side.first, side.further)
