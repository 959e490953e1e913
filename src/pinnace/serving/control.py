"""Messages between a process and those that work for it: JSON. No data travels here.

A message is one packet; a long one, such as what a model with much user info says of itself, is several. The
first byte of a packet says whether more of the message follow it.
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
from pinnace.types import DataType, Format, Port

Message = dict[str, Any]
_LARGEST = 1 << 16  # bytes of a packet; less than a socket holds
_MORE, _LAST = b"+", b"."
_TEXT = 1 << 14  # characters of an error


class Control:
    """One end of a connection."""

    def __init__(self, connected: socket.socket) -> None:
        """Take a socket of packets."""
        self._socket = connected

    @classmethod
    def pair(cls) -> tuple[Control, Control]:
        """Both ends."""
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        here, there = cls(one), cls(other)
        _ends.update((here, there))
        return here, there

    def fileno(self) -> int:
        """The file descriptor of this end."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send, one thread at a time; OSError where the other side is gone."""
        rest = json.dumps(message).encode()
        while len(rest) > _LARGEST:
            self._socket.send(_MORE + rest[:_LARGEST], socket.MSG_NOSIGNAL)
            rest = rest[_LARGEST:]
        self._socket.send(_LAST + rest, socket.MSG_NOSIGNAL)

    def receive(self) -> Message | None:
        """Wait for the next message; None where the other side is gone."""
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
        """End the conversation, for a thread of ours that waits for a message as well."""
        with suppress(OSError):  # the other side was faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Free this end."""
        self._socket.close()


_ends: weakref.WeakSet[Control] = weakref.WeakSet()


def _after_fork() -> None:
    """In a child: while it held a connection of its parent's, nobody would hear of the parent's death."""
    for end in list(_ends):
        end.close()


os.register_at_fork(after_in_child=_after_fork)


def ports_said(ports: Sequence[Port]) -> list[list[object]]:
    """Inputs or outputs, for `ports_of` on the other side."""
    return [[port.name, port.dtype.name, list(port.shape), port.format.name] for port in ports]


def ports_of(said: Sequence[Sequence[Any]]) -> tuple[Port, ...]:
    """The inputs or outputs that a process has told of."""
    return tuple(
        Port(name, DataType[dtype], tuple(shape), Format[layout]) for name, dtype, shape, layout in said
    )


def as_message(error: BaseException) -> Message:
    """An error, for `as_error` on the other side."""
    said: Message = {"kind": type(error).__name__, "text": str(error)[:_TEXT]}
    if isinstance(error, UnsupportedModelError):
        said["model"], said["primitives"] = error.model, [asdict(p) for p in error.primitives[:100]]
    return said


def as_error(said: Message, where: str) -> PinnaceError:
    """The error that happened in another process, `where`, of the class that it had there."""
    if "primitives" in said:
        found = [UnsupportedPrimitive(**primitive) for primitive in said["primitives"]]
        return UnsupportedModelError(f"{where}: {said['model']}", found)
    kind = getattr(errors, said["kind"], None)
    if isinstance(kind, type) and issubclass(kind, PinnaceError):
        return kind(f"{where}: {said['text']}")
    return EngineError(f"{where}: {said['kind']}: {said['text']}")
