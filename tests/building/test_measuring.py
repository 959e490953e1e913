"""The engine that a model is kept for: the faster one of a measurement."""

import json
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from pinnace import Context, Model, ModelType
from pinnace.building import background, measuring
from pinnace.building.background import Job
from pinnace.building.build import build
from pinnace.building.opening import open_model
from pinnace.cache.model import ModelCache
from pinnace.cache.store import Store
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.weights.source import Source

pytest.importorskip("openvino")


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A product of 4 x 64 and 64 x 64, and a cache of its own."""
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "cache"))
    text = "g (float[4,64] x, float[64,64] w) => (float[4,64] y) { y = MatMul(x, w) }"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    del proto.graph.input[1]
    onnx.save(proto, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.fixture
def figures(monkeypatch):
    """Milliseconds by engine, in place of a measurement, whose calls are made once."""
    times = {"onnxruntime": 1.0, "openvino": 1.0}

    def in_turns(calls, *_):
        for call in calls.values():
            call()
        return {name: [times[name]] * 3 for name in calls}

    monkeypatch.setattr(measuring, "in_turns", in_turns)
    return times


class Owner:
    def use_kept(self):
        """Do nothing: nobody runs the model."""


def keep(path, prefer="latency", requests=1, config=None):
    """Build without the cache, and keep the model as the helper does."""
    settings = Settings.load(options={"common_context": {"prefer": prefer}} | (config or {}))
    target = Target(threads=1, parallel_requests=requests)
    built = build(open_model(path, None, target, settings, keep="after"))
    built.executable.close()
    owner = Owner()
    job = Job.of(built.to_keep, owner.use_kept)
    message = json.loads(json.dumps({**job.described, "buffer": None}))
    background.keep(message)
    with suppress(OSError):  # there may be no room
        background.compare(message)
        background.compare(message)  # is done once


def engine_and_why(path, prefer="latency", requests=1):
    settings = Settings.load(options={"common_context": {"prefer": prefer}})
    target = Target(threads=1, parallel_requests=requests)
    built = build(open_model(path, None, target, settings))
    built.executable.close()
    assert built.facts["cache"] == "loaded"
    return built.executable.info["engine"].partition(" ")[0], built.facts["why"]


@pytest.mark.parametrize(
    ("onnxruntime", "openvino", "requests", "engine"),
    [
        (1, 0.9, 1, "openvino"),
        (1, 0.96, 1, "onnxruntime"),
        (1, 1.1, 1, "onnxruntime"),
        (1, 1.04, 2, "openvino"),  # workers of onnxruntime wait for Python between requests
        (20, 19.5, 2, "openvino"),  # as long before a long request
        (20, 19.7, 2, "onnxruntime"),
    ],
)
def test_the_faster_engine_by_five_percent_is_kept_and_why_has_both_figures(
    path, figures, onnxruntime, openvino, requests, engine
):
    figures.update(onnxruntime=onnxruntime, openvino=openvino)
    keep(path, requests=requests)
    why = f"measured when it was kept, on one thread: onnxruntime {onnxruntime} ms, openvino {openvino} ms"
    assert engine_and_why(path, requests=requests) == (engine, why)


def test_a_build_that_prefers_the_first_choice_is_not_measured(path, figures):
    figures["openvino"] = 0.1
    keep(path, prefer="first")
    assert engine_and_why(path, prefer="first") == ("onnxruntime", "by rule: it is small")


def test_an_engine_that_fails_leaves_the_rule(path, figures, monkeypatch):
    def fail(*_):
        raise MemoryError("no memory")

    monkeypatch.setattr(measuring, "in_turns", fail)
    keep(path)
    assert engine_and_why(path) == ("onnxruntime", "by rule: it is small; not measured: no memory")


@pytest.fixture
def wrong(path, monkeypatch):
    """A model that OpenVINO computes wrongly: slopes for the last dimension are not those of channels."""
    text = "g (float[1,4,2,4] x) => (float[1,4,2,4] y) { n = Neg(x) k = Constant <value = float[4] "
    text = f'<ir_version: 8, opset_import: ["" : 17]> {text}{{0.1, 2.0, 3.0, 40.0}}> () y = PRelu(n, k) }}'
    onnx.save(onnx.parser.parse_model(text), path)
    monkeypatch.setattr("pinnace.engines.openvino.conversion.unsupported", lambda _: [])
    return path


def test_an_engine_with_other_results_is_not_kept(wrong, figures):
    figures["openvino"] = 0.1
    keep(wrong)
    engine, why = engine_and_why(wrong)
    assert engine == "onnxruntime"
    assert why.startswith("measured when it was kept: openvino's results differ from onnxruntime's by ")


def test_a_process_that_runs_on_an_engine_with_other_results_gets_a_warning(wrong, figures):
    built = build(open_model(wrong, None, Target(threads=1), Settings(), keep="after"))
    built.executable.close()
    on_openvino, owner = built.to_keep._replace(choices=built.to_keep.choices[::-1]), Owner()
    message = {**Job.of(on_openvino, owner.use_kept).described, "buffer": None}
    background.keep(message)
    warning = background.compare(message)
    assert "model.onnx runs on openvino here: measured when it was kept: openvino's results" in warning
    assert background.compare(message) == ""


def test_nothing_is_measured_where_both_engines_would_not_fit(path, figures, monkeypatch):
    figures["openvino"] = 0.1
    monkeypatch.setattr("pinnace.building.background.usable_memory", lambda: 4 * path.stat().st_size)
    keep(path)
    assert engine_and_why(path) == ("onnxruntime", "by rule: it is small")


@pytest.mark.parametrize(
    ("seconds", "most", "turns"),
    [
        (0.0, 10, 3),  # at least
        (0.0, 2, 2),
        (0.1, 200, 14),  # 14.6 ms each, until more than 0.1 s for each engine are spent
        (0.105, 200, 15),
        (9.0, 7, 7),
    ],
)
def test_turns_are_of_the_processors_time(monkeypatch, seconds, most, turns):
    """A turn takes 5 ms, or one prediction that takes longer; waiting is nobody's time."""
    spent, runs = [0.0], {"a": 0, "b": 0}
    monkeypatch.setattr(measuring, "time", SimpleNamespace(process_time=lambda: spent[0]))

    def predict(name, steps):
        runs[name] += 1
        spent[0] += steps / 1024  # about a millisecond, whose sums are exact

    calls = {"a": lambda: predict("a", 1), "b": lambda: predict("b", 10)}
    found = measuring.in_turns(calls, seconds, most)
    assert found == {"a": [1e3 / 1024] * turns, "b": [1e4 / 1024] * turns}
    assert runs == {"a": 2 + 5 * turns, "b": 2 + turns}


def test_the_ratio_is_the_median_over_turns():
    # The second turn met other load on both engines, the third on one.
    times = {"onnxruntime": [1.0, 3.0, 1.0], "openvino": [0.9, 2.7, 2.0]}
    assert measuring.ratio(times) == pytest.approx(0.9)


def test_made_up_inputs_are_of_the_ports():
    with Model() as model:
        text = "g (float16[2,3] x, int64[2] i, bool[1] b) => (float16[2,3] y) { y = Identity(x) }"
        proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
        context = Context()
        context.cpu.provider = "onnxruntime"
        model.build_from_buffer(proto.SerializeToString(), ModelType.ONNX, context)
        ports = model._live.workers.executable.inputs
    floats, whole, flags = (measuring._made_up(port) for port in ports)
    assert floats.dtype == np.float16
    assert floats.shape == (2, 3)
    assert whole.tolist() == [1, 1]
    assert flags.tolist() == [True]


def test_the_choice_of_another_target_is_not_taken(path, figures):
    figures["openvino"] = 0.5
    keep(path)
    cache = ModelCache(Source.of_file(path), Store.of(Settings()))
    assert not cache.is_new
    assert cache.engine_choice(("", "first")) is None
