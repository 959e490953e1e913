"""The example of a service, under gunicorn with a model that the master built, and under uvicorn."""

from __future__ import annotations

import http.client
import io
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.waiting import is_alive, until

import pinnace

SERVICE = Path(__file__).parents[2] / "examples" / "service"
FEW = np.random.default_rng(1).normal(size=(3, 48)).astype(np.float32)
MANY = np.ones((20_000, 48), np.float32)


class Connection(http.client.HTTPConnection):
    """A connection to a socket that has a path."""

    def __init__(self, path):
        super().__init__("service")
        self._path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self._path)


class Service:
    """A server that has been started, with what it printed."""

    def __init__(self, process, path, log):
        self.process, self._path, self._log = process, path, log

    def listens(self):
        with suppress(OSError), closing(Connection(self._path)) as connection:
            connection.connect()
            return True
        return False

    def output(self):
        return self._log.read_text()

    def ask(self, array):
        """Return status, worker and answer."""
        body = io.BytesIO()
        np.save(body, array)
        connection = Connection(self._path)
        connection.request("POST", "/", body.getvalue(), {"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, int(answer.headers["X-Worker"]), answer.read()

    def workers(self, count=2):
        """Return the ids of the workers, after each of them has answered."""
        seen = set()

        def all_seen():
            with ThreadPoolExecutor(4) as clients:
                seen.update(worker for _, worker, _ in clients.map(self.ask, [FEW] * 4))
            return len(seen) == count

        until(all_seen)
        return seen


@contextmanager
def served(tmp_path, slow, server, *options):
    path, log = tmp_path / "service.sock", tmp_path / "log"
    environment = os.environ | {"MODEL": str(slow), "METRICS_PORTS": "0", "HOME": str(tmp_path)}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", server, *options],
            cwd=SERVICE, env=environment, stdout=output, stderr=output, start_new_session=True,
        ) as process,
    ):  # fmt: skip
        service = Service(process, path, log)
        try:
            until(lambda: service.listens() or process.poll() is not None)
            assert process.poll() is None, service.output()
            yield service
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def right(slow):
    with pinnace.Model() as model:
        model.build_from_file(slow, pinnace.ModelType.ONNX)
        return model.predict([FEW])[0].numpy()


@pytest.fixture
def on_gunicorn(tmp_path, slow):
    pytest.importorskip("gunicorn")
    with served(
        tmp_path, slow, "gunicorn", "--bind", f"unix:{tmp_path / 'service.sock'}", "app:app"
    ) as service:
        yield service


def scraped(service):
    """Return the samples of all workers by name and label, added up, and the number of workers."""
    ports = [line.rpartition(" ")[2] for line in service.output().splitlines() if " on port " in line]
    total = {}
    for port in ports:
        with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=300) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = sample.name, sample.labels.get("outcome") or sample.labels.get("state")
                total[key] = total.get(key, 0) + sample.value
    return total, len(ports)


def begun(service):
    """Return the number of requests that wait, run or are served."""
    found, _ = scraped(service)
    keys = ("requests_total", "served"), ("workers", "busy"), ("queue_length", None)
    return sum(found[f"pinnace_{name}", label] for name, label in keys)


def test_two_workers_of_gunicorn_share_a_model_of_their_master(on_gunicorn, right):
    before = on_gunicorn.workers()
    answers = [on_gunicorn.ask(FEW) for _ in range(20)]
    for status, _, body in answers:
        assert status == 200
        np.testing.assert_array_equal(np.load(io.BytesIO(body)), right)
    found, count = scraped(on_gunicorn)
    assert count == 2
    assert found["pinnace_workers", "idle"] == 2
    assert found["pinnace_requests_total", "served"] >= 22
    assert found["pinnace_requests_total", "served"] == found["pinnace_prediction_seconds_count", None]
    assert on_gunicorn.ask(np.zeros(3, np.float32))[0] == 400

    one = before.pop()
    os.kill(one, signal.SIGKILL)  # the master forks another one
    until(lambda: not is_alive(one) and before < on_gunicorn.workers() - {one})


def test_sigterm_lets_gunicorn_answer_what_it_has_begun(on_gunicorn):
    on_gunicorn.workers()
    before = begun(on_gunicorn)
    with ThreadPoolExecutor(6) as clients:
        answers = [clients.submit(on_gunicorn.ask, MANY) for _ in range(6)]
        until(lambda: all(begun(on_gunicorn) >= before + 6 for _ in range(3)))
        on_gunicorn.process.terminate()
        assert [answer.result()[0] for answer in answers] == [200] * 6
    assert on_gunicorn.process.wait(300) == 0, on_gunicorn.output()


def test_sigterm_lets_uvicorn_answer_what_it_has_begun(tmp_path, slow, right):
    pytest.importorskip("uvicorn")
    with served(tmp_path, slow, "uvicorn", "--uds", str(tmp_path / "service.sock"), "app:asgi") as service:
        status, _, body = service.ask(FEW)
        assert status == 200
        np.testing.assert_array_equal(np.load(io.BytesIO(body)), right)
        with ThreadPoolExecutor(3) as clients:
            answers = [clients.submit(service.ask, MANY) for _ in range(3)]
            answers[0].result()
            service.process.terminate()
            assert [answer.result()[0] for answer in answers] == [200] * 3
        assert service.process.wait(300) in (0, -signal.SIGTERM), service.output()
