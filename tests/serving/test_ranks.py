"""Ranks that are stubs: what each gets, whose result counts, and what the failure of one means for all."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.waiting import LIMIT, in_thread, until

from pinnace.errors import ConfigError, DistributedError, EngineError
from pinnace.serving.ranks import RankedReplica
from pinnace.serving.replicas import ReplicaLostError

X = [np.ones(2)]


class Rank:
    """A rank that answers by its number times the input; `fails` is raised by its next start or run."""

    device = "cpu:0"

    def __init__(self, number, inputs="x"):
        self.number, self.pid, self.inputs, self.fails = number, 100 + number, inputs, None
        self.gone, self.ended, self.calls = threading.Event(), threading.Event(), []

    def _fail(self):
        if self.fails is not None:
            raise self.fails

    def start(self):
        self.gone.clear()
        self._fail()
        return {"inputs": self.inputs, "info": self.number, "private": 10, "files": self.number}

    def run(self, arrays, take, execution):
        execution.stop_by(None)
        self._fail()
        return take([self.number * array for array in arrays])

    def wait(self):
        self.calls.append("wait")
        assert self.gone.wait(LIMIT)

    def leave(self):
        self.calls.append("leave")
        self.gone.set()

    def free(self):
        self.calls.append("free")

    def end(self):
        self.calls.append("end")
        assert self.ended.is_set()


@pytest.fixture
def ranks():
    return [Rank(1), Rank(2), Rank(3)]


def test_all_ranks_compute_and_the_first_has_the_result(ranks):
    replica = RankedReplica(ranks)
    assert replica.device == "cpu:0 in 3 ranks"
    assert replica.start() == {"inputs": "x", "info": 1, "private": 30, "files": 6}
    assert replica.pid == 101
    assert [rank.variables["RANK"] for rank in ranks] == ["0", "1", "2"]
    assert {rank.variables["WORLD_SIZE"] for rank in ranks} == {"3"}
    assert len({rank.variables["MASTER_PORT"] for rank in ranks}) == 1
    found = replica.run(X, lambda results: results[0].tolist(), None)
    assert found == [1, 1]


def test_ranks_of_different_inputs_are_none_of_one_model(ranks):
    ranks[2].inputs = "y"
    with pytest.raises(ConfigError, match="cpu:0 in 3 ranks: they have different inputs"):
        RankedReplica(ranks).start()
    assert all(rank.calls[-1] == "wait" for rank in ranks)


def test_a_rank_that_does_not_start_ends_all_and_says_why(ranks):
    ranks[1].fails = ConfigError("no such option")
    replica = RankedReplica(ranks)
    with pytest.raises(ConfigError, match="no such option"):
        replica.start()
    assert all(rank.gone.is_set() and "wait" in rank.calls for rank in ranks)
    ranks[1].fails = None
    assert replica.start()["files"] == 6


@pytest.mark.parametrize("error", [EngineError("divided by zero"), DistributedError("rank 1 is gone")])
def test_an_error_of_one_rank_is_that_of_all_until_they_start_again(ranks, error):
    replica = RankedReplica(ranks)
    replica.start()
    ranks[1].fails = error
    is_lost = isinstance(error, DistributedError)
    with pytest.raises(ReplicaLostError if is_lost else EngineError, match=str(error)) as raised:
        replica.run(X, list, None)
    assert not getattr(raised.value, "harmless", False)
    assert all(rank.gone.is_set() for rank in ranks)
    ranks[1].fails = None
    with pytest.raises(ReplicaLostError, match="start again") as raised:
        replica.run(X, list, None)
    assert raised.value.harmless
    replica.start()
    assert replica.run(X, len, None) == 1


def test_the_end_of_one_rank_ends_all(ranks):
    replica = RankedReplica(ranks)
    replica.start()
    thread, _ = in_thread(replica.wait)
    until(lambda: all("wait" in rank.calls for rank in ranks))
    assert thread.is_alive()
    ranks[1].gone.set()
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert all(rank.gone.is_set() for rank in ranks)
    replica.free()
    replica.end()
    assert all(rank.calls[-2:] == ["free", "end"] for rank in ranks)
