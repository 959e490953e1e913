"""How a graph is cut, what ranks find out before they run, and the files that say which ranks there are."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from pinnace.deferred import import_onnx_ir
from pinnace.errors import ConfigError, DistributedError

import_onnx_ir()

from pinnace import formats  # noqa: E402
from pinnace.distributed import start, steps  # noqa: E402
from pinnace.distributed.agreement import CollectiveRecord, _compare_parts, _Rehearsal, agree, group_of  # noqa: E402
from pinnace.distributed.files import suspicion  # noqa: E402
from pinnace.distributed.plan import cut  # noqa: E402
from pinnace.distributed.start import _of_environment  # noqa: E402
from pinnace.distributed.steps import Collective, Partition, Segment, Wait  # noqa: E402
from pinnace.distributed.tables import groups_of, meeting  # noqa: E402
from pinnace.lowering.graph import compilable, has_collectives  # noqa: E402
from pinnace.options.settings import Settings  # noqa: E402
from pinnace.options.target import Target  # noqa: E402
from pinnace.types import DataType, Port  # noqa: E402
from pinnace.weights.source import Source  # noqa: E402

DATA = Path(__file__).parents[1] / "data" / "distributed"


def plan_of(name):
    path = DATA / f"{name}_2_0.mindir"
    graph = compilable(formats.read(Source.of_file(path)), str(path), str(DATA))
    assert has_collectives(graph.model)
    return cut(graph)


def test_what_needs_no_collective_runs_while_a_large_one_is_under_way(monkeypatch):
    """The MLP's side path and its AllGather need neither AllReduce."""
    assert len(plan_of("mlp")[0].segments) == 3
    monkeypatch.setattr(steps, "SMALL", 0)
    plan, graphs = plan_of("mlp")
    order = plan.steps
    first = next(i for i, step in enumerate(order) if isinstance(step, Collective))
    waits = next(i for i, step in enumerate(order) if isinstance(step, Wait))
    between = [step for step in order[first:waits] if isinstance(step, Segment)]
    assert between
    side = [node.op_type for node in graphs[plan.segments.index(between[0])].model.graph]
    assert side == ["MatMul"]


def test_collectives_keep_their_order_and_segments_hold_none():
    plan, graphs = plan_of("mlp")
    assert [c.kind for c in plan.collectives] == ["AllReduce", "AllReduce", "AllGather"]
    for graph in graphs:
        assert not has_collectives(graph.model)
    taken = {port.name for c in plan.collectives for port in c.takes}
    given = {port.name for s in plan.segments for port in s.ports.outputs}
    assert taken <= given


def meet(what, group=(0, 1), edges=()):
    return CollectiveRecord(what, group, what, edges)


def exchange(*edges, group=(0, 1)):
    return CollectiveRecord("x", group, "Exchange of nothing", edges)


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
        ([[meet("a"), meet("b")], [meet("b"), meet("a")]], "rank 1 waits in collective 1 of 2, b"),
        ([[meet("a"), meet("a")], [meet("a")]], "rank 1 has finished its 1 collectives"),
        (
            [[exchange(FROM_1), exchange(TO_1)], [exchange(FROM_0), exchange(TO_0)]],
            "forever: rank 0 waits in",
        ),
        ([[exchange(TO_1)], [exchange(("source", 0, "float32[5]"))]], "rank 1 waits in collective 1"),
        ([[meet("a", (0, 1))], [meet("a", (1, 2))], [meet("a", (0, 2))]], "forever"),
    ],
)
def test_ranks_that_would_hang_are_told(programs, said):
    with pytest.raises(DistributedError, match=said):
        _Rehearsal(programs).run()


