"""Answers of a server, and wrong URLs, as `pinnace bench --url` takes them."""

from __future__ import annotations

import http.server
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pinnace.bench.remote import RemoteModel
from pinnace.errors import ArgumentValueError, EngineError, QueueFullError

TOLD = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, "3"]}]}


@pytest.fixture
def server():
    """A server that says these statuses in turn, with a description of its model."""
    answers, asked = [], []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            asked.append((self.command, self.path, body))
            status = answers.pop(0) if answers else 200
            text = json.dumps(TOLD).encode() if status == 200 else b"\xffwhy" + b"!" * 400
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = answer

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", answers, asked
        running.shutdown()


def test_a_model_is_asked_for_and_called(server):
    url, _, asked = server
    model = RemoteModel(url, "a/b")
    assert [(one.name, tuple(one.shape), one.dtype.name) for one in model.inputs] == [
        ("x", (-1, 3), "FLOAT32")
    ]
    model.client([np.zeros((2, 3), np.float32)])()
    submit, threads = model.submitting([np.zeros((2, 3), np.float32)])
    with threads:
        for future in [submit() for _ in range(3)]:
            future.result()
    assert asked[0][:2] == ("GET", "/v2/models/a%2Fb")
    assert {(method, path) for method, path, _ in asked[1:]} == {("POST", "/v2/models/a%2Fb/infer")}
    assert len({body for *_, body in asked[1:]}) == 1
    assert len(asked) == 5


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [(429, QueueFullError, "refused a request"), (500, EngineError, "failed"), (404, EngineError, "failed")],
)
def test_refusals_and_failures_are_told_apart_and_cut(server, status, kind, message):
    url, answers, _ = server
    call = RemoteModel(url, "m").client([np.zeros((1, 3), np.float32)])
    answers.append(status)
    with pytest.raises(kind, match=f"the server {message}.*why!") as raised:
        call()
    assert type(raised.value) is kind
    assert len(str(raised.value)) < 400
    call()  # the connection goes on


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [("RESOURCE_EXHAUSTED", QueueFullError, "refused a request"), ("NOT_FOUND", EngineError, "failed")],
)
def test_refusals_and_failures_of_grpc_are_told_apart(code, kind, message):
    grpc = pytest.importorskip("grpc")
    from pinnace.server.grpc import SERVICE
    from pinnace.server.grpc import message as made

    told = made("ModelMetadata")()
    told.inputs.add(name="x", datatype="FP32", shape=[-1, 3])
    calls = {
        "ModelMetadata": lambda request, context: told.SerializeToString(),
        "ModelInfer": lambda request, context: context.abort(getattr(grpc.StatusCode, code), "why"),
    }
    methods = {name: grpc.unary_unary_rpc_method_handler(call) for name, call in calls.items()}
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        call = RemoteModel(f"grpc://127.0.0.1:{port}", "m").client([np.zeros((1, 3), np.float32)])
        with pytest.raises(kind, match=f"the server {message}.*{code}: why") as raised:
            call()
        assert type(raised.value) is kind
    finally:
        server.stop(None)


@pytest.mark.parametrize("url", ["http://127.0.0.1", "http://:80", "ftp://h:1", "127.0.0.1:80", "grpc://h"])
def test_a_url_has_a_scheme_a_host_and_a_port(url):
    with pytest.raises(ArgumentValueError, match="expected http://HOST:PORT or grpc://HOST:PORT"):
        RemoteModel(url, "m")
