"""Threads that serve the queues of several models."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from tests.serving.test_pool import Gate, number, one
from tests.waiting import LIMIT, until

from pinnace.serving.pool import WorkerPool
from pinnace.serving.thread_pool import ThreadPool


@pytest.fixture
def threads():
    made = ThreadPool()
    yield made
    made.end()
    made.join()


def test_ten_models_share_as_many_threads_as_the_largest_has_workers(threads):
    gate = Gate()
    pools = [WorkerPool(gate, count, threads=threads) for count in (1, 3, *[2] * 8)]
    asked = [pool.submit(one(n), number) for n in range(3) for pool in pools]
    until(lambda: len(gate.order) == 3)  # all others wait
    gate.open.release(len(asked))
    assert [future.result(LIMIT) for future in asked] == [2 * n for n in range(3) for _ in pools]
    assert len(set(threads._threads)) == 3
    for pool in pools:
        pool.close()


def test_the_request_that_waits_longest_is_served_first_whatever_its_model(threads):
    gate = Gate()
    first, second = WorkerPool(gate, 1, threads=threads), WorkerPool(gate, 1, threads=threads)
    asked = [pool.submit(one(n), number) for n, pool in enumerate((first, first, second, second, first))]
    gate.open.release(len(asked))
    assert [future.result(LIMIT) for future in asked] == [0, 2, 4, 6, 8]
    assert gate.order == [0, 1, 2, 3, 4]
    first.close()
    second.close()


def test_priorities_of_one_model_do_not_hold_up_another(threads):
    gate = Gate()
    first, second = WorkerPool(gate, 1, threads=threads), WorkerPool(gate, 1, threads=threads)
    asked = [first.submit(one(0), number)]
    until(lambda: gate.order == [0])
    asked += [first.submit(one(3), number), second.submit(one(1), number)]
    asked.append(first.submit(one(2), number, priority=-1))
    gate.open.release(4)
    assert [future.result(LIMIT) for future in asked] == [0, 6, 2, 4]
    assert gate.order == [0, 1, 2, 3]
    first.close()
    second.close()


def test_a_closed_model_leaves_the_threads_to_the_others(threads):
    gate = Gate()
    gate.open.release(2)
    closed, open_one = WorkerPool(gate, 1, threads=threads), WorkerPool(gate, 1, threads=threads)
    assert closed.submit(one(1), number).result(LIMIT) == 2
    closed.close()
    assert open_one.submit(one(2), number).result(LIMIT) == 4
    assert all(thread.is_alive() for thread in threads._threads)
    open_one.close()


def test_workers_run_on_their_cores_in_shared_threads(threads):
    gate, seen = Gate(), []
    gate.open.release(1)
    compute = gate.compute
    gate.compute = lambda *given: (seen.append(os.sched_getaffinity(0)), compute(*given))[1]
    core = min(os.sched_getaffinity(0))
    pool = WorkerPool(gate, 1, [core], threads=threads)
    pool.submit(one(1), number).result(LIMIT)
    assert seen == [{core}]
    pool.close()


def test_callers_serve_the_queue_if_the_system_starts_no_thread(threads, monkeypatch):
    def fail(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    gate = Gate()
    gate.open.release(2000)
    pool = WorkerPool(gate, 1, threads=threads)
    pool._workers[0].lock.acquire()  # a request runs
    waiting = [pool.submit(one(n), number) for n in range(1000)]
    pool._release(pool._workers[0])
    assert [future.result(LIMIT) for future in waiting] == [2 * n for n in range(1000)]
    pool.close()


def test_idle_threads_do_not_keep_a_process_that_ends():
    code = (
        "from tests.serving.test_thread_pool import *\n"
        "threads, gate = ThreadPool(), Gate()\n"
        "gate.open.release(1)\n"
        "pool = WorkerPool(gate, 2, threads=threads)\n"
        "print(pool.submit(one(1), number).result())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr


def test_a_model_that_nobody_refers_to_ends_its_threads():
    gate = Gate()
    gate.open.release(1)
    pool = WorkerPool(gate, 1)
    assert pool.submit(one(1), lambda results: np.float32(number(results))).result(LIMIT) == 2
    [thread] = pool._threads._threads
    del pool
    thread.join(LIMIT)
    assert not thread.is_alive()
