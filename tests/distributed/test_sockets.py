"""Ranks over sockets, as threads of this process; and how ranks that were started by hand talk."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
import pytest
from tests.ports import free_port
from tests.waiting import LIMIT

from pinnace.distributed import socket_link, sockets, watchdog
from pinnace.distributed.listener import SECRET, Greeting, Listener
from pinnace.distributed.rendezvous import Rendezvous
from pinnace.distributed.sockets import Sockets
from pinnace.distributed.watchdog import Watchdog, table_of
from pinnace.distributed.world import uses_nccl
from pinnace.errors import ConfigError, DistributedError


def rendezvous(rank, size, port):
    """All come to rank 0, which sees where the others are: their addresses here are nobody's (RFC 5737)."""
    return Rendezvous(rank, ("127.0.0.1", *("192.0.2.1",) * (size - 1)), port)


def in_ranks(size, do, seconds=300):
    """What `do(ranks, rank)` gives in each of so many ranks, or the error that it ends with."""
    port = free_port()

    def run(rank):
        try:
            return do(Sockets(rendezvous(rank, size, port), seconds), rank)
        except DistributedError as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))


@pytest.mark.parametrize("count", [1, 1000, socket_link._SMALL // 4 + 3])
@pytest.mark.parametrize(("op", "of"), [("sum", np.sum), ("max", np.max), ("min", np.min), ("prod", np.prod)])
def test_reductions_of_little_and_of_much(count, op, of):
    group = (0, 1, 2)
    x = np.random.default_rng(7).normal(size=(3, count))

    def reduce(ranks, rank):
        out = np.empty(count)
        ranks.link([group]).all_reduce(group, x[rank], out, op)
        return out

    results = in_ranks(3, reduce)
    np.testing.assert_allclose(results[0], of(x, axis=0), rtol=1e-12)  # three float64, in whatever order
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])  # all ranks have the same bits


def test_exchange_keeps_the_order_of_messages_of_one_tag():
    def exchange(ranks, rank):
        link = ranks.link([])
        first, second = (np.zeros(3, np.int32) for _ in range(2))
        mine = np.full(3, rank, np.int32)
        other = 1 - rank
        link.exchange([(other, mine), (other, mine + 10)], [(other, first), (other, second)], tag=5)
        return [int(array[0]) for array in (first, second)]

    assert in_ranks(2, exchange) == [[1, 11], [0, 10]]


def test_messages_that_the_kernel_takes_in_pieces_arrive_whole():
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends = socket.create_connection(server.getsockname()), server.accept()[0]
    ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    sender, receiver = (socket_link.Peer(rank, end) for rank, end in enumerate(ends))
    given = [np.random.default_rng(n).bytes(n) for n in (1_000_000, 1, 0, 300_001)]
    taken = [bytearray(len(data)) for data in given]
    for tag, (data, room) in enumerate(zip(given, taken, strict=True)):
        sender.give(tag, memoryview(data))
        receiver.expect(tag, memoryview(room))
    end = time.monotonic() + LIMIT
    while (sender.events() or receiver.events()) and time.monotonic() < end:
        sender.go_on()
        receiver.go_on()
    assert taken == given
    for one in ends:
        one.close()


def test_array_of_an_unexpected_size_is_an_error():
    def differ(ranks, rank):
        link = ranks.link([])
        link.all_gather((0, 1), np.zeros(2 + rank), np.empty((2, 2 + rank)))

    assert "sent 24 unexpected bytes in" in str(in_ranks(2, differ)[0])


def test_lost_connection_names_the_rank():
    def leave(ranks, rank):
        if rank == 1:
            for peer in ranks.everyone._peers.values():
                peer._connection.close()
            return
        ranks.everyone.barrier((0, 1))

    assert "rank 0 lost the other ranks (rank 1 closed the connection)" in str(in_ranks(2, leave)[0])


@pytest.mark.parametrize("ends", ["pass", "os._exit(0)"])
def test_rank_that_is_done_has_not_died(ends):
    """Those of other groups may need longer."""
    port = free_port()
    first = (
        "import os\n"
        "from pinnace.distributed.sockets import Sockets\n"
        "from pinnace.distributed.rendezvous import Rendezvous\n"
        f"ranks = Sockets(Rendezvous(1, ('127.0.0.1',) * 2, {port}), 20)\n{ends}\n"
    )
    with subprocess.Popen([sys.executable, "-c", first]) as other:
        ranks = Sockets(rendezvous(0, 2, port), 300)
        assert other.wait() == 0
    refused = pytest.raises(DistributedError, match=r"rank 1 .* has ended")
    with contextlib.nullcontext() if ends == "pass" else refused:
        ranks.watchdog.look()


