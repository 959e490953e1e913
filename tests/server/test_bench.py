"""`pinnace bench NAME --url URL`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.waiting import LIMIT


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_model_of_a_server_is_measured(serving, simple, scheme):
    server = serving(simple)
    port = server.http_port if scheme == "http" else server.grpc_port
    command = [sys.executable, "-m", "pinnace", "bench", "simple", "--url", f"{scheme}://127.0.0.1:{port}"]
    command += ["--clients", "2", "--rate", "20", "--batch", "3", "--runs", "5", "--warm-up", "1", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["latency"][0]["runs"] == 5
    assert report["throughput"][0]["clients"] == 2
    assert report["arrivals"][0]["requests"] == 5
    assert server.repository.entry("simple").open["1"].counts.served == 2 + 5 + 10 + 5 + 2
    assert "[3, 16]" in ended.stderr


@pytest.mark.parametrize(
    ("name", "url", "message"),
    [
        ("simple", "ftp://127.0.0.1:1", "expected http://HOST:PORT or grpc://HOST:PORT"),
        ("simple", "http://127.0.0.1:{closed}", "the server does not answer"),
        ("nothing", "http://127.0.0.1:{http}", "Request for unknown model"),
        ("nothing", "grpc://127.0.0.1:{grpc}", "Request for unknown model"),
    ],
)
def test_what_cannot_be_measured_is_one_message(serving, simple, name, url, message):
    server = serving(simple)
    place = url.format(http=server.http_port, grpc=server.grpc_port, closed=1)
    command = [sys.executable, "-m", "pinnace", "bench", name, "--url", place]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ended.returncode == 1
    assert message in " ".join(ended.stderr.split())
