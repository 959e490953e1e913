"""`pinnace bench` on small models: what it says and how it ends. How long anything took is not looked at."""

import json
import sys
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

from pinnace.machine import processor

QUICK = ("--runs", 4, "--warm-up", 1)
TIMES = {"mean", "min", "p50", "p90", "p95", "p99", "max"}
SETTING = {"case", "batch", "threads", "workers", "memory"}
X = np.array([[1, 2, 4]], np.float32)


@pytest.fixture
def twice(onnx_file):
    return onnx_file(["Add x x -> y"], ["x float ?,3"], ["y float ?,3"])


@pytest.fixture
def two(onnx_file):
    return onnx_file(["Neg x -> n", "Add x x -> y"], ["x float 1,3"], ["n float 1,3", "y float 1,3"])


def test_json_has_a_row_for_every_number_of_threads_and_workers(pinnace, twice):
    answer = pinnace("bench", twice, *QUICK, "--threads", "1,2", "--workers", "1,3", "--clients", 2, "--json")
    assert answer.code == 0, answer.err
    found = answer.json
    assert found.keys() == {
        "model", "inputs", "engine", "precision", "machine", "build", "accuracy", "latency", "throughput",
        "arrivals", "profile",
    }  # fmt: skip
    assert found["model"] == str(twice)
    assert found["engine"].split()[0] in ("onnxruntime", "openvino")
    assert [(one["name"], one["compiled"]) for one in found["build"]] == [("first", True), ("again", False)]
    assert [row["threads"] for row in found["latency"]] == [1, 2]
    assert all(row.keys() == {"runs", "per_second"} | TIMES | SETTING for row in found["latency"])
    assert all(row["runs"] == 4 for row in found["latency"])
    assert [(row["threads"], row["workers"]) for row in found["throughput"]] == [
        (1, 1),
        (1, 3),
        (2, 1),
        (2, 3),
    ]
    assert all((row["clients"], row["runs"]) == (2, 8) for row in found["throughput"])
    assert found["accuracy"] is None
    assert found["profile"] is None


def test_a_model_that_was_opened_before_is_loaded(pinnace, twice):
    pinnace("run", twice)
    found = pinnace("bench", twice, *QUICK, "--clients", 0, "--json").json
    assert [one["compiled"] for one in found["build"]] == [False, False]
    assert found["throughput"] == []


def test_without_a_compile_cache_every_build_compiles(pinnace, twice, monkeypatch):
    monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    found = pinnace("bench", twice, *QUICK, "--clients", 0, "--json").json
    assert [one["compiled"] for one in found["build"]] == [True, True]


def test_tables_go_to_stdout_and_notes_to_stderr(pinnace, twice):
    path = twice.parent / ("wide" * 30) / "model.onnx"  # wider than a terminal: its name stays in one line
    path.parent.mkdir()
    twice.rename(path)
    answer = pinnace("bench", path, *QUICK, "--workers", "1", "--shape", "2,3")
    assert answer.code == 0, answer.err
    assert "input x [2, 3] FLOAT32: no file" in answer.err
    lines = answer.out.splitlines()
    assert lines[0] == str(path)
    for title in ("build, ms", "latency of one caller, ms", "throughput, and latency in ms"):
        assert title in lines
    row = lines[lines.index("latency of one caller, ms") + 2].split()
    assert row[:2] == ["automatic", "4"]
    assert "accuracy" not in answer.out


@pytest.fixture
def branchy(onnx_file):
    """Nodes that onnxruntime can neither fuse nor leave out, more than a table shows."""
    names = [f"v{i}" for i in range(25)]
    nodes = ["Sin x -> v0", *(f"{'Cos' if i % 2 else 'Sin'} v{i - 1} -> v{i}" for i in range(1, 25))]
    return onnx_file(nodes, ["x float 1,3"], [f"{names[-1]} float 1,3"])


def test_a_profile_has_every_node_of_every_run_that_counts(pinnace, branchy):
    answer = pinnace(
        "bench", branchy, *QUICK, "--clients", 0, "--profile", "--json", "--provider", "onnxruntime"
    )
    assert answer.code == 0, answer.err
    found = answer.json["profile"]
    assert found["runs"] == 4
    assert {(one["name"], one["calls"]) for one in found["operators"]} == {("Sin", 4 * 13), ("Cos", 4 * 12)}
    assert [one["calls"] for one in found["nodes"]] == [4] * 25
    for sums in (found["operators"], found["nodes"]):
        assert sum(one["share"] for one in sums) == pytest.approx(1)
        assert sums == sorted(sums, key=lambda one: -one["total"])


