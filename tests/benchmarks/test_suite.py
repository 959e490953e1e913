"""The benchmark suite: its arithmetic on made-up figures, and one run with the smallest network."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the benchmarks are no part of the package

from benchmarks.suite import figures  # noqa: E402
from benchmarks.suite.material import apart  # noqa: E402
from benchmarks.suite.report import report  # noqa: E402
from benchmarks.suite.turns import Record  # noqa: E402


def record(contestant, *seconds, section="latency", threads=1, precision="fp32"):
    facts = {"precision": precision, "difference": 1e-6, "version": "1"}
    rounds = [{"seconds": value} for value in seconds]
    return Record(section, "net", {"threads": threads}, contestant, rounds, facts)


def crowd(contestant, rate, p99, alone=0.01, spread=1.0, section="throughput"):
    answer = {"rate": rate, "alone": alone, "p50": p99 / 2, "p99": p99, "slowest over fastest": spread}
    return Record(section, "net", {"workers": 2, "clients": 5}, contestant, [answer], {"precision": "fp32"})


def test_ratios_are_taken_round_by_round():
    # The machine slows down by ten: the ratio of medians would be 0.8, that of each round 2, 4 or 1.
    ours, theirs = record("pinnace", 2, 40, 4), record("peer", 1, 10, 4)
    assert figures.ratio(ours, theirs, "seconds") == figures.Ratio(2, 1, 4)


def test_the_best_peer_is_no_other_precision_of_ours():
    records = [record("pinnace", 1), record("pinnace 16 bit", 1), record("slow", 9), record("fast", 3)]
    assert figures.best_peer(records, "seconds").contestant == "fast"
    assert figures.best_peer(records, "seconds", larger=True).contestant == "slow"
    assert figures.best_peer(records[:2], "seconds") is None


def test_what_the_workers_are_allowed():
    # Alone 10 ms a prediction, so two workers are allowed 200 a second.
    assert figures.share_of_allowed(crowd("pinnace", rate=190, p99=0.03), 2) == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [([1.0, -4.0], 0.0), ([1.2, -4.0], 0.05), ([1.0], math.inf), ([math.nan, -4.0], math.inf)],
)
def test_outputs_are_compared_over_the_largest_value(ours, expected):
    assert apart([np.array(ours)], [np.array([1.0, -4.0])]) == pytest.approx(expected)


def test_the_summary_names_the_goals():
    records = [
        record("pinnace", 0.9, 0.9), record("openvino", 1.0, 1.0), record("onnxruntime", 2.0, 2.0),
        record("pinnace", 1.6, threads=2), record("openvino", 1.0, threads=2),
        record("pinnace 16 bit", 0.5, 0.5, precision="bf16"),
        crowd("pinnace", 220, 0.05), crowd("onnxruntime", 200, 0.04), crowd("openvino", 110, 0.1),
        crowd("pinnace", 10, 1, section="batching"),
        crowd("pinnace max_batch_size=8", 12, 1, section="batching"),
    ]  # fmt: skip
    text = report({"processor": "one"}, records, ["ncnn: why"])
    # The geometric mean of 0.9 and 1.6 is 1.2; bf16 halves the best peer's time in fp32.
    assert "Geometric mean 1.200 (goal: at most 0.97), largest 1.600" in text
    assert "| net | 1 | 0.50 (0.50 to 0.50) | openvino | 1.0e-06 |" in text
    assert "| net | fp32 | 1.10 (1.10 to 1.10) onnxruntime | 1.25 (1.25 to 1.25) onnxruntime | 1.10 |" in text
    assert "pinnace max_batch_size=8: 1.20 (1.20 to 1.20) times" in text
    assert "* ncnn: why" in text


def test_one_run_with_the_smallest_network(tmp_path):
    command = [
        "-m", "benchmarks", "suite", "--models", "mlp", "--sections", "latency,throughput,memory",
        "--contestants", "onnxruntime", "--python", f"onnxruntime={sys.executable}",
        "--rounds", "1", "--seconds", "0.02", "--threads", "1", "--clients", "2",
        "--peers", str(tmp_path), "--out", str(tmp_path),
    ]  # fmt: skip
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
    records = json.loads((tmp_path / "suite.json").read_text(encoding="utf-8"))["records"]
    ran = {(r["section"], r["contestant"]) for r in records if r["rounds"]}
    sections = ("latency", "throughput", "memory")
    assert ran >= {(section, name) for section in sections for name in ("pinnace", "onnxruntime")}
    # The same kernels compute both in fp32, in any order that the engine likes: some units in the last place.
    # In 16 bits, where the processor has them, inputs of layers have 8 (bfloat16) to 11 digits: 0.4 % off.
    bounds = {"fp32": 1e-5}
    for facts in (r["facts"] for r in records if r["section"] == "latency"):
        assert facts["difference"] < bounds.get(facts["precision"], 2e-2), facts
    assert "## Latency" in (tmp_path / "suite.md").read_text(encoding="utf-8")
    assert (tmp_path / "suite.svg").exists()
