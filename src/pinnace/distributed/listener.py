"""The listening port of a rank, while ranks connect. Greetings are read concurrently, so that strangers who
are silent, or come and go, do not delay the ranks.

A greeting is a packed struct and its HMAC-SHA256 (RFC 2104) under the secret of the job, which is empty if
none was given.
"""

from __future__ import annotations

import hmac
import os
import select
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

SECRET = "PINNACE_SECRET"
"""The variable with the secret that the ranks of one job share; `pinnace launch` creates it."""
PATIENCE = 2.0
"""Seconds that a client has for its greeting."""
_SEAL = 32
_QUEUE = 1024
"""Maximum of connections that the kernel keeps until they are accepted."""
_MOST = 512
"""Maximum of connections without a greeting; the oldest are closed first."""


def sealed(said: bytes) -> bytes:
    """Append the authentication code of the bytes."""
    return said + hmac.digest(os.environ.get(SECRET, "").encode(), said, "sha256")


def unsealed(said: bytes) -> bytes | None:
    """Return the bytes of `sealed`, None if their code was made with another secret."""
    body = said[:-_SEAL]
    return body if hmac.compare_digest(sealed(body), said) else None


@dataclass
class _Connection:
    connection: socket.socket
    said: bytearray = field(default_factory=bytearray)
    until: float = field(default_factory=lambda: time.monotonic() + PATIENCE)


class Listener:
    """A listening port, and the connections that have not sent their greeting yet."""

    def __init__(self, host: str, port: int) -> None:
        """Listen on a port; 0 chooses a free one. Raises OSError."""
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self._listening = socket.create_server((host, port), family=family, backlog=_QUEUE)
        self._listening.setblocking(False)
        self.host, self.port = host, int(self._listening.getsockname()[1])
        self._guests: list[_Connection] = []

    def greeted(self, form: struct.Struct, seconds: float) -> list[tuple[socket.socket, tuple[Any, ...]]]:
        """Wait up to `seconds`, and return the connections with a valid greeting of this form."""
        poll = select.poll()
        for one in (self._listening, *(guest.connection for guest in self._guests)):
            poll.register(one, select.POLLIN)
        poll.poll(seconds * 1000)
        self._let_in()
        found = []
        for guest in list(self._guests):
            whole = _hear(guest, form.size + _SEAL)
            body = unsealed(whole) if whole else None
            if whole is not None:
                self._guests.remove(guest)
            if body is not None:
                found.append((guest.connection, form.unpack(body)))
            elif whole is not None:
                guest.connection.close()
        self._show_out()
        return found

    def close(self) -> None:
        """Stop listening, and close the connections without a greeting."""
        for one in (self._listening, *(guest.connection for guest in self._guests)):
            one.close()

    def _let_in(self) -> None:
        """Accept all that wait, so that none waits behind strangers."""
        for _ in range(_QUEUE):
            try:
                connection = self._listening.accept()[0]
            except OSError:  # none waits, or there are too many open files
                return
            connection.setblocking(False)
            self._guests.append(_Connection(connection))

    def _show_out(self) -> None:
        now = time.monotonic()
        for guest in [g for g in self._guests if g.until < now] or self._guests[:-_MOST]:
            self._guests.remove(guest)
            guest.connection.close()


def _hear(guest: _Connection, size: int) -> bytes | None:
    """Return the complete greeting, b"" if the connection ended, None if more is to come."""
    try:
        piece = guest.connection.recv(size - len(guest.said))
    except BlockingIOError:
        return None
    except OSError:
        return b""
    guest.said += piece
    if not piece:
        return b""
    return bytes(guest.said) if len(guest.said) == size else None
