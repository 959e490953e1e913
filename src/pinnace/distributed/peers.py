"""Connections to other ranks, over which many arrays are sent and received concurrently."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence

from pinnace.distributed.communicator import Message, as_bytes
from pinnace.distributed.watch import WIRE, Watch

_HEAD = struct.Struct("!qQ")
"""Header of an array: its tag, and its number of bytes."""
_LOOK = 50
"""Milliseconds between checks of the roster."""


class Peer:
    """The non-blocking connection to one rank."""

    def __init__(self, rank: int, connection: socket.socket) -> None:
        self.rank, self._connection = rank, connection
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = connection.fileno()
        self._to_send: list[memoryview] = []
        self._expected: list[tuple[int, memoryview]] = []
        self._head = memoryview(bytearray(_HEAD.size))
        self._missing = self._head
        self._is_body = False

    def give(self, tag: int, data: memoryview) -> None:
        """Queue bytes to send; they must not change until they are sent."""
        self._to_send += [memoryview(_HEAD.pack(tag, len(data))), *([data] if len(data) else [])]

    def expect(self, tag: int, data: memoryview) -> None:
        """Queue a buffer to receive into; messages with one tag arrive in the order of these calls."""
        self._expected.append((tag, data))

    def events(self) -> int:
        """Return the events to poll for; 0 if nothing is left to do."""
        return (select.POLLOUT if self._to_send else 0) | (select.POLLIN if self._receives else 0)

    def go_on(self) -> None:
        """Send and receive what is possible now. Raises OSError if the connection is lost, ValueError."""
        for step in (self._send, self._receive):
            try:
                step()
            except BlockingIOError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                raise self._closed() from None

    def close(self) -> None:
        """Close the connection, which the other rank notices."""
        self._connection.close()

    def _send(self) -> None:
        while self._to_send:
            self._sent(self._connection.sendmsg(self._to_send[:16]))

    def _sent(self, count: int) -> None:
        while count >= len(self._to_send[0]):
            count -= len(self._to_send.pop(0))
            if not self._to_send:
                return
        self._to_send[0] = self._to_send[0][count:]

    @property
    def _receives(self) -> bool:
        return self._is_body or bool(self._expected)

    def _receive(self) -> None:
        while self._receives:
            self._received()

    def _received(self) -> None:
        count = self._connection.recv_into(self._missing)
        if not count:
            raise self._closed()
        self._missing = self._missing[count:]
        if len(self._missing):
            return
        body = self._head[:0] if self._is_body else self._place(*_HEAD.unpack(self._head))
        self._is_body = len(body) > 0
        self._missing = body if self._is_body else self._head

    def _closed(self) -> ConnectionError:
        return ConnectionError(f"rank {self.rank} closed the connection")

    def _place(self, tag: int, size: int) -> memoryview:
        """Return the buffer for a message. Raises ValueError if it is not expected."""
        for number, (wanted, data) in enumerate(self._expected):
            if (wanted, len(data)) == (tag, size):
                del self._expected[number]
                return data
        raise ValueError(f"rank {self.rank} sent {size} unexpected bytes")


def move(
    peers: Mapping[int, Peer], sends: Sequence[Message], receives: Sequence[Message], tag: int, watch: Watch
) -> None:
    """Send and receive all of these concurrently. Raises DistributedError."""
    for rank, array in sends:
        peers[rank].give(tag, as_bytes(array).data)
    for rank, array in receives:
        peers[rank].expect(tag, as_bytes(array).data)
    ranks = {rank for rank, _ in (*sends, *receives)}
    deadline = time.monotonic() + watch.seconds
    try:
        _pump([peers[rank] for rank in ranks], deadline, watch, 0 if watch.shares_core(ranks) else WIRE)
    except TimeoutError:
        raise watch.late(sorted(ranks)) from None
    except ValueError as error:
        raise watch.broken(f"{error} in") from None
    except OSError as error:
        raise watch.lost(error) from None


def _pump(busy: Sequence[Peer], deadline: float, watch: Watch, polls: float) -> None:
    """Complete what is queued; poll so many seconds before waiting in the kernel."""
    for peer in busy:
        peer.go_on()
    soon = time.monotonic() + polls
    while busy := [peer for peer in busy if peer.events()]:
        poll = select.poll()
        for peer in busy:
            poll.register(peer.file, peer.events())
        pause = _LOOK if time.monotonic() > soon else 0
        ready = {file for file, _ in poll.poll(pause)}
        for peer in busy:
            if peer.file in ready:
                peer.go_on()
        if not ready and pause:
            watch.look()
            if time.monotonic() > deadline:
                raise TimeoutError
