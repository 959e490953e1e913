"""The protocol over HTTP: an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from pinnace.errors import NotSupportedError
from pinnace.server import fields, inference, messages, routes, tensors
from pinnace.server.access import Access, Scope
from pinnace.server.bodies import MAX_BYTES, compressed, limited
from pinnace.server.calls import Call, continued
from pinnace.server.failures import Answer, RequestError, UnavailableError
from pinnace.server.openapi import document
from pinnace.server.repository import Repository
from pinnace.server.settings import ModelSettings
from pinnace.server.shared_memory import SharedMemory, Span, span_of
from pinnace.server.text import api as text
from pinnace.server.work import aside, unless_gone

_LENGTH = "Inference-Header-Content-Length"
"""The header with the bytes of JSON before the raw tensors."""
_WHY = "see /v2/repository/index"  # a reason names files, which needs a token
_POLICY = "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'"
_Handler = Callable[[Request], Awaitable[Response]]
_BodyOf = Callable[[Answer, str], dict[str, Any]]


def app(
    models: Iterable[str | Path], settings: ModelSettings | None = None, max_bytes: int = MAX_BYTES
) -> Starlette:
    """Return an ASGI application for a server of yours, such as uvicorn or hypercorn, in one process.

    It opens the models when it starts, and closes them when it ends. Raises ConfigError if there are none.
    """
    return application(Repository(map(Path, models), settings), max_bytes, opens=True)


def application(
    repository: Repository,
    max_bytes: int,
    access: Access | None = None,
    memory: SharedMemory | None = None,
    opens: bool = False,
    alone: bool = True,
) -> Starlette:
    """Return the application for a repository; requests have at most `max_bytes`, decompressed too.

    With `opens` it opens the models when it starts, and closes them when it ends. Unless it is `alone`, other
    processes answer beside it, and it refuses the calls that concern one.
    """
    access = access or Access()
    apis = (
        (routes.PROTOCOL, _Api(repository, memory or SharedMemory()), _body_of),
        (routes.TEXT, text.Api(repository), text.failure),
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await repository.start()
        yield
        await repository.close()

    def handler(route: routes.Route, api: object, body_of: _BodyOf) -> _Handler:
        work: _Handler = _refused if route.local and not alone else getattr(api, route.handler)
        return _answering(work, access, route.scope, f"{route.method} {route.path}", body_of)

    made = Starlette(
        routes=[
            Route(route.path, handler(route, api, body_of), methods=[route.method])
            for calls, api, body_of in apis
            for route in calls
        ],
        middleware=[Middleware(limited, limit=max_bytes)],
        lifespan=lifespan if opens else None,
    )
    made.router.redirect_slashes = False  # to the host that the client's header names
    return made


async def _refused(request: Request) -> Response:
    raise NotSupportedError(
        f"{request.url.path}: one of several replicas would answer for itself; Ray's dashboard and metrics "
        f"have all of them, and the command is started again for other models"
    )


def _answering(handler: _Handler, access: Access, scope: Scope, name: str, body_of: _BodyOf) -> _Handler:
    """Return a handler for clients with a scope; `body_of` gives the JSON of a failure."""

    async def handle(request: Request) -> Response:
        call = request.state.call = Call(name, request.headers)
        call.model, call.version = (request.path_params.get(key, "") for key in ("model", "version"))
        try:
            access.check(scope, request.headers.get("authorization", ""))
            response = await handler(request)
        except ClientDisconnect:
            call.gone()
            return Response(status_code=499)  # for nobody
        except asyncio.CancelledError:  # as --drain is over
            ends = UnavailableError("the server ends, and had no time left for the request")
            answer, reason = call.failed(ends)
            return _failure(answer, body_of(answer, reason))
        except Exception as error:
            answer, reason = call.failed(error)
            return _failure(answer, body_of(answer, reason))
        call.answered()
        return response

    return handle


def _body_of(_: Answer, reason: str) -> dict[str, Any]:
    return {"error": reason}


def _failure(answer: Answer, body: dict[str, Any]) -> Response:
    headers = {"Retry-After": "1"} if answer.status in (429, 503) else {}
    if answer.status == 408:
        headers["connection"] = "close"  # what is late would be taken for the next request
    return JSONResponse(body, answer.status, headers)


class _Api:
    def __init__(self, repository: Repository, memory: SharedMemory) -> None:
        self._repository, self._memory = repository, memory

    async def server(self, request: Request) -> Response:
        return JSONResponse(messages.server(self._repository))

    async def live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, request: Request) -> Response:
        if not self._repository.ready:
            raise UnavailableError(f"a model could not be opened: {_WHY}")
        return JSONResponse({"live": True, "ready": True})  # as KServe's client reads it

    async def model(self, request: Request) -> Response:
        name, version = _named(request)
        async with self._repository.using(name, version) as opened:
            return JSONResponse(messages.model(self._repository.entry(name), opened))

    async def model_ready(self, request: Request) -> Response:
        name, version = _named(request)
        if not self._repository.is_ready(name, version):
            raise UnavailableError(f"{name} is not ready: {_WHY}")
        return JSONResponse({"name": name, "ready": True})

    async def config(self, request: Request) -> Response:
        async with self._repository.using(*_named(request)) as opened:
            return JSONResponse(messages.config(opened))

    async def statistics(self, request: Request) -> Response:
        async with self._repository.using(*_named(request)) as opened:
            return JSONResponse({"model_stats": [messages.statistics(opened)]})

    async def all_statistics(self, request: Request) -> Response:
        return JSONResponse({"model_stats": messages.all_statistics(self._repository)})

    async def index(self, request: Request) -> Response:
        wanted = await _json(request)
        return JSONResponse(messages.index(self._repository, wanted.get("ready") is True))

    async def register(self, request: Request) -> Response:
        body = await _json(request)
        span = Span(fields.text(body, "key"), fields.whole(body, "offset"), fields.whole(body, "byte_size"))
        self._memory.register(request.path_params["region"], *span)
        return JSONResponse({})

    async def unregister(self, request: Request) -> Response:
        self._memory.unregister(request.path_params.get("region", ""))
        return JSONResponse({})

    async def regions(self, request: Request) -> Response:
        return JSONResponse(self._memory.status(request.path_params.get("region", "")))

    async def no_regions(self, request: Request) -> Response:
        return JSONResponse([])

    async def load(self, request: Request) -> Response:
        parameters = fields.mapping(await _json(request), "parameters")
        inference.check_load(parameters)
        await self._repository.load(_named(request)[0], fields.text(parameters, "config", ""))
        return Response()

    async def unload(self, request: Request) -> Response:
        await self._repository.unload(_named(request)[0])
        return Response()

    async def metrics(self, request: Request) -> Response:
        return Response(self._repository.metrics.text(), media_type="text/plain; version=0.0.4")

    async def page(self, request: Request) -> Response:
        return HTMLResponse(_page(), headers={"content-security-policy": _POLICY})

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(document(self._repository.server_name))

    async def status(self, request: Request) -> Response:
        return JSONResponse(messages.status(self._repository))

    async def labels(self, request: Request) -> Response:
        return JSONResponse(self._repository.labels(_named(request)[0]))

    async def infer(self, request: Request) -> Response:
        call: Call = request.state.call
        body = memoryview(await request.body())
        length = _json_length(body, request)
        head = await aside(length, fields.parsed, body[:length])
        call.id, inputs = fields.text(head, "id", ""), fields.objects(head, "inputs")
        slow = len(body) if any(one.get("datatype") == "BYTES" for one in inputs) else length
        decoded, binary = await aside(slow, _decoded, head, inputs, body[length:], request, self._memory)
        with continued(request.headers):
            task = self._repository, decoded, self._memory, call
            result = inference.infer_now(*task)
            if result is None:
                result = await unless_gone(request, inference.infer(*task))
        accepted = request.headers.get("accept-encoding", "")
        return await aside(_slow_bytes(result, binary, accepted), _encoded, result, call.id, binary, accepted)


@cache
def _page() -> str:
    return Path(__file__).with_name("page.html").read_text(encoding="utf-8")


def _named(request: Request) -> tuple[str, str]:
    return request.path_params["model"], request.path_params.get("version", "")


async def _json(request: Request) -> dict[str, Any]:
    body = await request.body()
    return await aside(len(body), fields.parsed, body) if body else {}


def _json_length(body: memoryview, request: Request) -> int:
    """Return the bytes of JSON at the beginning of a request's body."""
    length = request.headers.get(_LENGTH, str(len(body)))
    if not length.isdecimal() or len(length) > 19 or int(length) > len(body):
        raise RequestError(f"{_LENGTH}: {length[:20]} is not the number of bytes of JSON in {len(body)}")
    return int(length)