def test_the_tables_of_a_profile_show_all_operators_and_the_first_nodes(pinnace, branchy):
    answer = pinnace(
        "bench", branchy, "--seconds", 0.01, "--clients", 0, "--profile", "--provider", "onnxruntime"
    )
    lines = answer.out.splitlines()
    operators = lines.index("profile of 20 runs by operator, ms")
    nodes = lines.index("profile of 20 runs by node, ms, 20 of 25")
    assert {line.split()[0] for line in lines[operators + 2 : nodes]} == {"Sin", "Cos"}
    assert len(lines) - nodes - 2 == 20


def test_a_trace_holds_all_nodes_of_all_runs_in_chromes_form(pinnace, branchy, tmp_path):
    path = tmp_path / "trace.json"
    answer = pinnace("bench", branchy, *QUICK, "--clients", 0, "--trace", path, "--provider", "onnxruntime")
    assert answer.code == 0, answer.err
    assert f"wrote {path}" in answer.err
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    assert len(events) == 4 * 25
    assert len({event["name"] for event in events}) == 25
    assert all(event.keys() >= {"name", "cat", "ts", "dur", "pid", "tid"} for event in events)
    begins = [event["ts"] for event in events]
    assert begins == sorted(begins)


def test_openvino_is_profiled_in_the_same_form(pinnace, onnx_file, tmp_path):
    pytest.importorskip("openvino")
    # OpenVINO tells whole microseconds: a product of this size takes some dozens
    model = onnx_file(["MatMul x x -> y"], ["x float 256,256"], ["y float 256,256"])
    path = tmp_path / "trace.json"
    options = ("--clients", 0, "--trace", path, "--json", "--provider", "openvino")
    answer = pinnace("bench", model, *QUICK, *options)
    assert answer.code == 0, answer.err
    assert answer.json["engine"].startswith("openvino")
    (product,) = (one for one in answer.json["profile"]["nodes"] if one["operator"] == "MatMul")
    assert product["calls"] == answer.json["profile"]["runs"] == 4
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "MatMul"]
    assert [event["args"]["run"] for event in events] == [0, 1, 2, 3]
    assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(events))


@pytest.fixture
def reference(tmp_path):
    def write(**outputs):
        np.savez(tmp_path / "reference.npz", **outputs)
        return tmp_path / "reference.npz"

    return write


def checked(pinnace, model, array_file, reference, *options):
    given = ("--input", array_file("x.npy", X), "--reference", reference)
    return pinnace("bench", model, *QUICK, "--clients", 0, *given, *options)


def test_outputs_that_are_right_pass(pinnace, two, array_file, reference):
    answer = checked(
        pinnace, two, array_file, reference(y=2 * X, n=-X), "--json", "--cosine-threshold", 0.999
    )
    assert answer.code == 0
    accuracy = answer.json["accuracy"]
    assert accuracy["passed"] is True
    assert (accuracy["relative_error"], accuracy["threshold"]) == (0, 0.5)
    assert accuracy["cosine"] == pytest.approx(1)
    assert {one["name"] for one in accuracy["outputs"]} == {"n", "y"}


def test_outputs_that_are_wrong_end_with_1_after_everything_is_shown(pinnace, two, array_file, reference):
    wrong = reference(y=2 * X / 1.02, n=-X)  # 2 percent off, and 0: 1 percent
    answer = checked(pinnace, two, array_file, wrong)
    assert answer.code == 1
    assert "accuracy: failed" in answer.out
    assert "latency of one caller" in answer.out
    assert "too far" in answer.err
    found = checked(pinnace, two, array_file, wrong, "--threshold", 1.1, "--json")
    assert found.code == 0
    by_name = {one["name"]: one for one in found.json["accuracy"]["outputs"]}
    assert by_name["y"]["relative_error"] == pytest.approx(2, rel=1e-4)  # float32 of 1 / 1.02
    assert by_name["y"]["cosine"] == pytest.approx(1)
    assert by_name["n"]["relative_error"] == 0
    assert found.json["accuracy"]["relative_error"] == pytest.approx(1, rel=1e-4)


def test_the_cosine_has_a_threshold_of_its_own(pinnace, twice, array_file, reference):
    turned = reference(y=np.array([[4, 2, 1]], np.float32))  # cosine (4 + 4 + 4) / 21
    options = ("--threshold", 1e6, "--json", "--cosine-threshold")
    answer = checked(pinnace, twice, array_file, turned, *options, 0.58)
    assert answer.code == 1
    assert answer.json["accuracy"]["cosine"] == pytest.approx(12 / 21)
    assert checked(pinnace, twice, array_file, turned, *options, 0.57).code == 0


