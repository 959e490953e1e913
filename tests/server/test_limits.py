"""Overload, deadlines, clients that go, and requests that are too large or damaged."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
import urllib.error
import urllib.request
import zlib
from unittest.mock import ANY

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tests.server.test_protocol import A, B, inputs
from tests.waiting import LIMIT, until
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from pinnace.server.grpc import SERVICE
from pinnace.server.settings import ModelSettings

DOORS = {"http": tritonclient.http, "grpc": tritonclient.grpc}
ENDLESS = 1 << 62


def endless(door, count: int = ENDLESS) -> list:
    given = [door.InferInput("count", [], "INT64"), door.InferInput("x", [3], "FP32")]
    given[0].set_data_from_numpy(np.array(count))
    given[1].set_data_from_numpy(np.ones(3, np.float32))
    return given


def connected(door, server):
    port = server.http_port if door is tritonclient.http else server.grpc_port
    options = {"concurrency": 8} if door is tritonclient.http else {}
    return door.InferenceServerClient(f"127.0.0.1:{port}", **options)


@pytest.fixture(params=DOORS)
def door(request):
    return DOORS[request.param]


def busy(server, count: int) -> bool:
    opened = server.repository.entry("rounds").open["1"]
    stats = opened.runner.stats()
    return stats.busy + stats.queued == count


def test_a_full_queue_refuses_at_once(door, serving, rounds):
    server = serving(rounds, settings=ModelSettings(workers=1, threads=1, queue=2))
    clients = [threading.Thread(target=_late, args=(door, server)) for _ in range(3)]
    for one in clients:
        one.start()
    until(lambda: busy(server, 3))
    with pytest.raises(InferenceServerException, match=r"429|RESOURCE_EXHAUSTED"):
        connected(door, server).infer("rounds", endless(door, 1))
    for one in clients:
        one.join(LIMIT)


def _late(door, server, priority: int = 0) -> None:
    with pytest.raises(InferenceServerException):
        connected(door, server).infer("rounds", endless(door), priority=priority, timeout=1_500_000)


def test_requests_wait_by_priority_and_a_full_queue_refuses_all(door, serving, rounds):
    server = serving(rounds, settings=ModelSettings(workers=1, threads=1, queue=5))
    clients = [
        threading.Thread(target=_late, args=(door, server, priority)) for priority in (1, 3, 0, 2, 1, 7)
    ]
    for place, one in enumerate(clients, 1):
        one.start()
        until(lambda: busy(server, place))  # noqa: B023 - it is over before the next place
    waiting = server.repository.entry("rounds").open["1"].runner._live.workers._waiting
    assert [request.priority for request in waiting] == [-1, 0, 0, 1, 5]
    with pytest.raises(InferenceServerException, match=r"429|RESOURCE_EXHAUSTED"):
        connected(door, server).infer("rounds", endless(door, 1), priority=1)
    for one in clients:
        one.join(LIMIT)


def test_refusals_say_when_to_come_again(serving, rounds):
    server = serving(rounds, settings=ModelSettings(workers=1, threads=1, queue=1, timeout=2))
    body = {
        "inputs": [
            {"name": "count", "datatype": "INT64", "shape": [], "data": [ENDLESS]},
            {"name": "x", "datatype": "FP32", "shape": [3], "data": [1, 2, 3]},
        ]
    }
    refused = []

    def ask() -> None:
        try:
            post(server, "/v2/models/rounds/infer", json.dumps(body).encode())
        except urllib.error.HTTPError as error:
            refused.append((error.code, error.headers.get("Retry-After")))

    clients = [threading.Thread(target=ask) for _ in range(3)]
    for one in clients:
        one.start()
    for one in clients:
        one.join(LIMIT)
    assert sorted(refused, key=str) == [(429, "1"), (504, None), (504, None)]


def test_a_deadline_ends_a_run(door, serving, rounds):
    server = serving(rounds, settings=ModelSettings(workers=1, threads=1))
    client = connected(door, server)
    with pytest.raises(InferenceServerException, match=r"504|DEADLINE_EXCEEDED"):
        client.infer("rounds", endless(door), timeout=50_000)
    until(lambda: busy(server, 0))
    assert client.infer("rounds", endless(door, 2)).as_numpy("y") is not None


def test_the_deadline_of_a_call_of_grpc_ends_its_run(serving, rounds):
    server = serving(rounds, settings=ModelSettings(workers=1, threads=1))
    with pytest.raises(InferenceServerException, match=r"DEADLINE_EXCEEDED|Deadline Exceeded"):
        connected(tritonclient.grpc, server).infer("rounds", endless(tritonclient.grpc), client_timeout=0.3)
    until(lambda: busy(server, 0))


def test_a_client_that_goes_is_not_computed(serving, rounds):
    server = serving(rounds, settings=ModelSettings(workers=1, threads=1))
    body, length = tritonclient.http.InferenceServerClient.generate_request_body(endless(tritonclient.http))
    head = f"POST /v2/models/rounds/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
    head += f"inference-header-content-length: {length}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.http_port)) as client:
        client.sendall(head.encode() + body)
        until(lambda: busy(server, 1))
    until(lambda: busy(server, 0))


def post(server, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}{path}", body, named)
    with urllib.request.urlopen(request, timeout=LIMIT) as response:
        return response.status, response.read()


def refused(server, body: bytes, path: str = "/v2/models/simple/infer", **headers: str) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as raised:
        post(server, path, body, **headers)
    return raised.value.code, json.loads(raised.value.read())["error"]


def test_requests_that_are_too_large_are_refused_before_they_are_read(serving, simple):
    server = serving(simple, max_bytes=10_000)
    assert refused(server, b"x" * 10_001)[0] == 413
    bomb = gzip.compress(b"0" * 100_000_000)
    assert refused(server, bomb, content_encoding="gzip")[0] == 413
    nothing = zlib.compressobj()
    blocks = b"".join(nothing.compress(b"") + nothing.flush(zlib.Z_FULL_FLUSH) for _ in range(4000))
    assert refused(server, blocks, content_encoding="deflate", transfer_encoding="chunked")[0] == 413
    client = connected(tritonclient.grpc, server)
    given = [tritonclient.grpc.InferInput(name, [1000, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    for one in given:
        one.set_data_from_numpy(np.zeros((1000, 16), np.int32))
    with pytest.raises(InferenceServerException, match="RESOURCE_EXHAUSTED"):
        client.infer("simple", given)


def test_what_takes_many_times_its_size_is_refused_before_it_is_read(serving, simple, monkeypatch):
    monkeypatch.setattr("pinnace.server.fields.LONGEST", 100_000)
    server = serving(simple)
    assert refused(server, b" " * 100_001) == (413, ANY)
    assert refused(server, json.dumps({"inputs": [{}] * 4097}).encode()) == (413, ANY)
    raw = json.dumps({"inputs": []}).encode()
    named = {"inference_header_content_length": str(len(raw))}
    assert "200000 bytes that no input takes" in refused(server, raw + bytes(200_000), **named)[1]
    request = service_pb2.ModelInferRequest(model_name="simple", raw_input_contents=[bytes(200_000)])
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        infer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer
        with pytest.raises(grpc.RpcError, match="more tensors than the 0 inputs take"):
            infer(request)
        for _ in range(4097):
            request.inputs.add()
        with pytest.raises(grpc.RpcError, match="has 4097 fields: at most 4096"):
            infer(request)
        del request.inputs[1:]
        request.inputs[0].contents.fp32_contents.extend([1.0] * 25_001)
        with pytest.raises(grpc.RpcError, match="over 100000 bytes beside raw_input_contents"):
            infer(request)
        damaged = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        with pytest.raises(grpc.RpcError, match="is no message of this call"):
            damaged(b"\xff" * 100_000)


ONE = {"name": "INPUT0", "datatype": "INT32", "shape": [1, 16], "data": [0] * 16}
OTHER = ONE | {"name": "INPUT1"}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ([], "must be a JSON object"),
        ({}, "inputs must be a list"),
        ({"inputs": ["x"]}, "list of objects"),
        ({"inputs": [ONE | {"name": 3}]}, "name must be text"),
        ({"inputs": [ONE | {"datatype": "INT33"}]}, "unknown datatype 'INT33'"),
        ({"inputs": [ONE | {"shape": [1, -16]}]}, "sizes are whole"),
        ({"inputs": [ONE | {"shape": [1, 16.0]}]}, "sizes are whole"),
        ({"inputs": [ONE | {"shape": [1, True]}]}, "sizes are whole"),
        ({"inputs": [ONE | {"shape": [1 << 40]}]}, "sizes are whole"),
        ({"inputs": [ONE | {"shape": [4, 4, 4]}]}, "has 16 elements"),
        ({"inputs": [ONE | {"shape": [1 << 30, 1 << 30]}]}, "no array has so many"),
        ({"inputs": [ONE | {"shape": [1] * 65}]}, "of 65 dimensions: no array has so many"),
        ({"inputs": [ONE | {"shape": [0, *[(1 << 31) - 1] * 4], "data": []}]}, "no array has so many"),
        ({"inputs": [ONE | {"data": [0.5] * 16}]}, "must be whole numbers"),
        ({"inputs": [ONE | {"data": [True] * 16}]}, "must be whole numbers"),
        ({"inputs": [ONE | {"data": [1 << 40] * 16}]}, "does not hold"),
        ({"inputs": [ONE | {"data": [[[0]] * 16]}]}, "more dimensions than its shape"),
        ({"inputs": [ONE, ONE]}, "given twice"),
        ({"inputs": [ONE]}, "lacks 'INPUT1'"),
        ({"inputs": [ONE, OTHER, ONE | {"name": "z"}]}, "has no 'z'"),
        ({"inputs": [ONE | {"parameters": {"binary_data_size": 64}}]}, "binary_data_size"),
        ({"inputs": [ONE | {"parameters": {"binary_data_size": -1}}]}, "binary_data_size"),
        (
            {"inputs": [ONE | {"parameters": {"shared_memory_region": "r"}}]},
            "_byte_size and _offset are numbers",
        ),
        ({"inputs": [ONE, OTHER], "parameters": {"timeout": "soon"}}, "parameter timeout: 'soon'"),
        ({"inputs": [ONE, OTHER], "parameters": {"timeout": 10**400}}, "parameter timeout: 1000"),
        ({"inputs": [ONE, OTHER], "parameters": {"priority": -1}}, "parameter priority: -1"),
        ({"inputs": [ONE | {"name": "\ud800" * 9000}]}, "name has half a surrogate pair"),
        ({"inputs": [ONE | {"name": "y" * 9000}]}, "has no 'yyy"),
        ({"inputs": [ONE, OTHER], "id": "\ud800"}, "id has half a surrogate pair"),
        ({"inputs": [ONE, OTHER], "parameters": []}, "parameters must be an object"),
        ({"inputs": [ONE, OTHER], "outputs": [{}]}, "name must be text"),
        ({"inputs": [ONE, OTHER], "id": 7}, "id must be text"),
    ],
)
def test_damaged_json_is_told_what_is_wrong(serving, simple, request_, message):
    status, error = refused(serving(simple), json.dumps(request_).encode())
    assert status == 400
    assert message in error


@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        (b"{", {}, "is not JSON"),
        (b"\xff\xfe", {}, "is not JSON"),
        (b"[" * 100_000, {}, "is not JSON"),
        (b"{}", {"inference_header_content_length": "3"}, "number of bytes of JSON"),
        (b"{}", {"inference_header_content_length": "1" * 5000}, "number of bytes of JSON"),
        (b"{}", {"inference_header_content_length": "-1"}, "number of bytes of JSON"),
        (b"{}", {"content_encoding": "br"}, "is not known"),
        (b"{}", {"content_encoding": "gzip"}, "not compressed as its content-encoding says"),
        (gzip.compress(b"{}", mtime=0)[:-9], {"content_encoding": "gzip"}, "ends before"),
        (zlib.compress(b"{}")[:-3], {"content_encoding": "deflate"}, "ends before"),
        (gzip.compress(b"{}", mtime=0) * 2, {"content_encoding": "gzip"}, "goes on where its gzip ends"),
        (zlib.compress(b"{}") + b"x" * 100_000, {"content_encoding": "deflate"}, "where its deflate ends"),
    ],
)
def test_damaged_bodies_are_told_what_is_wrong(serving, simple, body, headers, message):
    status, error = refused(serving(simple), body, **headers)
    assert status == 400
    assert message in error


def test_a_limit_beyond_that_of_grpc_is_one_for_http(serving, simple):
    server = serving(simple, max_bytes=1 << 31)
    for door in (tritonclient.http, tritonclient.grpc):
        assert connected(door, server).infer("simple", inputs(door, A, B)) is not None


def test_a_slow_sender_is_refused(serving, simple, monkeypatch):
    monkeypatch.setattr("pinnace.server.bodies.PATIENCE", 0.2)
    with socket.create_connection(("127.0.0.1", serving(simple).http_port)) as client:
        client.sendall(b"POST /v2/models/simple/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
        assert client.recv(100).startswith(b"HTTP/1.1 408")


def test_raw_bytes_that_no_input_takes_are_refused(serving, simple):
    head = json.dumps({"inputs": [ONE, OTHER]}).encode()
    parameters = {"inference_header_content_length": str(len(head))}
    assert "8 bytes that no input takes" in refused(serving(simple), head + bytes(8), **parameters)[1]


def test_a_stopped_server_answers_what_it_accepted(serving, rounds):
    server = serving(rounds, settings=ModelSettings(workers=1, threads=1))
    client, answers = connected(tritonclient.http, server), []
    asking = threading.Thread(
        target=lambda: answers.append(client.infer("rounds", endless(tritonclient.http, 300_000)))
    )
    asking.start()
    until(lambda: busy(server, 1))
    server.stop()
    asking.join(LIMIT)
    assert len(answers) == 1
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.http_port))


def test_a_server_that_ends_leaves_the_socket_of_the_next_one(serving, rounds, tmp_path):
    place = tmp_path / "socket"
    server = serving(rounds, settings=ModelSettings(workers=1, threads=1), drain=1.0, unix_socket=place)
    client = connected(tritonclient.http, server)

    def ask() -> None:
        with pytest.raises(InferenceServerException):
            client.infer("rounds", endless(tritonclient.http))

    def nobody_listens() -> bool:
        with socket.socket(socket.AF_UNIX) as unix:
            return unix.connect_ex(str(place)) != 0

    asking, ending = threading.Thread(target=ask), threading.Thread(target=server.stop)
    asking.start()
    until(lambda: busy(server, 1))
    ending.start()
    until(nobody_listens)
    serving(rounds, unix_socket=place)
    for one in (asking, ending):
        one.join(LIMIT)
    assert place.exists()


def test_a_run_without_end_does_not_outlive_the_limit_of_the_end(serving, rounds):
    server = serving(rounds, settings=ModelSettings(workers=1, threads=1), drain=1.0)
    client = connected(tritonclient.http, server)

    def ask() -> None:
        with pytest.raises(InferenceServerException, match=r"\[503\] the server ends"):
            client.infer("rounds", endless(tritonclient.http))
        told.append(True)

    told = list[bool]()
    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: busy(server, 1))
    start = time.monotonic()
    server.stop()
    asking.join(LIMIT)
    assert told
    assert time.monotonic() - start < LIMIT
