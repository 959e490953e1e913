"""How a graph is cut, what ranks find out before they run, and the files that say which ranks there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pinnace.deferred import import_onnx_ir
from pinnace.errors import ConfigError, DistributedError

import_onnx_ir()

from pinnace import formats  # noqa: E402
from pinnace.compiler.graph import compilable  # noqa: E402
from pinnace.distributed.agreement import Meet, _compare_parts, _Rehearsal  # noqa: E402
from pinnace.distributed.plan import cut, meets  # noqa: E402
from pinnace.distributed.start import _of_environment  # noqa: E402
from pinnace.distributed.steps import Collective, Part, Segment, Wait  # noqa: E402
from pinnace.distributed.tables import groups_of, meeting  # noqa: E402
from pinnace.weights.source import Source  # noqa: E402

DATA = Path(__file__).parents[1] / "data" / "distributed"


def plan_of(name):
    path = DATA / f"{name}_2_0.mindir"
    graph = compilable(formats.read(Source.of_file(path)), str(path), str(DATA))
    assert meets(graph.model)
    return cut(graph)


def test_what_needs_no_collective_runs_while_one_is_under_way():
    """The MLP's side path and its AllGather need neither AllReduce."""
    plan, graphs = plan_of("mlp")
    steps = plan.steps
    first = next(i for i, step in enumerate(steps) if isinstance(step, Collective))
    waits = next(i for i, step in enumerate(steps) if isinstance(step, Wait))
    between = [step for step in steps[first:waits] if isinstance(step, Segment)]
    assert between
    side = [node.op_type for node in graphs[plan.segments.index(between[0])].model.graph]
    assert side == ["MatMul"]


def test_collectives_keep_their_order_and_segments_hold_none():
    plan, graphs = plan_of("mlp")
    assert [c.kind for c in plan.collectives] == ["AllReduce", "AllReduce", "AllGather"]
    for graph in graphs:
        assert not meets(graph.model)
    taken = {port.name for c in plan.collectives for port in c.takes}
    given = {port.name for s in plan.segments for port in s.ports.outputs}
    assert taken <= given


def meet(what, group=(0, 1), edges=()):
    return Meet(what, group, what, edges)


def exchange(*edges, group=(0, 1)):
    return Meet("x", group, "Exchange of nothing", edges)


TO_1, TO_0 = ("to", 1, "float32[4]"), ("to", 0, "float32[4]")
FROM_1, FROM_0 = ("source", 1, "float32[4]"), ("source", 0, "float32[4]")


def test_ranks_that_fit_are_let_through():
    _Rehearsal([[meet("a"), exchange(TO_1), meet("b")], [meet("a"), exchange(FROM_0), meet("b")]]).run()
    _Rehearsal([[exchange(TO_1, FROM_1)], [exchange(TO_0, FROM_0)]]).run()


def test_a_rank_may_be_in_an_exchange_that_others_are_past():
    """A pipeline of three: rank 0 waits for the output while rank 1 hands on what it has."""
    all_three, to_2, from_1 = (0, 1, 2), ("to", 2, "x"), ("source", 1, "x")
    last = meet("Broadcast", all_three)
    first = [exchange(TO_1, group=all_three), last]
    second = [exchange(FROM_0, group=all_three), exchange(to_2, group=all_three), last]
    _Rehearsal([first, second, [exchange(from_1, group=all_three), last]]).run()


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ([[meet("a"), meet("b")], [meet("b"), meet("a")]], "rank 1 waits in its collective 1 of 2, b"),
        ([[meet("a"), meet("a")], [meet("a")]], "rank 1 is through with its 1 collectives"),
        (
            [[exchange(FROM_1), exchange(TO_1)], [exchange(FROM_0), exchange(TO_0)]],
            "for ever: rank 0 waits in",
        ),
        ([[exchange(TO_1)], [exchange(("source", 0, "float32[5]"))]], "rank 1 waits in its collective 1"),
        ([[meet("a", (0, 1))], [meet("a", (1, 2))], [meet("a", (0, 2))]], "for ever"),
    ],
)
def test_ranks_that_would_hang_are_told(programs, said):
    with pytest.raises(DistributedError, match=said):
        _Rehearsal(programs).run()


