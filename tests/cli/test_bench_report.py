"""Output and plots of `pinnace bench` of measurements that are known."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np
import pytest

from pinnace.bench.arrivals import OpenLoad
from pinnace.bench.plot import Point
from pinnace.bench.throughput import Throughput
from pinnace.bench.timing import CallLatency, RunLimit
from pinnace.cli.bench_report import Accuracy, BenchReport, Build, Row, drawing, row_of, show
from pinnace.cli.settings import Case, Setting
from pinnace.engines.steps import Profile, Step
from pinnace.quantization.accuracy import Closeness

ALONE = CallLatency(12, 1.2345, 0.5, 9.9996, 10.0, 99.5, 100.04, 1000.5, 800.0)
SERVED = Throughput(4, 40, 123.45, 2.0, 3.0, 2.5, 1.5)
ARRIVED = OpenLoad(50.0, 30, 49.0, 1.0, 2.0, 3.0, 4.0, 1)


def report(*rows, **facts):
    made = BenchReport("dir/net.onnx", engine="onnxruntime 1", precision="float32", machine="a CPU", **facts)
    for row in rows:
        made.add(row)
    return made


def printed(measured, capsys):
    show(measured)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    return lines[lines.index("machine a CPU") + 1 :]


def test_rows_have_a_table_for_each_load_and_four_digits(capsys):
    case = Case(("x=1,3",), 2)
    rows = (
        Row(Setting(case, 0), ALONE, memory=1_500_000),
        Row(Setting(case, 2, 3, clients=4), SERVED, memory=25_000_000),
        Row(Setting(case, 0, 3, rate=50.0), ARRIVED, memory=250_000_000),
    )
    assert printed(report(*rows), capsys) == [
        "latency of one caller, ms",
        "threads runs mean min p50 p90 p95 p99 max per second memory MB",
        "automatic 12 1.234 0.500 10.000 10.00 99.50 100.0 1000.5 800.0 1.500",
        "throughput, and latency in ms",
        "workers x threads clients runs per second p50 p99 slowest client fastest client memory MB",
        "3 x 2 4 40 123.5 2.000 3.000 2.500 1.500 25.00",
        "requests that arrive at a rate, latency in ms",
        "workers x threads rate requests per second p50 p90 p99 max withdrawn memory MB",
        "3 x automatic 50 30 49.00 1.000 2.000 3.000 4.000 1 250.0",
    ]


def test_cases_have_a_column_if_there_are_several(capsys):
    rows = [Row(Setting(Case((), size), 1), ALONE) for size in (2, 5)]
    _, head, *cells = printed(report(*rows), capsys)
    assert head.startswith("case threads runs")
    assert [cell.split(" 12 ")[0] for cell in cells] == ["batch 2 1", "batch 5 1"]


def test_builds_and_accuracy_have_tables(capsys):
    outputs = [Closeness("y", 0.25, 0.5), Closeness("z", 0.75, 1.0)]
    builds = [Build("first", True, 5.0), Build("again", False, 0.5)]
    measured = report(accuracy=Accuracy(outputs, 0.5, None), builds=builds)
    assert printed(measured, capsys) == [
        "build, ms",
        "first compiled 5.000",
        "again loaded from the compile cache 0.500",
        "accuracy: passed",
        "output relative error cosine",
        "y 0.2500 % 0.5000000",
        "z 0.7500 % 1.0000000",
        "mean of all 0.5000 % 0.7500000",
    ]


@pytest.mark.parametrize(
    ("threshold", "cosine", "passed"),
    [(0.5, None, True), (0.49, None, False), (0.5, 0.75, True), (0.5, 0.76, False), (0.49, 0.75, False)],
)
def test_outputs_pass_up_to_each_threshold(threshold, cosine, passed):
    outputs = [Closeness("y", 0.25, 0.5), Closeness("z", 0.75, 1.0)]
    assert Accuracy(outputs, threshold, cosine).passed is passed


def test_a_profile_shows_calls_times_and_shares(capsys):
    runs = [[Step("a", "Conv", 0.0, 3000.0), Step("b", "Add", 3000.0, 1000.0)] for _ in range(2)]
    assert printed(report(profiled=Profile(runs)), capsys) == [
        "profile of 2 runs by operator, ms",
        "operator calls total of a run share",
        "Conv 2 6.000 3.0000 75.0%",
        "Add 2 2.000 1.0000 25.0%",
        "profile of 2 runs by node, ms, 2 of 2",
        "operator calls total of a run share node",
        "Conv 2 6.000 3.0000 75.0% a",
        "Add 2 2.000 1.0000 25.0% b",
    ]


def test_json_has_the_batch_only_where_one_was_asked_for():
    rows = [Row(Setting(Case(("x=1,3",), size), 2, 3), ALONE, memory=7).as_json() for size in (0, 5)]
    assert [row["batch"] for row in rows] == [None, 5]
    assert [row["case"] for row in rows] == ["x=1,3", "x=1,3, batch 5"]
    assert all(
        (row["threads"], row["workers"], row["memory"], row["p50"]) == (2, 3, 7, 9.9996) for row in rows
    )


def test_a_plot_has_a_point_for_each_load_and_a_line_for_clients():
    times = np.arange(3.0)
    place = Setting(Case(), 2, 3)
    rows = (
        Row(place, ALONE, times),
        Row(Setting(Case(), 2, 1, clients=4), SERVED),
        Row(Setting(Case(), 2, 3, clients=4), SERVED),
        Row(Setting(Case(), 2, 3, rate=50.0), ARRIVED),
    )
    drawn = drawing(report(*rows))
    assert (drawn.title, drawn.machine) == ("net.onnx on onnxruntime 1, float32", "a CPU")
    assert drawn.counted == "predictions"
    assert {name: list(found) for name, found in drawn.latencies.items()} == {"2 threads": [0, 1, 2]}
    assert drawn.throughputs == {"2 threads, 4 clients": [(1, 123.45), (3, 123.45)]}
    assert drawn.points == {
        "2 threads": [Point("1 worker, 4 clients", 123.45, 3.0), Point("3 workers, 4 clients", 123.45, 3.0)],
        "2 threads, at a rate": [Point("3 workers, at 50/s", 49.0, 3.0)],
    }


def test_a_plot_of_batches_counts_their_rows_and_one_load_is_no_curve():
    drawn = drawing(report(Row(Setting(Case((), 10), 1, 2, clients=4), SERVED)))
    assert drawn.counted == "rows"
    assert drawn.throughputs == {"batch 10, 1 thread, 4 clients": [(2, 1234.5)]}
    assert drawn.points == {}


def test_json_of_a_report_has_all_that_was_measured():
    place = Setting(Case(), 2, 3)
    runs = [[Step("a", "Conv", 0.0, 3000.0), Step("b", "Add", 3000.0, 1000.0)] for _ in range(2)]
    measured = report(
        Row(place, ALONE), Row(Setting(Case(), 2, 3, clients=4), SERVED),
        Row(Setting(Case(), 2, 3, rate=50.0), ARRIVED), inputs=[{"name": "x"}], profiled=Profile(runs),
        builds=[Build("first", True, 5.0)],
        accuracy=Accuracy([Closeness("y", float("inf"), float("nan"))], 0.5, 0.75),
    )  # fmt: skip
    found = measured.as_json()
    rows = [found.pop(name) for name in ("latency", "throughput", "arrivals")]
    assert [len(row) for row in rows] == [1, 1, 1]
    assert [row[0]["per_second"] for row in rows] == [800.0, 123.45, 49.0]
    profile = found.pop("profile")
    assert profile["runs"] == 2
    assert [one["name"] for one in profile["operators"]] == ["Conv", "Add"]
    assert [(one["name"], one["operator"], one["calls"]) for one in profile["nodes"]] == [
        ("a", "Conv", 2),
        ("b", "Add", 2),
    ]
    assert found == {
        "model": "dir/net.onnx", "inputs": [{"name": "x"}], "engine": "onnxruntime 1",
        "precision": "float32", "machine": "a CPU",
        "build": [{"name": "first", "compiled": True, "milliseconds": 5.0}],
        "accuracy": {
            "outputs": [{"name": "y", "relative_error": "inf", "cosine": "nan"}], "relative_error": "inf",
            "cosine": "nan", "threshold": 0.5, "cosine_threshold": 0.75, "passed": False,
        },
    }  # fmt: skip
    empty = report().as_json()
    assert (empty["accuracy"], empty["profile"], empty["latency"], empty["build"]) == (None, None, [], [])


def test_a_profile_shows_the_20_nodes_that_take_longest(capsys):
    steps = [Step(f"n{i}", "Add", 1e5 * i, 1000.0 * (30 - i)) for i in range(25)]
    lines = printed(report(profiled=Profile([steps])), capsys)
    assert "profile of 1 runs by node, ms, 20 of 25" in lines
    assert [line.split()[-1] for line in lines[-20:]] == [f"n{i}" for i in range(20)]


@pytest.mark.parametrize(
    ("load", "kind", "runs", "calls"),
    [({}, CallLatency, 4, 6), ({"clients": 3}, Throughput, 12, 18), ({"rate": 1e4}, OpenLoad, 4, 2)],
)
def test_a_setting_is_measured_after_its_warm_up(load, kind, runs, calls):
    made, called = [], []

    def client():
        made.append(1)
        return lambda: called.append(1)

    def submit():
        done = Future()
        done.set_result(None)
        return done

    row = row_of(Setting(Case(), 1, **load), client, submit, RunLimit(0.0, 2), RunLimit(1.0, 4))
    assert isinstance(row.figures, kind)
    assert getattr(row.figures, "requests", getattr(row.figures, "runs", None)) == runs
    assert (len(made), len(called)) == (load.get("clients", 1), calls)
    assert len(row.times) == (4 if kind is CallLatency else 0)
