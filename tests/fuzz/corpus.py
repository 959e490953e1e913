"""The files that are damaged."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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


@dataclass(frozen=True)
class Family:
    """Files of one format and one writer; `share` of ten trials are theirs."""

    model_type: ModelType
    share: int
    seeds: Sequence[Seed]


@cache
def families() -> Mapping[str, Family]:
    """All files by family, each in a fixed order. What is taken from onnx depends on its version."""
    mindspore = _small("mindspore_ops/*.mindir", "mindspore_primitives/*.mindir", "versions/*/*.mindir")
    external = 20 * [_seed(DATA / "split" / "big_graph.mindir")]
    lite = _small("lite_ops/*.mindir", "lite_layers/*.mindir")
    return {
        "mindir": Family(ModelType.MINDIR, 4, [*mindspore, *_small("refused/*.mindir"), *external]),
        "lite_mindir": Family(ModelType.MINDIR, 2, lite),
        "ms": Family(ModelType.MINDIR_LITE, 2, _small("ms/*.ms", "lite_ops/*.ms", "lite_layers/*.ms")),
        "onnx": Family(ModelType.ONNX, 2, [*_small("api/*.onnx"), *_onnx_cases(), *_onnx_external()]),
    }


def _small(*patterns: str) -> list[Seed]:
    paths = sorted({p for pattern in patterns for p in DATA.glob(pattern)})
    return [_seed(p) for p in paths if p.stat().st_size <= MOST_BYTES]


def _seed(path: Path) -> Seed:
    return Seed(str(path.relative_to(DATA)), path.read_bytes(), path.parent)


def _onnx_cases() -> Iterator[Seed]:
    """ONNX's own tests of operators, control flow, functions and quantised networks."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, of the values that the cases hold
        cases = sorted(collect_testcases(None), key=lambda case: case.name)
    for case in cases:
        if case.model is not None and case.model.ByteSize() <= MOST_BYTES:
            yield Seed(f"onnx/{case.name}", case.model.SerializeToString())


def _onnx_external() -> list[Seed]:
    """A product with a weight that lies in another file: the one of the split MindIR golden."""
    weight = onnx.TensorProto(name="w", data_type=1, dims=[16, 64], data_location=1)
    entries = {"location": "big_variables/data_0", "offset": "64", "length": "4096"}
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    x, y = (
        onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", ["n", 16]), ("y", None))
    )
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "external", [x], [y], [weight]))
    return 20 * [Seed("external.onnx", model.SerializeToString(), DATA / "split")]
