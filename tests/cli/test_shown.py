"""Output of commands about facts that are known: `convert`, `shard`, `inspect`, `devices`, `cache`."""

from __future__ import annotations

import re
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from pinnace.building.report import ModelReport, Weight
from pinnace.errors import UnsupportedPrimitive
from pinnace.machine import caches, processor
from pinnace.types import DataType, Port

# the package has functions of these names
convert, shard, inspect, devices, cache = (
    import_module(f"pinnace.cli.{name}") for name in ("convert", "shard", "inspect", "devices", "cache")
)


@pytest.mark.parametrize(
    ("error", "said"), [(None, "not measured: --check"), (0.01234, "0.012 of the greatest result")]
)
def test_a_conversion_has_its_sizes_error_and_notes(printed, error, said):
    summary = SimpleNamespace(
        files=[Path("a/m.ms"), Path("a/m.data")], nodes_before=9, nodes=7, bytes_before=1_500_000,
        bytes=250_000, precision="float16", error=error, likeness="cosine 1", notes=("one", "two"),
    )  # fmt: skip
    assert printed(convert._show, summary) == [
        "m.ms, m.data", "nodes 9 in the model, 7 in the result", "size 1.50 MB, 0.25 MB", "precision float16",
        f"error {said}", "on the samples cosine 1", "note one", "note two",
    ]  # fmt: skip
    summary.likeness, summary.notes = None, ()
    assert len(printed(convert._show, summary)) == 5


def test_each_rank_has_a_row_with_its_share(printed):
    shares = [
        SimpleNamespace(
            file=f"m_{rank}.onnx", weights=(rank + 1) * 1_500_000, whole=6_000_000, operations=25e8,
            collectives=3, sent=125_000, why=["cut in two", "for a reason"],
        )
        for rank in range(2)
    ]  # fmt: skip
    assert printed(shard._show, "m in 2 ranks", shares) == [
        "m in 2 ranks",
        "rank file weights MB of whole operations 10^9 collectives sent MB",
        "0 m_0.onnx 1.5 0.25 2.50 3 0.12",
        "1 m_1.onnx 3.0 0.50 2.50 3 0.12",
        "cut in two",
        "for a reason",
    ]


def test_a_fixed_shape_has_a_name_and_sizes():
    assert shard._shape("x=1, 128") == ("x", [1, 128])
    for wrong in ("x", "1,2", "x=1,-1", "x=", "x=1,,2"):
        with pytest.raises(typer.BadParameter, match="is not NAME=1,128"):
            shard._shape(wrong)


def report(count, **facts):
    made = {
        "dialect": "ONNX", "producer": "", "inputs": (Port("x", DataType.FLOAT32, (-1, 3), names=("n", "")),),
        "outputs": (Port("y", DataType.INT64, ()),), "parameters": 2, "parameter_bytes": 1_250_000,
        "primitives": {"Add": 3, "Mul": 1}, "nodes": tuple((f"node{i}", "Add") for i in range(count)),
        "unsupported": (), "user_info": {"labels": "c" * 201}, "weights": (Weight("w", "FLOAT32", (2, 3)),),
    }  # fmt: skip
    return ModelReport(**(made | facts))


def test_a_report_has_all_parts_and_cuts_long_ones(printed):
    lines = printed(inspect._show, Path("m.onnx"), report(21), True, True, False)
    assert lines[:5] == [
        "m.onnx", "dialect ONNX", "producer unknown", "parameters 2 with 1250000 bytes (1.2 MB)",
        f"labels {'c' * 200}... 1 characters more",
    ]  # fmt: skip
    assert lines[5:13] == [
        "inputs", "x FLOAT32 [n, 3]", "outputs", "y INT64 []", "operators", "3 Add", "1 Mul", "nodes",
    ]  # fmt: skip
    assert lines[13:34] == [*(f"Add node{i}" for i in range(20)), "... 1 more; --all shows them"]
    assert lines[34:] == ["weights", "w FLOAT32 [2, 3]", "unsupported", "none"]


def test_a_report_shows_all_where_it_is_asked_to_and_nothing_that_is_not(printed):
    everything = printed(inspect._show, Path("m.onnx"), report(21), True, False, True)
    assert f"labels {'c' * 201}" in everything
    assert "Add node20" in everything
    assert not any("more" in line for line in everything)
    assert "weights" not in everything
    short = report(20, user_info={"labels": "c" * 200})
    refused = (UnsupportedPrimitive("Odd", 2, "node7", "it is not known"),)
    few = printed(inspect._show, Path("m.onnx"), short, True, False, False)
    assert not any("more" in line for line in few)
    without = printed(
        inspect._show, Path("m.onnx"), report(3, unsupported=refused, producer="ours 1"), False, True, False
    )
    assert {"producer ours 1", "2 Odd first at node7: it is not known"} <= {*without}
    assert not {"nodes", "Add node0"} & {*without}


def test_json_of_a_report_has_nodes_and_weights_where_they_are_asked_for():
    for nodes in (False, True):
        for weights in (False, True):
            found = inspect._as_json(Path("m.onnx"), report(1), nodes, weights)
            assert ("nodes" in found, "weights" in found) == (nodes, weights)
    assert found["inputs"] == [{"name": "x", "shape": [-1, 3], "names": ["n", ""], "dtype": "FLOAT32"}]
    assert found["nodes"] == [{"name": "node0", "primitive": "Add"}]
    assert found["weights"] == [{"name": "w", "dtype": "FLOAT32", "shape": (2, 3)}]


def test_devices_have_memory_and_provider_or_a_problem(printed, monkeypatch):
    monkeypatch.setattr(processor, "instruction_sets", lambda: ())
    monkeypatch.setattr(caches, "caches", list)
    found = [
        SimpleNamespace(kind="gpu", id=0, name="A", memory=3 << 29, provider="cuda", problem=""),
        SimpleNamespace(kind="ascend", id=1, name="B", memory=0, provider="acl", problem="no driver"),
    ]
    assert printed(devices._show, found) == [
        "devices", "gpu:0 A 1.5 GiB cuda", "ascend:1 B memory unknown acl, not usable: no driver",
        " ".join(processor.name().split()), "computes in not known", "caches not known",
    ]  # fmt: skip


def test_sizes_and_times_of_the_cache():
    assert cache._megabytes(1_250_000) == "1.2 MB"
    assert cache._when(0) == "not known"
    now = time.time()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", cache._when(now))
    assert cache._when(now) == time.strftime("%Y-%m-%d %H:%M", time.localtime(now))
