"""Commands that start servers, ranks and scripts, which are stubs."""

from __future__ import annotations

import gc
import json
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pinnace.cli.exec import _logged
from pinnace.distributed.shard import cutting
from pinnace.distributed.shard.cutting import RankShare
from pinnace.server import cluster, server


class Stub:
    """A server that gets a signal once it has started."""

    grpc_port = 0

    def __init__(self, models, settings, options):
        self.http_port, self.calls = 8123, []
        self.given = models, options

    def start(self):
        self.calls.append("start")
        signal.raise_signal(signal.SIGTERM)

    def summary(self):
        return ["m: fast", "n: slow"]

    def stop(self):
        self.calls.append("stop")


@pytest.fixture
def stubs(monkeypatch):
    made = []
    monkeypatch.setattr(server, "Server", lambda *given: made.append(Stub(*given)) or made[-1])
    yield made
    gc.unfreeze()


def test_a_server_says_where_it_is_and_stops_at_a_signal(pinnace, stubs):
    answer = pinnace("serve", "m.onnx", "n.onnx", "--host", "127.0.0.7")
    (stub,) = stubs
    assert (answer.code, answer.out, stub.calls) == (0, "", ["start", "stop"])
    assert stub.given[0] == [Path("m.onnx"), Path("n.onnx")]
    first, *others = answer.err.splitlines()
    assert first.startswith("ready after ")
    assert first.endswith(" s: http://127.0.0.7:8123")
    assert others == ["m: fast", "n: slow", "ending: running requests are answered"]


def test_predictions_are_traced_on_demand_and_not_on_a_cluster(pinnace, stubs, monkeypatch):
    traced = []
    monkeypatch.setattr("pinnace.tracing.instrument", lambda: traced.append(True))
    assert (pinnace("serve", "m.onnx").code, traced) == (0, [])
    assert (pinnace("serve", "m.onnx", "--tracing").code, traced) == (0, [True])
    wrong = pinnace("serve", "m.onnx", "--tracing", "--cluster", "ray")
    assert (wrong.code, "--tracing is not there with --cluster" in " ".join(wrong.err.split())) == (2, True)


@pytest.mark.parametrize(("flags", "replicas"), [((), "1"), (("--replicas", "0"), "by the load")])
def test_a_cluster_has_replicas_and_no_grpc_unless_it_is_asked_for(pinnace, monkeypatch, flags, replicas):
    seen = []

    def of(models, settings, options, count):
        seen.append((options.grpc_port, count))
        return SimpleNamespace(cores=3, serve=lambda started, ended: started() or seen.append(ended()))

    monkeypatch.setattr(cluster.ClusterServer, "of", of)
    answer = pinnace("serve", "m.onnx", "--cluster", "ray", "--http-port", "8124", *flags)
    assert answer.code == 0
    assert "http://127.0.0.1:8124 on each node with a replica" in answer.err
    assert f"replicas: {replicas}, each with 3 cores" in answer.err
    pinnace("serve", "m.onnx", "--cluster", "ray", "--grpc-port", "8125")
    assert seen == [(None, 0 if flags else 1), False, (8125, 1), False]


@pytest.fixture
def ranks(monkeypatch):
    """The arguments with which ranks are started; two of them print."""
    seen = []

    def launch(count, hosts, way, agent, command, show):
        seen.append((count, hosts, way, agent, command))
        show(None, True, "starting\n")
        show(1, False, "result\n")
        show(0, True, "trouble\n")
        return 7

    monkeypatch.setattr("pinnace.distributed.launch.launch", launch)
    monkeypatch.setenv("PYTHONPATH", "")
    return seen


