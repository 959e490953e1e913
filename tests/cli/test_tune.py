"""`pinnace tune`: two engines whose speed is known, one 20 times as slow, by a clock of the tests."""

import re
import warnings

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import pinnace as mslite
from pinnace import engines
from pinnace.bench import tuning
from pinnace.building.build import build_model as build
from pinnace.engines.onnxruntime.engine import Onnxruntime
from pinnace.engines.protocol import HERE
from pinnace.errors import (
    ArgumentValueError,
    EngineError,
    LackingKernelsError,
    PinnaceWarning,
    UnsupportedPrimitive,
    warn,
)
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.quantization.scheme import QuantizationScheme

SLOW, FAST = 0.02, 0.001  # seconds of a prediction
FP32, FP16 = "enforce_fp32", "preferred_fp16"


class Clock:
    """Seconds that predictions have taken, and what is measured by them: clients that hinder nobody."""

    now = 0.0

    def served(self, calls, limit):
        return [self._client(call, limit.runs or 3) for call in calls]

    def _client(self, call, runs):
        times = [self.now]
        for _ in range(runs):
            call()
            times.append(self.now)
        starts_at_0 = np.rint(1e9 * (np.array(times) - times[0])).astype(np.int64)
        return np.stack([starts_at_0[:-1], starts_at_0[1:]], axis=1)

    def milliseconds(self, run):
        start = self.now
        run()
        return 1e3 * (self.now - start)


CLOCK = Clock()


class Running:
    """A place to run that takes its time, and is wrong by a factor."""

    def __init__(self, execution, seconds, error):
        self.execution, self.seconds, self.error, self.state = execution, seconds, error, []

    def run(self, arrays, outputs=None):
        CLOCK.now += self.seconds
        results = [np.asarray(a * (1 + self.error), a.dtype) for a in self.execution.run(arrays)]
        if outputs is None:
            return results
        for output, result in zip(outputs, results, strict=True):
            np.copyto(output, result)
        return list(outputs)


class Built:
    takes_device_memory = writes_free = queues = is_light = False
    runs_in = HERE
    lost_by_fork = ""

    def __init__(self, executable, engine, error, seconds):
        self.executable, self.engine, self.error, self.seconds = executable, engine, error, seconds
        self.inputs, self.outputs = executable.inputs, executable.outputs
        self.info = {"engine": engine.name, "precision": "float32"}
        self.close = executable.close

    def execution(self, state=None):
        return Running(self.executable.execution(state), self.seconds, self.error)


class Fake(Onnxruntime):
    """onnxruntime under a name, with a speed, an error for each precision, or a reason to refuse.

    Forms with fewer bits take `of_forms` seconds.
    """

    of_forms = SLOW

    def __init__(self, name, seconds, errors=None, refuses=None):
        self.name, self.seconds, self.errors, self.refuses = f"{name} 1.0", seconds, errors or {}, refuses

    def build(self, graph, target):
        return self._built(super().build(graph, target), target)

    def load(self, compiled, source, target, folder):
        return self._built(super().load(compiled, source, target, folder), target)

    def _built(self, executable, target):
        if self.refuses:
            raise self.refuses
        seconds = self.of_forms if target.form else self.seconds
        return Built(executable, self, self.errors.get(target.precision, 0.0), seconds)


@pytest.fixture
def fakes(monkeypatch, tmp_path):
    """Engines by provider; on 2 cores, with a cache of their own."""
    made = {"onnxruntime": Fake("onnxruntime", SLOW), "openvino": Fake("openvino", FAST)}
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tuning, "served", CLOCK.served)
    monkeypatch.setattr("pinnace.bench.mixed_precision._milliseconds", CLOCK.milliseconds)
    monkeypatch.setattr(engines, "choose", lambda target, *_: made[target.provider or "onnxruntime"])
    monkeypatch.setattr(engines, "installed", lambda: dict.fromkeys(made, "1.0"))
    for module in ("cache.model", "building.planning", "api.runner", "machine.cores"):
        monkeypatch.setattr(f"pinnace.{module}.usable_core_count", lambda: 2)
    return made


