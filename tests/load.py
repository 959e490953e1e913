"""More requests than two workers can do, from clients that wait, time out, cancel and vanish.

    python -m tests.load --seconds 600

Requests come at 1.5 times the rate that was measured before, and a queue of 10 refuses what is too much. At
the end each has ended in one way that both sides count alike, and memory is what it was after a tenth of the
time.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np

from pinnace import Context, ModelParallelRunner
from pinnace.errors import PredictTimeoutError, QueueFullError

MODEL = Path(__file__).parent / "data" / "api" / "chain.onnx"
CLIENTS = 16


def resident() -> float:
    """Memory of this process, in MB."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1e3


def one(runner: ModelParallelRunner, x: np.ndarray, dice: random.Random) -> str:
    """A request of a client that does one of four things, and how it ended for it."""
    try:
        match dice.randrange(4):
            case 0:
                return "served" if len(runner.predict([x])) == 1 else "wrong"
            case 1:
                runner.predict([x], timeout=dice.uniform(1e-4, 1e-2))
                return "served"
            case 2:
                future = runner.submit([x])
                time.sleep(dice.uniform(0, 2e-3))
                return "cancelled" if future.cancel() else "ran, and nobody looked"
            case _:
                runner.submit([x])
                return "ran, and nobody looked"
    except QueueFullError:
        return "refused"
    except PredictTimeoutError:
        return "out of time"


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.load")
    parser.add_argument("--seconds", type=float, default=600)
    seconds = parser.parse_args().seconds
    context = Context(thread_num=1)
    context.parallel.workers_num = 2
    context.parallel.config_info = {"runner": {"max_queue": "10"}}
    x = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32) / 8
    with ModelParallelRunner() as runner:
        runner.build_from_file(str(MODEL), context)
        begun = time.monotonic()
        for _ in range(200):
            wait([runner.submit([x]) for _ in range(10)])
        rate = 1.5 * 2000 / (time.monotonic() - begun)
        before, begun, ends = runner.stats(), time.monotonic(), Counter[str]()
        sent, early, lock = 0, 0.0, threading.Lock()

        def client(seed: int) -> None:
            nonlocal sent, early
            dice, mine = random.Random(seed), Counter[str]()
            while (passed := time.monotonic() - begun) < seconds:
                with lock:
                    is_due = sent < rate * passed
                    sent += is_due
                    if not early and passed > seconds / 10:
                        early = resident()
                if is_due:
                    mine[one(runner, x, dice)] += 1
                else:
                    time.sleep(1e-3)
            with lock:
                ends.update(mine)

        with ThreadPoolExecutor(CLIENTS) as threads:
            list(threads.map(client, range(CLIENTS)))
        passed = time.monotonic() - begun
        while (now := runner.stats()).busy or now.queued:
            time.sleep(0.01)
    served, failed, refused, withdrawn = (
        getattr(now, name) - getattr(before, name) for name in ("served", "failed", "refused", "withdrawn")
    )
    taken = sum(ends.values()) - refused
    asked = sum(ends.values()) / passed
    print(f"{asked:.0f} requests/s where {rate / 1.5:.0f} can be done, {passed:.0f} s")
    print(dict(ends))
    lost = taken - served - failed - withdrawn
    print(f"of the runner: {served=} {failed=} {refused=} {withdrawn=} {lost=}")
    print(f"resident: {early:.1f} MB after a tenth of the time, {resident():.1f} MB at the end")
    assert (lost, failed, ends["wrong"], ends["refused"]) == (0, 0, 0, refused)


if __name__ == "__main__":
    main()
