"""The choice of a model's engine: its source and its reason."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pinnace import engines
from pinnace.building import choosing
from pinnace.cache.tuning import Measurement, Tuning
from pinnace.engines.choice import Choice
from pinnace.options.target import Target

BOTH = {"onnxruntime": "1", "openvino": "2"}
TUNING = Tuning("net", ((1,),), 0.0, (Measurement("openvino", "enforce_fp32", 2, 1, 1.0, 9.0, 0.0, 1.0, 1),))


@pytest.fixture
def installed(monkeypatch):
    def there(*names):
        monkeypatch.setattr(engines, "installed", lambda: {name: BOTH[name] for name in names})

    there(*BOTH)
    return there


@pytest.mark.parametrize(
    ("target", "is_open"),
    [
        (Target(), True),
        (Target(provider="openvino"), False),
        (Target(provider="openvino", fewer_threads=True), True),
        (Target(prefer="memory"), False),
        (Target(prefer="first"), True),
        (Target(device="gpu", fewer_threads=True), False),
        (Target(simulates="gpu:0"), False),
        (Target(shared_workspace=True), False),
    ],
)
def test_the_model_decides_where_engines_or_threads_are_open(installed, target, is_open):
    assert choosing.is_open(target) is is_open
    installed("onnxruntime")
    assert choosing.is_open(target) is (is_open and target.fewer_threads)


@pytest.mark.parametrize(
    ("target", "tuning", "reason"),
    [
        (Target(device="ascend", provider="acl"), None, "the target is ascend"),
        (Target(provider="openvino"), None, "context.cpu.provider"),
        (Target(provider="openvino"), TUNING, "measured by pinnace tune"),
        (Target(prefer="memory"), None, "prefer = memory"),
        (Target(simulates="gpu:0"), None, "the only engine"),
        (Target(), None, ""),
    ],
)
def test_the_reason_for_an_engine(installed, target, tuning, reason):
    assert choosing.why(target, tuning) == reason


@pytest.mark.parametrize(
    ("target", "tuning", "provider"),
    [
        (Target(), TUNING, "openvino"),
        (Target(), None, ""),
        (Target(provider="onnxruntime"), TUNING, "onnxruntime"),
        (Target(device="gpu"), TUNING, ""),
        (Target(precision="preferred_fp16"), TUNING, ""),
    ],
)
def test_a_tuning_chooses_the_engine_that_is_open(target, tuning, provider):
    assert choosing.with_tuned_provider(target, tuning).provider == provider


CHOICES = [Choice(provider, "enforce_fp32", 1, "by rule") for provider in BOTH]


@pytest.mark.parametrize(
    ("choices", "engine", "prefer", "count"),
    [
        (CHOICES, "onnxruntime 1", "latency", 2),
        (CHOICES, "onnxruntime 1", "first", 1),
        (CHOICES, "openvino 2", "latency", 0),
        ([], "onnxruntime 1", "latency", 0),
    ],
)
def test_engines_are_measured_unless_the_first_one_failed(choices, engine, prefer, count):
    spec = SimpleNamespace(engine=SimpleNamespace(name=engine), target=Target(prefer=prefer))
    assert list(choosing.to_measure(spec, choices)) == CHOICES[:count]


@pytest.mark.parametrize(
    ("device", "engine", "message"),
    [
        ("cpu", "onnxruntime 1", ""),
        ("cpu", "openvino 2", "openvino 2 packs a copy of the weights"),
        ("gpu", "onnxruntime 1", "no engine can share weights of models on gpu devices"),
    ],
)
def test_only_onnxruntime_on_the_cpu_shares_weights(device, engine, message):
    spec = SimpleNamespace(engine=SimpleNamespace(name=engine), target=Target(device=device))
    assert choosing.why_not_shared(spec).startswith(message)
    assert bool(choosing.why_not_shared(spec)) == bool(message)


@pytest.mark.parametrize(
    "change",
    [
        {"provider": "openvino"}, {"prefer": "first"}, {"precision": "preferred_fp16"}, {"threads": 2},
        {"fewer_threads": True}, {"parallel_requests": 2}, {"input_shape": "x:1"}, {"output_type": "FP16"},
    ],
)  # fmt: skip
def test_a_remembered_choice_is_for_one_kind_of_target(change):
    def key(shapes=(), plan=None, **fields):
        return choosing.choice_key(SimpleNamespace(target=Target(**fields), shapes=shapes, plan=plan or {}))

    assert key(**change) == key(**change) != key()
    assert len({key(), key(((1,),)), key(plan={"a": "b"}), key(plan={"c": "b"})}) == 4
    assert key(plan={"a": "1", "b": "2"}) == key(plan={"b": "2", "a": "1"})
    assert key(device_id=1) == key()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (None, "this CPU computes in no 16-bit type"),
        ("bfloat16", "engine 1 does not use the bfloat16 of this"),
    ],
)
def test_why_a_model_runs_in_32_bits(monkeypatch, kind, message):
    monkeypatch.setattr("pinnace.machine.processor.sixteen_bit_type", lambda: kind)
    assert choosing.no_sixteen_bits(SimpleNamespace(name="engine 1")).startswith(message)