@pytest.fixture
def model(onnx_file):
    return onnx_file(["Add x x -> y"], ["x float ?,3"], ["y float ?,3"])


def engine(model):
    """What a build that leaves it open runs by."""
    executable = build(model, None, Target(threads=1), Settings())
    executable.close()
    return executable.info["engine"].split()[0]


def place(row):
    return row["provider"], row["threads"], row["workers"]


def test_the_fastest_wins_everywhere_and_is_remembered(pinnace, fakes, model):
    assert engine(model) == "onnxruntime"
    answer = pinnace("tune", model, "--seconds", 0, "--shape", "2,3", "--json")
    assert answer.code == 0, answer.err
    found = answer.json
    assert found.keys() == {"model", "shapes", "ways", "remembered"}
    assert (found["model"], found["shapes"], found["remembered"]) == (str(model), [[2, 3]], True)
    # as many threads and workers as there are cores, and one
    assert list(map(place, found["ways"])) == [
        (provider, threads, workers)
        for threads, workers in [(1, 1), (2, 1), (1, 2)]
        for provider in ("onnxruntime", "openvino")
    ]
    wins = {place(row): row["wins"] for row in found["ways"]}
    assert all(won == [] for (provider, *_), won in wins.items() if provider == "onnxruntime")
    # the clock gives workers more predictions, and threads none
    assert wins["openvino", 1, 1] == ["for latency"]
    assert wins["openvino", 2, 1] == []
    assert wins["openvino", 1, 2] == ["for throughput"]
    for row in found["ways"]:
        assert row["latency"] == pytest.approx(1000 * (FAST if row["provider"] == "openvino" else SLOW))
        assert row["deviation"] == 0
        assert row["computes_in"] == "float32"
    assert f"pinnace tune --forget {model} deletes it" in answer.err
    assert engine(model) == "openvino"


def test_warnings_of_libraries_are_not_told_as_ours(pinnace, fakes, model, monkeypatch):
    built = Fake._built

    def warns(self, *arguments):
        warnings.warn("something of a library", ImportWarning, stacklevel=1)  # which Python ignores
        warn("something of ours")
        return built(self, *arguments)

    monkeypatch.setattr(Fake, "_built", warns)
    answer = pinnace("tune", model, "--seconds", 0, "--threads", 1, "--workers", 1)
    assert "pinnace: something of ours" in answer.err
    assert "library" not in answer.err


def test_forgetting_and_clearing_take_it_back(pinnace, fakes, model):
    pinnace("tune", model, "--seconds", 0)
    assert engine(model) == "openvino"
    answer = pinnace("tune", "--forget", model)
    assert (answer.code, answer.out) == (0, f"{model}: 1 tuning(s) forgotten\n")
    assert engine(model) == "onnxruntime"
    assert pinnace("tune", "--forget", model).out == f"{model}: 0 tuning(s) forgotten\n"
    pinnace("tune", model, "--seconds", 0)
    assert engine(model) == "openvino"
    assert str(model) in pinnace("cache", "list").out.partition("tuned")[2]
    pinnace("cache", "clear")
    assert engine(model) == "onnxruntime"
    assert "tuned" not in pinnace("cache", "list").out


def test_what_is_fast_and_wrong_is_not_chosen(pinnace, fakes, model):
    fakes["openvino"].errors = {FP32: 1e-3}
    answer = pinnace("tune", model, "--seconds", 0, "--threads", 1, "--workers", 1)
    assert "deviates by more than 0.0001" in answer.out
    assert engine(model) == "onnxruntime"
    pinnace("tune", model, "--seconds", 0, "--threads", 1, "--workers", 1, "--error", 0.01)
    assert engine(model) == "openvino"


