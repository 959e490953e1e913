"""How a graph is cut, what ranks find out before they run, and the files that say which ranks there are."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest
from onnx import TensorProto, helper

from pinnace.deferred import import_onnx_ir
from pinnace.errors import ConfigError, DistributedError, UnsupportedModelError

import_onnx_ir()

from pinnace import formats  # noqa: E402
from pinnace.distributed import executable, world  # noqa: E402
from pinnace.distributed.comparison import (  # noqa: E402
    compare_partitions,
    fingerprint,
    match_ranks,
    record_of,
    rehearse,
    suspicion,
)
from pinnace.distributed.groups import group_of, groups_of  # noqa: E402
from pinnace.distributed.plan import Collective, Partition, Plan, RankPart, Segment  # noqa: E402
from pinnace.distributed.rendezvous import of_environment, of_rank_table  # noqa: E402
from pinnace.distributed.segments import reads, split  # noqa: E402
from pinnace.lowering.graph import compilable, has_collectives  # noqa: E402
from pinnace.options.settings import Settings  # noqa: E402
from pinnace.options.target import Target  # noqa: E402
from pinnace.types import DataType, Interface, Port  # noqa: E402
from pinnace.weights.source import Source  # noqa: E402

DATA = Path(__file__).parents[1] / "data" / "distributed"


def plan_of(name):
    path = DATA / f"{name}_2_0.mindir"
    graph = compilable(formats.read(Source.of_file(path)), str(path), str(DATA))
    assert has_collectives(graph.model)
    return split(graph)


def test_collectives_keep_their_order_and_segments_hold_none():
    plan, graphs = plan_of("mlp")
    assert [c.kind for c in plan.collectives] == ["AllReduce", "AllReduce", "AllGather"]
    for graph in graphs:
        assert not has_collectives(graph.model)
    taken = {port.name for c in plan.collectives for port in c.takes}
    given = {port.name for s in plan.segments for port in s.ports.outputs}
    assert taken <= given


def write(path, nodes):
    """Write an ONNX file of nodes from x, perhaps by a, to y, which have 4 numbers."""
    x, a, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xay")
    onnx.save(helper.make_model(helper.make_graph(nodes, path.stem, [x], [y], value_info=[a])), path)
    return compilable(formats.read(Source.of_file(path)), path.stem, None)


def test_a_segment_reads_nothing_of_the_whole_graph(tmp_path):
    """Nor do the branches in it, which alone read `a`."""
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(kind, ["a"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])],
        )
        for name, kind in (("then", "Neg"), ("else", "Abs"))
    }
    nodes = [
        helper.make_node("AllReduce", ["x"], ["a"], domain="pinnace.distributed"),
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Less", ["m", "m"], ["c"]),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    _, (segment,) = split(write(tmp_path / "chooses.onnx", nodes))
    graph = segment.model.graph
    own = {*graph.inputs, *(value for node in graph for value in node.outputs)}
    assert {value.name for value in own} == {"x", "a", "m", "c", "y"}
    assert [value.name for node in graph for value in reads(node) - own] == []


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        ("Gather", {}, "is not one of AllReduce, AllGather, "),
        ("ReduceScatter", {"op": "mean"}, "reduces by 'mean', which is not one of sum, max, min, prod"),
    ],
)
def test_nodes_that_are_no_collective_are_refused(tmp_path, kind, given, reason):
    node = helper.make_node(kind, ["x"], ["y"], "it", domain="pinnace.distributed", **given)
    with pytest.raises(UnsupportedModelError, match=f"at node 'it': {reason}"):
        split(write(tmp_path / "wrong.onnx", [node]))


def test_collective_that_not_all_ranks_may_reach_is_refused(tmp_path):
    output = [helper.make_tensor_value_info("z", TensorProto.FLOAT, [4])]
    node = helper.make_node("AllReduce", ["x"], ["z"], "it", domain="pinnace.distributed")
    branch = helper.make_graph([node], "branch", [], output)
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Less", ["m", "m"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    with pytest.raises(UnsupportedModelError, match="'it': is in a branch or loop, which not all ranks may"):
        split(write(tmp_path / "branch.onnx", nodes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "AllReduce", "dtype": DataType.BOOL}, "AllReduce .*: reduces elements of type bool"),
        (
            {"kind": "ReduceScatter", "dtype": DataType.BOOL},
            "ReduceScatter .*: reduces elements of type bool",
        ),
        ({"kind": "Exchange", "shape": (-1, 4)}, "Exchange .*: receives a tensor of free dimensions"),
    ],
)
def test_what_ranks_cannot_exchange_is_refused_before_they_meet(changes, reason):
    ports = (Port("x", changes.get("dtype", DataType.FLOAT32), changes.get("shape", (4,))),)
    part = SimpleNamespace(
        name="m", plan=SimpleNamespace(collectives=[Collective(changes["kind"], "it", ports, ports)])
    )
    with pytest.raises(UnsupportedModelError, match=reason):
        executable.join(part, Target(), Settings(), "")


def test_the_engines_of_all_segments_are_profiled_and_closed():
    closed, nothing = [], Interface((), (), (), {})
    segments = [
        SimpleNamespace(
            info={},
            profile=lambda number=number: [[f"step {number} of run {run}"] for run in range(2)],
            close=lambda number=number: closed.append(number),
        )
        for number in range(2)
    ]
    plan = Plan(Partition(), (Segment(nothing), Segment(nothing)), {})
    ranks = SimpleNamespace(rank=0, size=1, name="none", watchdog=None)
    made = executable.DistributedExecutable(RankPart("m", plan, nothing, [], segments), ranks, {})
    runs = made.profile()
    assert runs == [[f"step {number} of run {run}" for number in range(2)] for run in range(2)]
    made.close()
    assert closed == [0, 1]


_ATTRIBUTES = {"group": "pair", "ranks": (1, 0), "op": "max", "root": 1, "to": (1,), "source": (0, 1)}


@pytest.mark.parametrize("given", [{}, {**_ATTRIBUTES, "tag": 3, "own": 1}])
def test_attributes_of_a_node_may_be_left_out(tmp_path, given):
    node = helper.make_node("AllReduce", ["x"], ["y"], domain="pinnace.distributed", **given)
    plan, _ = split(write(tmp_path / "one.onnx", [node]))
    takes, gives = ((Port(name, DataType.FLOAT32, (4,)),) for name in "xy")
    assert asdict(plan.collectives[0]) == asdict(Collective("AllReduce", "y", takes, gives, **given))


def reduction(name, group=(0, 1)):
    port = Port("x", DataType.FLOAT32, (4,))
    return Collective("AllReduce", name, (port,), (port,), op=name), group


def exchange(to=(), source=(), sizes=(4,), group=(0, 1)):
    sent = tuple(Port("x", DataType.FLOAT32, sizes) for _ in to)
    got = tuple(Port("y", DataType.FLOAT32, sizes) for _ in source)
    return Collective("Exchange", "x", sent, got, to=to, source=source), group


def run(*programs):
    """Rehearse the collectives of ranks, each with its group."""
    rehearse(
        [[record_of(one, group, rank) for one, group in program] for rank, program in enumerate(programs)]
    )


def test_matching_collectives_pass_the_rehearsal():
    first, last = reduction("sum"), reduction("max")
    run([first, exchange(to=(1,)), last], [first, exchange(source=(0,)), last])
    run([exchange((1,), (1,))], [exchange((0,), (0,))])
    run([exchange((0, 1), (0,))], [exchange((), (0,))])  # also to itself


def test_rank_may_be_in_an_exchange_that_others_are_past():
    """A pipeline of three: rank 0 waits for the output while rank 1 hands on what it has."""
    everyone = (0, 1, 2)
    last = reduction("sum", everyone)
    second = [exchange(source=(0,), group=everyone), exchange(to=(2,), group=everyone), last]
    run([exchange(to=(1,), group=everyone), last], second, [exchange(source=(1,), group=everyone), last])


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        (
            [[reduction("sum"), reduction("max")], [reduction("max"), reduction("sum")]],
            r"one model: rank 0 .*, and rank 1 waits in collective 1 of 2, AllReduce 'max'",
        ),
        ([[reduction("sum"), reduction("sum")], [reduction("sum")]], "rank 1 has finished its 1 collectives"),
        (
            [[exchange(source=(1,)), exchange(to=(1,))], [exchange(source=(0,)), exchange(to=(0,))]],
            "forever: rank 0 waits in",
        ),
        ([[exchange(to=(1,))], [exchange(source=(0,), sizes=(5,))]], "rank 1 waits in collective 1"),
        ([[exchange(to=(0,))]], "rank 0 waits in collective 1"),
        ([[reduction("sum", (0, 1))], [reduction("sum", (1, 2))], [reduction("sum", (0, 2))]], "forever"),
    ],
)
def test_ranks_that_would_hang_are_refused(programs, message):
    with pytest.raises(DistributedError, match=message):
        run(*programs)


def test_parts_of_other_models_or_ranks_are_refused():
    parts = [Partition("abc", rank, 2) for rank in range(2)]
    compare_partitions(parts, ["a", "b"])
    with pytest.raises(DistributedError, match="rank 0 of 2 has a, which is the part for rank 1 of 2"):
        compare_partitions(parts[::-1], ["a", "b"])
    with pytest.raises(DistributedError, match="parts of different models: a and b"):
        compare_partitions([parts[0], Partition("xyz", 1, 2)], ["a", "b"])


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
    found = of_rank_table(table(tmp_path), 1)
    assert found.hosts == ("192.0.2.1", "192.0.2.0")  # in order of rank
    assert (found.rank, found.port) == (1, 60003)  # the base, and rank 0's device
    monkeypatch.setenv("HCCL_IF_BASE_PORT", "23000")
    found = of_rank_table(table(tmp_path, server={"server_id": "127.0.0.1"}), 0)
    assert (found.hosts, found.port) == (("127.0.0.1", "127.0.0.1"), 23003)


_DEVICE = {"rank_id": "0", "device_id": "0", "device_ip": "192.0.2.1"}


@pytest.mark.parametrize(
    ("changes", "rank", "message"),
    [
        ({"status": "initializing"}, 0, "is not complete yet"),
        ({"server_list": []}, 0, "names no device"),
        ({"server_list": [{"device": [{"rank_id": "0"}]}]}, 0, "not a rank table of version 1.0"),
        (
            {"server": {"device": [{"rank_id": "1", "device_id": "0", "device_ip": "::1"}]}},
            1,
            "from 0 without gaps",
        ),
        ({"server_list": [{"device": [_DEVICE, _DEVICE]}]}, 0, "rank_id 0 is given twice"),
        (
            {"server_list": [{"device": [{**_DEVICE, "device_ip": "b"}], "server_id": "a"}]},
            0,
            "is an address",
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
def test_wrong_rank_tables(tmp_path, changes, rank, message):
    with pytest.raises(ConfigError, match=message):
        of_rank_table(table(tmp_path, **changes), rank)


@pytest.mark.parametrize(
    ("text", "message"), [("[]", "must be an object with server_list"), ("{", "is not valid JSON")]
)
def test_files_that_are_no_rank_table(tmp_path, text, message):
    path = tmp_path / "table.json"
    with pytest.raises(ConfigError, match=f"cannot read rank_table_file {path}: No such file"):
        of_rank_table(path, 0)
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"{path}: .*{message}"):
        of_rank_table(path, 0)


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
        found = of_rank_table(path, 1, ascend=4)
        assert (found.hosts, found.port) == (("192.0.2.2", "192.0.2.1"), 60005)
    path.write_text(json.dumps({"group_list": [group, group]}))
    with pytest.raises(ConfigError, match="2 groups, but ranks run in one"):
        of_rank_table(path, 0)


def test_device_other_than_that_of_the_table_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"rank 1 runs on device_id 2, and context\.ascend\.device_id is 0"):
        of_rank_table(table(tmp_path), 1, ascend=0)


@pytest.mark.parametrize(
    ("variables", "options", "wanted"),
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
def test_sources_of_the_rank(tmp_path, monkeypatch, variables, options, wanted):
    for name in (*_LAUNCHERS, *variables):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(world, "_communicators", {})
    monkeypatch.setattr(world, "Sockets", lambda rendezvous, _: _Stand(rendezvous))
    settings = Settings({"ascend_context": {"rank_table_file": str(table(tmp_path))}})
    if isinstance(wanted, int):
        assert world.communicator(Target(**options), settings).rendezvous.rank == wanted
        monkeypatch.setenv("RANK_TABLE_FILE", str(tmp_path / "table.json"))
        assert world.communicator(Target(**options), Settings()).rendezvous.rank == wanted
    else:
        with pytest.raises(ConfigError, match=wanted):
            world.communicator(Target(**options), settings)


def test_concurrent_builds_share_a_communicator(tmp_path, monkeypatch):
    made, both = [], threading.Barrier(2)

    def connect(rendezvous, _):
        made.append(rendezvous)
        time.sleep(0.1)  # where the other one would make its own
        return _Stand(rendezvous)

    def ask():
        both.wait()
        found.append(world.communicator(Target(rank=1), settings))

    for name in _LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(world, "_communicators", {})
    monkeypatch.setattr(world, "Sockets", connect)
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

    def __init__(self, rendezvous):
        self.rendezvous, self.watchdog = rendezvous, SimpleNamespace()


def test_files_of_other_ranks_are_suspected():
    assert not suspicion(["/m/Matmul0.mindir", "/m/Matmul1.mindir"], ["a", "b"])
    assert not suspicion(["/m/a.mindir", "/m/b.mindir"], ["a", "b"])
    assert not suspicion(["/m/v2_0.mindir", "/m/v2_1.mindir"], ["a", "b"])
    assert not suspicion(["/0/m.mindir", "/1/m.mindir"], ["a", "b"])
    assert "ranks 0 and 1 have the same file" in suspicion(["m", "m"], ["a", "a"])
    for turned in (["/m/Matmul1.mindir", "/m/Matmul0.mindir"], ["/rank_1/m.mindir", "/rank_0/m.mindir"]):
        assert f"rank 0 has {turned[0]}, rank 1 has {turned[1]}" in suspicion(turned, ["a", "b"])


def test_files_that_differ_in_length_or_a_long_stretch_have_other_fingerprints(tmp_path):
    length = 1 << 20
    stretches = [(0, 1), (length // 2, length // 64), (length - 1, 1)]
    contents = [bytes(length), bytes(length + 1)]
    contents += [bytes(start) + b"1" * count + bytes(length - start - count) for start, count in stretches]
    for number, content in enumerate(contents):
        (tmp_path / f"{number}").write_bytes(content)
    own = Source.of_buffer(b"model", tmp_path)
    found = [fingerprint(Source.of_buffer(content), ()) for content in contents]
    found += [fingerprint(own, [f"{number}"]) for number in range(len(contents))]
    assert len(set(found)) == 2 * len(contents)
    assert fingerprint(Source.of_buffer(contents[0]), ()) == found[0]


@pytest.mark.parametrize(("contents", "warned"), [("ab", False), ("aa", True)])
def test_ranks_with_the_same_file_warn(recwarn, contents, warned):
    links = []
    watchdog = SimpleNamespace(begin=lambda what: None)
    part = asdict(Partition())
    answers = [{"model": "m", "content": one, "partition": part, "collectives": []} for one in contents]
    ranks = SimpleNamespace(
        rank=0, watchdog=watchdog, gather=lambda text: map(json.dumps, answers), link=links.append
    )
    match_ranks(ranks, {}, Partition(), "m", contents[0])
    assert links == [[]]
    assert [w.message.args[0] for w in recwarn] == [suspicion("mm", contents)] * warned


def collective(**changes):
    port = Port("x", DataType.FLOAT32, (4, 4))
    fields = {"kind": "AllReduce", "name": "n", "takes": (port,), "gives": (port,), **changes}
    return Collective(**fields)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "Broadcast", "root": 2}, "names a rank that is not among the 2 of its group"),
        ({"own": 1}, "the file is the part of rank 3, but this is rank 2"),
        ({"kind": "AllGather"}, "takes 4 rows and gives 4, but 2 ranks take part"),
    ],
)
def test_file_of_another_rank_is_refused(changes, message):
    """Ranks in them are numbers within the group."""
    fine = collective(ranks=(2, 3), own=0)
    assert group_of(fine, {}, 4, 2) == (2, 3)
    with pytest.raises(ConfigError, match=message):
        group_of(collective(ranks=(2, 3), **changes), {}, 4, 2)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, (0, 1, 2, 3)),
        ({"group": "hccl_world_group"}, (0, 1, 2, 3)),
        ({"group": "pair"}, (0, 2)),
        ({"group": "pair", "ranks": (3, 0)}, (3, 0)),
        ({"group": "pair", "root": 1, "to": (1,), "source": (0, 1)}, (0, 2)),
        ({"group": "pair", "own": 0}, (0, 2)),
        ({"group": "other"}, "the ranks of group 'other' are not known; name the file"),
        ({"ranks": (1, 2)}, r"has the ranks \[1, 2\], and this is rank 0 of 4"),
        ({"ranks": (0, 4)}, r"has the ranks \[0, 4\], and this is rank 0 of 4"),
        ({"ranks": (0, 1, 1)}, r"has the ranks \[0, 1, 1\], and this is rank 0 of 4"),
        ({"group": "pair", "root": 2}, "names a rank that is not among the 2 of its group"),
        ({"group": "pair", "to": (0, 2)}, "names a rank that is not among the 2 of its group"),
        ({"group": "pair", "source": (2,)}, "names a rank that is not among the 2 of its group"),
        ({"group": "pair", "own": 1}, "the file is the part of rank 2, but this is rank 0"),
        ({"group": "pair", "own": 2}, "the file is the part of rank 2, but this is rank 0"),
        ({"group": "pair", "own": 5}, "the file is the part of rank 5, but this is rank 0"),
    ],
)
def test_the_ranks_that_a_collective_names(changes, found):
    groups = {"pair": (0, 2)}
    if isinstance(found, tuple):
        assert group_of(collective(**changes), groups, 4, 0) == found
        return
    with pytest.raises(ConfigError, match=found):
        group_of(collective(**changes), groups, 4, 0)


@pytest.mark.parametrize(
    ("kind", "takes", "gives", "fits"),
    [
        ("AllGather", (2, 3), (8, 3), True),
        ("AllGather", (2, 3), (4, 3), False),
        ("AllGather", (-1, 3), (4, 3), True),
        ("AllGather", (2, 3), (-1, 3), True),
        ("AllGather", (), (4,), True),
        ("ReduceScatter", (8, 3), (2, 3), True),
        ("ReduceScatter", (8, 3), (4, 3), False),
        ("ReduceScatter", (9, 3), (2, 3), False),
        ("AllToAll", (4, 3), (4, 3), True),
        ("AllToAll", (4, 3), (2, 3), False),
        ("AllToAll", (2, 3), (2, 3), False),
        ("AllReduce", (2, 3), (7, 3), True),
    ],
)
def test_shapes_tell_for_how_many_ranks_a_file_was_cut(kind, takes, gives, fits):
    ports = {name: (Port("x", DataType.FLOAT32, s),) for name, s in (("takes", takes), ("gives", gives))}
    made = collective(kind=kind, **ports)
    if fits:
        assert group_of(made, {}, 4, 1) == (0, 1, 2, 3)
        return
    with pytest.raises(
        ConfigError, match=rf"takes {takes[0]} rows and gives {gives[0]}, but 4 ranks take part"
    ):
        group_of(made, {}, 4, 1)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RANK": "5", "WORLD_SIZE": "2"}, "RANK is '5', WORLD_SIZE is '2'"),
        ({"RANK": "0", "WORLD_SIZE": "two"}, "WORLD_SIZE is 'two'"),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "65536"}, "127.0.0.1:65536: ports are 1 to 65535"),
    ],
)
def test_wrong_variables(monkeypatch, variables, message):
    for name, value in {"MASTER_ADDR": "127.0.0.1", **variables}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        of_environment()


def test_reading_of_groups_by_mindspore():
    assert groups_of(str(DATA / "groups_4.pb")) == {"pair0": (0, 1), "pair1": (2, 3)}
    assert groups_of("") == {}
    with pytest.raises(ConfigError, match="is not a group_info_file"):
        groups_of(__file__)
    with pytest.raises(ConfigError, match=r"cannot read group_info_file none\.pb: No such file"):
        groups_of("none.pb")


def test_inspect_supports_collectives():
    from pinnace.building.opening import inspect_model

    assert not inspect_model(DATA / "mlp_2_0.mindir").unsupported