def test_lines_of_ranks_have_their_numbers_and_options_behind_the_script_are_its_own(pinnace, ranks):
    answer = pinnace("launch", "-n", 2, "--hosts", "a,b:2,", "--with", "sockets", "main.py", "-n", "x")
    assert (answer.code, answer.out, answer.err) == (7, "[1] result\n", "pinnace: starting\n[0] trouble\n")
    pinnace("launch", "-n", 4, "-m", "job", "--hosts")
    pinnace("launch", "--ranks", 3, "--agent", "rsh", "main.py")
    assert ranks == [
        (2, ["a", "b:2"], "sockets", "ssh", ["main.py", "-n", "x"]),
        (4, [], "", "ssh", ["-m", "job", "--hosts"]),
        (3, [], "", "rsh", ["main.py"]),
    ]


def test_lines_of_ranks_on_stderr_are_events_of_a_log_of_json(pinnace, ranks):
    answer = pinnace("--log", "json", "launch", "-n", 2, "main.py")
    first, second = map(json.loads, answer.err.splitlines())
    assert (first["event"], first["message"], "rank" in first) == ("launch", "starting", False)
    assert (second["event"], second["message"], second["rank"]) == ("stderr", "trouble", 0)
    assert answer.out == "[1] result\n"


SHARES = [
    RankShare("m_0.onnx", 1_500_000, 3_000_000, 2_000_000_000, 4, 250_000, ["because"]),
    RankShare("m_1.onnx", 750_000, 3_000_000, 500_000_000, 5, 0, []),
]


def test_shares_of_ranks_are_a_table_or_json(pinnace, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(cutting, "shard", lambda *given: seen.append(given) or SHARES)
    model = tmp_path / "m.onnx"
    shapes = ("--shape", "x=1,128", "--shape", "y=2")
    found = pinnace("shard", model, "-n", 2, *shapes, "--output", tmp_path, "--json").json
    assert found[0] == {
        "file": "m_0.onnx", "weights": 1_500_000, "whole": 3_000_000, "operations": 2_000_000_000,
        "collectives": 4, "sent": 250_000, "why": ["because"],
    }  # fmt: skip
    lines = [" ".join(line.split()) for line in pinnace("shard", model, "-n", 2).out.splitlines()]
    assert lines == [
        "m.onnx in 2 ranks",
        "rank file weights MB of whole operations 10^9 collectives sent MB",
        "0 m_0.onnx 1.5 0.50 2.00 4 0.25", "1 m_1.onnx 0.8 0.25 0.50 5 0.00", "because",
    ]  # fmt: skip
    pinnace("shard", tmp_path / "m.mindir", "-n", 2, "--strategy", "tensor")
    pinnace("shard", model, "-n", 3, "--format", "mindir")
    saved = [given[-1].__name__ for given in seen]
    assert saved == ["save_onnx", "save_onnx", "save_mindir", "save_mindir"]
    assert seen[0][:5] == (model, 2, tmp_path, "", {"x": [1, 128], "y": [2]})
    assert seen[2][1:5] == (2, Path(), "tensor", {})
    for wrong in ("x", "x=", "x=1,a"):
        assert pinnace("shard", model, "-n", 2, "--shape", wrong).code == 2


@pytest.mark.parametrize(("status", "code"), [(0, 0), (3, 3), (-15, 143)])
def test_a_script_whose_stderr_is_logged_ends_with_its_status_as_in_a_shell(monkeypatch, status, code):
    ended = SimpleNamespace(stderr=[], wait=lambda: status, terminate=None)
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: ended)
    assert _logged(["python"]) == code


def test_a_port_beyond_65535_is_refused(pinnace, stubs):
    assert "--http-port" in pinnace("serve", "m.onnx", "--http-port", 65536).err
    assert "--grpc-port" in pinnace("serve", "m.onnx", "--grpc-port", 70000).err


def test_a_server_without_its_packages_names_the_extra(pinnace, monkeypatch):
    monkeypatch.setitem(sys.modules, "pinnace.server.server", None)
    answer = pinnace("serve", "m.onnx")
    assert answer.code == 1
    assert "pip install 'starlette" in answer.err
    assert "'grpcio" in answer.err
