"""HTTP servers in front of `pinnace.server.app`: what a call of a small network costs through each.

    python -m benchmarks doors [--environments FOLDER] [--seconds 2] [--rounds 3]

The servers share an environment, have one process each, run at once, and are asked in turns by processes with
tritonclient. Ratios of requests a second are over uvicorn with asyncio's loop in the same round.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.models import INPUTS, mlp
from benchmarks.serving.server import asked, parser_of
from benchmarks.serving.server.servers import CLIENT, free_ports, running
from benchmarks.suite.environments import Peer, interpreter

_ROOT = Path(__file__).parents[2]
DOORS = Peer("doors", (f"{_ROOT}[serve]", "uvloop", "hypercorn", "granian"))
COMMANDS = {
    "uvicorn": "uvicorn app:app --port {} --loop asyncio --no-access-log",
    "uvicorn, uvloop": "uvicorn app:app --port {} --loop uvloop --no-access-log",
    "hypercorn": "hypercorn app:app --bind 127.0.0.1:{}",
    "hypercorn, uvloop": "hypercorn app:app --bind 127.0.0.1:{} --worker-class uvloop",
    "granian": "granian app:app --interface asgi --port {} --loop asyncio",
    "granian, uvloop": "granian app:app --interface asgi --port {} --loop uvloop",
}
_APP = "from pinnace.server import app as made\napp = made([{!r}])\n"


def main(arguments: list[str]) -> None:
    options = parser_of("doors", __doc__).parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = mlp(folder / "mlp.onnx")
        np.savez(folder / "input.npz", **INPUTS["mlp"]())
        (folder / "app.py").write_text(_APP.format(str(model)))
        client = interpreter(CLIENT, options.environments)
        programs = interpreter(DOORS, options.environments).parent
        servers = {name: stack.enter_context(_started(name, programs, folder)) for name in COMMANDS}
        for clients in (1, 8):
            rounds = [
                {
                    name: asked(client, "http", name, at, clients, options.seconds, model)
                    for name, at in servers.items()
                }
                for _ in range(options.rounds)
            ]
            for name in servers:
                p50, rate = (median(getattr(one[name], key) for one in rounds) for key in ("p50", "rate"))
                ratio = median(one[name].rate / one["uvicorn"].rate for one in rounds)
                figures = f"{p50 * 1e3:.3f} ms p50, {rate:.0f} requests/s, ratio {ratio:.2f}"
                print(f"{clients} clients, {name}: {figures}", flush=True)


@contextmanager
def _started(name: str, programs: Path, folder: Path) -> Iterator[str]:
    """Run a server in front of the application; yield its address."""
    (port,) = free_ports(1)
    program, *arguments = COMMANDS[name].format(port).split()
    variables = {"PYTHONPATH": str(folder), "PINNACE_CACHE_DIR": str(folder / "cache")}
    address, command = f"127.0.0.1:{port}", [str(programs / program), *arguments]
    with running(command, address, "mlp", folder / f"{name}.log", variables):
        yield address