def test_outputs_are_compared_with_what_mindspore_computed(pinnace, data, array_file):
    expected = np.load(data / "efficientnet_lite0_expected.npz")
    model = files("pinnace") / "data" / "efficientnet_lite0.mindir"
    given = ("--input", array_file("chelsea.npy", expected["chelsea_input"]))
    right = array_file("right.npy", expected["chelsea_mindspore"][np.newaxis])
    wrong = array_file("wrong.npy", expected["coffee_mindspore"][np.newaxis])
    options = ("--runs", 1, "--clients", 0, "--cosine-threshold", 0.999, "--json")
    passed = pinnace("bench", model, *given, "--reference", right, *options)
    assert passed.code == 0, passed.err  # at most 0.5 percent, as that tool has it
    failed = pinnace("bench", model, *given, "--reference", wrong, *options)
    assert failed.code == 1
    assert failed.json["accuracy"]["cosine"] < 0.5  # another picture, other probabilities


def test_a_reference_in_the_form_of_mindspore_lites_benchmark_tool(pinnace, two, array_file, tmp_path):
    path = tmp_path / "expected.out"
    path.write_text("n 2 1 3\n-1 -2 -4\ny 2 1 3\n2 4 8\n")
    answer = checked(pinnace, two, array_file, path, "--json")
    assert (answer.code, answer.json["accuracy"]["relative_error"]) == (0, 0)


def test_json_stays_json_where_an_output_is_not_finite(pinnace, onnx_file, array_file, reference):
    model = onnx_file(["Log x -> y"], ["x float 1,3"], ["y float 1,3"])
    given = ("--input", array_file("x.npy", -X), "--reference", reference(y=X), "--json")
    answer = pinnace("bench", model, *QUICK, "--clients", 0, *given)
    assert answer.code == 1
    accuracy = json.loads(answer.out, parse_constant=pytest.fail)["accuracy"]
    assert (accuracy["relative_error"], accuracy["cosine"]) == ("inf", "nan")


def test_a_reference_that_does_not_fit_is_an_error(pinnace, two, array_file, reference, tmp_path):
    for wrong, message in (
        (tmp_path / "missing.npz", "missing.npz: cannot be read"),
        (reference(a=X), "use the same names"),
    ):
        answer = checked(pinnace, two, array_file, wrong)
        assert (answer.code, answer.out) == (1, "")
        assert message in answer.err
    answer = checked(pinnace, two, array_file, reference(y=X[0]))
    assert "output 'y' has shape [1, 3], and its reference [3]" in answer.err


@pytest.mark.parametrize(
    "options",
    [
        ("--threads", "one"),
        ("--threads", "-1"),
        ("--workers", "0,1"),
        ("--workers", "1,,2"),
        ("--clients", "-1"),
        ("--batch", "0"),
        ("--rate", "0"),
        ("--rate", "nan"),
        ("--rate", "fast"),
        ("--runs", "0"),
        ("--seconds", "0"),
        ("--provider", "tensorflow"),
        ("--precision", "fp8"),
        ("--cosine-threshold", "2"),
    ],
)
def test_options_that_cannot_be_are_wrong_use(pinnace, twice, options):
    answer = pinnace("bench", twice, *options)
    assert (answer.code, answer.out) == (2, "")
    assert options[0] in answer.err


def test_a_missing_model_is_one_message(pinnace, tmp_path):
    answer = pinnace("bench", tmp_path / "none.onnx")
    assert (answer.code, answer.out) == (1, "")
    assert "none.onnx" in answer.err


@pytest.mark.parametrize(("name", "mark"), [("p.svg", b"<?xml"), ("p.png", b"\x89PNG")])
def test_a_plot_is_drawn(pinnace, twice, tmp_path, name, mark):
    pytest.importorskip("matplotlib")
    options = ("--threads", 1, "--workers", 1, "--clients", 2, "--batch", "1,2")
    answer = pinnace("bench", twice, *QUICK, *options, "--plot", tmp_path / name)
    assert answer.code == 0, answer.err
    drawn = (tmp_path / name).read_bytes()
    assert drawn.startswith(mark)


def test_a_plot_says_what_was_measured_where(pinnace, twice, tmp_path, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure")
    drawn = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, path, format: drawn.append(self))
    options = ("--threads", 1, "--workers", "1,2", "--clients", 2, "--rate", 1000)
    assert pinnace("bench", twice, *QUICK, *options, "--plot", tmp_path / "p.svg").code == 0
    title = drawn[0].get_suptitle()
    assert "model.onnx on o" in title  # onnxruntime or openvino
    assert processor.name() in title
    latencies, throughputs, curve = drawn[0].axes
    assert [line.get_linestyle() for line in latencies.lines] == ["-", "--"]  # p50, p99
    assert [list(line.get_xdata()) for line in throughputs.lines] == [[1, 2]]
    assert [len(points.get_offsets()) for points in curve.collections] == [2, 2]  # of clients, at a rate


