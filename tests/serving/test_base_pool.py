"""The workers of a pool's groups, and the cores that they are bound to."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.waiting import LIMIT

from pinnace.engines.protocol import HERE
from pinnace.errors import ModelStateError
from pinnace.serving.base_pool import WorkerGroup
from pinnace.serving.pool import WorkerPool
from pinnace.serving.worker import Worker


def executable(queues=False):
    execution = SimpleNamespace(state=[], run=None)
    return SimpleNamespace(
        inputs=(), outputs=(), info={}, lost_by_fork="", queues=queues, is_light=False, runs_in=HERE,
        close=lambda: None, execution=lambda state=None: execution,
    )  # fmt: skip


def test_workers_are_bound_to_the_cores_in_turn():
    workers = WorkerGroup(executable(), 3, (5, 7)).workers(1, Worker)
    assert [worker.cores for worker in workers] == [{5}, {7}, {5}]
    assert [worker.group for worker in workers] == [1, 1, 1]
    assert [worker.cores for worker in WorkerGroup(executable(), 2).workers(0, Worker)] == [set(), set()]


def test_devices_take_turns():
    pool = WorkerPool(executable(), 1, others=[WorkerGroup(executable(), 3), WorkerGroup(executable(), 2)])
    assert [worker.group for worker in pool._workers] == [0, 1, 2, 1, 2, 1]
    assert (pool.stats().workers, len(pool.executables)) == (6, 3)
    assert 0 <= pool.stats().seconds < LIMIT
    pool.close()


def test_an_engine_that_queues_gets_four_requests_a_worker_up_to_the_limit():
    for limit, count in ((0, 8), (3, 5), (100, 8)):
        pool = WorkerPool(executable(queues=True), 2, limit=limit)
        assert (len(pool._workers), pool.stats().workers) == (count, 2)
        pool.close()


def test_a_forked_pool_goes_on_unless_it_ran_or_its_engine_cannot():
    idle, running, waiting = (WorkerPool(executable(), 1) for _ in range(3))
    idle.renew()
    idle._check_open()
    running._workers[0].lock.acquire()
    running.renew()
    waiting._waiting.append(None)
    waiting.renew()
    assert not waiting._waiting
    for pool in (running, waiting):
        with pytest.raises(ModelStateError, match="forked while the model ran a prediction"):
            pool._check_open()
        pool.renew()
    bound = executable()
    bound.lost_by_fork = "its devices belong to another process"
    lost = WorkerPool(bound, 1)
    lost.renew()
    with pytest.raises(ModelStateError, match="its devices belong to another process"):
        lost._check_open()
    for pool in (idle, running, waiting, lost):
        pool.close()
