"""A server for long: `python -m tests.server loads | swaps | evictions | overload [--count N] [--seconds S]`.

    loads       loads and unloads a model N times
    swaps       changes the version under load N times, one every S seconds
    evictions   N models in a folder, of which few fit into memory
    overload    1.5 and 10 times what the server can do, with clients that go, send garbage, or send slowly

Each prints what it counted and the memory of the server, after a tenth and at the end, and exits with 1 if
something was lost or wrong.
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import tritonclient.http
from tests.load import resident
from tests.server import models
from tritonclient.utils import InferenceServerException

from pinnace.server import ModelSettings, Options, Server

ONE = ModelSettings(workers=2, threads=1)


def client_of(server: Server) -> tritonclient.http.InferenceServerClient:
    return tritonclient.http.InferenceServerClient(f"127.0.0.1:{server.http_port}")


def ask(client, model: str) -> tuple[float, str]:
    given = tritonclient.http.InferInput("x", [1], "FP32")
    given.set_data_from_numpy(np.zeros(1, np.float32))
    result = client.infer(model, [given])
    return float(result.as_numpy("y")[0]), result.get_response()["model_version"]


def started(folder: Path, settings: ModelSettings = ONE, **options) -> Server:
    return Server([folder], settings, Options(http_port=0, grpc_port=0, **options))


def loads(folder: Path, count: int, seconds: float) -> bool:
    models.constant(folder / "m" / "model.onnx", 1)
    with started(folder) as server:
        client, before = client_of(server), 0.0
        for number in range(count):
            client.unload_model("m")
            client.load_model("m")
            ask(client, "m")
            if number == 10:
                before = resident()
        return report(before, resident())


def swaps(folder: Path, count: int, seconds: float) -> bool:
    models.constant(folder / "m" / "1" / "model.onnx", 1)
    with started(folder) as server:
        ended, outcomes, before = threading.Event(), Counter[str](), 0.0

        def load() -> None:
            client = client_of(server)
            while not ended.is_set():
                number, version = ask(client, "m")
                outcomes["right" if number == int(version) else "wrong"] += 1

        clients = [threading.Thread(target=load) for _ in range(4)]
        for one in clients:
            one.start()
        control = client_of(server)
        for number in range(2, count + 2):
            models.constant(folder / "m" / str(number) / "model.onnx", number)
            control.load_model("m")
            if number == 12:
                before = resident()
            time.sleep(seconds)
        ended.set()
        for one in clients:
            one.join()
        print(dict(outcomes))
        failed = control.get_inference_statistics("m")["model_stats"][0]["inference_stats"]["fail"]["count"]
        return report(before, resident()) and not outcomes["wrong"] and not failed


def evictions(folder: Path, count: int, seconds: float) -> bool:
    for number in range(count):
        models.constant(folder / f"m{number}" / "model.onnx", number)
    start = time.perf_counter()
    with started(folder, memory=8_000_000) as server:
        print(f"{count} models, ready after {time.perf_counter() - start:.2f} s")
        client, dice, wrong, before = client_of(server), random.Random(0), 0, 0.0
        for turn in range(max(20, count // 2)):
            number = dice.randrange(count)
            wrong += ask(client, f"m{number}")[0] != number
            if turn == 10:
                before = resident()
        open_now = sum(model["state"] == "READY" for model in client.get_model_repository_index())
        print(f"{open_now} open at the end, {server.repository.taken} bytes, {wrong} wrong")
        return report(before, resident()) and not wrong


def overload(folder: Path, count: int, seconds: float) -> bool:
    models.rounds(folder / "rounds" / "model.onnx")
    with started(folder, replace(ONE, queue=8), max_bytes=100_000) as server:
        good = True
        for factor in (1.5, 10):
            ended, outcomes = time.monotonic() + seconds / 2, Counter[str]()
            threads = [
                threading.Thread(target=_until, args=(ended, act, server, outcomes))
                for act in [_good] * round(4 * factor) + [_gone, _garbage, _too_much, _slow]
            ]
            for one in threads:
                one.start()
            time.sleep(seconds / 20)
            before = resident()
            for one in threads:
                one.join()
            print(f"{factor} times: {dict(outcomes)}")
            good = report(before, resident()) and not outcomes["lost"] and good
        return good


def _until(ended: float, act: Callable, server: Server, outcomes: Counter[str]) -> None:
    while time.monotonic() < ended:
        outcomes[act(server)] += 1


def _request(count: int) -> list:
    given = [
        tritonclient.http.InferInput("count", [], "INT64"),
        tritonclient.http.InferInput("x", [3], "FP32"),
    ]
    given[0].set_data_from_numpy(np.array(count))
    given[1].set_data_from_numpy(np.ones(3, np.float32))
    return given


def _good(server: Server) -> str:
    start = time.perf_counter()
    try:
        client_of(server).infer("rounds", _request(2000))
        return "answered"
    except InferenceServerException as error:
        refused = "429" in str(error.status()) or "429" in str(error)
        late = time.perf_counter() - start > 1
        return ("refused late" if late else "refused") if refused else f"failed: {str(error)[:60]}"
    except OSError:
        return "lost"


def _raw(server: Server, data: bytes, wait: float) -> None:
    with socket.create_connection(("127.0.0.1", server.http_port)) as connection:
        connection.sendall(data)
        time.sleep(wait)


def _head(length: int, more: str = "") -> bytes:
    return (
        f"POST /v2/models/rounds/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{more}\r\n".encode()
    )


def _gone(server: Server) -> str:
    body, length = tritonclient.http.InferenceServerClient.generate_request_body(_request(1 << 40))
    _raw(server, _head(len(body), f"inference-header-content-length: {length}\r\n") + body, 0.05)
    return "went"


def _garbage(server: Server) -> str:
    _raw(server, random.randbytes(300), 0.02)
    return "garbage"


def _too_much(server: Server) -> str:
    _raw(server, _head(1 << 30) + b"x" * 1000, 0.02)
    return "too much"


def _slow(server: Server) -> str:
    _raw(server, _head(1000)[:40], 1)
    return "slow"


def report(before: float, after: float) -> bool:
    print(f"memory: {before:.1f} MB, at the end {after:.1f} MB ({after / before:.3f})")
    return after <= before * 1.05


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.server", description=__doc__)
    parser.add_argument("what", choices=("loads", "swaps", "evictions", "overload"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        good = globals()[options.what](Path(folder), options.count, options.seconds)
    return not good


if __name__ == "__main__":
    sys.exit(main())
