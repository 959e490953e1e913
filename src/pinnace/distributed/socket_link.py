"""Collectives over connections to the other ranks, on which many arrays are sent and received concurrently.

Parts travel directly between ranks, so that a reduction takes two steps for any number of ranks, and one step
for little data.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Sequence

import numpy as np

from pinnace.distributed.communicator import Message, Ranks, as_bytes
from pinnace.distributed.watchdog import LOOK, WIRE, Watchdog
from pinnace.types import Array

_HEAD = struct.Struct("!qQ")
"""Header of an array: its tag, and its number of bytes."""
_SMALL = 65536
"""Maximum bytes that every rank sends to all others in one step, instead of parts in two steps."""
_COLLECTIVE = -1
"""The tag of collectives other than exchanges."""
_OPERATIONS: dict[str, np.ufunc] = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}


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

    def _send(self) -> None:
        while self._to_send:
            count = self._connection.sendmsg(self._to_send[:16])
            while self._to_send and count >= len(self._to_send[0]):
                count -= len(self._to_send.pop(0))
            if count:
                self._to_send[0] = self._to_send[0][count:]

    @property
    def _receives(self) -> bool:
        return self._is_body or bool(self._expected)

    def _receive(self) -> None:
        while self._receives:
            count = self._connection.recv_into(self._missing)
            if not count:
                raise self._closed()
            self._missing = self._missing[count:]
            if not len(self._missing):
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


class SocketLink:
    """See `Link`."""

    def __init__(self, peers: dict[int, Peer], watchdog: Watchdog) -> None:
        self._peers, self._rank, self._watchdog = peers, watchdog.rank, watchdog
        self._scratch = np.empty(0, np.uint8)

    def all_reduce(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        own, result, count = x.reshape(-1), out.reshape(-1), len(group)
        if x.nbytes <= _SMALL:
            self._reduced(group, lambda _: own, result, op)
            return
        parts = [slice(own.size * n // count, own.size * (n + 1) // count) for n in range(count)]
        mine = parts[group.index(self._rank)]
        self._reduced(group, lambda number: own[parts[number]], result[mine], op)
        self._swap(group, lambda _: result[mine], lambda number: result[parts[number]])

    def all_gather(self, group: Ranks, x: Array, out: Array) -> None:
        rows = out.reshape(len(group), -1)
        np.copyto(rows[group.index(self._rank)], x.reshape(-1))
        self._swap(group, lambda _: x, lambda number: rows[number])

    def reduce_scatter(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        rows = x.reshape(len(group), -1)
        self._reduced(group, lambda number: rows[number], out.reshape(-1), op)

    def broadcast(self, group: Ranks, x: Array, out: Array, root: int) -> None:
        others = [rank for rank in group if rank != root]
        if root == self._rank:
            np.copyto(out, x)
            self.exchange([(rank, out) for rank in others], [], _COLLECTIVE)
        else:
            self.exchange([], [(root, out)], _COLLECTIVE)

    def all_to_all(self, group: Ranks, x: Array, out: Array) -> None:
        rows, results = x.reshape(len(group), -1), out.reshape(len(group), -1)
        own = group.index(self._rank)
        np.copyto(results[own], rows[own])
        self._swap(group, lambda number: rows[number], lambda number: results[number])

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], tag: int) -> None:
        peers, watchdog = self._peers, self._watchdog
        for rank, array in sends:
            peers[rank].give(tag, as_bytes(array).data)
        for rank, array in receives:
            peers[rank].expect(tag, as_bytes(array).data)
        ranks = {rank for rank, _ in (*sends, *receives)}
        try:
            _pump([peers[rank] for rank in ranks], watchdog, 0 if watchdog.shares_core(ranks) else WIRE)
        except TimeoutError:
            raise watchdog.late(sorted(ranks)) from None
        except ValueError as error:
            raise watchdog.broken(f"{error} in") from None
        except OSError as error:
            raise watchdog.lost(error) from None

    def barrier(self, group: Ranks) -> None:
        self.all_gather(group, np.zeros(1, np.uint8), np.empty(len(group), np.uint8))

    def _reduced(self, group: Ranks, part: Callable[[int], Array], out: Array, op: str) -> None:
        """Reduce this rank's part over the group, in its order, and send the others theirs."""
        own = group.index(self._rank)
        blocks = self._scratch_array((len(group), out.size), out.dtype)
        self._swap(group, part, lambda number: blocks[number])
        terms = [part(own) if number == own else blocks[number] for number in range(len(group))]
        np.copyto(out, terms[0])
        for term in terms[1:]:
            _OPERATIONS[op](out, term, out=out)

    def _swap(self, group: Ranks, given: Callable[[int], Array], taken: Callable[[int], Array]) -> None:
        """Send `given(n)` to each other rank of the group, its n-th, and receive `taken(n)` from it."""
        others = [(rank, number) for number, rank in enumerate(group) if rank != self._rank]
        self.exchange(
            [(rank, given(n)) for rank, n in others], [(rank, taken(n)) for rank, n in others], _COLLECTIVE
        )

    def _scratch_array(self, shape: tuple[int, int], dtype: np.dtype[np.generic]) -> Array:
        size = shape[0] * shape[1] * dtype.itemsize
        if self._scratch.size < size:
            self._scratch = np.empty(size, np.uint8)
        return self._scratch[:size].view(dtype).reshape(shape)


def _pump(busy: Sequence[Peer], watchdog: Watchdog, polls: float) -> None:
    """Complete what is queued; poll so many seconds before waiting in the kernel."""
    deadline = time.monotonic() + watchdog.seconds
    for peer in busy:
        peer.go_on()
    soon = time.monotonic() + polls
    while busy := [peer for peer in busy if peer.events()]:
        poll = select.poll()
        for peer in busy:
            poll.register(peer.file, peer.events())
        pause = LOOK * 1000 if time.monotonic() > soon else 0
        ready = {file for file, _ in poll.poll(pause)}
        for peer in busy:
            if peer.file in ready:
                peer.go_on()
        if not ready and pause:
            watchdog.look()
            if time.monotonic() > deadline:
                raise TimeoutError
