"""What tests of all rooms use."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pinnace.building.build import build_model as build
from pinnace.engines.devices import devices_of
from pinnace.options.settings import Settings
from pinnace.options.target import Target


@pytest.fixture(scope="session", autouse=True)
def _compile_cache(tmp_path_factory: pytest.TempPathFactory):
    """A compile cache of the tests' own: what they run was compiled, kept and loaded again."""
    os.environ["PINNACE_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["PINNACE_CACHE_KEEP"] = "before"


def pytest_configure() -> None:
    """Let Ctrl-C reach tests and their processes, which a shell in the background ignores."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where there is none that can be used, and say why."""
    if item.get_closest_marker("gpu") is not None:
        found = devices_of("gpu")
        if not any(device.usable and not device.simulated for device in found):
            pytest.skip("needs a GPU: " + ("; ".join(map(str, found)) or "this machine has none"))


@pytest.fixture(scope="session")
def data() -> Path:
    return Path(__file__).parent / "data"


def pytest_addoption(parser):
    parser.addoption("--provider", default="", help="the engine that goldens run on, where they can")


@pytest.fixture(scope="session")
def target(request) -> Target:
    return Target(threads=1, provider=request.config.getoption("--provider"))


@pytest.fixture
def run_model(target):
    """Outputs of a model (file or bytes) for arrays, through the one door."""

    def run(model, arrays, settings=None, target=target):
        executable = build(model, None, target, Settings.load(options=settings))
        try:
            return executable.execution().run([np.asarray(a, order="C") for a in arrays])
        finally:
            executable.close()

    return run


@pytest.fixture(scope="session")
def slow(tmp_path_factory):
    """A model that computes for some tenths of a second where it is given many rows."""
    weights = np.random.default_rng(3).normal(size=(48, 48)).astype(np.float32) / 7
    names = ["x", *(f"h{i}" for i in range(40)), "y"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [a, "w"], [b]) for a, b in pairwise(names)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 48])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 48])],
        [helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.ravel())],
    )
    path = tmp_path_factory.mktemp("models") / "slow.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="session")
def endless(tmp_path_factory):
    """A model that adds 1 as often as its first input says: [1 << 62, x] takes some thousand years."""
    value, info = TensorProto.FLOAT, helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["c", "one"], ["d"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("c", value, ["n"])],
        [info("on", TensorProto.BOOL, []), info("d", value, ["n"])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)],
        "g",
        [info("count", TensorProto.INT64, []), info("x", value, ["n"])],
        [info("y", value, ["n"])],
        [helper.make_tensor("one", value, [], [1.0])],
    )
    path = tmp_path_factory.mktemp("models") / "endless.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)
