"""Ports for tests that must know one before anything listens at it."""

from __future__ import annotations

import itertools
import os
import socket

# Below the ports that the system gives out, so that no connection of others takes one meanwhile; processes
# that test beside this one begin elsewhere.
_PORTS = itertools.count(os.getpid() * 37)


def free_port() -> int:
    """Return a port that nothing listens at, and that no other test of this process was given lately."""
    for number in _PORTS:
        with socket.socket() as listening:
            try:
                listening.bind(("", 10000 + number % 20000))
            except OSError:
                continue
            port: int = listening.getsockname()[1]
            return port
    raise AssertionError
