"""A rank that waits leaves its core to others: it polls while nobody wants the core, and sleeps otherwise."""

from __future__ import annotations

import pytest

from pinnace.distributed import watch


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
    yields, naps = wait(machine, watch.Watch(None, 0, 2, 300), 0.004)
    assert yields > 3000
    assert not naps


def test_a_core_that_another_rank_works_on(machine):
    waiting = watch.Watch(None, 0, 2, 300)
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
