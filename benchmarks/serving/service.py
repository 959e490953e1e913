"""Speed and memory of examples/service under gunicorn, loaded over loopback, again with half a core.

    python -m benchmarks service [--model MODEL] [--clients 8] [--seconds 10] [--quota 0.5]

gunicorn's master builds the model, and two workers that it forks run it, one thread each. The clients are
threads of this process; each request has a connection of its own. Prometheus' parser reads the metrics of
both workers before and after, and the table shows them beside what the clients counted. The second run is in
a control group with a CPU quota (version 1 or 2), if this process may make one. Quotas do not hold for
processes at real-time priority.
"""

from __future__ import annotations

import argparse
import http.client
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

import pinnace
from pinnace.machine import cgroup

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "src" / "pinnace" / "data" / "efficientnet_lite0.mindir"
PERIOD = 100_000  # microseconds
PATIENCE = 120  # seconds
IN_GROUP = ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"')
Row = dict[str, str]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks service", description=__doc__)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--quota", type=float, default=0.5, help="cores of the second run; 0: no second run")
    options = parser.parse_args(arguments)
    body = written(options.model)
    runs = {}
    with served(options.model) as service:
        runs["no quota"] = measured(service, body, options.clients, options.seconds)
    with limited(options.quota) as group:
        if group is not None:
            with served(options.model, group) as service:
                row = measured(service, body, options.clients, options.seconds)
            runs[f"{options.quota:g} cores"] = row | {"periods without CPU left": throttled(group)}
    print(f"| | {' | '.join(runs)} |\n| --- {'| --- ' * len(runs)}|")
    for key in next(reversed(runs.values())):
        print(f"| {key} | {' | '.join(run.get(key, '') for run in runs.values())} |")


def written(model: Path) -> bytes:
    """Return zeros for the model's first input, as an .npy file."""
    with pinnace.Model(model) as built:
        (port,) = built.get_inputs()
    file = io.BytesIO()
    np.save(file, np.zeros([max(size, 1) for size in port.shape], port.dtype.to_numpy()))
    return file.getvalue()


class Service:
    """A running service: its port, and the process and the port for metrics of each worker."""

    def __init__(self, log: Path, alive: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            text = log.read_text(encoding="utf-8")
            at = re.search(r"Listening at: http://127\.0\.0\.1:(\d+)", text)
            self.workers = dict(re.findall(r"metrics of (\d+) on port (\d+)", text))
            if at and len(self.workers) == 2:
                self.port = int(at[1])
                return
            if not alive() or time.monotonic() > end:
                raise SystemExit(f"gunicorn does not serve:\n{text}")
            time.sleep(0.05)

    def ask(self, body: bytes) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("POST", "/", body, {"Connection": "close"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"the service answers {answer.status}: {text.decode()}")

    def scraped(self) -> dict[str, float]:
        """Return the workers' counts, added up."""
        total = {"served": 0.0, "seconds": 0.0}
        for port in self.workers.values():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
                families = list(text_string_to_metric_families(answer.read().decode()))
            for sample in (sample for family in families for sample in family.samples):
                total["served"] += sample.value * (sample.labels.get("outcome") == "served")
                total["seconds"] += sample.value * (sample.name == "pinnace_prediction_seconds_sum")
        return total

    def private(self) -> list[float]:
        """Return the memory in MB that each worker shares with no other process."""
        texts = [Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii") for pid in self.workers]
        return [sum(map(int, re.findall(r"Private_\w+: +(\d+) kB", text))) / 1024 for text in texts]


@contextmanager
def served(model: Path, group: Path | None = None) -> Iterator[Service]:
    """Start the service, in a control group if one is given, and end it."""
    command = [sys.executable, "-m", "gunicorn", "--bind", "127.0.0.1:0", "app:app"]
    if group is not None:
        command = [*IN_GROUP, str(group), *command]
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "MODEL": str(model.resolve()),
            "METRICS_PORTS": "0",
            "HOME": folder,
            "PINNACE_CACHE_DIR": folder,
        }
        log = Path(folder, "log")
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=ROOT / "examples" / "service", env=os.environ | own, stdout=file, stderr=file
            )
        try:
            yield Service(log, lambda: process.poll() is None)
        finally:
            process.terminate()
            process.wait(PATIENCE)


def measured(service: Service, body: bytes, clients: int, seconds: float) -> Row:
    """Load the service, and compare what it counts with what the clients count."""
    load(service, body, clients, 1)  # warm-up
    before, begin = service.scraped(), time.perf_counter()
    took = load(service, body, clients, seconds)
    taken, after = time.perf_counter() - begin, service.scraped()
    count = after["served"] - before["served"]
    mean = (after["seconds"] - before["seconds"]) / count
    return {
        "requests a second": f"{len(took) / taken:.1f}",
        "p50, ms": f"{np.percentile(took, 50) * 1e3:.1f}",
        "p99, ms": f"{np.percentile(took, 99) * 1e3:.1f}",
        "private memory of each worker, MB": ", ".join(f"{mb:.0f}" for mb in service.private()),
        "requests that clients counted": str(len(took)),
        "requests that Prometheus scraped": f"{count:.0f}",
        "mean that clients measured, ms": f"{np.mean(took) * 1e3:.1f}",
        "mean that Prometheus scraped, of the prediction alone, ms": f"{mean * 1e3:.1f}",
    }


def load(service: Service, body: bytes, clients: int, seconds: float) -> list[float]:
    """Return the time of each request of some clients."""
    took: list[float] = []
    end = time.perf_counter() + seconds

    def client() -> None:
        while (begin := time.perf_counter()) < end:
            service.ask(body)
            took.append(time.perf_counter() - begin)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


@contextmanager
def limited(cores: float) -> Iterator[Path | None]:
    """Make a control group with a CPU quota below one of this process's; None if that is impossible."""
    groups = (quota(parent, cores) for parent in cgroup.folders("cpu") if cores)
    group = next(filter(None, groups), None)
    if cores and group is None:
        print("no second run: this process cannot make a control group with a CPU quota", file=sys.stderr)
    try:
        yield group
    finally:
        if group is not None:
            group.rmdir()


def quota(parent: Path, cores: float) -> Path | None:
    """Make a control group with a quota; None without the rights, or if the parent has no CPU controller."""
    group = parent / f"pinnace-benchmark-{os.getpid()}"
    limit = int(cores * PERIOD)
    try:
        group.mkdir()
    except OSError:
        return None
    for file, text in (("cpu.max", f"{limit} {PERIOD}"), ("cpu.cfs_quota_us", str(limit))):
        try:
            if (group / file).exists():
                (group / file).write_text(text, encoding="ascii")
                return group
        except OSError:
            break
    group.rmdir()
    return None


def throttled(group: Path) -> str:
    found = dict(line.split() for line in (group / "cpu.stat").read_text(encoding="ascii").splitlines())
    return f"{int(found['nr_throttled']) / max(1, int(found['nr_periods'])):.0%} of periods"
