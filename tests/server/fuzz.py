"""Damaged requests: `python -m tests.server.fuzz --seconds 300 --seed 1`.

Requests of many calls, over HTTP and gRPC: with JSON values exchanged, bytes flipped, cut or doubled, headers
that lie, names that are paths; and damaged bytes of HTTP/1 and HTTP/2. The server must answer each with what
the manual promises, and its memory must not grow. Exits with 1 otherwise, and prints the request.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from tests.load import resident
from tests.server import models
from tests.server.texts import DATA

from pinnace.server import ModelSettings, Options, Server
from pinnace.server.grpc import SERVICE, message

VALUES = [
    None, True, 0, -1, 1, 1 << 31, 1 << 63, -(1 << 70), 0.5, float("nan"), "", "x" * 300, "../..", "\0",
    "INT32", [], [[]], [1] * 32, [[1] * 16], {}, {"a": 1}, [-1, 16], [1 << 20, 1 << 20], "FP16", "BYTES",
]  # fmt: skip
PROMISED = {
    *("200", "400", "404", "405", "413", "429", "501", "503", "HTTP/1", "HTTP/2"),
    *("OK", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "UNAVAILABLE"),
}
PATHS = [
    "/", "/v2", "/v2/models/simple", "/v2/models/simple/infer", "/v2/models/simple/versions/1/infer",
    "/v2/models/simple/versions/x/infer", "/v2/models/..%2f..%2fetc/infer", "/v2/models/%00/ready", "/status",
    "/v2/repository/index", "/v2/repository/models/simple/load", "/v2/repository/models/x/unload", "/metrics",
    "/labels/simple", "/labels/..%2f..", "/v2/systemsharedmemory/region/r/register", "/v2/models/stats",
    "/%ff%fe", "/openapi.json", "/v1/models", "/v1/models/..%2f..",
]  # fmt: skip

METHODS = [
    *("ModelMetadata", "ModelConfig", "ModelStatistics", "ModelReady", "ModelStreamInfer", "RepositoryIndex"),
    *("RepositoryModelLoad", "RepositoryModelUnload", "SystemSharedMemoryRegister", "Nothing"),
    *("SystemSharedMemoryStatus", "SystemSharedMemoryUnregister"),
]
HTTP1 = (
    b"POST /v2/models/simple/infer HTTP/1.1\r\nhost: x\r\n"
    b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
)
HTTP2 = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + bytes([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100])  # settings: 100 streams
    + bytes([0, 0, 3, 1, 4, 0, 0, 0, 1, 0x83, 0x86, 0x84])  # a head: POST / over http
    + bytes([0, 0, 5, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0])  # a message without bytes
)


TENSOR = {"datatype": "INT32", "shape": [1, 16], "data": list(range(16))}
RIGHT: dict[str, dict[str, Any]] = {
    "/v2/models/simple/infer": {
        "id": "1",
        "inputs": [{"name": name, "parameters": {}} | TENSOR for name in ("INPUT0", "INPUT1")],
        "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": False, "classification": 2}}],
    },
    "/v1/embeddings": {"model": "embedding", "input": ["a ship", "boat"], "encoding_format": "base64"},
    "/rerank": {"model": "reranker", "query": "who?", "documents": ["a", {"text": "b"}], "top_n": 1},
}


def damaged(value: Any, dice: random.Random) -> Any:
    """Return JSON with one value, somewhere, exchanged, left out or doubled."""
    if dice.random() < 0.2 or not isinstance(value, dict | list) or not value:
        return dice.choice(VALUES)
    if isinstance(value, list):
        place = dice.randrange(len(value))
        return [*value[:place], damaged(value[place], dice), *value[place + dice.randrange(2) :]]
    key = dice.choice(list(value))
    if dice.random() < 0.1:
        return {name: one for name, one in value.items() if name != key}
    return value | {key: damaged(value[key], dice)}


def mangled(data: bytes, dice: random.Random) -> bytes:
    """Return bytes of which some are flipped, cut or doubled."""
    made = bytearray(data)
    for _ in range(dice.randrange(1, 6)):
        place = dice.randrange(len(made) + 1)
        match dice.randrange(3):
            case 0:
                made[place : place + 1] = dice.randbytes(1)
            case 1:
                del made[place : place + dice.randrange(1, 20)]
            case _:
                made[place:place] = made[place : place + dice.randrange(1, 20)]
    return bytes(made)


def over_http(port: int, dice: random.Random) -> tuple[str, bytes]:
    path, right = dice.choice(list(RIGHT.items()))
    body = json.dumps(damaged(right, dice)).encode()
    body += dice.choice([b"", np.arange(16, dtype=np.int32).tobytes()])
    body = mangled(body, dice) if dice.random() < 0.5 else body
    headers = {"content-type": "application/json"}
    if dice.random() < 0.3:
        lengths = (str(dice.randrange(300)), "-1", "x", str(len(body)))
        headers["Inference-Header-Content-Length"] = dice.choice(lengths)
    if dice.random() < 0.1:
        headers["Content-Encoding"] = dice.choice(["gzip", "deflate", "br"])
    path = dice.choice(PATHS) if dice.random() < 0.3 else path
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(dice.choice(["POST", "POST", "POST", "GET", "PUT"]), path, body, headers)
    status = connection.getresponse().status
    connection.close()
    return str(status), path.encode() + b" " + body


def over_grpc(channel: grpc.Channel, dice: random.Random) -> tuple[str, bytes]:
    request = message("InferRequest")(model_name=dice.choice(["simple", "simple", "../x", ""]))
    for name in ("INPUT0", "INPUT1"):
        shape = dice.choice([[1, 16], [1, 16], [-1, 16], [1 << 40], []])
        request.inputs.add(
            name=name, datatype=dice.choice(["INT32", "INT32", "BYTES", "BF16", "x"]), shape=shape
        )
        request.raw_input_contents.append(dice.randbytes(dice.choice([64, 64, 0, 63])))
    data = request.SerializeToString()
    data = mangled(data, dice) if dice.random() < 0.6 else data
    name = dice.choice(["ModelInfer"] * 5 + METHODS)
    try:
        if name == "ModelStreamInfer":
            list(channel.stream_stream(f"/{SERVICE}/{name}")(iter([data, data]), timeout=20))
        else:
            channel.unary_unary(f"/{SERVICE}/{name}")(data, timeout=20)
        return "OK", data
    except grpc.RpcError as error:
        return error.code().name, data


def raw(server: Server, dice: random.Random) -> tuple[str, bytes]:
    """Send damaged bytes to a door, which may answer them or close the connection."""
    data, port, name = HTTP1, server.http_port, "HTTP/1"
    if dice.random() < 0.5:
        data, port, name = HTTP2, server.grpc_port, "HTTP/2"
    data = mangled(data, dice)
    with socket.create_connection(("127.0.0.1", port)) as connection, suppress(OSError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(20)
        while connection.recv(1000):
            pass
    return name, data


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.server.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice, outcomes, bad, before = random.Random(options.seed), Counter[str](), 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        models.simple(Path(folder) / "simple.onnx")
        for name in ("embedding", "reranker"):
            shutil.copytree(DATA / name, Path(folder) / name)
        limits = Options(http_port=0, grpc_port=0, max_bytes=100_000, shared_memory="/pinnace-fuzz-")
        with Server([folder], ModelSettings(workers=1, threads=1), limits) as server:
            channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
            start = time.monotonic()
            while (now := time.monotonic()) < start + options.seconds:
                match dice.randrange(5):
                    case 0 | 1:
                        status, request = over_http(server.http_port, dice)
                    case 2 | 3:
                        status, request = over_grpc(channel, dice)
                    case _:
                        status, request = raw(server, dice)
                outcomes[status] += 1
                if not before and now > start + min(60, options.seconds / 4):
                    before = resident()
                if status not in PROMISED:
                    bad += 1
                    print(status, request[:500])
            after = resident()
    print(f"memory: {before:.1f} MB, at the end {after:.1f} MB ({after / before:.3f})")
    print(dict(outcomes.most_common()), f"seed {options.seed}")
    return bad > 0 or after > 1.05 * before


if __name__ == "__main__":
    sys.exit(main())
