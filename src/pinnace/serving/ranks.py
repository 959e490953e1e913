"""A model that is cut into ranks: each is a process of this machine, and all compute each request.

After an error no collective can run, so one rank's error or end is that of all, and all are started again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

from pinnace.distributed.launch import variables_here
from pinnace.errors import ConfigError, DistributedError
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.serving.batching import Batching
from pinnace.serving.channel import Message
from pinnace.serving.processes import ProcessReplica, processes
from pinnace.serving.replicas import (
    Replica,
    ReplicaExecution,
    ReplicaLostError,
    ReplicaSet,
    ReplicaWorkerPool,
    T,
    Take,
)
from pinnace.types import Array


class RankedReplica(Replica):
    """All ranks of a model. They get the same inputs, and rank 0's outputs are the result."""

    def __init__(self, ranks: Sequence[ProcessReplica]) -> None:
        super().__init__(f"{ranks[0].device} in {len(ranks)} ranks")
        self._ranks = ranks
        self._threads = ThreadPoolExecutor(len(ranks), "pinnace-rank")

    def start(self) -> Message:
        """See `Replica`. Raises ConfigError if the ranks have different inputs."""
        for rank, variables in zip(self._ranks, variables_here(len(self._ranks)), strict=True):
            rank.variables = variables
        self._broken = False
        try:
            answers = self._all(lambda rank: rank.start())
            if any(one["inputs"] != answers[0]["inputs"] for one in answers):
                raise ConfigError(f"{self.device}: they have different inputs, and get the same")
        except BaseException:
            self.leave()
            for rank in self._ranks:
                rank.wait()
            raise
        self.pid = self._ranks[0].pid
        sums = {name: sum(one[name] for one in answers) for name in ("private", "files")}
        return {**answers[0], **sums}

    def _all(self, work: Callable[[ProcessReplica], Any]) -> list[Any]:
        """Return `work` of each rank. If one fails, the others are ended; raises what was the cause."""
        asked = [self._threads.submit(work, rank) for rank in self._ranks]
        first = wait(asked, return_when=FIRST_EXCEPTION).done
        errors = [error for one in first if (error := one.exception())]
        if errors:
            self.leave()
            wait(asked)
            raise min(errors, key=lambda error: isinstance(error, DistributedError))
        return [one.result() for one in asked]

    def run(self, arrays: Sequence[Array], take: Take[T], execution: ReplicaExecution) -> T:
        """See `Replica`; it cannot be stopped, as a rank waits for what the others send."""
        if self._broken:
            raise ReplicaLostError(f"{self.device} start again", harmless=True)
        try:
            results = self._all(
                lambda rank: rank.run(arrays, take if rank is self._ranks[0] else _nothing, _ToItsEnd())
            )
        except BaseException as error:
            self._broken = True
            self.leave()
            if isinstance(error, DistributedError):
                raise ReplicaLostError(str(error)) from None
            raise
        result: T = results[0]
        return result

    def wait(self) -> None:
        """See `Replica`: wait for the end of one rank, and end the others."""
        one_ended = threading.Event()

        def wait_for(rank: ProcessReplica) -> None:
            rank.wait()
            one_ended.set()

        threads = [threading.Thread(target=wait_for, args=(rank,), daemon=True) for rank in self._ranks]
        for thread in threads:
            thread.start()
        one_ended.wait()
        self.leave()
        for thread in threads:
            thread.join()

    def leave(self) -> None:
        for rank in self._ranks:
            rank.leave()

    def free(self) -> None:
        for rank in self._ranks:
            rank.free()

    def end(self) -> None:
        for rank in self._ranks:
            rank.ended.set()
        for rank in self._ranks:
            rank.end()


class _ToItsEnd(ReplicaExecution):
    """An execution that nobody stops."""

    def __init__(self) -> None:
        pass

    def stop_by(self, stop: Callable[[], None] | None) -> None:
        pass


def _nothing(results: Sequence[Array]) -> None:
    pass


def workers(
    files: Sequence[str], target: Target, settings: Settings, limit: int, batching: Batching | None
) -> ReplicaWorkerPool:
    """Return a worker that is a process for each rank's file."""
    one = target._replace(parallel_requests=1)
    ranks = [rank for file in files for rank in processes(file, [one], settings)]
    return ReplicaWorkerPool(ReplicaSet([RankedReplica(ranks)], tries=1), limit, batching)