def test_a_plot_of_a_model_with_dollars_in_its_name(pinnace, twice, tmp_path):
    pytest.importorskip("matplotlib")
    model = twice.rename(tmp_path / "a$\\x$.onnx")
    answer = pinnace("bench", model, *QUICK, "--clients", 0, "--plot", tmp_path / "p.png")
    assert answer.code == 0, answer.err


@pytest.mark.parametrize("option", ["--plot", "--trace"])
def test_a_file_that_cannot_be_written_is_said_before_anything_is_measured(pinnace, twice, tmp_path, option):
    answer = pinnace("bench", twice, option, tmp_path / "no" / "file.svg")
    assert (answer.code, answer.out) == (1, "")
    assert f"file.svg cannot be written: there is no folder {tmp_path / 'no'}" in answer.err
    (tmp_path / "folder.svg").mkdir()
    answer = pinnace("bench", twice, option, tmp_path / "folder.svg")
    assert (answer.code, answer.out) == (1, "")
    assert "it is a folder" in answer.err


def test_clients_shapes_and_batches_are_swept(pinnace, twice):
    shapes = ("--shape", "x=1,3", "--batch", "2,5")
    options = ("--threads", 1, "--workers", 1, "--clients", "1,3", *shapes, "--json")
    found = pinnace("bench", twice, *QUICK, *options).json
    assert [(row["case"], row["batch"]) for row in found["latency"]] == [
        ("x=1,3, batch 2", 2),
        ("x=1,3, batch 5", 5),
    ]
    assert [(row["batch"], row["clients"]) for row in found["throughput"]] == [(2, 1), (2, 3), (5, 1), (5, 3)]
    assert found["inputs"][0]["shape"] == [2, 3]
    assert all(row["memory"] >= 0 for row in found["throughput"])


def test_shapes_are_taken_in_turn(pinnace, onnx_file):
    model = onnx_file(["Add a b -> y"], ["a float n,3", "b float n,3"], ["y float n,3"])
    one, other = ("--shape", "a=2,3", "--shape", "a=4,3"), ("--shape", "b=2,3", "--shape", "b=4,3")
    answer = pinnace("bench", model, *QUICK, "--clients", 0, *one, *other)
    assert answer.code == 0, answer.err
    rows = [line.split("  ")[1] for line in answer.out.splitlines() if line.startswith("  a=")]
    assert rows == ["a=2,3, b=2,3", "a=4,3, b=4,3"]
    answer = pinnace("bench", model, *QUICK, *one, "--shape", "b=2,3")  # 4 rows and 2 cannot be added
    assert (answer.code, answer.out) == (1, "")
    answer = pinnace("bench", model, *QUICK, *one, *other, "--shape", "b=1,3")
    assert answer.code == 2
    assert "give each input one shape or 3" in " ".join(answer.err.split())


def test_a_batch_needs_a_free_dimension(pinnace, two):
    answer = pinnace("bench", two, "--batch", 2)
    assert (answer.code, answer.out) == (1, "")
    assert "--batch 2: no input has a free first dimension" in answer.err


def test_requests_arrive_at_a_rate(pinnace, twice):
    options = ("--clients", 0, "--threads", 1, "--workers", "1,2", "--rate", "500,1000", "--json")
    found = pinnace("bench", twice, *QUICK, *options).json
    assert found["throughput"] == []
    rows = found["arrivals"]
    assert [(row["workers"], row["rate"]) for row in rows] == [(1, 500), (1, 1000), (2, 500), (2, 1000)]
    assert all((row["requests"], row["withdrawn"]) == (4, 0) for row in rows)
    assert "requests that arrive at a rate" in pinnace("bench", twice, *QUICK, *options[:-1]).out


def test_a_plot_that_cannot_be_drawn_is_said_before_anything_is_measured(
    pinnace, twice, tmp_path, monkeypatch
):
    answer = pinnace("bench", twice, "--plot", tmp_path / "p.bmp")
    assert (answer.code, answer.out) == (1, "")
    assert ".svg or .png" in answer.err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    answer = pinnace("bench", twice, "--plot", tmp_path / "p.svg")
    assert (answer.code, answer.out) == (1, "")
    assert "pip install matplotlib" in answer.err


def test_a_trace_or_plot_does_not_replace_what_is_read(pinnace, two, array_file, tmp_path):
    given = array_file("a.npy", np.zeros((2, 3), np.float32))
    for kept, flags in ((two, ()), (given, ("--input", f"a={given}"))):
        before = kept.read_bytes()
        answer = pinnace("bench", two, *flags, "--trace", kept, "--seconds", 0.01, "--clients", 0)
        assert answer.code == 1
        assert "it is read for this" in answer.err
        assert kept.read_bytes() == before
