"""The time of a request through a server's own HTTP, for the lines that it prints when it has started."""

from __future__ import annotations

import json
import ssl
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from time import perf_counter
from urllib.parse import quote

from pinnace.server.models import OpenModel
from pinnace.server.tensors import NAMES, to_raw

_PATIENCE = 10.0
"""Seconds that a request may take."""
_REQUESTS, _LONG = 10, 0.2
"""Requests until the time is told, and seconds after which no more are sent."""


def connection(host: str, port: int, secure: bool) -> HTTPConnection:
    """Return a connection to this process; its certificate is not checked, which may name any host."""
    if not secure:
        return HTTPConnection(host, port, timeout=_PATIENCE)
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    return HTTPSConnection(host, port, timeout=_PATIENCE, context=trusting)


def milliseconds(client: HTTPConnection, opened: OpenModel, token: str) -> float:
    """Return the time of a request with zeros, after others; 0 if the server does not answer them."""
    raw = [bytes(to_raw(array)) for array in opened.zeros]
    inputs = [
        {
            "name": spec.name,
            "datatype": NAMES[spec.dtype],
            "shape": list(array.shape),
            "parameters": {"binary_data_size": len(data)},
        }
        for spec, array, data in zip(opened.inputs, opened.zeros, raw, strict=True)
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    took, begun = 0.0, perf_counter()
    with suppress(OSError, HTTPException):
        for turn in range(_REQUESTS):
            start = perf_counter()
            if turn > 1 and start > begun + _LONG:
                break
            client.request("POST", f"/v2/models/{quote(opened.name)}/infer", b"".join((head, *raw)), headers)
            response = client.getresponse()
            response.read()
            took = (perf_counter() - start) * 1e3 if response.status == 200 else 0.0
    return took
