"""Starts the ranks of a script on this machine, or by mpirun on several, and ends all when one fails."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from pinnace.errors import ConfigError

Print = Callable[[int | None, bool, str], None]
"""Takes a line: the rank that it is of, None for the launcher's own, and whether it is of stderr."""

_GRACE = 3.0
"""Seconds that ranks have to end by themselves after one has failed, and again after SIGTERM."""
_TAGGED = re.compile(r"\[\S+,(\d+)\]<std(?:out|err)>: ?(.*)", re.DOTALL)


def launch(ranks: int, hosts: Sequence[str], way: str, command: Sequence[str], show: Print) -> int:
    """Run `command` with python in so many ranks; returns the exit status of the first that failed, or 0.

    "{rank}" in an argument becomes the number of the rank. `way` is "mpi", "torch" or "" (MPI where it is
    here). Raises `ConfigError` where what starts them is missing.
    """
    found = mpirun()
    if way == "mpi" and (not found or not find_spec("mpi4py")):
        raise ConfigError("MPI is not here: pip install 'pinnace[mpi]'")
    if way == "torch" and not find_spec("torch"):
        raise ConfigError("torch is not here: pip install 'pinnace[ranks]'")
    if hosts and way == "torch":
        raise ConfigError("--hosts: ranks on other machines are started by mpirun, or there by hand")
    if not way:
        way = "mpi" if found and find_spec("mpi4py") else "torch"
        if way == "torch" and not find_spec("torch"):
            raise ConfigError("neither MPI nor torch is here: pip install 'pinnace[mpi]'")
    return _by_mpirun(found, ranks, hosts, command, show) if way == "mpi" else _by_hand(ranks, command, show)


def mpirun() -> str:
    """The path of mpirun; that of a virtual environment need not be on PATH."""
    beside = Path(sys.executable).with_name("mpirun")
    return str(beside) if beside.exists() else shutil.which("mpirun") or ""


def _by_mpirun(program: str, ranks: int, hosts: Sequence[str], command: Sequence[str], show: Print) -> int:
    options = ["--allow-run-as-root", "--oversubscribe", "--output", "tag"]
    # Without it the ranks that live are killed before they can say whom they lost.
    options += ["--with-ft", "mpi"]
    if hosts:
        options += ["--host", ",".join(hosts)]
    parts: list[str] = []
    for rank in range(ranks):
        parts += [*([":"] if rank else []), "-n", "1", *_command(rank, command)]
    started = _start([program, *options, *parts], None)
    forwards = _forward(started, None, show)
    try:
        status = started.wait()
    except KeyboardInterrupt:
        started.terminate()
        status = started.wait()
    _joined(forwards)
    return status


def _by_hand(ranks: int, command: Sequence[str], show: Print) -> int:
    port = _free_port()
    started: list[subprocess.Popen[str]] = []
    forwards: list[threading.Thread] = []
    try:
        for rank in range(ranks):
            meeting = {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            environment = os.environ | {name: str(value) for name, value in meeting.items()}
            started.append(_start(_command(rank, command), environment))
            forwards += _forward(started[-1], rank, show)
        status = _watched(started, show)
    finally:
        _end(started)
    _joined(forwards)
    return status


def _watched(started: Sequence[subprocess.Popen[str]], show: Print) -> int:
    """Wait for all, or for the first that fails and a little longer; its exit status."""
    deadline, status = float("inf"), 0
    while any(p.poll() is None for p in started) and time.monotonic() < deadline:
        failed = next((rank for rank, p in enumerate(started) if p.poll()), None)
        if failed is not None and not status:
            status = _status(started[failed])
            show(None, True, f"rank {failed} has failed with {status}: the others are ended\n")
            deadline = time.monotonic() + _GRACE
        time.sleep(0.02)
    return status or next((_status(p) for p in started if p.poll()), 0)


def _status(process: subprocess.Popen[str]) -> int:
    """The exit status as a shell has it."""
    code = process.returncode
    return code if code is None or code >= 0 else 128 - code


def _end(started: Sequence[subprocess.Popen[str]]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for process in started:
            if process.poll() is None:
                process.send_signal(sign)
        deadline = time.monotonic() + _GRACE
        while any(p.poll() is None for p in started) and time.monotonic() < deadline:
            time.sleep(0.02)


def _command(rank: int, command: Sequence[str]) -> list[str]:
    return [sys.executable, *(word.replace("{rank}", str(rank)) for word in command)]


def _start(command: Sequence[str], environment: dict[str, str] | None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env={**(environment or os.environ), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def _forward(process: subprocess.Popen[str], rank: int | None, show: Print) -> list[threading.Thread]:
    def forward(stream: IO[str], is_error: bool) -> None:
        for line in stream:
            tagged = _TAGGED.fullmatch(line)
            if tagged:
                show(int(tagged[1]), is_error, tagged[2])
            else:
                show(rank, is_error, line)

    pairs = [(stream, error) for stream, error in ((process.stdout, False), (process.stderr, True)) if stream]
    threads = [threading.Thread(target=forward, args=pair, daemon=True) for pair in pairs]
    for thread in threads:
        thread.start()
    return threads


def _joined(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join(_GRACE)  # a child that a rank left behind may hold its pipe open


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
