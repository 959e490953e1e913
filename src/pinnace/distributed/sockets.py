"""Communication over TCP sockets, which needs no installation, for ranks not started by mpirun.

Every rank has a connection to every other one. Parts travel directly between ranks, so that a reduction takes
two steps for any number of ranks, and one step for little data.

Received data is bytes of a known size, or JSON while ranks meet. A process that knows the secret of the job
(`pinnace.distributed.listener`) is accepted as a rank; without a secret, any process that connects to rank 0
first: then use it in trusted networks only. Ranks listen only while they connect, each time on another port.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np

from pinnace.distributed.communicator import Link, Message, Ranks, gathered
from pinnace.distributed.listener import PATIENCE, SECRET, Listener, sealed, unsealed
from pinnace.distributed.peers import Peer, move
from pinnace.distributed.roster import Roster, table_of
from pinnace.distributed.tables import Rendezvous
from pinnace.distributed.watch import Watch
from pinnace.errors import DistributedError
from pinnace.types import Array

_COME = struct.Struct("!4sIII")
"""Greeting of a rank to rank 0: `_MAGIC`, its number, the number of ranks, its listening port."""
_JOIN = struct.Struct("!4s16sI")
"""Greeting of a rank to a lower one: `_MAGIC`, the token, its own number."""
_MAGIC = b"PNR1"
_SMALL = 65536
"""Maximum bytes that every rank sends to all others in one step, instead of parts in two steps."""
_LONGEST = 1 << 28
"""Maximum bytes of rank 0's answer."""
_COLLECTIVE = -1
"""The tag of collectives other than exchanges."""
_OPERATIONS: dict[str, np.ufunc] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "prod": np.multiply,
}

Answer = dict[str, Any]
"""Rank 0's answer to a rank: the job, the addresses of all ranks, and those that are missing."""
Place = tuple[str, int]
"""The address and port of a rank."""


