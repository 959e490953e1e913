"""Communication over TCP sockets, which needs no installation, for ranks not started by mpirun.

Every rank has a connection to every other one. Received data is bytes of a known size, or JSON while ranks
meet. A process that knows the secret of the job (`pinnace.distributed.listener`) is accepted as a rank;
without a secret, any process that connects to rank 0 first: then use it in trusted networks only. Ranks
listen only while they connect, each time on another port.
"""

from __future__ import annotations

import json
import re
import socket
import time
import weakref
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from pinnace.distributed.communicator import Communicator, Link, Ranks
from pinnace.distributed.listener import PATIENCE, SECRET, Greeting, Listener, seal, unseal
from pinnace.distributed.rendezvous import Rendezvous
from pinnace.distributed.socket_link import Peer, SocketLink
from pinnace.distributed.watchdog import Watchdog, table_of
from pinnace.errors import DistributedError

_NO_TOKEN = bytes(16)
_LONGEST = 1 << 28
"""Maximum bytes of rank 0's answer."""

Answer = dict[str, Any]
"""Rank 0's answer to a rank: the job, the addresses and ports of all ranks, and those that are missing."""


class Sockets(Communicator):
    """See `Communicator`. Ranks register with rank 0, whose answer tells them where all others listen."""

    name = "sockets"

    def __init__(self, rendezvous: Rendezvous, seconds: float) -> None:
        self.rank, self.size = rendezvous.rank, len(rendezvous.hosts)
        self._deadline, self._seconds = time.monotonic() + seconds, seconds
        answer, listener = self._listen(rendezvous) if self.rank == 0 else self._register(rendezvous)
        self._token = bytes.fromhex(answer["job"])
        self._host, self._hosts = listener.host, [host for host, _ in answer["places"]]
        self.watchdog = Watchdog(table_of(answer["job"]), self.rank, self.size, seconds)
        try:
            weakref.finalize(self, self.watchdog.leave)  # a killed process does not leave
            self.everyone = self._connected(listener, [port for _, port in answer["places"]])
            self.everyone.barrier(tuple(range(self.size)))
        finally:
            self.watchdog.unlink()

    def link(self, groups: Sequence[Ranks]) -> Link:
        """Open new connections to all ranks, so that links do not interfere."""
        try:
            listener = Listener(self._host, 0)
        except OSError as error:
            raise self.watchdog.lost(error) from None
        return self._connected(listener, list(map(int, self.gather(str(listener.port)))))

    def _connected(self, listener: Listener, ports: Sequence[int]) -> SocketLink:
        """Connect all ranks by their ports, this one's being `listener`, which is closed."""
        greeting = Greeting(self._token, self.rank, self.size, 0).sealed()
        peers: dict[int, Peer] = {}
        try:
            for rank in range(self.rank):
                connection = socket.create_connection((self._hosts[rank], ports[rank]), self.watchdog.seconds)
                connection.sendall(greeting)
                peers[rank] = Peer(rank, connection)
            for rank in range(self.rank + 1, self.size):
                self.watchdog.wait(lambda rank=rank: self._accepts(listener, peers, rank), (rank,))  # type: ignore[misc]
        except OSError as error:
            raise self.watchdog.lost(error) from None
        finally:
            listener.close()
        return SocketLink(peers, self.watchdog)

    def _accepts(self, listener: Listener, peers: dict[int, Peer], rank: int) -> bool:
        """Return True if a rank has connected; those that come before it are kept."""
        for connection, greeting in listener.greetings(0) if rank not in peers else ():
            is_missing = self.rank < greeting.rank < self.size and greeting.rank not in peers
            if greeting.token == self._token and is_missing:
                peers[greeting.rank] = Peer(greeting.rank, connection)
            else:
                connection.close()
        return rank in peers

    def _listen(self, rendezvous: Rendezvous) -> tuple[Answer, Listener]:
        """Wait as rank 0 for all ranks, and tell them the addresses."""
        try:
            listener = Listener(rendezvous.hosts[0], rendezvous.port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise DistributedError(f"rank 0 cannot listen on {rendezvous}: {reason}") from None
        registered: dict[int, tuple[socket.socket, tuple[str, int]]] = {}
        while len(registered) < self.size - 1 and time.monotonic() < self._deadline:
            for connection, (_, rank, size, port) in listener.greetings(0.05):
                if not 0 < port < 1 << 16:
                    connection.close()
                elif size != self.size or not 0 < rank < size:
                    _reply(
                        connection,
                        {"refused": f"rank {rank} of {size} cannot join: there are {self.size} ranks"},
                    )
                elif rank in registered:
                    _reply(connection, {"refused": f"rank {rank} of {size} has joined already"})
                else:
                    registered[rank] = connection, (connection.getpeername()[0], port)
        missing = [rank for rank in range(1, self.size) if rank not in registered]
        places = [(rendezvous.hosts[0], rendezvous.port), *(registered[r][1] for r in sorted(registered))]
        answer = {"job": uuid4().hex, "places": places, "missing": missing}
        for connection, _ in registered.values():
            _reply(connection, answer)
        if missing:
            raise rendezvous.missing(missing, self._seconds)
        return answer, listener

    def _register(self, rendezvous: Rendezvous) -> tuple[Answer, Listener]:
        """Connect to rank 0, which may not be there yet."""
        reason = problem = ""
        while time.monotonic() < self._deadline:
            try:
                with socket.create_connection((rendezvous.hosts[0], rendezvous.port), PATIENCE) as connection:
                    listener = Listener(connection.getsockname()[0], 0)
                    connection.sendall(Greeting(_NO_TOKEN, self.rank, self.size, listener.port).sealed())
                    answer = _answer(connection, self._deadline + PATIENCE)
                    return self._checked(answer, rendezvous), listener
            except OSError as error:
                reason = problem or str(error)
            except (ValueError, TypeError) as error:
                reason = problem = str(error)  # says more than that nobody listens any more
            time.sleep(0.02)
        raise DistributedError(
            f"rank {self.rank}: rank 0 did not connect within {self._seconds:g} s "
            f"(rank 0 listens on {rendezvous}; {reason})"
        )

    def _checked(self, answer: Any, rendezvous: Rendezvous) -> Answer:
        """Check rank 0's answer. Raises ValueError if it is not from a rank 0, DistributedError if ranks are
        missing.
        """
        if not isinstance(answer, dict):
            raise ValueError("its answer is not that of rank 0 of a job")
        if "refused" in answer:
            raise DistributedError(f"rank 0, on {rendezvous}, refuses this process: {answer['refused']}")
        places, missing = answer.get("places", ()), answer.get("missing", ())
        kinds = [[type(part) for part in place] for place in places]
        is_whole = bool(missing) or kinds == [[str, int]] * self.size
        if not re.fullmatch("[0-9a-f]{32}", str(answer.get("job"))) or not is_whole:
            raise ValueError("its answer is not that of rank 0 of a job")
        if missing:
            raise rendezvous.missing(missing, self._seconds)
        return answer


def _reply(connection: socket.socket, answer: Answer) -> None:
    connection.settimeout(PATIENCE)
    try:
        connection.sendall(seal(json.dumps(answer).encode()))
    except OSError:
        pass  # it has ended, which is reported later
    finally:
        connection.close()


def _answer(connection: socket.socket, deadline: float) -> Any:
    """Receive the complete answer of rank 0. Raises OSError or ValueError if it is not from a rank 0."""
    message = bytearray()
    while True:
        connection.settimeout(max(deadline - time.monotonic(), 1e-3))
        piece = connection.recv(1 << 16)
        if not piece:
            break
        message += piece
        if len(message) > _LONGEST:
            raise ValueError("its answer is too long for rank 0 of a job")
    content = unseal(bytes(message))
    if content is None:
        raise ValueError(f"the answer is not from rank 0 of this job, or rank 0 has another {SECRET}")
    return json.loads(content)
