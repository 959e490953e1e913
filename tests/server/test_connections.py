"""Limits of connections: their number, heads and bodies that are long or slow, over HTTP and gRPC."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import ExitStack, closing, suppress

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto
from tests.server import models
from tests.server.test_limits import busy, connected, endless
from tests.server.test_protocol import A, B, inputs
from tests.waiting import LIMIT, until

from pinnace.server.connections import Connection
from pinnace.server.door import binary_request
from pinnace.server.grpc import SERVICE
from pinnace.server.server import loop_factory

LIVE = b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST /v2/models/simple/infer HTTP/1.1\r\nhost: x\r\n"
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
PING = bytes([0, 0, 8, 6, 0, 0, 0, 0, 0]) + b"12345678"


def opened(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=LIMIT)


def rest(client: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    data = b""
    try:
        while part := client.recv(1 << 16):
            data += part
    except ConnectionResetError:
        pass
    return data


def status(client: socket.socket, request: bytes) -> bytes:
    client.sendall(request)
    return client.recv(1 << 16).split()[1]


def test_connections_of_http_beyond_the_limit_are_refused(serving, simple):
    server = serving(simple, max_connections=2)
    with ExitStack() as held:
        clients = [held.enter_context(opened(server.http_port)) for _ in range(2)]
        assert [status(client, LIVE) for client in clients] == [b"200"] * 2
        with opened(server.http_port) as third:
            assert rest(third).startswith(b"HTTP/1.1 503")
        clients[0].close()
        until(lambda: _is_served(server.http_port))
        assert status(clients[1], LIVE) == b"200"


def _is_served(port: int) -> bool:
    with opened(port) as client:
        return status(client, LIVE) == b"200"


def test_connections_of_grpc_beyond_the_limit_are_closed(serving, simple):
    server = serving(simple, max_connections=2)
    with ExitStack() as held:
        for _ in range(2):
            client = held.enter_context(opened(server.grpc_port))
            client.sendall(HTTP2)
            assert client.recv(100)
        with opened(server.grpc_port) as third:
            assert rest(third) == b""


def test_requests_of_grpc_beyond_the_limit_are_refused(serving, rounds):
    server = serving(rounds, max_connections=2)
    client = connected(tritonclient.grpc, server)
    calls = [
        client.async_infer("rounds", endless(tritonclient.grpc), lambda result, error: None) for _ in range(2)
    ]
    until(lambda: busy(server, 2))
    own = [("grpc.use_local_subchannel_pool", 1)]  # on the same connection it would wait in the client
    with (
        grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", own) as channel,
        pytest.raises(grpc.RpcError) as raised,
    ):
        channel.unary_unary(f"/{SERVICE}/ServerLive")(b"")
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    for call in calls:
        call.cancel()
    until(lambda: busy(server, 0))


@pytest.mark.parametrize("begun", [b"", b"GET /v2", LIVE[:-2], LIVE + b"GET"])
def test_a_slow_head_ends_its_connection(serving, simple, monkeypatch, begun):
    monkeypatch.setattr("pinnace.server.connections.PATIENCE", 0.2)
    with opened(serving(simple).http_port) as client:
        client.sendall(begun)
        answer = rest(client)
    assert answer.startswith(b"HTTP/1.1 200" if begun.startswith(LIVE) else b"HTTP/1.1 408")


def test_a_slow_handshake_of_grpc_ends_its_connection(serving, simple, monkeypatch):
    monkeypatch.setattr("pinnace.server.grpc.PATIENCE", 0.2)
    with opened(serving(simple).grpc_port) as client:
        rest(client)


def endlessly(client: socket.socket, head: bytes) -> None:
    client.sendall(head)
    for _ in range(10_000):
        client.sendall(b"x" * 10_000)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\nx: ",
        b"GET /",
        POST + b"transfer-encoding: chunked\r\n\r\n0\r\nx: ",
        POST + b"transfer-encoding: chunked\r\n\r\n1;",
    ],
    ids=["field", "path", "field behind the body", "extension of a chunk"],
)
def test_an_endless_head_ends_its_connection(serving, simple, head):
    with opened(serving(simple).http_port) as client, pytest.raises(OSError, match=r"reset|Broken pipe"):
        endlessly(client, head)


def test_a_body_may_come_in_single_bytes(serving, simple):
    made = tritonclient.http.InferenceServerClient.generate_request_body(inputs(tritonclient.http, A, B))
    body = b"".join(b"1\r\n%c\r\n" % byte for byte in made[0]) + b"0\r\n\r\n"
    head = f"transfer-encoding: chunked\r\ninference-header-content-length: {made[1]}\r\n\r\n"
    with opened(serving(simple).http_port) as client:
        client.sendall(POST + head.encode())
        for place in range(0, len(body), 60):
            client.sendall(body[place : place + 60])
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_a_client_that_sends_too_much_sees_why(serving, simple):
    with opened(serving(simple, max_bytes=10_000).http_port) as client:
        client.sendall(POST + b"content-length: 20000000\r\n\r\n" + bytes(20_000_000))
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 413")
        assert status(client, LIVE) == b"200"


def test_a_body_that_nobody_reads_is_not_waited_for(serving, simple, monkeypatch):
    monkeypatch.setattr("pinnace.server.connections.PATIENCE", 0.2)
    with opened(serving(simple, max_bytes=10_000).http_port) as client:
        client.sendall(POST + b"content-length: 20000\r\n\r\n" + bytes(100))
        assert rest(client).startswith(b"HTTP/1.1 413")


def test_a_body_that_was_not_asked_for_ends_its_connection(serving, simple, monkeypatch):
    monkeypatch.setattr(Connection, "timeout_keep_alive_handler", lambda _: None)  # which ends it later
    with opened(serving(simple, max_bytes=10_000).http_port) as client:
        client.sendall(POST + b"content-length: 20000\r\nexpect: 100-continue\r\n\r\n")
        assert rest(client).startswith(b"HTTP/1.1 413")


def test_large_metadata_of_grpc_are_refused(serving, simple):
    with grpc.insecure_channel(f"127.0.0.1:{serving(simple).grpc_port}") as channel:
        call = channel.unary_unary(f"/{SERVICE}/ServerLive")
        assert call(b"", metadata=[("x", "y" * 1000)])
        with pytest.raises(grpc.RpcError) as raised:
            call(b"", metadata=[("x", "y" * 20_000)])
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_many_pings_of_grpc_end_their_connection(serving, simple):
    with closing(opened(serving(simple).grpc_port)) as client:
        client.sendall(HTTP2 + PING * 20)
        assert b"too_many_pings" in rest(client)


def test_a_message_that_does_not_come_holds_nobody_up(serving, simple):
    server, called = serving(simple), threading.Event()
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:

        def never():
            called.wait(LIMIT)
            yield b""

        slow = channel.stream_unary(f"/{SERVICE}/ModelInfer").future(never())
        result = connected(tritonclient.grpc, server).infer("simple", inputs(tritonclient.grpc, A, B))
        assert result.as_numpy("OUTPUT0")[0, 0] == 1
        slow.cancel()
        called.set()


def posted(model: str, inputs: list, fields: str = "") -> bytes:
    """A request to infer, with other fields in its head."""
    path, body, headers = binary_request(model, inputs)
    headers |= {"host": "x", "content-length": str(len(body))}
    listed = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {path} HTTP/1.1\r\n{listed}{fields}\r\n".encode() + body


def test_the_body_of_a_request_to_upgrade_is_no_request(serving, simple):
    """Java's HttpClient asks so; behind a proxy such a body would be somebody's request."""
    fields = "connection: Upgrade, HTTP2-Settings{}\r\nUpgrade: h2c\r\n"
    given = [("INPUT0", A), ("INPUT1", B)]
    first, last = (posted("simple", given, fields.format(close)) for close in ("", ", close"))
    with closing(opened(serving(simple).http_port)) as client:
        client.sendall(first + first + LIVE + last)
        answers = rest(client)
    assert answers.count(b"HTTP/1.1 ") == answers.count(b"HTTP/1.1 200") == 4


def counted(count: int, fields: str = "") -> bytes:
    """A request to the model "rounds"."""
    given = [("count", np.array(count)), ("x", np.ones(3, np.float32))]
    return posted("rounds", given, fields)


@pytest.mark.parametrize("fields", ["", "expect: 100-continue\r\n"])
def test_a_request_behind_another_one_is_answered(serving, rounds, monkeypatch, fields):
    """Its body comes when the first one is answered, and its run takes longer than a client may send."""
    monkeypatch.setattr("pinnace.server.connections.PATIENCE", 0.3)
    server = serving(rounds)
    with closing(opened(server.http_port)) as client:
        head, gap, body = counted(1_500_000, f"connection: close\r\n{fields}").partition(b"\r\n\r\n")
        client.sendall(counted(1) + head + gap + body[:10])
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        client.sendall(body[10:])
        assert b"HTTP/1.1 200" in rest(client)


def test_many_requests_at_once_are_no_long_head(serving, simple):
    request = LIVE[:-2] + b"x: " + b"x" * 300 + b"\r\n\r\n"
    with closing(opened(serving(simple).http_port)) as client:
        client.sendall(request * 500 + LIVE[:-2] + b"connection: close\r\n\r\n")
        assert rest(client).count(b"HTTP/1.1 200") == 501


def test_a_long_head_is_refused_though_it_comes_at_once(serving, simple):
    with closing(opened(serving(simple).http_port)) as client:
        client.sendall(LIVE[:-2] + b"x: " + b"x" * 70_000 + b"\r\n\r\n")
        assert rest(client).startswith(b"HTTP/1.1 431")


def test_another_protocol_is_refused(serving, simple):
    with closing(opened(serving(simple).http_port)) as client:
        assert status(client, b"CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\n") == b"400"


def test_empty_lines_do_not_keep_a_connection_open(serving, simple, monkeypatch):
    monkeypatch.setattr("pinnace.server.connections.PATIENCE", 0.2)
    server = serving(simple)
    with closing(opened(server.http_port)) as client:
        assert status(client, LIVE) == b"200"
        client.sendall(b"\r\n")
        assert rest(client) == b""


@pytest.mark.parametrize("pause", [0.05, 1.0])
def test_a_client_may_read_slowly_but_not_stop(serving, tmp_path, monkeypatch, pause):
    monkeypatch.setattr("pinnace.server.connections.PATIENCE", 0.3)
    server, x = serving(models.echo(tmp_path / "echo.onnx", TensorProto.FLOAT)), np.ones(1 << 22, np.float32)
    with closing(opened(server.http_port)) as client:
        client.sendall(posted("echo", [("x", x)], "connection: close\r\n"))
        got = 0
        with suppress(ConnectionResetError):
            while part := client.recv(1 << 20, socket.MSG_WAITALL):
                got += len(part)
                time.sleep(pause)
    assert (got > x.nbytes) is (pause < 0.3)


def test_nothing_waits_for_the_client_of_a_connection_that_has_ended(serving, simple):
    server = serving(simple)
    connection = object.__new__(Connection)

    async def ended():
        loop = asyncio.get_running_loop()
        connection.transport, _ = await loop.create_connection(
            asyncio.Protocol, "127.0.0.1", server.http_port
        )
        connection.transport.abort()
        await asyncio.sleep(0.05)  # the socket is closed later
        return connection._progress()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert runner.run(ended()) == (0, 0)
