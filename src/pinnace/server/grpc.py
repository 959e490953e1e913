"""The protocol over gRPC: `protocol.txt` has the fields of its messages, with the protocol's numbers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError

from pinnace.errors import ModelFormatError
from pinnace.formats.messages import Proto, message_class
from pinnace.formats.wire import fields_of
from pinnace.server import fields, inference, messages, tensors
from pinnace.server.access import Access, Scope
from pinnace.server.calls import Call, continued
from pinnace.server.connections import PATIENCE
from pinnace.server.failures import AccessError, RequestError, TooLargeError
from pinnace.server.repository import Repository
from pinnace.server.shared_memory import SharedMemory, span_of
from pinnace.server.work import aside
from pinnace.types import Array, DataType

SERVICE = "inference.GRPCInferenceService"
_CONFIGURED = [
    *("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"),
    *("FP16", "FP32", "FP64", "STRING", "BF16"),
]
"""Element types in the order of their numbers in a configuration, from 1 on."""
_LARGE = 1 << 16
"""Bytes of a message whose fields are counted first."""
_LONGEST = (1 << 31) - 1
"""Bytes of a message that gRPC can take."""
_FORMATS = ("FORMAT_NONE", "FORMAT_NHWC", "FORMAT_NCHW")
_CONTENTS = {
    DataType.BOOL: "bool_contents",
    **dict.fromkeys((DataType.INT8, DataType.INT16, DataType.INT32), "int_contents"),
    DataType.INT64: "int64_contents",
    **dict.fromkeys((DataType.UINT8, DataType.UINT16, DataType.UINT32), "uint_contents"),
    DataType.UINT64: "uint64_contents",
    DataType.FLOAT32: "fp32_contents",
    DataType.FLOAT64: "fp64_contents",
    DataType.STRING: "bytes_contents",
}
"""The field that has the elements of each type; those of 16 bits have raw bytes only."""
_Method = Callable[[Any, Call], Awaitable[Any]]


@cache
def message(name: str) -> Proto:
    """Return the class of a message of the protocol."""
    table = Path(__file__).with_name("protocol.txt").read_text(encoding="utf-8")
    return message_class(table, "inference", name)


def handlers(repository: Repository, access: Access, memory: SharedMemory) -> grpc.GenericRpcHandler:
    """Return the handlers of the service for a repository."""
    service = _Service(repository, access, memory)
    unary: dict[str, tuple[Scope, str, str, _Method]] = {
        "ServerLive": ("open", "Empty", "Live", service.live),
        "ServerReady": ("open", "Empty", "Ready", service.ready),
        "ServerMetadata": ("read", "Empty", "ServerMetadata", service.server),
        "ModelReady": ("open", "ModelName", "Ready", service.model_ready),
        "ModelMetadata": ("read", "ModelName", "ModelMetadata", service.model),
        "ModelConfig": ("read", "ModelName", "ModelConfigResponse", service.config),
        "ModelStatistics": ("read", "ModelName", "StatisticsResponse", service.statistics),
        "ModelInfer": ("infer", "InferRequest", "InferResponse", service.infer),
        "RepositoryIndex": ("read", "IndexRequest", "IndexResponse", service.index),
        "RepositoryModelLoad": ("admin", "RepositoryRequest", "Empty", service.load),
        "RepositoryModelUnload": ("admin", "RepositoryRequest", "Empty", service.unload),
        "SystemSharedMemoryRegister": ("infer", "Region", "Empty", service.register),
        "SystemSharedMemoryUnregister": ("infer", "RegionName", "Empty", service.unregister),
        "SystemSharedMemoryStatus": ("read", "RegionName", "RegionsStatus", service.regions),
        "CudaSharedMemoryUnregister": ("infer", "RegionName", "Empty", service.nothing),
        "CudaSharedMemoryStatus": ("read", "RegionName", "Empty", service.nothing),
    }
    made = {
        name: grpc.unary_unary_rpc_method_handler(
            _answering(method, access, scope, message(taken), name), None, message(given).SerializeToString
        )
        for name, (scope, taken, given, method) in unary.items()
    }
    made["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(
        service.stream, None, message("StreamResponse").SerializeToString
    )
    return grpc.method_handlers_generic_handler(SERVICE, made)


def _called(name: str, context: Any) -> Call:
    headers = {key: str(value) for key, value in context.invocation_metadata() or ()}
    left = context.time_remaining()
    return Call(name, headers, math.inf if left is None else left)


def _parsed(kind: Proto, data: bytes, call: Call) -> Any:
    """Return the message of a request; gRPC would tell the client nothing of a damaged one."""
    try:
        if len(data) > _LARGE:
            _check_fields(memoryview(data))
        request = kind.FromString(data)
    except (DecodeError, ModelFormatError):
        raise RequestError("the request is no message of this call") from None
    call.model = getattr(request, "model_name", "") or getattr(request, "name", "")
    call.version = getattr(request, "model_version", "") or getattr(request, "version", "")
    call.id = getattr(request, "id", "")
    return request


def _check_fields(data: memoryview) -> None:
    """Raise TooLargeError for what becomes many times larger when it is read: all but raw bytes."""
    rest, raw = 0, message("InferRequest").DESCRIPTOR.fields_by_name["raw_input_contents"].number
    for count, (number, size) in enumerate(fields_of(data, "the request")):
        rest += 0 if number == raw else size
        fields.check_count("fields", count)
        if rest > fields.LONGEST:
            raise TooLargeError(
                f"the request has over {fields.LONGEST} bytes beside raw_input_contents: send tensors there"
            )


def _answering(method: _Method, access: Access, scope: Scope, kind: Proto, name: str) -> _Method:
    """Return a method for clients with a scope that tells failures as the protocol does."""

    async def handle(data: bytes, context: Any) -> Any:
        call = _called(name, context)
        try:
            access.check(scope, call.headers.get("authorization", ""))
            response = await method(_parsed(kind, data, call), call)
        except asyncio.CancelledError:
            call.gone()
            raise
        except Exception as error:
            failure, text = call.failed(error)
            await context.abort(grpc.StatusCode[failure.code], text)
        call.answered()
        return response

    return handle


class _Service:
    def __init__(self, repository: Repository, access: Access, memory: SharedMemory) -> None:
        self._repository, self._access, self._memory = repository, access, memory

    async def live(self, request: Any, call: Call) -> Any:
        return message("Live")(live=True)

    async def ready(self, request: Any, call: Call) -> Any:
        return message("Ready")(ready=self._repository.ready)

    async def server(self, request: Any, call: Call) -> Any:
        return ParseDict(messages.server(self._repository), message("ServerMetadata")())

    async def model_ready(self, request: Any, call: Call) -> Any:
        return message("Ready")(ready=self._repository.is_ready(request.name, request.version))

    async def model(self, request: Any, call: Call) -> Any:
        async with self._repository.using(request.name, request.version) as opened:
            metadata = messages.model(self._repository.entry(request.name), opened)
            return ParseDict(metadata, message("ModelMetadata")())

    async def config(self, request: Any, call: Call) -> Any:
        async with self._repository.using(request.name, request.version) as opened:
            config = messages.config(opened)
        for tensor in (*config["input"], *config["output"]):
            tensor["data_type"] = 1 + _CONFIGURED.index(tensor["data_type"].removeprefix("TYPE_"))
        for tensor in config["input"]:
            tensor["format"] = _FORMATS.index(tensor["format"])
        return ParseDict({"config": config}, message("ModelConfigResponse")())

    async def statistics(self, request: Any, call: Call) -> Any:
        if request.name:
            async with self._repository.using(request.name, request.version) as opened:
                statistics = [messages.statistics(opened)]
        else:
            statistics = messages.all_statistics(self._repository)
        return ParseDict({"model_stats": statistics}, message("StatisticsResponse")())

    async def index(self, request: Any, call: Call) -> Any:
        models = messages.index(self._repository, request.ready)
        return ParseDict({"models": models}, message("IndexResponse")())

    async def register(self, request: Any, call: Call) -> Any:
        self._memory.register(request.name, request.key, request.offset, request.byte_size)
        return message("Empty")()

    async def unregister(self, request: Any, call: Call) -> Any:
        self._memory.unregister(request.name)
        return message("Empty")()

    async def regions(self, request: Any, call: Call) -> Any:
        regions = {one["name"]: one for one in self._memory.status(request.name)}
        return ParseDict({"regions": regions}, message("RegionsStatus")())

    async def nothing(self, request: Any, call: Call) -> Any:
        return message("Empty")()

    async def load(self, request: Any, call: Call) -> Any:
        parameters = _parameters(request.parameters)
        inference.check_load(parameters)
        await self._repository.load(request.model_name, parameters.get("config", ""))
        return message("Empty")()

    async def unload(self, request: Any, call: Call) -> Any:
        await self._repository.unload(request.model_name)
        return message("Empty")()

    async def infer(self, request: Any, call: Call) -> Any:
        decoded = await aside(_slow_bytes(request), _decoded, request, self._memory)
        with continued(call.headers):
            task = self._repository, decoded, self._memory, call
            result = inference.infer_now(*task) or await inference.infer(*task)
        texts = sum(one.array.nbytes for one in result.outputs if one.array.dtype == object)
        return await aside(texts, _encoded, result, request.id)

    async def stream(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        call = _called("ModelStreamInfer", context)
        try:
            self._access.check("infer", call.headers.get("authorization", ""))
        except AccessError as error:
            failure, text = call.failed(error)
            await context.abort(grpc.StatusCode[failure.code], text)
        async for data in requests:
            yield await self._of_stream(data, _called("ModelStreamInfer", context))

    async def _of_stream(self, data: bytes, call: Call) -> Any:
        """Return the response to a request of a stream, which goes on after a failure."""
        try:
            response = await self.infer(_parsed(message("InferRequest"), data, call), call)
        except asyncio.CancelledError:
            call.gone()
            raise
        except Exception as error:
            text = call.failed(error)[1]
            return message("StreamResponse")(
                error_message=text, infer_response=message("InferResponse")(id=call.id)
            )
        call.answered()
        return message("StreamResponse")(infer_response=response)


def _slow_bytes(request: Any) -> int:
    """Return the size of a request whose elements are converted one by one, else 0."""
    size: int = request.ByteSize()
    if size <= _LARGE:
        return 0
    slow = any(given.datatype == "BYTES" or given.HasField("contents") for given in request.inputs)
    return size if slow else 0


def _parameters(given: Any) -> dict[str, Any]:
    if not given:
        return {}
    return {
        name: getattr(value, kind) for name, value in given.items() if (kind := value.WhichOneof("choice"))
    }


def _decoded(request: Any, memory: SharedMemory) -> inference.Request:
    raw = iter(request.raw_input_contents)
    arrays, shared = dict[str, Array](), 0
    for given in request.inputs:
        if given.name in arrays:
            raise RequestError(f"input {given.name!r} is given twice")
        options = _parameters(given.parameters)
        inference.check(options)
        span = span_of(options, given.name)
        dtype = tensors.data_type(given.datatype, given.name)
        shape = tensors.checked_shape(given.shape, given.name)
        if span is not None:
            tensors.check_size(span.size, given.name, dtype, shape)
            data: Any = memory.read(span, shared)
            shared += span.size
        else:
            data = next(raw, None)
        if data is None and request.raw_input_contents:
            raise RequestError(f"raw_input_contents has no tensor for input {given.name!r}")
        if data is None:
            arrays[given.name] = _of_contents(given, dtype, shape)
        elif given.HasField("contents"):
            raise RequestError(f"input {given.name!r} is given twice: in contents and as raw bytes")
        else:
            arrays[given.name] = tensors.from_raw(memoryview(data), given.name, dtype, shape)
    if next(raw, None) is not None:
        raise RequestError(f"raw_input_contents has more tensors than the {len(request.inputs)} inputs take")
    wanted = {output.name: _parameters(output.parameters) for output in request.outputs}
    outputs = inference.wanted_of(wanted)
    parameters = _parameters(request.parameters)
    return inference.Request(request.model_name, request.model_version, arrays, outputs, parameters)


def _of_contents(given: Any, dtype: DataType, shape: tuple[int, ...]) -> Array:
    field = _CONTENTS.get(dtype)
    if field is None:
        raise RequestError(f"input {given.name!r}: {given.datatype} is sent in raw_input_contents")
    return tensors.from_items(getattr(given.contents, field), given.name, dtype, shape)


def _encoded(result: inference.Result, id_: str) -> Any:
    response = message("InferResponse")(
        model_name=result.model.name, model_version=result.model.version, id=id_
    )
    for name, array, span in result.outputs:
        output = response.outputs.add(name=name, datatype=tensors.name_of(array), shape=array.shape)
        if span is None:
            response.raw_output_contents.append(bytes(tensors.to_raw(array)))
        else:
            output.parameters["shared_memory_region"].string_param = span.region
            output.parameters["shared_memory_byte_size"].int64_param = span.size
            output.parameters["shared_memory_offset"].int64_param = span.offset
    return response


def server(
    repository: Repository,
    max_bytes: int,
    max_connections: int,
    access: Access | None = None,
    memory: SharedMemory | None = None,
) -> grpc.aio.Server:
    """Return a server without addresses, for requests of up to `max_bytes`, and so many at once.

    Beyond these options, gRPC closes connections for many pings, and refuses metadata above 16 KB.
    """
    options = {
        "grpc.max_receive_message_length": min(max_bytes, _LONGEST),
        "grpc.max_allowed_incoming_connections": max_connections,
        "grpc.max_concurrent_streams": max_connections,
        # A picture comes at once; by default 64 KB wait for each answer.
        "grpc.http2.lookahead_bytes": 1 << 22,
        "grpc.server_handshake_timeout_ms": round(PATIENCE * 1000),
        "grpc.so_reuseport": 0,
    }
    made = grpc.aio.server(options=list(options.items()), maximum_concurrent_rpcs=max_connections)
    made.add_generic_rpc_handlers((handlers(repository, access or Access(), memory or SharedMemory()),))
    return made
