"""`pinnace serve` beside KServe's server and MLServer: what a call of a small network costs.

    python -m benchmarks server [--environments FOLDER] [--seconds 2] [--rounds 3]

Each server has an environment of its own, one process and one thread of onnxruntime. Clients are processes
with tritonclient; over HTTP MLServer is asked in JSON, the others in binary tensors. All servers run at once
and are asked in turns; ratios are Pinnace over the best peer of the same round.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.models import mlp
from benchmarks.serving.server.servers import CLIENT, JSON_ONLY, PEERS, PROGRAMS, started
from benchmarks.suite.environments import LeftOut, interpreter

CASES = [("grpc", 1), ("http", 1), ("grpc", 8), ("http", 8)]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks server", description=__doc__)
    parser.add_argument("--environments", type=Path, default=Path("~/.cache/pinnace-peers").expanduser())
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = mlp(folder / "mlp.onnx")
        client = interpreter(CLIENT, options.environments)
        servers = {}
        for name in ("pinnace", *(peer.name for peer in PEERS)):
            try:
                server = started(name, model, options.environments, folder / f"{name}.log")
                servers[name] = stack.enter_context(server)
            except LeftOut as reason:
                print(f"{name} is left out: {reason}")
        for kind, clients in CASES:
            rounds = [
                {
                    name: asked(client, kind, name, at[kind], clients, options.seconds)
                    for name, at in servers.items()
                }
                for _ in range(options.rounds)
            ]
            print(row(kind, clients, rounds), flush=True)


def asked(client: Path, kind: str, server: str, address: str, clients: int, seconds: float) -> float:
    """Return the median seconds of a request of one client, or the requests a second of several."""
    command = [str(client), str(PROGRAMS / "load.py"), kind, address, str(seconds)]
    command.append("json" if server in JSON_ONLY else "binary")
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
    taken = [json.loads(text) for text in ended]
    return median(taken[0]) if clients == 1 else sum(map(len, taken)) / seconds


def row(kind: str, clients: int, rounds: list[dict[str, float]]) -> str:
    """Return a line of the table: the median of each server, and of the ratio to the round's best peer."""
    best, shown = (min, "{:.6f} s p50") if clients == 1 else (max, "{:.0f} requests/s")
    figures = [f"{name} {shown.format(median(r[name] for r in rounds))}" for name in rounds[0]]
    peers = [[value for name, value in r.items() if name != "pinnace"] for r in rounds]
    if peers[0]:
        ratios = [r["pinnace"] / best(of_round) for r, of_round in zip(rounds, peers, strict=True)]
        figures.append(f"ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    return f"{kind}, {clients} clients: {'; '.join(figures)}"
