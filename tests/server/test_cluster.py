"""`pinnace serve --cluster ray`, on a cluster that the command starts."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http
from starlette.testclient import TestClient
from tests.server.models import constant, rounds
from tests.server.test_protocol import A, B, inputs
from tests.waiting import LIMIT, in_thread, until
from tritonclient._plugin import InferenceServerClientPlugin
from tritonclient.utils import InferenceServerException

from pinnace.errors import ConfigError
from pinnace.server.cluster import ClusterServer
from pinnace.server.server import Options
from pinnace.server.settings import ModelSettings
from pinnace.serving.ray import doors

ALONE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": "local", "RAY_AUTH_MODE": "disabled"}
"""Variables for a cluster that reports to nobody and joins nothing that happens to run here."""
TOKEN = "3f1c0e5b9a7d4c2e8f60"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def served(tmp_path_factory, simple):
    """The command with two replicas, and its port."""
    pytest.importorskip("ray.serve", reason="ray is missing: pip install 'ray[serve]'")
    models = [simple, rounds(tmp_path_factory.mktemp("rounds") / "rounds.onnx")]
    port = free_port()
    command = [sys.executable, "-m", "pinnace", "serve", *map(str, models), "--cluster", "ray"]
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"{TOKEN} infer read admin\n")
    command += ["--replicas", "2", "--http-port", str(port), "--tokens", str(tokens)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | ALONE) as process:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "ready after" in line:
                break
        assert re.search(rf"http://127.0.0.1:{port} .*replicas: 2, each with 1 cores", lines[-1]), lines
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield process, port
        process.kill()


def replicas(parent: int) -> set[int]:
    """The processes below one that are replicas."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    below = {parent}
    while more := {pid for pid, its in parents.items() if its in below} - below:
        below |= more
    return {pid for pid in below if "ServeReplica" in title(pid)}


def title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class WithToken(InferenceServerClientPlugin):
    def __call__(self, request):
        request.headers["authorization"] = f"Bearer {TOKEN}"


def asked(port):
    client = tritonclient.http.InferenceServerClient(f"127.0.0.1:{port}", network_timeout=LIMIT)
    client.register_plugin(WithToken())
    return client


def test_replicas_answer_and_come_back(served):
    process, port = served
    client = asked(port)

    def answers():
        try:
            result = client.infer("simple", inputs(tritonclient.http, A, B))
        except (InferenceServerException, OSError):
            return False
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), A + B)
        return True

    assert client.is_server_ready()
    assert all(answers() for _ in range(8))
    first = replicas(process.pid)
    assert len(first) == 2
    os.kill(min(first), signal.SIGKILL)
    until(answers)
    until(lambda: len(replicas(process.pid) - first) == 1)
    assert max(first) in replicas(process.pid)
    until(lambda: all(answers() for _ in range(8)))


def test_replicas_ask_for_tokens(served):
    with pytest.raises(InferenceServerException, match=r"401.*a token is needed"):
        tritonclient.http.InferenceServerClient(f"127.0.0.1:{served[1]}").get_server_metadata()


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.load_model("simple"),
        lambda client: client.unload_model("simple"),
        lambda client: client.get_inference_statistics(),
        lambda client: client.register_system_shared_memory("region", "/pinnace-key", 4),
    ],
)
def test_calls_for_one_process_are_refused(served, ask):
    with pytest.raises(InferenceServerException, match="one of several replicas would answer for itself"):
        ask(asked(served[1]))


def test_a_signal_ends_all_of_it_and_running_requests_are_answered(served):
    """The last test: it ends the server."""
    process, port = served
    count, x = (tritonclient.http.InferInput(*one) for one in (("count", [], "INT64"), ("x", [3], "FP32")))
    count.set_data_from_numpy(np.array(5_000_000, np.int64))
    x.set_data_from_numpy(np.ones(3, np.float32))
    thread, outcome = in_thread(lambda: asked(port).infer("rounds", [count, x]))
    before = replicas(process.pid)
    assert before
    time.sleep(2)
    assert not outcome
    process.send_signal(signal.SIGTERM)
    thread.join()
    assert isinstance(outcome[0], tritonclient.http.InferResult), outcome
    assert process.wait(LIMIT) == 0
    until(lambda: not any("ServeReplica" in title(pid) for pid in before))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (Options(grpc_port=8001), "--grpc-port is not there with --cluster ray"),
        (Options(grpc_port=None, unix_socket=Path("socket")), "--unix-socket is not there"),
        (Options(grpc_port=None, shared_memory="/pinnace-"), "--shared-memory is not there"),
        (Options(grpc_port=None, http_port=0), "all nodes of a cluster need one port"),
        (Options(grpc_port=None, http_port=None), "a server needs a port or a socket"),
        (Options(grpc_port=None, host="0.0.0.0"), "can be reached by others"),
        (Options(grpc_port=None, tokens=Path("nothing")), "there is no such file"),
    ],
)
def test_what_a_cluster_lacks_is_refused_before_it_is_asked(tmp_path, options, named):
    model = constant(tmp_path / "one.onnx", 1)
    with pytest.raises(ConfigError, match=named):
        ClusterServer.of([model], ModelSettings(), options, 1)


def test_each_replica_is_an_application_with_the_options_of_the_server(simple, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(doors, "serve", lambda *given: seen.append(given))
    (tmp_path / "tokens").write_text(f"{TOKEN} read\n")
    tokens = tmp_path / "tokens"
    options = Options("127.0.0.1", 8126, None, max_connections=7, drain=3.0, name="ours", tokens=tokens)
    server = ClusterServer.of([simple], ModelSettings(threads=2), options, 4)
    assert (server.cores, server.settings.workers, server.models) == (2, 1, (simple,))
    assert ClusterServer.of([simple], ModelSettings(workers=3), options, 0).cores == 3
    server.serve(len, bool)
    ((build, place, replicas, cores, *rest),) = seen
    assert (replicas, cores, rest) == (4, 2, [len, bool])
    assert place == doors.Place("127.0.0.1", 8126, 7, 3.0)
    with TestClient(build()) as client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert client.get("/v2", headers=headers).json()["name"] == "ours"
        assert client.get("/v2").status_code == 401
        assert client.get("/status", headers=headers).status_code == 501


def test_tokens_and_models_of_a_cluster_are_read_before_it_is_asked(simple, tmp_path):
    (tmp_path / "tokens").write_text("short read\n")
    with pytest.raises(ConfigError, match="at least 16"):
        ClusterServer.of([simple], ModelSettings(), Options(grpc_port=None, tokens=tmp_path / "tokens"), 1)
    with pytest.raises(ConfigError, match="there is no such file"):
        ClusterServer.of([tmp_path / "none.onnx"], ModelSettings(), Options(grpc_port=None), 1)


def test_a_missing_ray_is_named(tmp_path):
    code = "import sys; sys.modules['ray'] = None; from pinnace.cli import main; main()"
    model = constant(tmp_path / "one.onnx", 1)
    command = [sys.executable, "-c", code, "serve", str(model), "--cluster", "ray"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ended.returncode == 1
    assert "pip install 'ray[serve]>=2.60'" in " ".join(ended.stderr.split())