def test_precisions_that_are_allowed_compete_among_themselves(pinnace, fakes, model):
    fakes["onnxruntime"].errors = {FP16: 1e-2}
    fakes["openvino"].errors = {FP32: 1e-3, FP16: 1e-2}
    options = ("--seconds", 0, "--threads", 1, "--workers", 1, "--json")
    found = pinnace("tune", model, *options, "--precision", f"{FP32},{FP16}").json
    assert [(row["precision"], row["provider"], row["reason"]) for row in found["ways"]] == [
        (FP32, "onnxruntime", ""),
        (FP32, "openvino", "deviates by more than 0.0001"),
        (FP16, "onnxruntime", ""),
        (FP16, "openvino", ""),
    ]
    # of one call in float32: 1 + error is rounded
    assert [row["deviation"] for row in found["ways"]] == pytest.approx([0, 1e-3, 1e-2, 1e-2], rel=1e-4)
    assert engine(model) == "onnxruntime"
    half = build(model, None, Target(threads=1, precision=FP16), Settings())
    half.close()
    assert half.info["engine"] == "openvino 1.0"


def test_sixteen_bits_only_where_they_are_asked_for(pinnace, fakes, model):
    found = pinnace("tune", model, "--seconds", 0, "--json").json
    assert {row["precision"] for row in found["ways"]} == {FP32}


def test_an_engine_that_lacks_an_operator_is_shown_with_its_name(pinnace, fakes, model):
    lacks = UnsupportedPrimitive("Add", 1, "n", "the engine has none")
    fakes["openvino"].refuses = LackingKernelsError("m", [lacks])
    answer = pinnace("tune", model, "--seconds", 0, "--threads", 1, "--workers", 1)
    assert answer.code == 0, answer.err
    (row,) = [line for line in answer.out.splitlines() if " openvino " in line]
    assert "openvino 1.0 lacks Add" in row
    assert engine(model) == "onnxruntime"


def test_an_engine_that_fails_is_shown_with_the_reason(pinnace, fakes, model):
    fakes["openvino"].refuses = ArgumentValueError("it does not like this")
    found = pinnace("tune", model, "--seconds", 0, "--threads", 1, "--workers", 1, "--json").json
    assert [row["reason"] for row in found["ways"]] == ["", "it does not like this"]
    assert engine(model) == "onnxruntime"


def test_without_a_cache_it_is_shown_and_not_remembered(pinnace, fakes, model, monkeypatch):
    monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    answer = pinnace("tune", model, "--seconds", 0)
    assert "for latency" in answer.out
    assert "nothing is stored: the compile cache is off" in answer.err
    assert engine(model) == "onnxruntime"


def test_nothing_that_fits_is_nothing_to_remember(pinnace, fakes, model):
    fakes["openvino"].errors = {FP16: np.inf}
    fakes["onnxruntime"].errors = {FP16: 1.0}
    answer = pinnace("tune", model, "--seconds", 0, "--precision", FP16, "--json")
    assert answer.json["remembered"] is False
    assert {row["deviation"] for row in answer.json["ways"]} == {1.0, "inf"}
    assert "nothing fits" in answer.err


def test_a_runner_takes_threads_and_workers_from_it(pinnace, fakes, model):
    pinnace("tune", model, "--seconds", 0)
    answer = pinnace("bench", model, "--runs", 1, "--clients", 0, "--json")
    assert answer.json["engine"] == "openvino 1.0"


