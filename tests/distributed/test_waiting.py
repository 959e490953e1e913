"""A rank that waits leaves its core to others: it polls while nobody wants the core, and sleeps otherwise."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pinnace.distributed import roster, watch

APART, TOGETHER = (SimpleNamespace(share_a_core=lambda ranks, s=shares: s) for shares in (False, True))


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
def machine(monkeypatch):
    made = Machine()
    monkeypatch.setattr(watch, "time", made)
    monkeypatch.setattr(watch, "os", made)
    return made


def wait(machine, waiting, seconds):
    """Wait until a time; returns how often the core was yielded, and the sleeps."""
    end = machine.now + seconds
    machine.yields, machine.naps = 0, []
    waiting.wait(lambda: machine.now >= end, (0, 1))
    return machine.yields, machine.naps


def test_a_core_that_nobody_wants(machine):
    yields, naps = wait(machine, watch.Watch(APART, 0, 2, 300), 0.004)
    assert yields > 3000
    assert not naps


def test_a_core_that_another_rank_works_on(machine):
    waiting = watch.Watch(APART, 0, 2, 300)
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


def test_a_core_that_the_awaited_rank_works_on(machine):
    """It gets the core at once, and without sleeps: the end is noticed as soon as it yields."""
    waiting = watch.Watch(TOGETHER, 0, 2, 300)
    machine.taken = 0.001
    for _ in range(2):
        assert wait(machine, waiting, 0.00305) == (4, [])


def test_ranks_note_their_cores(monkeypatch, tmp_path):
    tables = [roster.Roster(tmp_path / "cores", rank, 3) for rank in range(3)]
    tables[0].remove()
    for table, core in zip(tables, (5, 5, 6), strict=True):
        monkeypatch.setattr(roster, "_core", lambda core=core: core)
        table.next_step()
    assert [table.share_a_core(range(3)) for table in tables] == [True, True, False]
    assert not tables[0].share_a_core((0, 2))
    tables[1].leave()
    assert not tables[0].share_a_core(range(3))
