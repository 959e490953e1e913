"""Graphs that random ones found out, and a few seconds of random ones."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.random_graphs import files, oracle, runner
from tests.random_graphs.generate import case
from tests.random_graphs.judge import Turn, by_pinnace, compared
from tests.random_graphs.shrink import shrunk

from pinnace.cache.store import OFF

GOLDENS = sorted((Path(__file__).parent / "data" / "random_graphs").glob("*.onnx"))


@pytest.mark.parametrize("cached", [False, True], ids=["uncached", "cached"])
@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_what_random_graphs_found_out(path, engine, cached, tmp_path):
    """Goldens are what onnxruntime gives without optimization; some made the engine end the process."""
    if engine == "openvino":
        pytest.importorskip("openvino")
    golden, outputs = files.read(path)
    expected = list(outputs.values())
    given, _, _ = by_pinnace(golden, Turn(engine, cache=str(tmp_path) if cached else OFF))
    slack = oracle.slack(golden.model, golden.feed, expected)
    assert compared(given, expected, slack) == ("same", "")


def test_a_few_random_graphs(tmp_path):
    """Other processors round otherwise, which the slack allows for; seeds are those that were looked at."""
    found = runner.both_turns(range(60), partial(case, 1), Turn("onnxruntime", cache=str(tmp_path)))
    bad = [one for one in found if one[-1].kind not in ("same", "uncounted")]
    assert bad == []


def test_the_same_number_is_the_same_case():
    first, second = case(3, 5), case(3, 5)
    assert first.model == second.model
    assert all(np.array_equal(first.feed[n], second.feed[n]) for n in first.feed)


def test_a_graph_shrinks_to_the_node_that_fails():
    whole, _ = files.read(next(path for path in GOLDENS if path.stem == "layer_norm_and_more_dimensions"))

    def trial(smaller):
        fails = any(node.op_type == "Sqrt" for node in smaller.model.graph.node)
        return runner.Verdict("different" if fails else "same")

    small, _ = shrunk(whole, runner.Verdict("different"), trial)
    assert [node.op_type for node in small.model.graph.node] == ["Sqrt"]
    assert [array.size for array in small.feed.values()] == [1]


def test_a_process_that_ends_is_a_verdict():
    def judged(number, stage):
        stage("pinnace")
        if number == 1:
            os._exit(3)
        return runner.Verdict("same")

    assert [verdict.kind for _, verdict in runner.run(range(3), judged)] == ["same", "crashed", "same"]
