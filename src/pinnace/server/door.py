"""Requests over HTTP as clients send them, and the time of one through a server's own door."""

from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from time import perf_counter
from urllib.parse import quote

from pinnace.server.models import OpenModel
from pinnace.server.tensors import name_of, to_raw
from pinnace.types import Array

_PATIENCE = 10.0
"""Seconds that a request may take."""
_REQUESTS, _LONG = 10, 0.2
"""Requests until the time is told, and seconds after which no more are sent."""


def binary_request(model: str, inputs: Sequence[tuple[str, Array]]) -> tuple[str, bytes, dict[str, str]]:
    """Return the path, body and headers of a request with inputs by name as raw bytes, as the outputs are."""
    raw = [bytes(to_raw(array)) for _, array in inputs]
    described = [
        {
            "name": name,
            "shape": list(array.shape),
            "datatype": name_of(array),
            "parameters": {"binary_data_size": len(data)},
        }
        for (name, array), data in zip(inputs, raw, strict=True)
    ]
    head = json.dumps({"inputs": described, "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    return f"/v2/models/{quote(model, safe='')}/infer", b"".join((head, *raw)), headers


def connection(host: str, port: int, secure: bool) -> HTTPConnection:
    """Return a connection to this process; its certificate is not checked, which may name any host."""
    if not secure:
        return HTTPConnection(host, port, timeout=_PATIENCE)
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    return HTTPSConnection(host, port, timeout=_PATIENCE, context=trusting)


def milliseconds(client: HTTPConnection, opened: OpenModel, token: str) -> float:
    """Return the time of a request with zeros, after others; 0 if the server does not answer them."""
    names = [spec.name for spec in opened.inputs]
    path, body, headers = binary_request(opened.name, list(zip(names, opened.zeros, strict=True)))
    if token:
        headers["Authorization"] = f"Bearer {token}"
    took, begun = 0.0, perf_counter()
    with suppress(OSError, HTTPException):
        for turn in range(_REQUESTS):
            start = perf_counter()
            if turn > 1 and start > begun + _LONG:
                break
            client.request("POST", path, body, headers)
            response = client.getresponse()
            response.read()
            took = (perf_counter() - start) * 1e3 if response.status == 200 else 0.0
    return took