def test_the_engines_that_are_here(pinnace, onnx_file, monkeypatch, tmp_path):
    model = onnx_file(["Add x x -> y"], ["x float 2,3"], ["y float 2,3"])
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "cache"))
    answer = pinnace("tune", model, "--seconds", 0, "--threads", 1, "--workers", 1, "--json")
    assert answer.code == 0, answer.err
    assert [row["provider"] for row in answer.json["ways"]] == list(engines.installed())
    # 2 x is exact
    assert [(row["deviation"], row["reason"]) for row in answer.json["ways"]] == [(0, "")] * len(
        engines.installed()
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--threads", "0"), "at least 1"),
        (("--workers", "x"), "expected whole numbers"),
        (("--precision", "int8"), "choose from enforce_fp32, preferred_fp16"),
        (("--threads", "2", "--workers", "2"), "more than the 2 cores"),
    ],
)
def test_what_makes_no_sense_is_refused(pinnace, fakes, model, options, message):
    answer = pinnace("tune", model, *options)
    assert answer.code == 2
    assert message in " ".join(answer.err.split())


def test_a_file_that_is_not_there(pinnace, fakes, tmp_path):
    answer = pinnace("tune", tmp_path / "none.onnx")
    assert answer.code == 1
    assert "there is no such file" in answer.err
    assert pinnace("tune", "--forget", tmp_path / "none.onnx").code == 1


def test_an_engine_that_fails_leaves_the_model_to_onnxruntime(pinnace, fakes, model):
    pinnace("tune", model, "--seconds", 0, "--threads", 1, "--workers", 1)
    assert engine(model) == "openvino"
    fakes["openvino"].refuses = EngineError("it does not like this")
    with pytest.warns(PinnaceWarning, match=r"it does not like this; onnxruntime \S+ runs the model"):
        assert engine(model) == "onnxruntime"
    with pytest.warns(PinnaceWarning, match=r"it does not like this; onnxruntime \S+ runs the model"):
        build(model, None, Target(threads=1, provider="openvino"), Settings())


def test_forgetting_in_json(pinnace, fakes, model):
    pinnace("tune", model, "--seconds", 0)
    assert pinnace("tune", "--forget", model, "--json").json == {"model": str(model), "forgotten": 1}


def test_the_highest_throughput_below_a_latency_is_chosen(pinnace, fakes, model):
    """On a worker the fast engine takes 1 ms, with two of them a request waits for another."""
    options = ("--seconds", 0, "--threads", 1, "--workers", "1,2")
    assert engine(model) == "onnxruntime"
    limit = 1000 * SLOW - 1  # below each prediction of the slow engine
    found = pinnace("tune", model, *options, "--max-latency", limit, "--json").json
    assert {row["reason"] for row in found["ways"] if row["provider"] == "onnxruntime"} == {
        f"its p99 is above {limit:g} ms"
    }
    fits = [row for row in found["ways"] if not row["reason"]]
    assert all(0 < row["latency"] <= row["p99"] <= limit and row["memory"] >= 0 for row in fits)
    assert engine(model) == "openvino"


def test_no_setting_below_the_latency_is_nothing_to_remember(pinnace, fakes, model):
    answer = pinnace("tune", model, "--seconds", 0, "--threads", 1, "--workers", 1, "--max-latency", 0)
    assert answer.code == 0, answer.err
    assert "its p99 is above 0 ms" in answer.out
    assert "nothing is stored: nothing fits" in answer.err


@pytest.fixture
def product(tmp_path):
    """Rows by a matrix, whose 8 bits show."""
    weight = np.random.default_rng(2).normal(size=(64, 32)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 64])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 32])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "p.onnx",
    )
    return tmp_path / "p.onnx"


ONE = ("--threads", 1, "--workers", 1, "--seconds", 20)


def form_of(path, **options):
    context = mslite.Context()
    context.target = ["cpu"]
    context.cpu.thread_num = 1
    for name, value in options.items():
        setattr(context.cpu, name, value)
    with mslite.Model() as opened:
        opened.build_from_file(str(path), mslite.ModelType.ONNX, context)
        return opened.get_model_info("form")