def _decoded(
    head: dict[str, Any],
    inputs: list[dict[str, Any]],
    raw: memoryview,
    request: Request,
    memory: SharedMemory,
) -> tuple[inference.Request, Callable[[str], bool]]:
    """Return a request, and a function that says of an output whether it is wanted as raw bytes."""
    parameters = fields.mapping(head, "parameters")
    arrays, place, shared = {}, 0, 0
    for given in inputs:
        name, options = fields.text(given, "name"), fields.mapping(given, "parameters")
        inference.check(options)
        dtype = tensors.data_type(fields.text(given, "datatype"), name)
        shape = tensors.checked_shape(fields.items(given, "shape"), name)
        if name in arrays:
            raise RequestError(f"input {name!r} is given twice")
        size, span = options.get("binary_data_size"), span_of(options, name)
        if span is not None:
            tensors.check_size(span.size, name, dtype, shape)
            arrays[name] = tensors.from_raw(memory.read(span, shared), name, dtype, shape)
            shared += span.size
        elif size is None:
            arrays[name] = tensors.from_items(given.get("data"), name, dtype, shape)
        elif type(size) is not int or not 0 <= size <= len(raw) - place:
            raise RequestError(
                f"input {name!r}: binary_data_size {size!r} is not in the request's {len(raw)} bytes"
            )
        else:
            arrays[name] = tensors.from_raw(raw[place : place + size], name, dtype, shape)
            place += size
    if place != len(raw):
        raise RequestError(f"the request has {len(raw) - place} bytes that no input takes")
    wanted = {
        fields.text(one, "name"): fields.mapping(one, "parameters")
        for one in fields.objects(head, "outputs", needed=False)
    }
    outputs = inference.wanted_of(wanted)
    every = parameters.get("binary_data_output") is True
    decoded = inference.Request(*_named(request), arrays, outputs, parameters)
    return decoded, lambda output: wanted.get(output, {}).get("binary_data", every) is True


