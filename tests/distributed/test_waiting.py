"""A rank that waits leaves its core to others: it polls while nobody wants the core, and sleeps otherwise."""

from __future__ import annotations

import pytest

from pinnace.distributed import watchdog
from pinnace.distributed.watchdog import Watchdog
from pinnace.errors import DistributedError

NO_PROCESS = 1 << 30
"""More than Linux gives to any process (proc(5), pid_max)."""


class Machine:
    """A clock, and a core that another thread takes for `taken` seconds when it is yielded."""

    def __init__(self) -> None:
        self.now, self.taken = 100.0, 1e-6
        self.yields, self.naps = 0, []

    def monotonic(self):
        self.now += 1e-7
        return self.now

    def sched_yield(self):
        self.yields += 1
        self.now += self.taken

    def sleep(self, seconds):
        self.naps.append(seconds)
        self.now += seconds


@pytest.fixture
def rank_0(monkeypatch, tmp_path):
    """Makes the watchdog of rank 0 of two, which are on these cores."""

    def make(*cores):
        made = []
        for rank, core in enumerate(cores):
            monkeypatch.setattr(watchdog, "_core", lambda core=core: core)
            made.append(Watchdog(tmp_path / "ranks", rank, len(cores), 300))
            made[-1].begin("a collective")
        return made[0]

    return make


@pytest.fixture
def machine(monkeypatch, rank_0):
    made = Machine()
    monkeypatch.setattr(watchdog, "time", made)
    monkeypatch.setattr(watchdog.os, "sched_yield", made.sched_yield)
    return made


def wait(machine, waiting, seconds):
    """Wait until a time; returns how often the core was yielded, and the sleeps."""
    end = machine.now + seconds
    machine.yields, machine.naps = 0, []
    waiting.wait(lambda: machine.now >= end, (0, 1))
    return machine.yields, machine.naps


def test_waiting_rank_polls_while_nobody_wants_its_core(machine, rank_0):
    yields, naps = wait(machine, rank_0(5, 6), 0.004)
    assert yields > 3000
    assert not naps


def test_waiting_rank_sleeps_while_others_want_its_core(machine, rank_0):
    waiting = rank_0(5, 6)
    machine.taken = 0.003
    yields, naps = wait(machine, waiting, 0.004)
    assert yields == 1
    assert naps
    yields, naps = wait(machine, waiting, 0.004)  # the next wait knows
    assert not yields
    assert all(nap <= max(2e-5, 0.004 / 8) for nap in naps)  # nor does it sleep much beyond the end
    machine.now += 1
    machine.taken = 1e-6
    assert not wait(machine, waiting, 0.004)[1]


def test_waiting_rank_yields_the_core_that_it_shares_with_the_awaited_rank(machine, rank_0):
    """It gets the core at once, and without sleeps: the end is noticed as soon as it yields."""
    waiting = rank_0(5, 5)
    machine.taken = 0.001
    for _ in range(2):
        assert wait(machine, waiting, 0.00305) == (4, [])


def test_rank_knows_whether_it_shares_a_core(monkeypatch, tmp_path):
    watchdogs = [Watchdog(tmp_path / "cores", rank, 3, 300) for rank in range(3)]
    for one, core in zip(watchdogs, (5, 5, 6), strict=True):
        monkeypatch.setattr(watchdog, "_core", lambda core=core: core)
        one.begin("a collective")
    assert [one.shares_core(range(3)) for one in watchdogs] == [True, True, False]
    assert not watchdogs[0].shares_core((0, 2))
    watchdogs[1].leave()
    assert not watchdogs[0].shares_core(range(3))


def test_late_ranks_are_those_with_fewer_collectives(machine, rank_0, tmp_path):
    waiting = rank_0(5, 6, 7)
    waiting.seconds = 0.3
    begin = machine.now
    with pytest.raises(DistributedError, match=r"^rank 0 has waited 0\.3 s for others in a collective$"):
        waiting.wait(lambda: False, (0, 1, 2))
    assert 0.3 <= machine.now - begin < 0.3 + 2 * watchdog.LOOK
    ahead = Watchdog(tmp_path / "ranks", 1, 3, 0.3)
    for _ in range(2):
        ahead.begin("another")
    assert "rank 1 has waited 0.3 s for ranks 0, 2 in another" in str(ahead.late(range(3)))
    assert "rank 1 has waited 0.3 s for rank 2 in another" in str(ahead.late((1, 2)))


def test_nothing_runs_after_an_error_which_the_first_explains(rank_0):
    waiting = rank_0(5, 6)
    assert not waiting.is_broken
    waiting.fail(ValueError("no room"))
    waiting.fail(ValueError("later"))
    assert waiting.is_broken
    with pytest.raises(DistributedError, match=r"rank 0 has failed: no room \(no collective can run any m"):
        waiting.begin("a collective")


def test_rank_that_has_failed_or_ended_is_named_while_others_wait(monkeypatch, machine, rank_0, tmp_path):
    waiting = rank_0(5, 6)
    waiting.look()
    other = Watchdog(tmp_path / "ranks", 1, 2, 300)
    other.fail(ValueError())
    reason = r"^rank 1 \(process \d+\) has failed while rank 0 waited for a collective$"
    with pytest.raises(DistributedError, match=reason):
        waiting.wait(lambda: False, (0, 1))
    assert machine.now < 101  # it looks long before the limit
    monkeypatch.setattr(watchdog.os, "getpid", lambda: NO_PROCESS)
    Watchdog(tmp_path / "ranks", 1, 2, 300)
    assert waiting.ended() == [1]
    with pytest.raises(DistributedError, match=rf"^rank 1 \(process {NO_PROCESS}\) has ended while rank 0"):
        waiting.look()
    assert "has ended" in str(waiting.lost(OSError("reset")))


@pytest.mark.parametrize(
    ("error", "reason"), [(OSError("reset\nby peer"), "reset"), (BrokenPipeError(), "BrokenPipeError")]
)
def test_lost_connection_to_a_rank_that_lives_is_explained_by_its_error(machine, rank_0, error, reason):
    waiting = rank_0(5, 6)
    waiting.seconds = 0.05
    assert str(waiting.lost(error)) == f"rank 0 lost the other ranks ({reason}) in a collective"
    assert 100.05 < machine.now < 100.06  # the end of its process may be seen a little later


def test_missing_ranks_of_this_machine_are_named(machine, tmp_path):
    first = Watchdog(tmp_path / "ranks", 0, 4, 5)
    Watchdog(tmp_path / "ranks", 2, 4, 5)
    first.await_all((0, 2), "ranks of mpirun")
    assert not machine.naps
    with pytest.raises(DistributedError, match=r"rank 0: ranks 1, 3 did not connect within 5 s \(ranks of m"):
        first.await_all(range(4), "ranks of mpirun")
    assert 105 < machine.now < 105.02