def test_all_ranks_report_the_missing_one():
    port = free_port()

    def come(rank):
        with pytest.raises(DistributedError, match=f"rank {rank}: rank 1 did not connect within 4 s"):
            Sockets(rendezvous(rank, 3, port), 4)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(come, (0, 2)))


def test_strangers_take_no_part():
    """Noise, silence and ranks of another start do not keep the ranks from meeting; then nobody listens."""
    port = free_port()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(Sockets, rendezvous(0, 2, port), 300)
        noise = connected(port)
        noise.sendall(b"GET / HTTP/1.1\r\n\r\n")
        silent = connected(port)
        with pytest.raises(DistributedError, match="rank 1 of 4 cannot join: there are 2 ranks"):
            Sockets(rendezvous(1, 4, port), 300)
        second = pool.submit(Sockets, rendezvous(1, 2, port), 300)
        gathered = pool.submit(first.result().gather, "a"), pool.submit(second.result().gather, "b")
        assert [one.result() for one in gathered] == [["a", "b"]] * 2
        for connection in (noise, silent):
            connection.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_second_process_of_a_rank_is_refused():
    port = free_port()
    with ThreadPoolExecutor(3) as pool:
        ranks = [pool.submit(Sockets, rendezvous(0, 3, port), 300)]
        ranks.extend(pool.submit(Sockets, rendezvous(1, 3, port), 300) for _ in range(2))
        refused = next(as_completed(ranks[1:]))
        assert "refuses this process: rank 1 of 3 has joined already" in str(refused.exception())
        ranks.append(pool.submit(Sockets, rendezvous(2, 3, port), 300))
        met = [one.result() for one in ranks if one is not refused]
        assert [ranks.rank for ranks in met] == [0, 1, 2]


class Besieged(Listener):
    """A port at which strangers wait before any rank: some gone, some silent, some with a forged greeting."""

    def __init__(self, host, port):
        super().__init__(host, port)
        self._strangers = [socket.create_connection((self.host, self.port)) for _ in range(120)]
        for gone in self._strangers[:40]:
            gone.close()
        for forger in self._strangers[40:80]:
            forger.sendall(Greeting(bytes(16), 1, 3, 0).sealed())

    def close(self):
        super().close()
        for stranger in self._strangers:
            stranger.close()


def test_strangers_do_not_delay_ranks(monkeypatch):
    monkeypatch.setattr(sockets, "Listener", Besieged)

    def link(ranks, rank):
        ranks.link([]).barrier((0, 1, 2))
        return ranks.gather(str(rank))

    assert in_ranks(3, link) == [["0", "1", "2"]] * 3


def test_greeting_is_read_at_once_behind_strangers():
    greeting = Greeting(bytes(16), 7, 8, 9)
    listener = Besieged("127.0.0.1", 0)
    with contextlib.closing(listener), socket.create_connection(("127.0.0.1", listener.port)) as rank:
        rank.sendall(greeting.sealed())
        found = dict(map(reversed, listener.greetings(0)))
        for connection in found.values():
            connection.close()
    assert greeting in found


def dribble(connection, over):
    with contextlib.suppress(OSError):
        while not over.wait(0.5):
            connection.sendall(b"P")


