"""Requests in JSON beside the same ones as raw bytes, and how long they hold up others.

    python -m benchmarks bodies [--seconds 2]

A server in this process echoes float32 numbers. One client sends them and reads them back in the form of the
row, over one connection. Meanwhile a process asks all the time if the server lives; the longest of its
requests stands beside.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from onnx import TensorProto, helper, save

import pinnace
from pinnace.server.door import binary_request

_SIZES = (16, 1000, 150_528, 2_500_000)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks bodies", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2)
    seconds = parser.parse_args(arguments).seconds
    print("| floats | JSON, MB | JSON, ms | ms per MB | raw, ms | JSON / raw | others, longest: JSON | raw |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with (
        tempfile.TemporaryDirectory() as folder,
        pinnace.Server([_echo(Path(folder, "echo.onnx"))]) as server,
    ):
        for size in _SIZES:
            x = np.random.default_rng(0).standard_normal(size, np.float32)
            one = {"name": "x", "shape": [size], "datatype": "FP32", "data": x.tolist()}
            body = json.dumps({"inputs": [one]}).encode()
            path, raw, headers = binary_request("echo", [("x", x)])
            text = _asked(server.http_port, path, body, {}, seconds)
            plain = _asked(server.http_port, path, raw, headers, seconds)
            megabytes = len(body) / 1e6
            print(
                f"| {size} | {megabytes:.3f} | {text[0]:.3g} | {text[0] / megabytes:.3g} | {plain[0]:.3g} "
                f"| {text[0] / plain[0]:.2f} | {text[1]:.3g} | {plain[1]:.3g} |",
                flush=True,
            )


def _echo(path: Path) -> Path:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "echo", ports[:1], ports[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _asked(port: int, path: str, body: bytes, headers: dict[str, str], seconds: float) -> tuple[float, float]:
    """Return the median of a request, and the longest one of another client meanwhile, in ms."""
    client, times = HTTPConnection("127.0.0.1", port), list[float]()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        other = pool.submit(_others, port, seconds)
        while not other.done():
            times.append(_took(client, "POST", path, body, headers))
        return median(times) * 1e3, other.result() * 1e3


def _others(port: int, seconds: float) -> float:
    client, end, times = HTTPConnection("127.0.0.1", port), perf_counter() + seconds, list[float]()
    while perf_counter() < end:
        times.append(_took(client, "GET", "/v2/health/live"))
    return max(times)


def _took(
    client: HTTPConnection, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> float:
    start = perf_counter()
    client.request(method, path, body, headers or {})
    response = client.getresponse()
    answer = response.read()
    took = perf_counter() - start
    assert response.status == 200, answer
    return took
