"""`pinnace serve` with half a core, one core and two, by control groups: requests a second of each core.

    python -m benchmarks quota [--seconds 2] [--rounds 3] [--environments FOLDER]

Needs root, and control groups that it may make. The server chooses workers and threads by itself; eight
clients outside of its group ask for MobileNetV2 over HTTP. Ratios are over two cores in the same round.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.models import INPUTS, mobilenet_v2
from benchmarks.serving.server import Load, asked, parser_of
from benchmarks.serving.server.servers import CLIENT, free_ports, running
from benchmarks.suite.environments import interpreter

CORES = (0.5, 1.0, 2.0)
_PERIOD = 100_000  # microseconds
_V1, _V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


def main(arguments: list[str]) -> None:
    options = parser_of("quota", __doc__).parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = mobilenet_v2(folder / "mobilenet_v2.onnx")
        np.savez(folder / "input.npz", **INPUTS[model.stem]())
        client = interpreter(CLIENT, options.environments)
        servers = {cores: stack.enter_context(_started(cores, model)) for cores in CORES}
        rounds: list[dict[float, Load]] = [
            {
                cores: asked(client, "http", "pinnace", at, 8, options.seconds, model)
                for cores, at in servers.items()
            }
            for _ in range(options.rounds)
        ]
        for cores in CORES:
            each = median(one[cores].rate / cores / (one[2.0].rate / 2) for one in rounds)
            tail = median(one[cores].p99 / one[cores].p50 for one in rounds)
            rate = median(one[cores].rate for one in rounds)
            print(f"{cores} cores: {rate:.1f} requests/s, of each core {each:.2f}, p99 {tail:.1f} of p50")


@contextmanager
def _started(cores: float, model: Path) -> Iterator[str]:
    """Run a server that has so many cores; yield its address."""
    with _group(cores) as group:
        (port,) = free_ports(1)
        address = f"127.0.0.1:{port}"
        serve = [sys.executable, "-m", "pinnace", "serve", str(model), "--http-port", str(port)]
        enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        command = [*enter, *serve, "--grpc-port", "-1"]
        with running(command, address, model.stem, model.with_name(f"{cores}.log")):
            yield address


@contextmanager
def _group(cores: float) -> Iterator[Path]:
    """Make a control group with a quota; remove it at the end."""
    quota, first = round(cores * _PERIOD), _V1.is_dir()
    group = (_V1 if first else _V2) / f"pinnace-{os.getpid()}-{cores}"
    group.mkdir()
    try:
        if first:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD}")
        yield group
    finally:
        group.rmdir()
