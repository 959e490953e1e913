"""Communication through mpi4py, for ranks started by mpirun."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import uuid4

import numpy as np

from pinnace.distributed.communicator import Communicator, Link, Message, Ranks, as_bytes
from pinnace.distributed.watchdog import Watchdog, named, table_of
from pinnace.errors import ConfigError, DistributedError
from pinnace.options.launcher import number
from pinnace.types import Array

_RING = "OMPI_MCA_coll_libnbc_iallreduce_algorithm", "1"
"""Variable of Open MPI: parts of a sum go round. For less than 4 ranks it would choose a tree, in which whole
values travel: 4 MB take 1.9 times as long."""
_GRACE = 1.0
"""Seconds that a failed rank stays, so that others can report the failure before mpirun ends them."""

Mpi4py = Any
"""A module or object of mpi4py, which has no types here."""


class Mpi(Communicator):
    """See `Communicator`."""

    def __init__(self, seconds: float) -> None:
        self.rank = number("OMPI_COMM_WORLD_RANK", "PMI_RANK")
        self.size = number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", default=1)
        if self.size < 4:
            os.environ.setdefault(*_RING)
        self.watchdog = Watchdog(_table(), self.rank, self.size, seconds)
        try:
            # MPI_Init would wait for a missing rank for ever.
            local = self.size if number("OMPI_COMM_WORLD_LOCAL_SIZE") == self.size else 0
            self.watchdog.await_all(range(local), "ranks of mpirun")
            mpi = _mpi4py()
            self._mpi: Mpi4py = mpi
            self.name = " ".join(("MPI:", mpi.Get_library_version().split(",")[0]))
            self._world = mpi.COMM_WORLD.Dup()
            self.everyone = self.link([tuple(range(self.size))])
        finally:
            self.watchdog.unlink()
        atexit.register(self._leave)
        self._report_when_ended()

    def link(self, groups: Sequence[Ranks]) -> Link:
        made: dict[Ranks, Mpi4py] = {}
        for group in groups:
            inside = self.rank in group
            color = 0 if inside else self._mpi.UNDEFINED
            made[group] = self._world.Split(color, group.index(self.rank) if inside else 0)
        return _MpiLink(self._mpi, self._world.Dup(), made, self.watchdog)

    def _leave(self) -> None:
        """Finalize MPI, but not after a failure: MPI would wait for ranks that have ended."""
        error = getattr(sys, "last_value", None)  # the printed error that ends the process
        if error is not None:
            self.watchdog.fail(error)
        if not self.watchdog.is_broken:
            self._mpi.Finalize()
            return
        time.sleep(_GRACE)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)

    def _report_when_ended(self) -> None:
        """Print where this rank was when mpirun ends it, because another rank died."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return

        def report(number: int, frame: FrameType | None) -> None:
            ended = self.watchdog.ended()
            cause = f"; {named(ended)} has ended" if ended else ""
            print(
                f"pinnace: mpirun ends rank {self.rank} in {self.watchdog.operation}{cause}", file=sys.stderr
            )
            sys.stderr.flush()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

        signal.signal(signal.SIGTERM, report)


class _MpiLink:
    def __init__(self, mpi: Mpi4py, world: Mpi4py, groups: dict[Ranks, Mpi4py], watchdog: Watchdog) -> None:
        self._mpi, self._world, self._groups = mpi, world, groups
        self._rank, self._watchdog = watchdog.rank, watchdog
        self._ops = {"sum": mpi.SUM, "max": mpi.MAX, "min": mpi.MIN, "prod": mpi.PROD}

    def all_reduce(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        self._run(group, lambda: self._groups[group].Iallreduce(x, out, self._ops[op]))

    def all_gather(self, group: Ranks, x: Array, out: Array) -> None:
        self._run(group, lambda: self._groups[group].Iallgather(as_bytes(x), as_bytes(out)))

    def reduce_scatter(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        self._run(group, lambda: self._groups[group].Ireduce_scatter_block(x, out, self._ops[op]))

    def broadcast(self, group: Ranks, x: Array, out: Array, root: int) -> None:
        if root == self._rank:
            np.copyto(out, x)
        self._run(group, lambda: self._groups[group].Ibcast(as_bytes(out), group.index(root)))

    def all_to_all(self, group: Ranks, x: Array, out: Array) -> None:
        self._run(group, lambda: self._groups[group].Ialltoall(as_bytes(x), as_bytes(out)))

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], tag: int) -> None:
        started = [self._world.Irecv(as_bytes(array), rank, tag) for rank, array in receives]
        started += [self._world.Isend(as_bytes(array), rank, tag) for rank, array in sends]
        ranks = tuple({rank for rank, _ in (*sends, *receives)})
        for request in started:
            self._run(ranks, lambda request=request: request)  # type: ignore[misc]

    def barrier(self, group: Ranks) -> None:
        self._run(group, lambda: self._groups[group].Ibarrier())

    def _run(self, group: Ranks, start: Callable[[], Mpi4py]) -> None:
        try:
            self._watchdog.wait(start().Test, group)
        except self._mpi.Exception as error:
            raise self._watchdog.lost(error) from None


def _table() -> Path:
    """Return the path of the ranks' table: in the folder of Open MPI's mpirun, which the user alone can open,
    or one that rank 0 names when MPI has begun.
    """
    if folder := os.environ.get("PMIX_SERVER_TMPDIR"):
        return Path(folder, "pinnace")
    return table_of(_mpi4py().COMM_WORLD.bcast(uuid4().hex))


def _mpi4py() -> Mpi4py:
    try:
        import mpi4py

        mpi4py.rc.finalize = False
        from mpi4py import MPI
    except ImportError as error:
        raise ConfigError(
            f"this process was started by mpirun, and mpi4py is missing ({error}): pip install mpi4py"
        ) from None
    except RuntimeError as error:
        raise DistributedError(f"MPI cannot start: {error}") from None
    if not MPI.Is_initialized():
        MPI.Init_thread()
    return MPI
