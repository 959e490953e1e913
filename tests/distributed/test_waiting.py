"""A rank that waits leaves its core to others: it polls while nobody wants the core, and sleeps otherwise."""

from __future__ import annotations

import pytest

from pinnace.distributed import watchdog
from pinnace.distributed.watchdog import Watchdog


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
