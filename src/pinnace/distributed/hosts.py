"""Machines that ranks are started on: which rank goes where, and how a command is run there."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence

from pinnace.distributed.door import SECRET
from pinnace.errors import ConfigError

AGENT = "ssh"
"""What runs a command on a host: AGENT HOST COMMAND."""
_TRAVELS = ("PINNACE_", "PYTHON", "OMP_", "HCCL_", "NCCL_", "GLOO_")
"""How the variables begin that ranks on other machines are given as they are here."""


def places(ranks: int, hosts: Sequence[str]) -> list[str]:
    """The host of each rank, "" for this machine where `hosts` names none; ConfigError.

    Each host takes one rank, or as many as it says: "a:2".
    """
    if not hosts:
        return [""] * ranks
    room: list[str] = []
    for said in hosts:
        host, found, slots = said.partition(":")
        if not host or (found and not (slots.isdecimal() and int(slots))):
            raise ConfigError(f"--hosts: {said!r} is not HOST or HOST:RANKS")
        room += [host] * int(slots or 1)
    if len(room) < ranks:
        raise ConfigError(
            f"--hosts: {','.join(hosts)} take {len(room)} of {ranks} ranks: name more hosts, or say how many "
            f"ranks each takes, as {hosts[0].partition(':')[0]}:{ranks}"
        )
    return room[:ranks]


def is_here(host: str) -> bool:
    """Whether a host is this machine by one of its usual names."""
    return host in ("", "localhost", "127.0.0.1", socket.gethostname())


def check(hosts: Sequence[str], agent: str) -> None:
    """ConfigError where the agent is not here, or ssh does not know a host."""
    others = [host for host in dict.fromkeys(hosts) if not is_here(host)]
    program = shlex.split(agent)[0]
    if not others:
        return
    if not shutil.which(program):
        raise ConfigError(f"--hosts: ranks on {others[0]} are started by {program}, and it is not here")
    for host in others if agent == AGENT else ():
        name = _of_ssh(host)
        try:
            socket.getaddrinfo(name, None)
        except OSError as error:
            raise ConfigError(f"--hosts: there is no host {name!r} ({error.strerror or error})") from None


def _of_ssh(host: str) -> str:
    """The name or address that ssh's configuration gives a host, with where one must jump first as known."""
    told = subprocess.run([AGENT, "-G", host], capture_output=True, text=True, check=False).stdout
    facts = dict(line.partition(" ")[::2] for line in told.splitlines())
    jumps = any(facts.get(way, "none") != "none" for way in ("proxyjump", "proxycommand"))
    return "localhost" if jumps else facts.get("hostname", host)


def travelling(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of the variables that ranks on other machines are given too."""
    return {n: value for n, value in environment.items() if n.startswith(_TRAVELS) and n != SECRET}


def remote(host: str, agent: str, variables: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """A command that runs `command` on a host, in the folder of this one.

    It ends when its stdin does, and that ends with whoever started it: ssh forwards no signals. The first
    line of its stdin is the secret of the job: everybody on a machine can read command lines.
    """
    given = (f"{name}={value}" for name, value in variables.items())
    lines = (
        f"cd {shlex.quote(os.getcwd())} || exit",
        f"read -r {SECRET} && export {SECRET} || exit",
        "exec 3<&0",
        "(read -r _ <&3; kill $$ && sleep 3 && kill -9 $$) >/dev/null 2>&1 &",
        f"exec env {shlex.join((*given, *command))} </dev/null 3<&-",
    )
    return [*shlex.split(agent), host, f"sh -c {shlex.quote(chr(10).join(lines))}"]
