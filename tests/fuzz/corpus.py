"""The files that are damaged."""

from __future__ import annotations

import hashlib
import warnings
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import onnx

from pinnace.types import ModelType

DATA = Path(__file__).parent.parent / "data"
MOST_BYTES = 12_000  # so that damage hits what matters


@dataclass(frozen=True)
class Seed:
    """A model that is in order; `folder` is where its external weights lie."""

    name: str
    data: bytes
    folder: Path | None = None


class Family:
    """Files of one format and one writer; `share` of ten trials are theirs.

    A file is drawn by the hash of its name, so that a number still draws the same one when others come.
    """

    def __init__(self, model_type: ModelType, share: int, seeds: Iterable[Seed]) -> None:
        self.model_type, self.share = model_type, share
        placed = sorted((_hash(seed.name), seed.name, seed) for seed in seeds)
        self._places = [place for place, _, _ in placed]
        self.seeds = [seed for _, _, seed in placed]

    def draw(self, rng: Random) -> Seed:
        """One of the files."""
        return self.seeds[bisect(self._places, rng.getrandbits(64)) % len(self.seeds)]


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


@cache
def families() -> Mapping[str, Family]:
    """All files by family. What is taken from onnx depends on its version."""
    mindspore = _small("mindspore_ops/*.mindir", "mindspore_primitives/*.mindir", "versions/*/*.mindir")
    beside = _often(_seed(DATA / "split" / "big_graph.mindir"))
    lite = _small("lite_ops/*.mindir", "lite_layers/*.mindir")
    ms = _small("ms/*.ms", "lite_ops/*.ms", "lite_layers/*.ms")
    onnx = [*_small("api/*.onnx"), *_onnx_cases()]
    return {
        "mindir": Family(ModelType.MINDIR, 4, [*mindspore, *_small("refused/*.mindir"), *beside]),
        "lite_mindir": Family(ModelType.MINDIR, 2, lite),
        "ms": Family(ModelType.MINDIR_LITE, 2, [*ms, *_often(_seed(DATA / "split" / "outside.ms"))]),
        "onnx": Family(ModelType.ONNX, 2, [*onnx, *_often(_onnx_external())]),
    }


def _often(seed: Seed) -> list[Seed]:
    """A file that is the only one of what it shows, some times."""
    return [Seed(f"{seed.name} {i}", seed.data, seed.folder) for i in range(20)]


def _small(*patterns: str) -> list[Seed]:
    paths = sorted({p for pattern in patterns for p in DATA.glob(pattern)})
    return [_seed(p) for p in paths if p.stat().st_size <= MOST_BYTES]


def _seed(path: Path) -> Seed:
    return Seed(str(path.relative_to(DATA)), path.read_bytes(), path.parent)


def _onnx_cases() -> Iterator[Seed]:
    """ONNX's own tests of operators, control flow, functions and quantized networks."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, of the values that the cases hold
        cases = sorted(collect_testcases(None), key=lambda case: case.name)
    for case in cases:
        if case.model is not None and case.model.ByteSize() <= MOST_BYTES:
            yield Seed(f"onnx/{case.name}", case.model.SerializeToString())


def _onnx_external() -> Seed:
    """A product with a weight that lies in another file: the one of the split MindIR golden."""
    weight = onnx.TensorProto(name="w", data_type=1, dims=[16, 64], data_location=1)
    for key, value in {"location": "big_variables/data_0", "offset": "64", "length": "4096"}.items():
        weight.external_data.add(key=key, value=value)
    x, y = (onnx.helper.make_tensor_value_info(n, 1, shape) for n, shape in (("x", ["n", 16]), ("y", None)))
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "external", [x], [y], [weight]))
    return Seed("external.onnx", model.SerializeToString(), DATA / "split")
