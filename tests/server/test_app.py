"""The ASGI application in a server of the user's."""

from __future__ import annotations

import threading

import tritonclient.http
import uvicorn
from tests.server.test_protocol import A, B, inputs
from tests.waiting import until

from pinnace.server import app


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
