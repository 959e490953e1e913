"""A server for long: `python -m tests.server loads | swaps | evictions | overload [--count N] [--seconds S]`.

    loads       loads and unloads a model N times
    swaps       changes the version under load of both doors N times, one every S seconds
    evictions   N models in a folder, of which few fit into memory
    overload    1.5 and 10 times what the server can do, over each door for S seconds, with clients that go,
                send garbage, or send slowly

Each prints what it counted and the memory of the server, after a tenth and at the end, and exits with 1 if
something was lost or wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from types import ModuleType
from urllib.request import urlopen

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tests.load import resident
from tests.server import models
from tests.server.overload import overload
from tritonclient.utils import InferenceServerException

from pinnace.server import ModelSettings, Options, Server

ONE = ModelSettings(workers=2, threads=1)
MEMORY = 8_000_000
"""Bytes for the models of `evictions`."""


DOORS = [tritonclient.http, tritonclient.grpc]


def client_of(server: Server, door: ModuleType = tritonclient.http):
    port = server.http_port if door is tritonclient.http else server.grpc_port
    return door.InferenceServerClient(f"127.0.0.1:{port}")


def ask(client, model: str, door: ModuleType = tritonclient.http) -> tuple[float, str]:
    given = door.InferInput("x", [1], "FP32")
    given.set_data_from_numpy(np.zeros(1, np.float32))
    result = client.infer(model, [given])
    response = result.get_response()
    version = response["model_version"] if isinstance(response, dict) else response.model_version
    return float(result.as_numpy("y")[0]), version


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

        def load(door: ModuleType) -> None:
            client = client_of(server, door)
            while not ended.is_set():
                try:
                    number, version = ask(client, "m", door)
                    name = "right" if number == int(version) else "wrong"
                except (InferenceServerException, OSError) as error:
                    name = f"failed: {error}"
                outcomes[f"{door.__name__} {name}"] += 1

        clients = [threading.Thread(target=load, args=(door,)) for door in DOORS * 2]
        for one in clients:
            one.start()
        control = client_of(server)
        for number in range(2, count + 2):
            models.constant(folder / "m" / str(number) / "model.onnx", number)
            control.load_model("m")
            if number == min(12, count // 2):
                before = resident()
            time.sleep(seconds)
        ended.set()
        for one in clients:
            one.join()
        print(dict(outcomes), "versions at the end:", *server.repository.entry("m").open)
        return report(before, resident()) and all(name.endswith("right") for name in outcomes)


def evictions(folder: Path, count: int, seconds: float) -> bool:
    models.constant(folder / "one" / "m0" / "model.onnx", 0)
    for number in range(count):
        models.constant(folder / "all" / f"m{number}" / "model.onnx", number)
    for name in ("one", "one", "all"):  # the first start imports modules
        start = time.perf_counter()
        with started(folder / name, memory=MEMORY) as server:
            print(f"{name}: ready after {(time.perf_counter() - start) * 1e3:.0f} ms")
            ask(client_of(server), "m0")
    with started(folder / "all", memory=MEMORY) as server:
        client, dice, wrong, before = client_of(server), random.Random(0), 0, resident()
        for _ in range(max(20, count // 2)):
            number = dice.randrange(count)
            wrong += ask(client, f"m{number}")[0] != number
        open_now = sum(model["state"] == "READY" for model in client.get_model_repository_index())
        print(f"{open_now} open at the end, {server.repository.taken} bytes, {wrong} wrong")
        after = resident()
        for path in ("/status", "/metrics", "/v2/models/stats"):
            start = time.perf_counter()
            urlopen(f"http://127.0.0.1:{server.http_port}{path}").read()
            print(f"{path}: {(time.perf_counter() - start) * 1e3:.0f} ms")
        print(f"memory: {before:.1f} MB, at the end {after:.1f} MB; it may take {MEMORY / 1e6:.0f} MB more")
        return after <= before + MEMORY / 1e6 + 0.05 * before and not wrong


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
        if options.what == "overload":
            return not overload(Path(folder), options.seconds)
        act = {"loads": loads, "swaps": swaps, "evictions": evictions}[options.what]
        return not act(Path(folder), options.count, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
