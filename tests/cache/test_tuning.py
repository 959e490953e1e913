"""What was measured of a model decides what builds leave open, and nothing else does."""

import json
import logging
import os
from dataclasses import replace

import pytest

import pinnace
from pinnace import engines
from pinnace.building.build import build
from pinnace.building.opening import open_model
from pinnace.building.spec import Stages, lowered
from pinnace.cache import key
from pinnace.cache import model as models
from pinnace.cache.model import ModelCache
from pinnace.cache.tuning import Measurement, Tuning
from pinnace.options.settings import Settings
from pinnace.options.target import Target

from .conftest import make_model

FP32, FP16 = "enforce_fp32", "preferred_fp16"
CORES = 4


def measured(provider="onnxruntime", threads=1, workers=1, latency=10.0, throughput=100.0, precision=FP32):
    return Measurement(provider, precision, threads, workers, latency, throughput, 0.0, latency, 0)


def tuning(*ways, shapes=((3, 128),)):
    return Tuning("a model", shapes, 1.0, ways)


@pytest.fixture
def targets(monkeypatch):
    """What engines are chosen for; it is onnxruntime that runs all of it, on a machine of 4 cores."""
    seen = []
    choose = engines.choose

    def noting(target, name, *rest):
        seen.append(target)
        return choose(Target(), name, *rest)

    monkeypatch.setattr(engines, "choose", noting)
    monkeypatch.setattr(engines, "installed", lambda: {"onnxruntime": "1", "openvino": "1"})
    for module in ("cache.model", "building.planning", "api.runner"):
        monkeypatch.setattr(f"pinnace.{module}.usable_core_count", lambda: CORES)
    return seen


def remember(path, *ways):
    return open_model(path, None, Target(), Settings()).cache.keep_tuning(tuning(*ways))


@pytest.fixture
def tuned(cache, product, targets):
    """A model for which everything is fastest somewhere else."""
    path, _ = product
    remember(
        path,
        measured("onnxruntime", 1, 1, latency=10),
        measured("openvino", 1, 1, latency=8),
        measured("onnxruntime", 2, 1, latency=5),
        measured("openvino", 2, 1, latency=6),
        measured("onnxruntime", 4, 1, latency=7),
        measured("openvino", 1, 4, throughput=300),
        measured("onnxruntime", 1, 4, throughput=200),
        measured("onnxruntime", 2, 2, throughput=400),
        measured("openvino", 1, 1, latency=1, precision=FP16),
    )
    targets.clear()
    return path


def model_target(targets, path, **options):
    context = pinnace.Context()
    for name, value in options.items():
        setattr(context.cpu, name, value)
    with pinnace.Model() as model:
        model.build_from_file(str(path), pinnace.ModelType.ONNX, context)
    return targets[-1].provider, targets[-1].threads


def runner_target(targets, path, threads=0, workers=0):
    context = pinnace.Context(thread_num=threads)
    context.parallel.workers_num = workers
    with pinnace.ModelParallelRunner() as runner:
        runner.build_from_file(str(path), context)
    return targets[-1].provider, targets[-1].threads, targets[-1].parallel_requests


def test_engine_and_threads_are_those_of_the_lowest_latency(tuned, targets):
    assert model_target(targets, tuned) == ("onnxruntime", 2)
    assert model_target(targets, tuned, thread_num=1) == ("openvino", 1)


def test_what_the_user_says_goes_before(tuned, targets):
    assert model_target(targets, tuned, thread_num=1, provider="onnxruntime") == ("onnxruntime", 1)
    assert model_target(targets, tuned, provider="openvino") == ("openvino", 2)


def test_memory_is_preferred_with_the_engine_that_shares_weights(tuned, targets):
    context = pinnace.Context()
    context.cpu.thread_num = 1
    with pinnace.Model() as model:
        prefer = {"common_context": {"prefer": "memory"}}
        model.build_from_file(str(tuned), pinnace.ModelType.ONNX, context, config_dict=prefer)
    assert (targets[-1].provider, targets[-1].threads) == ("onnxruntime", 1)


def test_operators_at_the_same_time_were_not_measured(tuned, targets):
    assert model_target(targets, tuned, inter_op_parallel_num=2) == ("onnxruntime", CORES)


@pytest.mark.filterwarnings("ignore::pinnace.PinnaceWarning")
def test_what_was_measured_in_another_precision_does_not_count(tuned, targets):
    # 4 threads, as the cores allow; the engine is the one that was measured with 1
    assert model_target(targets, tuned, precision_mode=FP16)[0] == "openvino"
    assert model_target(targets, tuned, thread_num=1) == ("openvino", 1)


