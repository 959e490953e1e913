"""Models whose requests are fuzzed, and a request of each that is right."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper
from tests.random_graphs.generate import case as random_case
from tests.requests.mutate import Feed

from pinnace import ModelType
from pinnace.formats.protos import every_node

_DATA = Path(__file__).parents[1] / "data"
_RANDOM = {"Bernoulli", "Dropout", "Multinomial"}
"""Operators whose answers are random; all Random* too."""


@dataclass(frozen=True)
class Subject:
    """A model, and a request that it answers."""

    name: str
    model: bytes
    kind: ModelType
    feed: Feed
    loops: bool = False
    """The model has loops, whose rounds a request may choose: it may compute for ever."""


def subject(seed: int, number: int, fixed: bool = False) -> Subject:
    """The model of a case: the same one for the same versions of onnx, onnxruntime and numpy.

    One in eight, and all if `fixed`, keep the dimensions of their files; the others are free.
    """
    source = _SOURCES[number % len(_SOURCES)]
    return source(seed, number, fixed or number % 8 == 0)


def _of_random_graph(seed: int, number: int, fixed: bool) -> Subject:
    case = random_case(seed, number)
    return _of_proto(f"random graph {number}", case.model, case.feed, fixed)


def _of_operator(seed: int, number: int, fixed: bool) -> Subject:
    """One of ONNX's own tests of operators."""
    names = sorted(_operators())
    name = names[int(np.random.default_rng([seed, number]).integers(len(names)))]
    model, arrays = _operators()[name]
    feed = dict(zip((i.name for i in model.graph.input), arrays, strict=False))
    return _of_proto(name, model, feed, fixed)


def _of_network(seed: int, number: int, fixed: bool) -> Subject:
    path, values = _NETWORKS[int(np.random.default_rng([seed, number]).integers(len(_NETWORKS)))]
    with np.load(values) as stored:
        arrays = [stored[f"run0_x{i}"] for i in range(sum(name.startswith("run0_x") for name in stored))]
    if path.suffix == ".onnx":
        model = onnx.load(path)
        feed = dict(zip((i.name for i in model.graph.input), arrays, strict=True))
        return _of_proto(path.name, model, feed, fixed)
    feed = {str(place): array for place, array in enumerate(arrays)}
    return Subject(path.name, path.read_bytes(), ModelType.MINDIR, feed)


def _of_call(seed: int, number: int, fixed: bool) -> Subject:
    """A call of an operator outside of ONNX's own domain, with dimensions of its own choice."""
    from tests.requests.calls import CALLS, subject_of  # which needs this module

    rng = np.random.default_rng([seed, number])
    return subject_of(CALLS[int(rng.integers(len(CALLS)))], rng, number)


def _of_proto(name: str, model: ModelProto, feed: Feed, fixed: bool) -> Subject:
    """The model with all dimensions of its inputs free, unless `fixed`."""
    copy = ModelProto()
    copy.CopyFrom(model)
    if not fixed:
        free(copy)
    feed = {n: np.asarray(array) for n, array in feed.items()}
    loops = any(n.op_type in ("Loop", "Scan") for n in every_node(copy))
    return Subject(name, copy.SerializeToString(), ModelType.ONNX, feed, loops)


def free(model: ModelProto) -> None:
    """Make all dimensions of inputs and outputs free, and forget those between."""
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    del model.graph.value_info[:]


@cache
def _operators() -> dict[str, tuple[ModelProto, list[np.ndarray]]]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, of the values that the cases hold
        cases = collect_testcases(None)
    found = {}
    for case in cases:
        if case.model is None or not case.data_sets or _is_random(case.model):
            continue
        given = case.data_sets[0][0]
        arrays = [numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x for x in given]
        if arrays and all(isinstance(x, np.ndarray | np.generic) for x in arrays):
            found[case.name] = case.model, arrays
    return found


def _is_random(model: ModelProto) -> bool:
    return any(n.op_type in _RANDOM or n.op_type.startswith("Random") for n in model.graph.node)


def _found_networks() -> list[tuple[Path, Path]]:
    """Small networks with their values; those that keep a state answer by what they were asked before."""
    exported = sorted((_DATA / "transformers").glob("*.onnx"))
    others = [path for path in sorted((_DATA / "zoo").glob("*.mindir")) if "cache" not in path.name]
    found = [(path, path.with_name(path.stem.rsplit("_", 1)[0] + ".npz")) for path in exported]
    return found + [(path, path.with_suffix(".npz")) for path in others]


_NETWORKS = _found_networks()
_SOURCES: tuple[Callable[[int, int, bool], Subject], ...] = (
    *(_of_random_graph, _of_operator, _of_operator, _of_random_graph, _of_operator),
    *(_of_random_graph, _of_operator, _of_network, _of_operator, _of_call),
)


def prepare() -> None:
    """Make what all cases use, before processes are forked."""
    _operators()
