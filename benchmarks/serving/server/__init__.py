"""`pinnace serve` beside KServe's server, MLServer and Triton: what a call costs, what several clients get.

    python -m benchmarks server [--model mlp | mobilenet_v2] [--seconds 2]
        [--rounds 3] [--environments FOLDER]

Each server has an environment of its own and one process; a session has one thread, and mobilenet_v2 two
workers. Triton is that of nvidia-pytriton, whose models are Python. Clients are processes with tritonclient;
over HTTP MLServer is asked in JSON, the others in binary tensors. All servers run at once and are asked in
turns; ratios are Pinnace over the best peer of the same round. "of the cores" is the rate beside that of
cores which only ran the clients and a runner of the model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from threading import Thread
from time import perf_counter
from typing import NamedTuple

import numpy as np

from benchmarks.models import INPUTS, MAKERS
from benchmarks.serving.server.servers import CLIENT, JSON_ONLY, PEERS, PROGRAMS, started
from benchmarks.suite.environments import LeftOut, interpreter
from pinnace import ModelParallelRunner
from pinnace.machine.cores import usable_core_count

CASES = [("grpc", 1), ("http", 1), ("grpc", 8), ("http", 8)]
OUTPUTS = {"mlp": "y", "mobilenet_v2": "scores"}


class Load(NamedTuple):
    """Seconds of requests, as clients saw them, requests a second, and CPU seconds of a client's request."""

    p50: float
    p99: float
    rate: float
    cpu: float


def main(arguments: list[str]) -> None:
    parser = parser_of("server", __doc__)
    parser.add_argument("--model", choices=OUTPUTS, default="mlp")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = MAKERS[options.model](folder / f"{options.model}.onnx")
        np.savez(folder / "input.npz", **INPUTS[options.model]())
        client = interpreter(CLIENT, options.environments)
        servers = {}
        for name in ("pinnace", *(peer.name for peer in PEERS)):
            try:
                log = folder / f"{name}.log"
                server = started(name, model, options.environments, log, brief=options.model == "mlp")
                servers[name] = stack.enter_context(server)
            except LeftOut as reason:
                print(f"{name} is left out: {reason}")
        for kind, clients in CASES:
            rounds = [
                {
                    name: asked(client, kind, name, at[kind], clients, options.seconds, model)
                    for name, at in servers.items()
                }
                for _ in range(options.rounds)
            ]
            for line in rows(kind, clients, rounds):
                print(line, flush=True)
            if clients > 1:
                shares = _of_the_cores(rounds, model).items()
                figures = "; ".join(f"{name} {share:.2f}" for name, share in shares)
                print(f"{kind}, {clients} clients, of the cores: {figures}", flush=True)


def parser_of(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a benchmark in which clients ask servers in turns."""
    parser = argparse.ArgumentParser(prog=f"benchmarks {name}", description=description)
    parser.add_argument("--environments", type=Path, default=Path("~/.cache/pinnace-peers").expanduser())
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    return parser


def asked(
    client: Path, kind: str, server: str, address: str, clients: int, seconds: float, model: Path
) -> Load:
    """Let clients ask a server for some seconds."""
    form = "json" if server in JSON_ONLY else "binary"
    command = [str(client), str(PROGRAMS / "load.py"), kind, address, str(seconds), form]
    command += [model.stem, OUTPUTS[model.stem], str(model.with_name("input.npz"))]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(clients)]
    for one in running:
        assert one.stdout is not None
        one.stdout.readline()
    for one in running:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    ended = [one.communicate()[0] for one in running]
    if any(one.returncode for one in running):
        raise SystemExit(f"a client of {server} failed: its error is above")
    taken, cpu = list[float](), 0.0
    for text in ended:
        *own, used = json.loads(text)
        taken += own
        cpu += used
    return Load(median(taken), quantiles(taken, n=100)[98], len(taken) / seconds, cpu / len(taken))


def rows(kind: str, clients: int, rounds: list[dict[str, Load]]) -> list[str]:
    """Return lines of the table: the median of each server, and of the ratio to the round's best peer."""
    shown = ["p50", "p99"] if clients == 1 else ["rate", "p99"]
    lines = []
    for key in shown:
        best, unit, scale = (max, "requests/s", 1.0) if key == "rate" else (min, "ms", 1e3)
        values = [{name: getattr(load, key) * scale for name, load in one.items()} for one in rounds]
        figures = [f"{name} {median(one[name] for one in values):.4g} {unit}" for name in rounds[0]]
        peers = [[value for name, value in one.items() if name != "pinnace"] for one in values]
        if peers[0]:
            ratios = [one["pinnace"] / best(others) for one, others in zip(values, peers, strict=True)]
            figures.append(f"ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        lines.append(f"{kind}, {clients} clients, {key}: {'; '.join(figures)}")
    return lines


def _of_the_cores(rounds: list[dict[str, Load]], model: Path) -> dict[str, float]:
    """Return each server's rate over that of cores which only run its clients and Pinnace's runner."""
    cores = usable_core_count()
    run = cores / _runner_rate(model, cores)
    shares = {}
    for name in rounds[0]:
        busy = median(one[name].cpu for one in rounds) + run
        shares[name] = median(one[name].rate for one in rounds) * busy / cores
    return shares


def _runner_rate(model: Path, workers: int, seconds: float = 2.0) -> float:
    """Return the predictions a second of a runner whose workers have a caller each."""
    runner = ModelParallelRunner(str(model))
    inputs = list(INPUTS[model.stem]().values())
    runner.predict(inputs)
    counts, end = list[int](), perf_counter() + seconds

    def call() -> None:
        count = 0
        while perf_counter() < end:
            runner.predict(inputs)
            count += 1
        counts.append(count)

    threads = [Thread(target=call) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runner.close()
    return sum(counts) / seconds
