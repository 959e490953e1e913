"""`pinnace serve`."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
import tritonclient.http
from tests.server.test_protocol import A, B, inputs
from tests.waiting import LIMIT


@pytest.fixture
def started(simple, tmp_path):
    command = [sys.executable, "-m", "pinnace", "serve", str(simple), "--workers", "1", "--threads", "1"]
    command += ["--http-port", "0", "--grpc-port", "0", "--unix-socket", str(tmp_path / "socket")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_a_signal(started, number, tmp_path):
    ready, model = started.stderr.readline(), started.stderr.readline()
    assert re.match(r"ready after [\d.]+ s: http://127\.0\.0\.1:\d+, grpc://127\.0\.0\.1:\d+, unix:", ready)
    assert re.match(
        r"simple: .*1 workers x 1 threads, in process [\d.e-]+ ms, through HTTP [\d.e-]+ ms\n", model
    )
    port = re.search(r":(\d+)", ready)[1]
    client = tritonclient.http.InferenceServerClient(f"127.0.0.1:{port}")
    np.testing.assert_array_equal(
        client.infer("simple", inputs(tritonclient.http, A, B)).as_numpy("OUTPUT0"), A + B
    )
    with socket.socket(socket.AF_UNIX) as unix:
        unix.connect(str(tmp_path / "socket"))
        unix.sendall(b"GET /v2/health/ready HTTP/1.1\r\nhost: x\r\n\r\n")
        assert unix.recv(100).startswith(b"HTTP/1.1 200")
    assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o600
    started.send_signal(number)
    assert started.wait(LIMIT) == 0
    assert not (tmp_path / "socket").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["nothing.onnx"], 1, "nothing.onnx: there is no such file"),
        (["{simple}", "--host", "0.0.0.0"], 1, "can be reached by others"),
        (["{simple}", "--memory", "much"], 2, "expected a size such as"),
        (["{simple}", "--tokens", "nothing"], 1, "there is no such file"),
        (["{simple}", "--http-port", "-1", "--grpc-port", "-1"], 1, "a server needs a port or a socket"),
        (["{simple}", "--unix-socket", "/no/where"], 1, "listen at the socket /no/where: No such file"),
        (["{simple}", "--http-port", "{taken}"], 1, "HTTP cannot listen at 127.0.0.1:{taken}: Address"),
        (["{simple}", "--http-port", "-1", "--grpc-port", "{taken}"], 1, "gRPC cannot listen at"),
    ],
)
def test_wrong_options_are_one_message(simple, options, code, message):
    with socket.create_server(("127.0.0.1", 0)) as other:
        names = {"simple": simple, "taken": other.getsockname()[1]}
        command = [sys.executable, "-m", "pinnace", "serve", *(word.format(**names) for word in options)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ended.returncode == code
    assert message.format(**names) in " ".join(ended.stderr.split())
