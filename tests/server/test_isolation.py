"""Models in processes of their own, which may end at any time."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from onnx import TensorProto
from tests.server import models
from tests.server.test_limits import DOORS, connected, endless
from tests.server.test_repository import ask, client_of
from tests.waiting import LIMIT, until
from tritonclient.utils import InferenceServerException

ISOLATED = "isolate = true\nworkers = 1\nthreads = 1\n"


@pytest.fixture
def server(serving, tmp_path):
    models.rounds(tmp_path / "rounds" / "model.onnx")
    models.constant(tmp_path / "other" / "model.onnx", 7)
    (tmp_path / "rounds" / "model.toml").write_text(ISOLATED)
    return serving(tmp_path)


def runner_of(server):
    return server.repository.entry("rounds").open["1"].runner


def pids(runner) -> list[int]:
    return runner._live.workers.replicas.pids


@pytest.mark.parametrize("name", DOORS)
def test_a_killed_process_fails_its_request_and_no_other(server, name):
    door, failed = DOORS[name], []
    runner = runner_of(server)

    def lose() -> None:
        with pytest.raises(InferenceServerException, match=r"503|UNAVAILABLE") as raised:
            connected(door, server).infer("rounds", endless(door))
        failed.append(str(raised.value))

    asking = threading.Thread(target=lose)
    asking.start()
    until(lambda: runner.stats().busy == 1)
    (pid,) = pids(runner)
    os.kill(pid, signal.SIGKILL)
    assert ask(client_of(server), "other") == (7, "1")
    asking.join(LIMIT)
    assert "was killed by SIGKILL while it computed this request" in failed[0]
    assert connected(door, server).infer("rounds", endless(door, 2)).as_numpy("y") is not None
    assert pids(runner) != [pid]


def test_a_process_that_is_killed_while_it_waits_is_replaced_unseen(server):
    door, runner = DOORS["http"], runner_of(server)
    (pid,) = pids(runner)
    os.kill(pid, signal.SIGKILL)
    until(lambda: pids(runner) not in ([pid], []))
    assert connected(door, server).infer("rounds", endless(door, 2)).as_numpy("y") is not None


def test_a_model_with_text_cannot_be_isolated_and_says_why(serving, tmp_path):
    models.echo(tmp_path / "m" / "model.onnx", TensorProto.STRING)
    (tmp_path / "m" / "model.toml").write_text(ISOLATED)
    assert "text, which shared memory cannot hold" in serving(tmp_path).summary()[0]


def test_a_deadline_ends_a_run_in_a_process_that_goes_on(server):
    door, before = DOORS["grpc"], pids(runner_of(server))
    with pytest.raises(InferenceServerException, match="DEADLINE_EXCEEDED"):
        connected(door, server).infer("rounds", endless(door), timeout=200_000)
    assert connected(door, server).infer("rounds", endless(door, 2)).as_numpy("y") is not None
    assert pids(runner_of(server)) == before


def test_the_memory_of_a_process_counts(server):
    opened = {name: server.repository.entry(name).open["1"] for name in ("rounds", "other")}
    assert opened["rounds"].memory > 10_000_000 + opened["other"].memory


def test_the_process_would_end_before_the_server_and_ends_with_its_model(server):
    (pid,) = pids(runner_of(server))
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "500\n"  # it goes before the server does
    client_of(server).unload_model("rounds")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_server_whose_model_has_no_process_left_is_not_ready_until_the_model_is_loaded(
    server, tmp_path, monkeypatch
):
    monkeypatch.setattr("pinnace.serving.replicas._STARTS", 1)
    client, path = connected(DOORS["http"], server), tmp_path / "rounds" / "model.onnx"
    assert client.is_server_ready()
    path.unlink()  # no process can start again
    (pid,) = pids(runner_of(server))
    os.kill(pid, signal.SIGKILL)
    until(lambda: not client.is_server_ready())
    assert not client.is_model_ready("rounds")
    assert client.is_model_ready("other")
    models.rounds(path)
    client.load_model("rounds")
    assert client.is_server_ready()
    assert client.is_model_ready("rounds")
