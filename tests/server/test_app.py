"""The ASGI application in a server of the user's, and servers beside each other."""

from __future__ import annotations

import socket
import threading

import pytest
import tritonclient.http
import uvicorn
from starlette.testclient import TestClient
from tests.server.test_protocol import A, B, inputs
from tests.waiting import until

from pinnace.server import app
from pinnace.server.http import application
from pinnace.server.repository import Repository
from pinnace.server.server import Options, Server
from pinnace.server.settings import ModelSettings

SHARED = ("/v2", "/v2/health/live", "/v2/models/simple", "/v2/models/simple/config", "/openapi.json")
OF_ONE = (
    "/", "/status", "/metrics", "/v2/models/stats", "/v2/models/simple/stats",
    "/v2/models/simple/versions/1/stats",
)  # fmt: skip
CHANGES = (
    "/v2/repository/models/simple/load", "/v2/repository/models/simple/unload",
    "/v2/systemsharedmemory/region/r/register", "/v2/systemsharedmemory/region/r/unregister",
    "/v2/systemsharedmemory/unregister",
)  # fmt: skip


def test_one_of_several_applications_refuses_what_concerns_a_process(simple):
    made = application(
        Repository([simple], ModelSettings(workers=1, threads=1)), 1000, opens=True, alone=False
    )
    with TestClient(made) as client:
        assert {client.get(path).status_code for path in SHARED} == {200}
        answers = [*map(client.get, OF_ONE), *map(client.post, CHANGES)]
        assert [answer.url.path for answer in answers if answer.status_code != 501] == []
        assert "would answer for itself" in answers[0].json()["error"]


def test_the_application_opens_its_models_in_any_server(simple):
    server = uvicorn.Server(uvicorn.Config(app([simple]), port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    client = tritonclient.http.InferenceServerClient(f"127.0.0.1:{port}")
    assert client.infer("simple", inputs(tritonclient.http, A, B)).as_numpy("OUTPUT0")[0, 0] == 1
    server.should_exit = True
    thread.join()


def test_servers_have_ports_of_their_own_unless_options_name_them(simple):
    with Server([simple]) as one, Server([simple]) as other:
        ports = {one.http_port, one.grpc_port, other.http_port, other.grpc_port}
        assert len(ports) == 4
        assert min(ports) > 1023  # those below are for known services
        for door in ("http_port", "grpc_port"):
            taken = {"http_port": 0, "grpc_port": 0} | {door: getattr(one, door)}
            with pytest.raises((OSError, RuntimeError)):
                Server([simple], options=Options(**taken)).start()


def test_a_server_may_listen_at_a_unix_socket_only(serving, simple, tmp_path):
    server = serving(simple, unix_socket=tmp_path / "socket", http_port=None, grpc_port=None)
    assert (server.http_port, server.grpc_port) == (0, 0)
    assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as unix:
        unix.connect(str(tmp_path / "socket"))
        unix.sendall(b"GET /v2/health/ready HTTP/1.1\r\nhost: x\r\n\r\n")
        assert unix.recv(100).startswith(b"HTTP/1.1 200")
    server.stop()
    assert not (tmp_path / "socket").exists()