def test_parts_know_their_whole():
    parts = [Part("abc", rank, 2) for rank in range(2)]
    _compare_parts(parts, ["a", "b"])
    with pytest.raises(DistributedError, match="rank 0 of 2 has a, which is the part for rank 1 of 2"):
        _compare_parts(parts[::-1], ["a", "b"])
    with pytest.raises(DistributedError, match="parts of different models: a and b"):
        _compare_parts([parts[0], Part("xyz", 1, 2)], ["a", "b"])


def table(folder, **changes):
    devices = [
        {"device_id": str(2 + r), "device_ip": f"192.0.2.{r}", "rank_id": str(1 - r)} for r in range(2)
    ]
    server = {"server_id": "node", "device": devices, **changes.pop("server", {})}
    path = folder / "table.json"
    path.write_text(json.dumps({"version": "1.0", "status": "completed", "server_list": [server], **changes}))
    return path


def test_rank_table(tmp_path, monkeypatch):
    monkeypatch.delenv("HCCL_IF_BASE_PORT", raising=False)
    found = meeting(table(tmp_path), 1)
    assert found.hosts == ("192.0.2.1", "192.0.2.0")  # in order of rank
    assert (found.rank, found.port) == (1, 60003)  # the base, and rank 0's device
    monkeypatch.setenv("HCCL_IF_BASE_PORT", "23000")
    found = meeting(table(tmp_path, server={"server_id": "127.0.0.1"}), 0)
    assert (found.hosts, found.port) == (("127.0.0.1", "127.0.0.1"), 23003)


@pytest.mark.parametrize(
    ("changes", "rank", "said"),
    [
        ({"status": "initializing"}, 0, "is not complete yet"),
        ({"server_list": []}, 0, "names no device"),
        ({"server_list": [{"device": [{"rank_id": "0"}]}]}, 0, "no rank table of version 1.0"),
        (
            {"server": {"device": [{"rank_id": "1", "device_id": "0", "device_ip": "::1"}]}},
            1,
            "from 0 without gaps",
        ),
        ({}, 2, "has ranks 0 to 1, and context.ascend.rank_id is 2"),
        ({"server_list": [{"device": [{"rank_id": float("inf")}]}]}, 0, "no rank table of version 1.0"),
        (
            {"server": {"device": [{"rank_id": "0", "device_id": "9999", "device_ip": "::1"}]}},
            0,
            "ports are 1 to 65535",
        ),
    ],
)
def test_wrong_rank_tables(tmp_path, changes, rank, said):
    with pytest.raises(ConfigError, match=said):
        meeting(table(tmp_path, **changes), rank)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"RANK": "5", "WORLD_SIZE": "2"}, "RANK is '5', WORLD_SIZE is '2'"),
        ({"RANK": "0", "WORLD_SIZE": "two"}, "WORLD_SIZE is 'two'"),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "65536"}, "127.0.0.1:65536: ports are 1 to 65535"),
    ],
)
def test_wrong_variables(monkeypatch, variables, said):
    for name, value in {"MASTER_ADDR": "127.0.0.1", **variables}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=said):
        _of_environment()


def test_groups_that_mindspore_wrote():
    assert groups_of(str(DATA / "groups_4.pb")) == {"pair0": (0, 1), "pair1": (2, 3)}
    with pytest.raises(ConfigError, match="is no group_info_file"):
        groups_of(__file__)


def test_inspect_knows_collectives():
    from pinnace.build import inspect_model

    assert not inspect_model(DATA / "mlp_2_0.mindir").unsupported