def test_parts_know_their_whole():
    parts = [Partition("abc", rank, 2) for rank in range(2)]
    _compare_parts(parts, ["a", "b"])
    with pytest.raises(DistributedError, match="rank 0 of 2 has a, which is the part for rank 1 of 2"):
        _compare_parts(parts[::-1], ["a", "b"])
    with pytest.raises(DistributedError, match="parts of different models: a and b"):
        _compare_parts([parts[0], Partition("xyz", 1, 2)], ["a", "b"])


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
        ({"server_list": [{"device": [{"rank_id": "0"}]}]}, 0, "not a rank table of version 1.0"),
        (
            {"server": {"device": [{"rank_id": "1", "device_id": "0", "device_ip": "::1"}]}},
            1,
            "from 0 without gaps",
        ),
        ({}, 2, "has ranks 0 to 1, and context.ascend.rank_id is 2"),
        ({"server_list": [{"device": [{"rank_id": float("inf")}]}]}, 0, "not a rank table of version 1.0"),
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


def test_older_rank_tables(tmp_path, monkeypatch):
    """One device an instance with a rank, and devices that count in order."""
    monkeypatch.delenv("HCCL_IF_BASE_PORT", raising=False)
    path = tmp_path / "table.json"
    for instances in (
        [
            {
                "devices": [{"device_id": "4", "device_ip": "192.0.2.4"}],
                "rank_id": "1",
                "server_id": "192.0.2.1",
            },
            {
                "devices": [{"device_id": "5", "device_ip": "192.0.2.5"}],
                "rank_id": "0",
                "server_id": "192.0.2.2",
            },
        ],
        [
            {
                "pod_name": "a",
                "server_id": "192.0.2.2",
                "devices": [{"device_id": "5", "device_ip": "192.0.2.5"}],
            },
            {
                "pod_name": "b",
                "server_id": "192.0.2.1",
                "devices": [{"device_id": "4", "device_ip": "192.0.2.4"}],
            },
        ],
    ):
        group = {"group_name": "", "instance_count": "2", "device_num": "2", "instance_list": instances}
        path.write_text(json.dumps({"status": "completed", "group_count": "1", "group_list": [group]}))
        found = meeting(path, 1, ascend=4)
        assert (found.hosts, found.port) == (("192.0.2.2", "192.0.2.1"), 60005)
    path.write_text(json.dumps({"group_list": [group, group]}))
    with pytest.raises(ConfigError, match="2 groups, but ranks run in one"):
        meeting(path, 0)


def test_a_device_that_is_not_the_tables(tmp_path):
    with pytest.raises(ConfigError, match=r"rank 1 runs on device_id 2, and context\.ascend\.device_id is 0"):
        meeting(table(tmp_path), 1, ascend=0)


