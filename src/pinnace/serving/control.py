"""JSON messages between a process and its device processes. Array data goes through shared memory instead.

A message is one packet, or several if it is long (a model with much user info). The first byte of a packet
says whether more packets of the message follow.
"""

from __future__ import annotations

import json
import os
import socket
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from pinnace import errors
from pinnace.errors import EngineError, PinnaceError, UnsupportedModelError, UnsupportedPrimitive
from pinnace.shapes import alternatives, written
from pinnace.types import DataType, Format, Port

Message = dict[str, Any]
_LARGEST = 1 << 16  # bytes of a packet; below the socket buffer size
_MORE, _LAST = b"+", b"."
_TEXT = 1 << 14  # maximum characters of an error message


class Control:
    """One end of a connection."""

    def __init__(self, connected: socket.socket) -> None:
        """Take a socket of packets."""
        self._socket = connected

    @classmethod
    def pair(cls) -> tuple[Control, Control]:
        """Create both ends of a connection."""
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        here, there = cls(one), cls(other)
        _ends.update((here, there))
        return here, there

    def fileno(self) -> int:
        """The file descriptor of this end."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send a message, from one thread at a time. Raises OSError if the other end is closed."""
        rest = json.dumps(message).encode()
        while len(rest) > _LARGEST:
            self._socket.send(_MORE + rest[:_LARGEST], socket.MSG_NOSIGNAL)
            rest = rest[_LARGEST:]
        self._socket.send(_LAST + rest, socket.MSG_NOSIGNAL)

    def receive(self) -> Message | None:
        """Wait for the next message. Returns None if the other end is closed."""
        data, kind = b"", _MORE
        while kind == _MORE:
            try:
                packet = self._socket.recv(1 + _LARGEST)
            except OSError:
                return None
            kind, data = packet[:1], data + packet[1:]
        found: Message | None = json.loads(data) if kind else None
        return found

    def hang_up(self) -> None:
        """Shut the connection down; this also wakes a thread of this process that waits in `receive`."""
        with suppress(OSError):  # the other end closed first
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


_ends: weakref.WeakSet[Control] = weakref.WeakSet()


def _after_fork() -> None:
    """Close inherited ends in a forked child, so that peers still notice the death of the parent."""
    for end in list(_ends):
        end.close()


os.register_at_fork(after_in_child=_after_fork)


def ports_said(ports: Sequence[Port]) -> list[list[object]]:
    """Encode inputs or outputs for `ports_of` in the other process."""
    return [
        [p.name, p.dtype.name, list(p.shape), p.format.name, written(p.sizes), list(p.names)] for p in ports
    ]


def ports_of(said: Sequence[Sequence[Any]]) -> tuple[Port, ...]:
    """Decode the inputs or outputs of a message."""
    return tuple(
        Port(name, DataType[dtype], tuple(shape), Format[layout], alternatives(sizes), tuple(names))
        for name, dtype, shape, layout, sizes, names in said
    )


def as_message(error: BaseException) -> Message:
    """Encode an error for `as_error` in the other process."""
    said: Message = {"kind": type(error).__name__, "text": str(error)[:_TEXT]}
    if isinstance(error, UnsupportedModelError):
        said["model"], said["primitives"] = error.model, [asdict(p) for p in error.primitives[:100]]
    return said


def as_error(said: Message, where: str) -> PinnaceError:
    """Decode an error of the process `where`, with its original class if that is one of Pinnace's."""
    if "primitives" in said:
        found = [UnsupportedPrimitive(**primitive) for primitive in said["primitives"]]
        return UnsupportedModelError(f"{where}: {said['model']}", found)
    kind = getattr(errors, said["kind"], None)
    if isinstance(kind, type) and issubclass(kind, PinnaceError):
        return kind(f"{where}: {said['text']}")
    return EngineError(f"{where}: {said['kind']}: {said['text']}")