def test_runners_are_as_they_had_the_highest_throughput(tuned, targets):
    assert runner_target(targets, tuned) == ("onnxruntime", 2, 2)
    assert runner_target(targets, tuned, threads=1) == ("openvino", 1, 4)
    assert runner_target(targets, tuned, workers=4) == ("openvino", 1, 4)
    assert runner_target(targets, tuned, workers=1) == ("onnxruntime", 2, 1)


@pytest.mark.filterwarnings("ignore::pinnace.PinnaceWarning")
def test_the_engine_of_the_nearest_numbers_where_just_these_were_not_measured(tuned, targets):
    assert runner_target(targets, tuned, threads=1, workers=5) == ("openvino", 1, 5)
    assert model_target(targets, tuned, thread_num=3)[1] == 3


def test_numbers_that_were_not_compared_with_all_cores_decide_nothing(cache, product, targets):
    path, _ = product
    remember(path, measured("openvino", 1, 1))
    assert model_target(targets, path) == ("openvino", CORES)
    assert runner_target(targets, path) == ("openvino", 1, CORES)


def test_models_that_lend_their_weights_are_as_without_a_tuning(tuned, targets):
    with pinnace.Model() as model:
        model.build_from_file(str(tuned), pinnace.ModelType.ONNX, config_dict={"pids": str(os.getppid())})
    assert (targets[-1].provider, targets[-1].threads) == ("", CORES)


def test_it_is_said_what_decided(tuned, targets, caplog):
    with caplog.at_level(logging.INFO, "pinnace"):
        model_target(targets, tuned, thread_num=1)
    record = caplog.records[0]
    assert record.getMessage() == (
        "a model was tuned: the fastest is openvino, enforce_fp32, 1 x 1 (workers x threads), at 8.000 ms"
    )


def test_another_model_is_not_concerned(tuned, targets, tmp_path):
    other = tmp_path / "other.onnx"
    make_model(other, seed=1)
    assert model_target(targets, other) == ("", CORES)


def test_the_same_content_elsewhere_is_concerned(tuned, targets, tmp_path):
    other = tmp_path / "elsewhere.onnx"
    other.write_bytes(tuned.read_bytes())
    assert model_target(targets, other) == ("onnxruntime", 2)


def test_weights_beside_the_graph_are_part_of_the_content(cache, tmp_path, targets):
    path = tmp_path / "outside.onnx"
    make_model(path, external="weights.bin")
    model_target(targets, path)  # which files belong to it is known after a build
    remember(path, measured("openvino", CORES))
    assert model_target(targets, path) == ("openvino", CORES)
    (tmp_path / "weights.bin").unlink()
    make_model(path, seed=9, external="weights.bin")
    assert model_target(targets, path) == ("", CORES)


def test_a_tuning_before_the_first_build_holds_after_it(cache, tmp_path, targets):
    """A build notes which files belong to the model, by which tunings are found."""
    path = tmp_path / "outside.onnx"
    make_model(path, external="weights.bin")
    spec = open_model(path, None, Target(), Settings())
    lowered(spec, Stages())
    spec.cache.keep_tuning(tuning(measured("openvino", CORES)))
    for _ in range(2):
        assert model_target(targets, path) == ("openvino", CORES)
        build(open_model(path, None, Target(), Settings())).executable.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(models, "identity", lambda: "another one"),
        lambda patch: patch.setattr(key, "code", lambda _: "another version of Pinnace"),
        lambda patch: patch.setattr(engines, "installed", lambda: {"onnxruntime": "1", "openvino": "2"}),
        lambda patch: patch.setattr("pinnace.cache.model.usable_core_count", lambda: CORES + 1),
    ],
    ids=["processor", "pinnace", "engine", "cores"],
)
def test_what_was_measured_elsewhere_does_not_count(tuned, targets, monkeypatch, change):
    change(monkeypatch)
    assert model_target(targets, tuned) == ("", CORES)
    with pinnace.Model() as model:
        model.build_from_file(str(tuned), pinnace.ModelType.ONNX)
        assert "run pinnace tune again" in model.get_model_info("why")


def sealed(body):
    return f"{key.digest(body.encode())}\n{body}"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "nonsense",
        "seal\n{}",
        sealed("{}"),
        sealed("[]"),
        sealed("null"),
        sealed(json.dumps({"model": "m", "shapes": [[1]], "when": 0, "measured": [{"provider": "x"}]})),
        sealed(json.dumps({"model": "m", "shapes": [1], "when": 0, "measured": []})),
    ],
)
def test_damaged_and_foreign_records_are_ignored(tuned, targets, cache, content):
    (record,) = (cache / "choices").iterdir()
    record.write_text(content)
    assert model_target(targets, tuned) == ("", CORES)
    remember(tuned, measured("openvino", CORES))
    assert model_target(targets, tuned) == ("openvino", CORES)