def _slow_bytes(result: inference.Result, binary: Callable[[str], bool], accepted: str) -> int:
    """Return the size of the outputs that are text, or that are encoded as JSON or compressed."""
    return sum(
        array.nbytes
        for name, array, _ in result.outputs
        if accepted or array.dtype == object or not binary(name)
    )


def _encoded(result: inference.Result, id_: str, binary: Callable[[str], bool], accepted: str) -> Response:
    outputs, parts = list[dict[str, Any]](), list[bytes | memoryview]()
    for name, array, span in result.outputs:
        one: dict[str, Any] = {"name": name, "datatype": tensors.name_of(array), "shape": list(array.shape)}
        outputs.append(one)
        if span is not None:
            named = ("region", "offset", "byte_size")
            one["parameters"] = {
                f"shared_memory_{key}": value for key, value in zip(named, span, strict=True)
            }
        elif binary(name):
            parts.append(tensors.to_raw(array))
            one["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            one["data"] = orjson.Fragment(tensors.to_json(array))
    head: dict[str, Any] = {"model_name": result.model.name, "model_version": result.model.version}
    if id_:
        head["id"] = id_
    text = orjson.dumps(head | {"outputs": outputs})
    headers = {"content-type": "application/octet-stream" if parts else "application/json"}
    if parts:
        headers[_LENGTH] = str(len(text))
    body, encoding = compressed(b"".join((text, *parts)), accepted)
    if encoding:
        headers["content-encoding"] = encoding
    return Response(body, headers=headers)
