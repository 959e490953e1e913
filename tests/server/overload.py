"""`python -m tests.server overload --seconds S`: more requests than a server can answer, over each door.

One worker, a queue of 8, and 1.5 and 10 times the requests that it can do, for S seconds each. Clients and
server are processes of their own. Times are as clients see them, and as the server's log has them from the
arrival of a request on. On a busy machine a process that only sleeps is late too: how much is printed last.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
from tests.server import models
from tests.server.senders import arrays

from pinnace.bench.remote import RemoteModel

QUEUE = 8
SECONDS_OF_ONE = 0.04
TIMEOUT = 0.1
"""Seconds of a deadline: most of those that are not refused wait longer."""
ENDED = {"queue full": "refused", "timeout": "expired"}
RIGHT = {
    *("plain answered", "plain refused", "deadline answered", "deadline refused", "deadline expired"),
    *("gone gone", "misbehaved"),
}
"""How requests may end."""


class Served:
    """A server in a process of its own, and the seconds of failed requests that its log has."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.seconds = defaultdict[str, list[float]](list)
        assert process.stderr is not None
        ready = next(line for line in process.stderr if '"ready"' in line)
        self.ports = {door: int(port) for door, port in re.findall(r"(http|grpc)://[\d.]+:(\d+)", ready)}
        self._listener = threading.Thread(target=self._listen, args=(process.stderr,))
        self._listener.start()

    def _listen(self, lines: Iterable[str]) -> None:
        for line in lines:
            event = json.loads(line)
            if event["event"] == "request failed":
                self.seconds[ENDED.get(event["cause"], event["cause"])].append(event["seconds"])

    def ask(self, path: str, body: bytes | None = None) -> bytes:
        with urlopen(f"http://127.0.0.1:{self.ports['http']}/{path}", body) as response:
            return response.read()

    def end(self) -> None:
        self._process.terminate()
        self._listener.join()

    def memory(self) -> float:
        """Resident memory in MB."""
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0]) / 1e3


@contextmanager
def served(place: Path, *options: str) -> Iterator[Served]:
    """Run `pinnace serve` for the block."""
    command = [sys.executable, "-m", "pinnace", "--log", "json", "serve", str(place), *options]
    command += ["--http-port", "0", "--grpc-port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        server = Served(process)
        try:
            yield server
        finally:
            server.end()


def overload(folder: Path, seconds: float) -> bool:
    place = models.rounds(folder / "rounds.onnx")
    options = ("--workers", "1", "--threads", "1", "--queue", str(QUEUE), "--max-bytes", "100K")
    with served(place, *options) as server:
        model = RemoteModel(f"http://127.0.0.1:{server.ports['http']}", "rounds")
        rounds = round(SECONDS_OF_ONE / _seconds(model, 1000) * 1000)
        rate = 1 / _seconds(model, rounds)
        print(f"one worker does {rate:.1f} requests a second, and {QUEUE} may wait")
        good = True
        for door in server.ports:
            for factor in (1.5, 10):
                print(f"\n{door}, {factor} times:")
                good = _one(server, door, rate * factor, seconds, rounds) and good
        return good


def _seconds(model: RemoteModel, rounds: int) -> float:
    """The median time of a request."""
    call, taken = model.client(list(arrays(rounds).values())), []
    for _ in range(9):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def _one(server: Served, door: str, rate: float, seconds: float, rounds: int) -> bool:
    """Send requests at a rate, print how they ended, and return whether none was lost."""
    command = [sys.executable, "-m", "tests.server.senders", door, str(server.ports[door])]
    command += ["--rate", str(rate), "--seconds", str(seconds)]
    command += ["--rounds", str(rounds), "--timeout", str(TIMEOUT)]
    server.ask("v2/repository/models/rounds/load", b"")  # its counts begin anew
    server.seconds.clear()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(min(60, seconds / 4))
        before, late = server.memory(), _oversleeping(seconds / 2)
        report = json.loads(process.communicate()[0])
    after, counts, clients = server.memory(), report["outcomes"], defaultdict(list, report["seconds"])
    print(counts)
    answered = counts["plain answered"] + counts.get("deadline answered", 0)
    _show("refused after", 2, clients["plain refused"], server.seconds["refused"])
    _show("expired after the deadline by", 5, clients["deadline expired"], server.seconds["expired"], TIMEOUT)
    _show("answered after", (QUEUE + 1) / (answered / seconds) * 1e3, clients["plain answered"], [])
    (live,) = json.loads(server.ask("status"))["models"]
    print(f"answered after (server): p50 {live['p50']:.2f}, p99 {live['p99']:.2f} ms of {live['served']}")
    print(f"memory: {before:.1f} MB, at the end {after:.1f} MB ({after / before:.3f})")
    print(f"a sleeping process: {_percentiles(late)}")
    strange = {name: count for name, count in counts.items() if name not in RIGHT}
    print(f"lost or wrong: {strange}") if strange else None
    return not strange and after <= before * 1.05


def _oversleeping(seconds: float) -> list[float]:
    late, ended = [], time.perf_counter() + seconds
    while (start := time.perf_counter()) < ended:
        time.sleep(0.005)
        late.append(time.perf_counter() - start - 0.005)
    return late


def _show(what: str, limit: float, clients: list[float], server: list[float], less: float = 0) -> None:
    """Print times, less than measured by `less`, beside a limit in ms."""
    for who, measured in (("clients", clients), ("server", server)):
        if measured:
            seconds = [one - less for one in measured]
            within = np.mean(np.array(seconds) * 1e3 <= limit)
            print(f"{what} ({who}): {_percentiles(seconds)}; {within:.2%} within {limit:.3g} ms")


def _percentiles(seconds: list[Any]) -> str:
    p50, p99, most = np.percentile(np.array(seconds) * 1e3, (50, 99, 100))
    return f"p50 {p50:.2f}, p99 {p99:.2f}, max {most:.2f} ms of {len(seconds)}"
