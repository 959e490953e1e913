"""The hosts of the ranks, and commands to start ranks there."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence

from pinnace.distributed.listener import SECRET
from pinnace.errors import ConfigError

AGENT = "ssh"
"""The command that runs a command on a host: AGENT HOST COMMAND."""
_PASSED_ON = ("PINNACE_", "PYTHON", "OMP_", "HCCL_", "NCCL_")
"""Prefixes of the variables that are passed to ranks on other hosts."""


def hosts_of(ranks: int, hosts: Sequence[str]) -> list[str]:
    """Return the host of each rank, "" for this machine if `hosts` is empty. Raises ConfigError.

    Each host takes one rank, or as many as it names: "a:2".
    """
    if not hosts:
        return [""] * ranks
    slots: list[str] = []
    for slot in hosts:
        host, found, count = slot.partition(":")
        if not host or (found and not (count.isdecimal() and int(count))):
            raise ConfigError(f"--hosts: {slot!r} is not HOST or HOST:RANKS")
        slots += [host] * int(count or 1)
    if len(slots) < ranks:
        raise ConfigError(
            f"--hosts: {','.join(hosts)} take {len(slots)} of {ranks} ranks: name more hosts, or say how "
            f"many ranks each takes, as in {hosts[0].partition(':')[0]}:{ranks}"
        )
    return slots[:ranks]


def is_local(host: str) -> bool:
    """Return True if a host is a usual name of this machine."""
    return host in ("", "localhost", "127.0.0.1", socket.gethostname())


def check_hosts(hosts: Sequence[str], agent: str) -> None:
    """Raise ConfigError if the agent is missing here, or ssh does not know a host."""
    others = [host for host in dict.fromkeys(hosts) if not is_local(host)]
    program = shlex.split(agent)[0]
    if others and not shutil.which(program):
        raise ConfigError(f"--hosts: ranks on {others[0]} are started by {program}, which is not installed")
    for host in others if agent == AGENT else ():
        name = _of_ssh(host)
        try:
            socket.getaddrinfo(name, None)
        except OSError as error:
            raise ConfigError(f"--hosts: there is no host {name!r} ({error.strerror or error})") from None


def _of_ssh(host: str) -> str:
    """Return the name or address that ssh's configuration gives a host; hosts behind a jump host count as
    known.
    """
    config = subprocess.run([AGENT, "-G", host], capture_output=True, text=True, check=False).stdout
    facts = dict(line.partition(" ")[::2] for line in config.splitlines())
    jumps = any(facts.get(kind, "none") != "none" for kind in ("proxyjump", "proxycommand"))
    return "localhost" if jumps else facts.get("hostname", host)


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Select the variables that are passed to ranks on other hosts."""
    return {n: value for n, value in environment.items() if n.startswith(_PASSED_ON) and n != SECRET}


def over_agent(host: str, agent: str, variables: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """Return a command that runs `command` on a host, in the current folder.

    It ends when its stdin closes, which happens when its parent ends: ssh forwards no signals. The first line
    of its stdin is the secret of the job, as command lines are visible to all users of a machine.
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