def test_fewer_bits_within_an_error_are_used_until_they_are_forgotten(pinnace, fakes, product):
    fakes["openvino"].seconds = SLOW
    fakes["onnxruntime"].of_forms = FAST
    found = pinnace("tune", product, "--max-error", 0.03, "--made-up", *ONE, "--json").json
    forms = {row["form"]: row for row in found["forms"]}
    assert forms
    assert not any("4 bits" in form for form in forms)  # whose error is about 0.1
    assert all(0 < row["error"] <= 0.03 and row["cosine"] > 0.999 for row in forms.values())
    assert all(0 <= row["same_top"] <= 1 for row in forms.values())
    (wins,) = [row["form"] for row in found["ways"] if row["wins"] and row["form"]]
    assert form_of(product) == wins
    precision = f"{wins}, float32"
    with mslite.Model() as opened:
        opened.build_from_file(str(product), mslite.ModelType.ONNX)
        assert opened.get_model_info("precision") == precision
        assert f"onnxruntime 1.0, {precision}: 'x'" in repr(opened)
    assert form_of(product, precision_mode=FP16) == wins
    assert form_of(product, precision_mode=FP32) == ""  # who sets it gets it
    assert "1 tuning(s) forgotten" in pinnace("tune", "--forget", product).out
    assert form_of(product) == ""


class Mixing(Fake):
    """An engine that takes as long as the form of each operator does."""

    def _built(self, executable, target):
        built = super()._built(executable, target)
        if target.form:
            form = QuantizationScheme.of(target.form)
            share, rest = {"held8": 0.3, "weights16": 0.6}, 0.6 if form.rest else 1.0
            built.seconds = SLOW * (form.share * share.get(form.method, 2.0) + (1 - form.share) * rest)
        return built


def test_operators_that_err_too_much_in_8_bits_get_16(pinnace, fakes, tmp_path):
    fakes["openvino"] = Mixing("openvino", SLOW)
    random = np.random.default_rng(2)
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(6)]
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 64]) for name in ("x0", "x6")]
    weights = [random.normal(size=(64, 64)).astype(np.float32) for _ in nodes]
    held = [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], held)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "six.onnx")
    found = pinnace("tune", tmp_path / "six.onnx", "--max-error", 0.01, "--made-up", *ONE, "--json").json
    (wins,) = [row["form"] for row in found["ways"] if row["wins"] and row["form"]]
    assert re.fullmatch(r"weights of 8 bits, \d+% of the operators, else weights of 16 bits", wins)


def test_no_form_is_within_an_error_of_nothing(pinnace, fakes, product):
    fakes["openvino"].seconds = SLOW
    fakes["onnxruntime"].of_forms = FAST
    answer = pinnace("tune", product, "--max-error", 1e-9, *ONE)
    assert answer.code == 0, answer.err
    assert "no form with fewer bits is faster within an error of 1e-09" in answer.err
    assert form_of(product) == ""


def test_inputs_of_a_folder_calibrate_and_are_compared(pinnace, fakes, product, tmp_path):
    fakes["openvino"].seconds = SLOW
    fakes["onnxruntime"].of_forms = FAST
    (tmp_path / "data").mkdir()
    for number in range(3):
        rows = np.random.default_rng(number).normal(size=(2, 64)).astype(np.float32)
        np.save(tmp_path / "data" / f"{number}.npy", rows)
    answer = pinnace("tune", product, "--max-error", 0.03, "--data", tmp_path / "data", *ONE)
    assert answer.code == 0, answer.err
    assert "calibrating with 3 input(s)" in answer.err
    assert "relative error" in answer.out
    (tmp_path / "none").mkdir()
    answer = pinnace("tune", product, "--max-error", 0.03, "--data", tmp_path / "none", *ONE)
    assert (answer.code, "there are no files" in answer.err) == (1, True)


