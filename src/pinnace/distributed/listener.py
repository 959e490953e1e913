"""The listening port of a rank, while ranks connect. Greetings are read concurrently, so that strangers who
are silent, or come and go, do not delay the ranks.

A greeting has the HMAC-SHA256 (RFC 2104) of its content under the secret of the job, which is empty if none
was given.
"""

from __future__ import annotations

import hmac
import os
import select
import socket
import struct
import time
from contextlib import suppress
from typing import NamedTuple

SECRET = "PINNACE_SECRET"
"""The variable with the secret that the ranks of one job share; `pinnace launch` creates it."""
PATIENCE = 2.0
"""Seconds that a client has for its greeting."""
_FORM = struct.Struct("!4s16sIII")
_MAGIC = b"PNR2"
_SEAL = 32
_QUEUE = 1024
"""Maximum of connections that the kernel keeps until they are accepted."""
_MOST = 512
"""Maximum of connections without a greeting; the oldest are closed first."""


class Greeting(NamedTuple):
    """The greeting of a rank: the token of its job, and its own listening port, if it knows them."""

    token: bytes
    rank: int
    size: int
    port: int

    def sealed(self) -> bytes:
        """Return the greeting as it is sent."""
        return seal(_FORM.pack(_MAGIC, *self))


def seal(content: bytes) -> bytes:
    """Append the authentication code of the bytes."""
    return content + hmac.digest(os.environ.get(SECRET, "").encode(), content, "sha256")


def unseal(message: bytes) -> bytes | None:
    """Return the bytes of `seal`, None if their code was made with another secret."""
    content = message[:-_SEAL]
    return content if hmac.compare_digest(seal(content), message) else None


class Listener:
    """A listening port, and the connections that have not sent their greeting yet."""

    def __init__(self, host: str, port: int) -> None:
        """Listen on a port; 0 chooses a free one. Raises OSError."""
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self._listening = socket.create_server((host, port), family=family, backlog=_QUEUE)
        self._listening.setblocking(False)
        self.host, self.port = host, int(self._listening.getsockname()[1])
        self._waiting: dict[int, tuple[socket.socket, float]] = {}
        self._poll = select.poll()
        self._poll.register(self._listening, select.POLLIN)

    def greetings(self, seconds: float) -> list[tuple[socket.socket, Greeting]]:
        """Wait up to `seconds`, and return the connections with a valid greeting."""
        self._poll.poll(seconds * 1000)
        self._accept()
        found = []
        for file, _ in self._poll.poll(0):
            if file not in self._waiting:
                continue
            connection = self._forget(file)
            greeting = _read(connection)
            if greeting is None:
                connection.close()
            else:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
                found.append((connection, greeting))
        now = time.monotonic()
        late = [file for file, (_, until) in self._waiting.items() if until < now]
        for file in late or list(self._waiting)[:-_MOST]:
            self._forget(file).close()
        return found

    def close(self) -> None:
        """Stop listening, and close the connections without a greeting."""
        self._listening.close()
        for connection, _ in self._waiting.values():
            connection.close()

    def _accept(self) -> None:
        """Accept all that wait, so that none waits behind strangers."""
        for _ in range(_QUEUE):
            try:
                connection = self._listening.accept()[0]
            except OSError:  # none waits, or there are too many open files
                return
            connection.setblocking(False)
            # It is ready only when the whole greeting is there, or it has ended (socket(7)).
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _FORM.size + _SEAL)
            self._waiting[connection.fileno()] = connection, time.monotonic() + PATIENCE
            self._poll.register(connection, select.POLLIN)

    def _forget(self, file: int) -> socket.socket:
        self._poll.unregister(file)
        return self._waiting.pop(file)[0]


def _read(connection: socket.socket) -> Greeting | None:
    """Return the greeting that is there, None if it is not one of this job."""
    with suppress(OSError):
        message = connection.recv(_FORM.size + _SEAL)
        content = unseal(message) if len(message) == _FORM.size + _SEAL else None
        if content is not None:
            magic, *fields = _FORM.unpack(content)
            return Greeting(*fields) if magic == _MAGIC else None
    return None