def test_endless_answer_of_rank_0_ends_at_the_deadline():
    """One deadline is over all that it says, not one over each byte."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(2) as pool:
        come = pool.submit(Sockets, rendezvous(1, 2, other.getsockname()[1]), 1)
        with other.accept()[0] as connection:
            pool.submit(dribble, connection, over)
            with pytest.raises(DistributedError, match="rank 1: rank 0 did not connect within 1 s"):
                come.result(timeout=300)
            over.set()


def test_process_with_another_secret_is_refused(monkeypatch):
    port = free_port()
    with ThreadPoolExecutor(2) as pool:
        monkeypatch.setenv(SECRET, "ours")
        first = pool.submit(Sockets, rendezvous(0, 2, port), 300)
        connected(port).close()
        other = (
            "from pinnace.distributed.sockets import Sockets\n"
            "from pinnace.distributed.rendezvous import Rendezvous\n"
            f"Sockets(Rendezvous(1, ('127.0.0.1',) * 2, {port}), 1)\n"
        )
        for theirs in ({}, {SECRET: "theirs"}):
            environment = {name: value for name, value in os.environ.items() if name != SECRET} | theirs
            done = subprocess.run(
                [sys.executable, "-c", other], env=environment, capture_output=True, text=True
            )
            assert f"is not from rank 0 of this job, or rank 0 has another {SECRET}" in done.stderr
        second = pool.submit(Sockets, rendezvous(1, 2, port), 300)
        gathered = pool.submit(first.result().gather, "a"), pool.submit(second.result().gather, "b")
        assert [one.result() for one in gathered] == [["a", "b"]] * 2


def test_refusal_is_reported_after_rank_0_has_gone():
    with socket.create_server(("127.0.0.1", 0)) as rank_0, ThreadPoolExecutor(1) as pool:
        late = pool.submit(Sockets, rendezvous(1, 2, rank_0.getsockname()[1]), 1)
        with rank_0.accept()[0] as connection:
            connection.recv(1 << 10)  # the greeting: what is closed with data unread is reset
        rank_0.close()
        with pytest.raises(DistributedError, match=f"has another {SECRET}"):
            late.result()


@pytest.fixture
def shared_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(watchdog, "_FOLDER", tmp_path)
    return tmp_path


def test_start_leaves_no_table(shared_memory):
    in_ranks(2, lambda ranks, rank: None)
    assert not list(shared_memory.iterdir())


def test_later_start_removes_leftover_tables(shared_memory):
    left = table_of("left")
    Watchdog(left, 0, 2, 1)
    os.utime(left, (0, 0))
    new = table_of("new")
    Watchdog(new, 0, 2, 1)
    assert list(shared_memory.iterdir()) == [new]


def test_names_made_by_others_do_not_keep_ranks_from_starting(shared_memory):
    """Each start has a name that nobody can know before."""
    for name in (f"pinnace-{os.getuid()}", f"pinnace-{os.getuid()}-job"):
        (shared_memory / name).mkdir(mode=0)
    assert in_ranks(2, lambda ranks, rank: ranks.gather(str(rank))) == [["0", "1"]] * 2


def test_table_is_private_and_not_behind_a_link(shared_memory):
    table = table_of("job")
    own = Watchdog(table, 0, 2, 1)
    assert table.stat().st_mode & 0o777 == 0o600
    own.unlink()
    table.symlink_to(shared_memory / "theirs")
    with pytest.raises(DistributedError, match="cannot meet in"):
        Watchdog(table, 0, 2, 1)


def connected(port):
    for _ in range(200):
        try:
            return socket.create_connection(("127.0.0.1", port), 0.1)
        except OSError:
            time.sleep(0.05)
    raise AssertionError("rank 0 does not listen")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400\r\n", b"[]\n", b'{"job": "x", "places": [[1], 2]}\n'])
def test_stranger_in_the_place_of_rank_0(answer):
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as pool:
        other.settimeout(0.1)
        come = pool.submit(Sockets, rendezvous(1, 2, other.getsockname()[1]), 1)
        while not come.done():
            with contextlib.suppress(TimeoutError), other.accept()[0] as connection:
                connection.sendall(answer)
        with pytest.raises(DistributedError, match="rank 1: rank 0 did not connect within 1 s"):
            come.result()


def test_taken_port_is_an_error():
    refused = pytest.raises(DistributedError, match="rank 0 cannot listen on 127")
    with socket.create_server(("127.0.0.1", 0)) as taken, refused:
        Sockets(rendezvous(0, 2, taken.getsockname()[1]), 1)


@pytest.mark.parametrize(
    ("wanted", "device", "nccl", "way"),
    [
        ("", "cpu", True, False),
        ("", "gpu", False, False),
        ("", "gpu", True, True),
        ("nccl", "gpu", True, True),
        ("sockets", "gpu", True, False),
    ],
)
def test_choice_of_nccl_or_sockets(wanted, device, nccl, way):
    assert uses_nccl(wanted, device, lambda: nccl) == way


def test_missing_or_unknown_communicator_is_an_error():
    with pytest.raises(ConfigError, match="pip install torch"):
        uses_nccl("nccl", "gpu", lambda: False)
    with pytest.raises(ConfigError, match="'gloo': it must be nccl or sockets"):
        uses_nccl("gloo", "cpu", lambda: True)
