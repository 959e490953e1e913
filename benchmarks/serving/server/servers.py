"""The servers that are compared: how each starts, in an environment of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.suite.environments import LeftOut, Peer, interpreter

PROGRAMS = Path(__file__).parent / "programs"
CLIENT = Peer("client", ("tritonclient[all]",))
PEERS = (
    Peer("kserve", ("kserve", "onnxruntime")),
    Peer("mlserver", ("mlserver", "onnxruntime")),
    Peer("triton", ("nvidia-pytriton", "onnxruntime"), python="3.11"),  # it needs numpy 1, and libpython
)
JSON_ONLY = {"mlserver"}  # its door of HTTP answers 422 to binary tensors
PATIENCE = 60  # seconds
_NONE: Mapping[str, str] = {}


@contextmanager
def started(name: str, model: Path, home: Path, log: Path, brief: bool) -> Iterator[dict[str, str]]:
    """Run the server `name`; yield its addresses by protocol. Raises `LeftOut`.

    A model that is not `brief` has two workers, and the peers compute it in threads.
    """
    where = "here" if brief else "aside"
    http, grpc = free_ports(2)
    if name == "pinnace":
        python = Path(sys.executable)
        ports = ["--http-port", str(http), "--grpc-port", str(grpc)]
        command = [
            "-m",
            "pinnace",
            "serve",
            str(model),
            "--workers",
            str(2 - brief),
            "--threads",
            "1",
            *ports,
        ]
    else:
        python = interpreter(next(peer for peer in PEERS if peer.name == name), home)
        command = [str(PROGRAMS / f"with_{name}.py"), str(model), str(http), str(grpc), where]
    if name == "mlserver":
        settings = _mlserver(model, log.parent, http, grpc, where)
        command = [str(python.with_name("mlserver")), "start", str(settings)]
    variables = {} if name == "pinnace" else _environment(python)
    with running([str(python), *command], f"127.0.0.1:{http}", model.stem, log, variables):
        yield {"http": f"127.0.0.1:{http}", "grpc": f"127.0.0.1:{grpc}"}


@contextmanager
def running(
    command: Sequence[str], address: str, model: str, log: Path, variables: Mapping[str, str] = _NONE
) -> Iterator[None]:
    """Run a server for the block, from the moment that its model is ready. Raises `LeftOut`."""
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | dict(variables))
    try:
        _wait(f"http://{address}/v2/models/{model}/ready", process, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(python: Path) -> dict[str, str]:
    """Return what lets a server find its programs, and the processes that Triton starts their Python."""
    libraries = [str(python), "-c", "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"]
    found = subprocess.run(libraries, capture_output=True, text=True, check=True).stdout.strip()
    path = os.pathsep.join((str(python.parent), os.environ.get("PATH", "")))
    return {"PYTHONPATH": str(PROGRAMS), "LD_LIBRARY_PATH": found, "PATH": path}


def _mlserver(model: Path, folder: Path, http: int, grpc: int, where: str) -> Path:
    """Write MLServer's settings; without parallel workers it computes in the process of its door."""
    (metrics,) = free_ports(1)
    ports = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    made = folder / "mlserver"
    made.mkdir(exist_ok=True)
    (made / "settings.json").write_text(json.dumps(ports | {"parallel_workers": 0}))
    parameters = {"uri": str(model), "version": where}
    of_model = {"name": model.stem, "implementation": "mlserver_onnx.Onnx", "parameters": parameters}
    (made / "model-settings.json").write_text(json.dumps(of_model))
    return made


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise LeftOut(f"it does not serve: {' '.join(log.read_text().split()[-60:])}")