def test_a_changed_digit_is_noticed(tuned, targets, cache):
    (record,) = (cache / "choices").iterdir()
    record.write_text(record.read_text().replace("8", "9"))
    assert model_target(targets, tuned) == ("", CORES)


def test_without_a_cache_nothing_is_remembered(tuned, targets, cache, monkeypatch, product):
    monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    assert model_target(targets, tuned) == ("", CORES)
    assert remember(tuned, measured()) is False
    assert open_model(tuned, None, Target(), Settings()).cache.forget_tunings() == 0


def test_nothing_is_hashed_where_nothing_is_remembered(cache, product, targets, monkeypatch):
    path, _ = product
    monkeypatch.setattr(ModelCache, "content", property(lambda self: pytest.fail("hashed")))
    open_model(path, None, lambda tuning: Target(threads=1 if tuning is None else 2), Settings())
    assert targets[-1].threads == 1


def test_a_model_is_hashed_once(tuned, targets, monkeypatch):
    model_target(targets, tuned)
    hashed = []
    content_of = key.content_of
    monkeypatch.setattr(key, "content_of", lambda *of: hashed.append(of[0].name) or content_of(*of))
    model_target(targets, tuned)
    assert hashed == [str(tuned)]


def test_forgetting_concerns_one_model(tuned, targets, tmp_path):
    other = tmp_path / "other.onnx"
    make_model(other, seed=1)
    remember(other, measured("openvino", CORES))
    assert open_model(tuned, None, Target(), Settings()).cache.forget_tunings() == 1
    assert model_target(targets, tuned) == ("", CORES)
    assert model_target(targets, other) == ("openvino", CORES)


def test_a_folder_for_reading_only_is_no_error_for_builds(tuned, targets, cache):
    if not os.getuid():
        pytest.skip("root writes everywhere")
    (cache / "choices").chmod(0o500)
    assert model_target(targets, tuned) == ("onnxruntime", 2)


def test_a_new_tuning_replaces_what_it_has_measured_again():
    old = tuning(measured("onnxruntime"), measured("openvino"), measured("onnxruntime", workers=2))
    new = tuning(measured("openvino", latency=1))
    assert new.after(old).measured == (measured("onnxruntime", workers=2), measured("openvino", latency=1))
    assert new.after(None) == new


def test_of_other_shapes_the_last_tuning_is_remembered():
    old = tuning(measured("onnxruntime", workers=2), shapes=((1, 128),))
    new = tuning(measured("openvino"))
    assert new.after(old) == new


def test_what_was_measured_under_another_limit_is_forgotten():
    old = tuning(measured("onnxruntime", workers=2))
    new = replace(tuning(measured("openvino")), max_latency=5.0)
    assert new.after(old) == new
    assert len(new.after(replace(old, max_latency=5.0)).measured) == 2


def test_below_a_limit_defaults_that_missed_it_give_way():
    only = tuning(measured("onnxruntime", threads=1, workers=2))
    assert not only.compares(CORES, 1)
    assert replace(only, max_latency=5.0).compares(CORES, 1)


def test_a_tuning_without_figures_decides_nothing():
    assert tuning().best("", FP32, 0, 0) is None
    assert tuning(measured()).best("openvino", FP32, 1, 1) is None


def test_an_engine_that_takes_more_memory_has_to_be_clearly_faster():
    for by, wins in [(0.98, "onnxruntime"), (0.9, "openvino")]:
        found = tuning(measured(), measured("openvino", latency=10 * by, throughput=100 / by))
        assert found.best("", FP32, 1, 1).provider == wins
        assert found.best("", FP32, 1, 0).provider == wins


def test_forms_with_fewer_bits_are_for_builds_that_may_round_and_clearly_faster():
    for by, form in [(0.98, ""), (0.9, "text")]:
        found = tuning(measured(), replace(measured(latency=10 * by, throughput=100 / by), form="text"))
        assert found.best("", FP32, 1, 1, may_round=True).form == form
        assert found.best("", FP32, 1, 1).form == ""
        assert found.exact().best("", FP32, 1, 1, may_round=True).form == ""


def test_a_new_tuning_replaces_forms_too():
    old = tuning(measured(), replace(measured(precision=FP16), form="text"))
    assert tuning(measured(threads=2)).after(old).measured == (measured(), measured(threads=2))