class Sockets:
    """See `Communicator`."""

    name = "sockets"

    def __init__(self, meeting: Rendezvous, seconds: float) -> None:
        self.rank, self.size = meeting.rank, len(meeting.hosts)
        self._deadline, self._seconds = time.monotonic() + seconds, seconds
        told, listener = self._listen(meeting) if self.rank == 0 else self._register(meeting)
        self._token = bytes.fromhex(told["job"])
        self._host, self._hosts = listener.host, [host for host, _ in told["places"]]
        with Roster(table_of(told["job"]), self.rank, self.size) as roster:
            self.watch = Watch(roster, self.rank, self.size, seconds)
            weakref.finalize(self, roster.leave)  # a killed process does not leave
            self._all = self._connected(listener, [port for _, port in told["places"]])
            self._all.barrier(tuple(range(self.size)))

    def gather(self, text: str) -> list[str]:
        """Return the texts of all ranks."""
        everyone = tuple(range(self.size))
        return gathered(text, self.size, partial(self._all.all_gather, everyone), self.watch)

    def link(self, groups: Sequence[Ranks]) -> Link:
        """Open new connections to all ranks, so that links do not interfere."""
        try:
            listener = Listener(self._host, 0)
        except OSError as error:
            raise self.watch.lost(error) from None
        return self._connected(listener, list(map(int, self.gather(str(listener.port)))))

    def _connected(self, listener: Listener, ports: Sequence[int]) -> Link:
        """Connect all ranks by their ports, this one's being `listener`, which is closed."""
        join = sealed(_JOIN.pack(_MAGIC, self._token, self.rank))
        peers: dict[int, Peer] = {}
        try:
            for rank in range(self.rank):
                connection = socket.create_connection((self._hosts[rank], ports[rank]), self.watch.seconds)
                connection.sendall(join)
                peers[rank] = Peer(rank, connection)
            for rank in range(self.rank + 1, self.size):
                self.watch.wait(lambda rank=rank: self._accepts(listener, peers, rank), (rank,))  # type: ignore[misc]
        except OSError as error:
            raise self.watch.lost(error) from None
        finally:
            listener.close()
        return _SocketLink(peers, self.watch)

    def _accepts(self, listener: Listener, peers: dict[int, Peer], rank: int) -> bool:
        """Return True if a rank has connected; those that come before it are kept."""
        for connection, (magic, token, who) in listener.greeted(_JOIN, 0) if rank not in peers else ():
            known = self.rank < who < self.size and who not in peers
            if (magic, token) == (_MAGIC, self._token) and known:
                peers[who] = Peer(who, connection)
            else:
                connection.close()
        return rank in peers

    def _listen(self, meeting: Rendezvous) -> tuple[Answer, Listener]:
        """Wait as rank 0 for all ranks, and tell them the addresses."""
        try:
            listener = Listener(meeting.hosts[0], meeting.port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise DistributedError(f"rank 0 cannot listen on {meeting}: {reason}") from None
        come: dict[int, tuple[socket.socket, Place]] = {}
        while len(come) < self.size - 1 and time.monotonic() < self._deadline:
            for connection, (magic, rank, size, port) in listener.greeted(_COME, 0.05):
                if magic != _MAGIC or not port < 1 << 16:
                    connection.close()
                elif size != self.size or not 0 < rank < size or rank in come:
                    here = (
                        "has joined already" if rank in come else f"cannot join: there are {self.size} ranks"
                    )
                    _reply(connection, {"refused": f"rank {rank} of {size} {here}"})
                else:
                    come[rank] = connection, (connection.getpeername()[0], port)
        missing = [rank for rank in range(1, self.size) if rank not in come]
        places = [(meeting.hosts[0], meeting.port), *(come[rank][1] for rank in sorted(come))]
        told = {"job": uuid4().hex, "places": places, "missing": missing}
        for connection, _ in come.values():
            _reply(connection, told)
        return self._checked(told, meeting), listener

    def _register(self, meeting: Rendezvous) -> tuple[Answer, Listener]:
        """Connect to rank 0, which may not be there yet."""
        reason = said = ""
        while time.monotonic() < self._deadline:
            try:
                with socket.create_connection((meeting.hosts[0], meeting.port), PATIENCE) as connection:
                    listener = Listener(connection.getsockname()[0], 0)
                    greeting = _COME.pack(_MAGIC, self.rank, self.size, listener.port)
                    connection.sendall(sealed(greeting))
                    answer = _receive_answer(connection, self._deadline + PATIENCE)
                    return self._checked(answer, meeting), listener
            except OSError as error:
                reason = said or str(error)
                time.sleep(0.02)
            except (ValueError, TypeError) as error:
                reason = said = str(error)  # says more than that nobody listens any more
                time.sleep(0.02)
        raise DistributedError(
            f"rank {self.rank}: rank 0 did not connect within {self._seconds:g} s "
            f"(rank 0 listens on {meeting}; {reason})"
        )

    def _checked(self, told: Any, meeting: Rendezvous) -> Answer:
        """Check rank 0's answer. Raises ValueError if it is not from a rank 0, DistributedError if ranks are
        missing.
        """
        if not isinstance(told, dict):
            raise ValueError("its answer is not that of rank 0 of a job")
        if "refused" in told:
            raise DistributedError(f"rank 0, on {meeting}, refuses this process: {told['refused']}")
        places, missing = told.get("places", ()), told.get("missing", ())
        kinds = [[type(part) for part in place] for place in places]
        is_whole = bool(missing) or kinds == [[str, int]] * self.size
        if not re.fullmatch("[0-9a-f]{32}", str(told.get("job"))) or not is_whole:
            raise ValueError("its answer is not that of rank 0 of a job")
        if missing:
            raise meeting.lacking(missing, self._seconds)
        return told


class _SocketLink:
    def __init__(self, peers: dict[int, Peer], watch: Watch) -> None:
        self._peers, self._rank, self._watch = peers, watch.rank, watch
        self._scratch = np.empty(0, np.uint8)

    def all_reduce(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        own, result, count = x.reshape(-1), out.reshape(-1), len(group)
        if count == 1 or x.nbytes <= _SMALL:
            self._reduced(group, lambda _: own, result, op)
            return
        ends = [own.size * number // count for number in range(count + 1)]
        parts = [slice(*ends[number : number + 2]) for number in range(count)]
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
            self._move([(rank, out) for rank in others], [])
        else:
            self._move([], [(root, out)])

    def all_to_all(self, group: Ranks, x: Array, out: Array) -> None:
        rows, results = x.reshape(len(group), -1), out.reshape(len(group), -1)
        own = group.index(self._rank)
        np.copyto(results[own], rows[own])
        self._swap(group, lambda number: rows[number], lambda number: results[number])

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], tag: int) -> None:
        move(self._peers, sends, receives, tag, self._watch)

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
        self._move([(rank, given(n)) for rank, n in others], [(rank, taken(n)) for rank, n in others])

    def _scratch_array(self, shape: tuple[int, int], dtype: np.dtype[np.generic]) -> Array:
        """Return reused memory."""
        size = shape[0] * shape[1] * dtype.itemsize
        if self._scratch.size < size:
            self._scratch = np.empty(size, np.uint8)
        return self._scratch[:size].view(dtype).reshape(shape)

    def _move(self, sends: Sequence[Message], receives: Sequence[Message]) -> None:
        move(self._peers, sends, receives, _COLLECTIVE, self._watch)


def _reply(connection: socket.socket, told: Answer) -> None:
    connection.settimeout(PATIENCE)
    try:
        connection.sendall(sealed(json.dumps(told).encode()))
    except OSError:
        pass  # it has ended, which is reported later
    finally:
        connection.close()


def _receive_answer(connection: socket.socket, deadline: float) -> Any:
    """Receive the complete answer of rank 0. Raises OSError or ValueError if it is not from a rank 0."""
    said = bytearray()
    while piece := _received(connection, deadline):
        said += piece
        if len(said) > _LONGEST:
            raise ValueError("its answer is too long for rank 0 of a job")
    body = unsealed(bytes(said))
    if body is None:
        raise ValueError(f"the answer is not from rank 0 of this job, or rank 0 has another {SECRET}")
    return json.loads(body)


def _received(connection: socket.socket, deadline: float) -> bytes:
    connection.settimeout(max(deadline - time.monotonic(), 1e-3))
    return connection.recv(1 << 16)
