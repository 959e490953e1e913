from __future__ import annotations

import threading
import time

import pytest

from pinnace.errors import ModelStateError
from pinnace.workers.turnstile import Turnstile, _Waiter


def waiting(turnstile: Turnstile, count: int) -> None:
    """Return when `count` threads wait; fail after a while."""
    deadline = time.monotonic() + 10
    while len(turnstile._waiting) != count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def start(turnstile: Turnstile, served: list, name: object) -> threading.Thread:
    def come() -> None:
        try:
            slot = turnstile.enter()
        except ModelStateError as error:
            served.append((name, str(error)))
            return
        served.append(name)
        turnstile.leave(slot)

    thread = threading.Thread(target=come)
    thread.start()
    return thread


def test_slots_are_distinct_and_come_back() -> None:
    turnstile = Turnstile(3)
    slots = [turnstile.enter() for _ in range(3)]
    assert sorted(slots) == [0, 1, 2]
    turnstile.leave(slots[1])
    assert turnstile.enter() == slots[1]


def test_who_comes_first_is_served_first() -> None:
    turnstile, served = Turnstile(1), []
    slot = turnstile.enter()
    threads = []
    for name in range(10):
        threads.append(start(turnstile, served, name))
        waiting(turnstile, name + 1)
    turnstile.leave(slot)
    for thread in threads:
        thread.join(10)
    assert served == list(range(10))


def test_nobody_overtakes_who_waits() -> None:
    """The one who leaves and comes again at once finds the slot handed over: a semaphore lets him in."""
    turnstile, served = Turnstile(1), []
    slot = turnstile.enter()
    thread = start(turnstile, served, "patient")
    waiting(turnstile, 1)
    turnstile.leave(slot)
    turnstile.leave(turnstile.enter())
    assert served == ["patient"]
    thread.join(10)


def test_close_turns_away_who_waits_and_waits_for_who_is_inside() -> None:
    turnstile, served = Turnstile(2), []
    inside = [turnstile.enter(), turnstile.enter()]
    threads = [start(turnstile, served, name) for name in "ab"]
    waiting(turnstile, 2)
    closing = threading.Thread(target=turnstile.close)
    closing.start()
    for thread in threads:
        thread.join(10)
    assert sorted(served) == [
        (name, "the model was closed while this request waited for a worker") for name in "ab"
    ]
    turnstile.leave(inside[0])
    closing.join(0.05)
    assert closing.is_alive()
    turnstile.leave(inside[1])
    closing.join(10)
    assert not closing.is_alive()
    with pytest.raises(ModelStateError, match="closed"):
        turnstile.enter()
    turnstile.close()


@pytest.mark.parametrize("handed_over", [False, True])
def test_an_interrupted_wait_loses_no_slot(monkeypatch: pytest.MonkeyPatch, handed_over: bool) -> None:
    """Ctrl-C while waiting, before or after the slot came."""
    turnstile = Turnstile(1)
    slot = turnstile.enter()

    class Interrupted(_Waiter):
        def __init__(self) -> None:
            self.slot = None
            self.gate = self

        def acquire(self) -> None:
            if handed_over:
                turnstile.leave(slot)
            raise KeyboardInterrupt

        def release(self) -> None:
            pass

    monkeypatch.setattr("pinnace.workers.turnstile._Waiter", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        turnstile.enter()
    if not handed_over:
        turnstile.leave(slot)
    assert turnstile._free == [slot]
    assert not turnstile._waiting


def test_many_threads_over_few_slots_never_share_one() -> None:
    turnstile = Turnstile(3)
    inside: set[int] = set()
    wrong = []

    def client() -> None:
        for _ in range(300):
            slot = turnstile.enter()
            if slot in inside:
                wrong.append(slot)
            inside.add(slot)
            time.sleep(0)
            inside.discard(slot)
            turnstile.leave(slot)

    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert sorted(turnstile._free) == [0, 1, 2]
