"""Ranks over sockets, as threads of this process; and how ranks that were started by hand talk."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.ports import free_port

from pinnace.distributed import roster, sockets
from pinnace.distributed.listener import SECRET, sealed
from pinnace.distributed.sockets import Sockets
from pinnace.distributed.start import chosen
from pinnace.distributed.tables import Rendezvous
from pinnace.errors import ConfigError, DistributedError


def meeting(rank, size, port):
    return Rendezvous(rank, ("127.0.0.1",) * size, port)


def in_ranks(size, do, seconds=300):
    """What `do(ranks, rank)` gives in each of so many ranks, or the error that it ends with."""
    port = free_port()

    def run(rank):
        try:
            return do(Sockets(meeting(rank, size, port), seconds), rank)
        except DistributedError as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))


@pytest.mark.parametrize("count", [1, 1000, sockets._SMALL // 4 + 3])
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


def test_tags_say_what_is_what():
    def exchange(ranks, rank):
        link = ranks.link([])
        first, second = (np.zeros(3, np.int32) for _ in range(2))
        mine = np.full(3, rank, np.int32)
        other = 1 - rank
        link.exchange([(other, mine), (other, mine + 10)], [(other, first), (other, second)], tag=5)
        return [int(array[0]) for array in (first, second)]

    assert in_ranks(2, exchange) == [[1, 11], [0, 10]]


def test_what_nobody_expects():
    def differ(ranks, rank):
        link = ranks.link([])
        link.all_gather((0, 1), np.zeros(2 + rank), np.empty((2, 2 + rank)))

    assert "sent 24 unexpected bytes in" in str(in_ranks(2, differ)[0])


def test_a_rank_that_goes():
    def leave(ranks, rank):
        if rank == 1:
            for peer in ranks._all._peers.values():
                peer.close()
            return
        ranks._all.barrier((0, 1))

    assert "rank 0 lost the other ranks (rank 1 closed the connection)" in str(in_ranks(2, leave)[0])


@pytest.mark.parametrize("ends", ["pass", "os._exit(0)"])
def test_a_rank_that_is_done_is_not_one_that_dies(ends):
    """Those of other groups may need longer."""
    port = free_port()
    first = (
        "import os\n"
        "from pinnace.distributed.sockets import Sockets\n"
        "from pinnace.distributed.tables import Rendezvous\n"
        f"ranks = Sockets(Rendezvous(1, ('127.0.0.1',) * 2, {port}), 20)\n{ends}\n"
    )
    with subprocess.Popen([sys.executable, "-c", first]) as other:
        ranks = Sockets(meeting(0, 2, port), 300)
        assert other.wait() == 0
    refused = pytest.raises(DistributedError, match=r"rank 1 .* has ended")
    with contextlib.nullcontext() if ends == "pass" else refused:
        ranks.watch.look()


def test_all_are_told_who_is_missing():
    port = free_port()

    def come(rank):
        with pytest.raises(DistributedError, match=f"rank {rank}: rank 1 did not connect within 4 s"):
            Sockets(meeting(rank, 3, port), 4)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(come, (0, 2)))


def test_nobody_else_takes_part():
    """Noise, silence and ranks of another start do not keep the ranks from meeting."""
    port = free_port()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(Sockets, meeting(0, 2, port), 300)
        noise = connected(port)
        noise.sendall(b"GET / HTTP/1.1\r\n\r\n")
        silent = connected(port)
        with pytest.raises(DistributedError, match="rank 1 of 4 cannot join: there are 2 ranks"):
            Sockets(meeting(1, 4, port), 300)
        second = pool.submit(Sockets, meeting(1, 2, port), 300)
        told = pool.submit(first.result().gather, "a"), pool.submit(second.result().gather, "b")
        assert [one.result() for one in told] == [["a", "b"]] * 2
        forged = connected(port)
        forged.sendall(sealed(sockets._JOIN.pack(sockets._MAGIC, bytes(16), 1, 1)))
        links = pool.submit(first.result().link, []), pool.submit(second.result().link, [])
        for done in [pool.submit(link.result().barrier, (0, 1)) for link in links]:
            done.result()
        for connection in (noise, silent, forged):
            connection.close()


def test_strangers_hold_nobody_up():
    """Many that are silent, and one that says a byte now and then: a start and the next link go on."""
    port = free_port()
    with ThreadPoolExecutor(3) as pool, contextlib.ExitStack() as strangers:
        first = pool.submit(Sockets, meeting(0, 2, port), 60)
        silent = [strangers.enter_context(connected(port)) for _ in range(40)]
        over = threading.Event()
        pool.submit(dribble, silent[0], over)
        second = pool.submit(Sockets, meeting(1, 2, port), 60)
        try:
            ranks = [first.result(), second.result()]
            for _ in range(10):
                strangers.enter_context(connected(port))
            links = [pool.submit(one.link, []) for one in ranks]
            for done in [pool.submit(link.result().barrier, (0, 1)) for link in links]:
                done.result()
        finally:
            over.set()


def dribble(connection, over):
    with contextlib.suppress(OSError):
        while not over.wait(0.5):
            connection.sendall(b"P")


def test_a_rank_0_that_never_comes_to_an_end():
    """One deadline is over all that it says, not one over each byte."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(2) as pool:
        come = pool.submit(Sockets, meeting(1, 2, other.getsockname()[1]), 1)
        with other.accept()[0] as connection:
            pool.submit(dribble, connection, over)
            with pytest.raises(DistributedError, match="rank 1: rank 0 did not connect within 1 s"):
                come.result(timeout=300)
            over.set()


