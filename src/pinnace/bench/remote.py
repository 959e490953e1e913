"""Models of a server that speaks the Open Inference Protocol, as `pinnace bench --url` measures them."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, urlsplit

from pinnace.bench.arrivals import Submit
from pinnace.bench.timing import Call
from pinnace.errors import ArgumentValueError, EngineError, QueueFullError
from pinnace.server import tensors
from pinnace.server.door import binary_request
from pinnace.tensors.tensor import Tensor
from pinnace.types import Array, Port

_CONNECTIONS = 256
"""Requests of an open load that are on their way at once."""


class RemoteModel:
    """A model of a server, by its URL (http://HOST:PORT, grpc://HOST:PORT) and name."""

    def __init__(self, url: str, name: str) -> None:
        """Ask for the model's inputs. Raises ArgumentValueError for a URL, EngineError for an answer."""
        place = urlsplit(url)
        if place.scheme not in _DOORS or not place.hostname or not place.port:
            raise ArgumentValueError(f"--url {url}: expected http://HOST:PORT or grpc://HOST:PORT")
        self.name, self._place = name, (place.scheme, place.hostname, place.port)
        metadata = self._door().describe(name)
        self.inputs = [_tensor(one["name"], one["datatype"], one["shape"]) for one in metadata["inputs"]]

    def _door(self) -> _Http | _Grpc:
        scheme, host, port = self._place
        return _DOORS[scheme](host, port)

    def client(self, arrays: Sequence[Array]) -> Call:
        """Return the call of one client, with a connection of its own."""
        door = self._door()
        request = door.request(self.name, [(one.name, a) for one, a in zip(self.inputs, arrays, strict=True)])
        return lambda: door.infer(request)

    def submitting(self, arrays: Sequence[Array]) -> tuple[Submit, ThreadPoolExecutor]:
        """Return a function that sends a request and returns a future, and the threads that do it."""
        pool, local = ThreadPoolExecutor(_CONNECTIONS), threading.local()

        def ask() -> None:
            if not hasattr(local, "call"):
                local.call = self.client(arrays)
            local.call()

        return lambda: pool.submit(ask), pool


def _tensor(name: str, datatype: str, shape: Sequence[int | str]) -> Tensor:
    sizes = tuple(map(int, shape))
    return Tensor.of_port(Port(name, tensors.data_type(datatype, name), sizes), sizes, set())


class _Http:
    """One connection to a server; so is `_Grpc`."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=60)

    def describe(self, model: str) -> dict[str, Any]:
        """Return the model's metadata."""
        found: dict[str, Any] = json.loads(self._ask("GET", f"/v2/models/{quote(model, safe='')}", None, {}))
        return found

    def request(self, model: str, inputs: Sequence[tuple[str, Array]]) -> tuple[str, bytes, dict[str, str]]:
        """Return a request with these inputs as raw bytes, which may be sent again and again."""
        return binary_request(model, inputs)

    def infer(self, request: tuple[str, bytes, dict[str, str]]) -> None:
        """Send a request, and wait for the answer. Raises QueueFullError and EngineError."""
        self._ask("POST", *request)

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> bytes:
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            data = response.read()
        except (http.client.HTTPException, OSError) as error:
            self._connection.close()
            raise EngineError(f"the server does not answer: {error}") from None
        _raise_for(response.status == 429, response.status != 200, data.decode("utf-8", "replace")[:300])
        return data


class _Grpc:
    def __init__(self, host: str, port: int) -> None:
        import grpc

        from pinnace.server.grpc import SERVICE, message

        self._message, self._errors, self._codes = message, grpc.RpcError, grpc.StatusCode
        channel = grpc.insecure_channel(f"{host}:{port}", [("grpc.use_local_subchannel_pool", 1)])
        self._calls = {
            name: channel.unary_unary(
                f"/{SERVICE}/{name}", message(sent).SerializeToString, message(taken).FromString
            )
            for name, sent, taken in (
                ("ModelMetadata", "ModelName", "ModelMetadata"),
                ("ModelInfer", "InferRequest", "InferResponse"),
            )
        }

    def describe(self, model: str) -> dict[str, Any]:
        from google.protobuf.json_format import MessageToDict

        metadata = self._ask("ModelMetadata", self._message("ModelName")(name=model))
        return MessageToDict(metadata, preserving_proto_field_name=True)

    def request(self, model: str, inputs: Sequence[tuple[str, Array]]) -> Any:
        request = self._message("InferRequest")(model_name=model)
        for name, array in inputs:
            request.inputs.add(name=name, datatype=tensors.name_of(array), shape=array.shape)
            request.raw_input_contents.append(bytes(tensors.to_raw(array)))
        return request

    def infer(self, request: Any) -> None:
        self._ask("ModelInfer", request)

    def _ask(self, name: str, request: Any) -> Any:
        try:
            return self._calls[name](request, timeout=60)
        except self._errors as error:
            code = error.code()
            _raise_for(code is self._codes.RESOURCE_EXHAUSTED, True, f"{code.name}: {error.details()}")


_DOORS: dict[str, Callable[[str, int], _Http | _Grpc]] = {"http": _Http, "grpc": _Grpc}


def _raise_for(full: bool, failed: bool, why: str) -> None:
    """Raise the error of an answer, if it is one."""
    if full:
        raise QueueFullError(f"the server refused a request: {why}")
    if failed:
        raise EngineError(f"the server failed a request: {why}")