@pytest.mark.parametrize(
    ("variables", "said", "wanted"),
    [
        ({}, {"rank": 1}, 1),
        ({"RANK_ID": "1"}, {"rank": None}, 1),
        ({"RANK_ID": "0"}, {"rank": 1}, "rank is 1 in context.ascend.rank_id, but 0 in RANK_ID"),
        ({"RANK": "0"}, {"rank": 1}, "rank is 1 in context.ascend.rank_id, but 0 in RANK"),
        ({"RANK_TABLE_FILE": "other.json"}, {}, "RANK_TABLE_FILE in the environment is other.json"),
        ({}, {"ranks": 4}, "number of ranks is 4 in context.ascend.group_size, but 2 in .*table.json"),
        ({"WORLD_SIZE": "3"}, {}, "number of ranks is 2 in .*table.json, but 3 in WORLD_SIZE"),
        (
            {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "0"},
            {},
            "number of ranks is 2 in .*table.json, but 3 in OMPI_COMM_WORLD_SIZE",
        ),
        (
            {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"},
            {"rank": 1},
            "rank is 1 in context.ascend.rank_id, but 0 in OMPI_COMM_WORLD_RANK",
        ),
        ({}, {"rank": 1, "simulates": "ascend:0 (simulated on core 0)"}, "runs on device_id 2, and"),
    ],
)
def test_what_says_which_rank_this_is(tmp_path, monkeypatch, variables, said, wanted):
    for name in (*_LAUNCHERS, *variables):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(start, "_made", {})
    monkeypatch.setattr(start, "Sockets", lambda meeting, _: _Stand(meeting))
    settings = Settings({"ascend_context": {"rank_table_file": str(table(tmp_path))}})
    if isinstance(wanted, int):
        assert start.communicator(Target(**said), settings).meeting.rank == wanted
        monkeypatch.setenv("RANK_TABLE_FILE", str(tmp_path / "table.json"))
        assert start.communicator(Target(**said), Settings()).meeting.rank == wanted
    else:
        with pytest.raises(ConfigError, match=wanted):
            start.communicator(Target(**said), settings)


def test_two_builds_at_once_are_of_the_same_ranks(tmp_path, monkeypatch):
    made, both = [], threading.Barrier(2)

    def by_hand(meeting, _):
        made.append(meeting)
        time.sleep(0.1)  # where the other one would make its own
        return _Stand(meeting)

    def ask():
        both.wait()
        found.append(start.communicator(Target(rank=1), settings))

    for name in _LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(start, "_made", {})
    monkeypatch.setattr(start, "Sockets", by_hand)
    settings, found = Settings({"ascend_context": {"rank_table_file": str(table(tmp_path))}}), []
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert found[0] is found[1]


_LAUNCHERS = (
    *("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "RANK", "WORLD_SIZE"),
    *("MASTER_ADDR", "RANK_ID", "RANK_SIZE", "RANK_TABLE_FILE"),
)


class _Stand:
    """A communicator that meets nobody."""

    def __init__(self, meeting):
        self.meeting, self.watch = meeting, SimpleNamespace()


def test_files_that_are_hardly_each_ranks_own():
    assert not suspicion(["/m/Matmul0.mindir", "/m/Matmul1.mindir"], ["a", "b"])
    assert not suspicion(["/m/a.mindir", "/m/b.mindir"], ["a", "b"])
    assert not suspicion(["/m/v2_0.mindir", "/m/v2_1.mindir"], ["a", "b"])
    assert not suspicion(["/0/m.mindir", "/1/m.mindir"], ["a", "b"])
    assert "ranks 0 and 1 have the same file" in suspicion(["m", "m"], ["a", "a"])
    for turned in (["/m/Matmul1.mindir", "/m/Matmul0.mindir"], ["/rank_1/m.mindir", "/rank_0/m.mindir"]):
        assert f"rank 0 has {turned[0]}, rank 1 has {turned[1]}" in suspicion(turned, ["a", "b"])


@pytest.mark.parametrize(("contents", "warned"), [("ab", False), ("aa", True)])
def test_ranks_that_seem_to_have_the_same_file_warn(recwarn, contents, warned):
    links = []
    watch = SimpleNamespace(begin=lambda what: None)
    told = [{"model": "m", "content": one, "part": asdict(Partition()), "meets": []} for one in contents]
    ranks = SimpleNamespace(watch=watch, gather=lambda text: map(json.dumps, told), link=links.append)
    agree(ranks, [], [], Partition(), "m", contents[0])
    assert links == [[]]
    assert [w.message.args[0] for w in recwarn] == [suspicion("mm", contents)] * warned


def collective(**changes):
    port = Port("x", DataType.FLOAT32, (4, 4))
    fields = {"kind": "AllReduce", "name": "n", "takes": (port,), "gives": (port,), **changes}
    return Collective(**fields)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "Broadcast", "root": 2}, "names a rank that is not among the 2 of its group"),
        ({"own": 1}, "the file is the part of rank 3, but this is rank 2"),
        ({"kind": "AllGather"}, "takes 4 rows and gives 4, but 2 ranks take part"),
    ],
)
def test_files_that_cannot_be_this_ranks(changes, said):
    """Ranks in them are numbers within the group."""
    fine = collective(ranks=(2, 3), own=0)
    assert group_of(fine, {}, 4, 2) == (2, 3)
    with pytest.raises(ConfigError, match=said):
        group_of(collective(ranks=(2, 3), **changes), {}, 4, 2)


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
    with pytest.raises(ConfigError, match="is not a group_info_file"):
        groups_of(__file__)


def test_inspect_knows_collectives():
    from pinnace.building.opening import inspect_model

    assert not inspect_model(DATA / "mlp_2_0.mindir").unsupported