def test_made_up_inputs_store_no_form_with_fewer_bits(pinnace, fakes, product, array_file):
    fakes["openvino"].seconds = SLOW
    fakes["onnxruntime"].of_forms = FAST
    answer = pinnace("tune", product, "--max-error", 0.03, *ONE)
    assert answer.code == 0, answer.err
    last = answer.err.splitlines()[-1]
    assert "pinnace: no form with fewer bits is stored, because inputs are made up" in answer.err
    assert "; no form with fewer bits is stored" in last
    assert "inputs are made up" in answer.out  # beside the forms, which are measured
    assert "; stored for builds" in last
    assert form_of(product) == ""
    x = array_file("x.npy", np.random.default_rng(1).normal(size=(2, 64)).astype(np.float32))
    answer = pinnace("tune", product, "--input", x, "--max-error", 0.03, *ONE)
    assert "made up" not in answer.out + answer.err
    assert "8 bits" in form_of(product)


def test_the_last_line_says_what_was_chosen_what_it_gains_and_that_it_is_stored(pinnace, fakes, model):
    last = pinnace("tune", model, "--seconds", 0).err.splitlines()[-1]
    assert last == (
        "chosen for latency: openvino, enforce_fp32, 1 x 1 (workers x threads), 1 ms, "
        "where onnxruntime in fp32 takes 20; "
        "for throughput: openvino, enforce_fp32, 2 x 1 (workers x threads), 4000/s, "
        "where onnxruntime in fp32 has 200; "
        f"stored for builds that leave this open (pinnace tune --forget {model} deletes it)"
    )


def test_ctrl_c_shows_the_turns_until_then(pinnace, fakes, model, monkeypatch):
    turns = iter(range(10))

    def served(calls, limit):
        if next(turns, None) is None:
            raise KeyboardInterrupt
        return CLOCK.served(calls, limit)

    monkeypatch.setattr(tuning, "served", served)
    answer = pinnace("tune", model, "--seconds", 0)
    assert re.findall(r"\d x \d .* (onnxruntime|openvino) ", answer.out) == ["onnxruntime", "openvino"]
    assert answer.err.splitlines()[-1].startswith("chosen for latency: openvino, enforce_fp32, 1 x 1")


def test_ctrl_c_shows_what_was_measured_and_stores_nothing(pinnace, fakes, model, monkeypatch):
    def served(calls, limit):
        if len(calls) > 1:  # several workers come last
            raise KeyboardInterrupt
        return CLOCK.served(calls, limit)

    monkeypatch.setattr(tuning, "served", served)
    answer = pinnace("tune", model, "--seconds", 0)
    assert answer.code == 130
    assert "1 x 1" in answer.out
    assert "2 x 1" not in answer.out
    last = answer.err.splitlines()[-1]
    assert last.startswith("chosen for latency: openvino")
    assert last.endswith("; nothing is stored: interrupted")
    assert engine(model) == "onnxruntime"


def test_a_full_disk_costs_no_figures(pinnace, fakes, model, monkeypatch):
    def keep(self, tuning):
        raise OSError(28, "no space left on device", "/cache")

    monkeypatch.setattr("pinnace.cache.model.ModelCache.keep_tuning", keep)
    answer = pinnace("tune", model, "--seconds", 0)
    assert "for latency" in answer.out
    assert answer.err.endswith("; nothing is stored: /cache: no space left on device\n")


def test_data_is_for_an_error(pinnace, product, tmp_path):
    answer = pinnace("tune", product, "--data", tmp_path)
    assert answer.code == 2
    assert "--data is for --max-error" in " ".join(answer.err.split())


def test_one_tuning_of_many_shapes(pinnace, fakes, model):
    arguments = ("tune", model, "--seconds", 0, "--threads", 1, "--workers", 1)
    found = pinnace(*arguments, "--shape", "1..3,3", "--shape", "8,3", "--json").json
    assert found["shapes"] == [[1, 3], [2, 3], [3, 3], [8, 3]]
    assert [row["wins"] for row in found["ways"]] == [[], ["for latency", "for throughput"]]
    assert engine(model) == "openvino"
    assert "the range 4..3 has no sizes" in pinnace(*arguments, "--shape", "4..3,3").err