def test_who_has_another_secret_is_none_of_the_ranks(monkeypatch):
    port = free_port()
    with ThreadPoolExecutor(2) as pool:
        monkeypatch.setenv(SECRET, "ours")
        first = pool.submit(Sockets, meeting(0, 2, port), 300)
        connected(port).close()
        other = (
            "from pinnace.distributed.sockets import Sockets\n"
            "from pinnace.distributed.tables import Rendezvous\n"
            f"Sockets(Rendezvous(1, ('127.0.0.1',) * 2, {port}), 1)\n"
        )
        for theirs in ({}, {SECRET: "theirs"}):
            environment = {name: value for name, value in os.environ.items() if name != SECRET} | theirs
            done = subprocess.run(
                [sys.executable, "-c", other], env=environment, capture_output=True, text=True
            )
            assert f"is not from rank 0 of this job, or rank 0 has another {SECRET}" in done.stderr
        second = pool.submit(Sockets, meeting(1, 2, port), 300)
        told = pool.submit(first.result().gather, "a"), pool.submit(second.result().gather, "b")
        assert [one.result() for one in told] == [["a", "b"]] * 2


def test_a_refusal_is_told_when_rank_0_has_gone_meanwhile():
    with socket.create_server(("127.0.0.1", 0)) as rank_0, ThreadPoolExecutor(1) as pool:
        late = pool.submit(Sockets, meeting(1, 2, rank_0.getsockname()[1]), 1)
        with rank_0.accept()[0] as connection:
            connection.recv(1 << 10)  # the greeting: what is closed with data unread is reset
        rank_0.close()
        with pytest.raises(DistributedError, match=f"has another {SECRET}"):
            late.result()


@pytest.fixture
def shared_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(roster, "_FOLDER", tmp_path)
    return tmp_path / f"pinnace-{os.getuid()}"


def test_a_start_leaves_no_table(shared_memory):
    in_ranks(2, lambda ranks, rank: None)
    assert not list(shared_memory.iterdir())
    with pytest.raises(DistributedError), roster.Roster("job", 0, 2) as table:
        table.await_all([1], 0.01, "a test")
    assert not list(shared_memory.iterdir())


def test_a_table_that_was_left_is_removed_by_a_later_start(shared_memory):
    left = roster.Roster("left", 0, 2)._path
    os.utime(left, (0, 0))
    roster.Roster("new", 0, 2)
    assert [path.name for path in shared_memory.iterdir()] == ["new"]


@pytest.mark.parametrize("how", ["mode", "link", "owner"])
def test_a_folder_that_others_can_write_to_is_refused(shared_memory, tmp_path, how):
    if how == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        shared_memory.symlink_to(tmp_path / "theirs")
    else:
        shared_memory.mkdir(mode=0o700)
    if how == "mode":
        shared_memory.chmod(0o777)
    if how == "owner":
        if os.getuid():
            pytest.skip("only root can give a folder away")
        os.chown(shared_memory, 12345, -1)
    with pytest.raises(DistributedError, match="other users made it or can open it"):
        roster.Roster("job", 0, 2)


def connected(port):
    for _ in range(200):
        try:
            return socket.create_connection(("127.0.0.1", port), 0.1)
        except OSError:
            time.sleep(0.05)
    raise AssertionError("rank 0 does not listen")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400\r\n", b"[]\n", b'{"job": "x", "places": [[1], 2]}\n'])
def test_somebody_else_in_the_place_of_rank_0(answer):
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as pool:
        other.settimeout(0.1)
        come = pool.submit(Sockets, meeting(1, 2, other.getsockname()[1]), 1)
        while not come.done():
            with contextlib.suppress(TimeoutError), other.accept()[0] as connection:
                connection.sendall(answer)
        with pytest.raises(DistributedError, match="rank 1: rank 0 did not connect within 1 s"):
            come.result()


def test_a_port_that_is_taken():
    refused = pytest.raises(DistributedError, match="rank 0 cannot listen on 127")
    with socket.create_server(("127.0.0.1", 0)) as taken, refused:
        Sockets(meeting(0, 2, taken.getsockname()[1]), 1)


@pytest.mark.parametrize(
    ("wanted", "device", "torch", "nccl", "way"),
    [
        ("", "cpu", False, False, "sockets"),
        ("", "gpu", False, False, "sockets"),
        ("", "cpu", True, True, "gloo"),
        ("", "gpu", True, False, "gloo"),
        ("", "gpu", True, True, "nccl"),
        ("torch", "gpu", True, True, "nccl"),
        ("torch", "ascend", True, True, "gloo"),
        ("sockets", "gpu", True, True, "sockets"),
    ],
)
def test_how_ranks_talk(wanted, device, torch, nccl, way):
    assert chosen(wanted, device, torch, lambda: nccl) == way


def test_what_cannot_be_had():
    with pytest.raises(ConfigError, match="pip install torch"):
        chosen("torch", "cpu", False, lambda: False)
    with pytest.raises(ConfigError, match="must be torch or sockets"):
        chosen("pigeons", "cpu", True, lambda: False)
