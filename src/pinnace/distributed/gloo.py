"""Communication through torch.distributed's gloo, for ranks not started by mpirun."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import numpy as np

from pinnace.distributed.communicator import Link, Message, Ranks, as_bytes, gathered
from pinnace.distributed.roster import Roster
from pinnace.distributed.tables import Rendezvous
from pinnace.distributed.watch import Watch
from pinnace.errors import ConfigError, DistributedError
from pinnace.types import Array

Torch = Any
"""A module or object of torch, which has no types here."""


class Gloo:
    """See `Communicator`."""

    name = "torch.distributed: gloo"

    def __init__(self, meeting: Rendezvous, seconds: float) -> None:
        self.rank, self.size = meeting.rank, len(meeting.hosts)
        self._meeting, self._limit = meeting, timedelta(seconds=seconds)
        self._dist = _distributed()
        self._links = 0
        self._store = self._connect(seconds)
        with Roster(self._store.get("pinnace/job").decode(), self.rank, self.size) as roster:
            self.watch = Watch(roster, self.rank, self.size, seconds)
            self._world = self._group("world", tuple(range(self.size)))
            self._run(lambda: self._world.barrier())

    def gather(self, text: str) -> list[str]:
        """Return the texts of all ranks."""

        def all_gather(x: Array, out: Array) -> None:
            self._run(lambda: self._world._allgather_base(_tensor(out).view(-1), _tensor(x)))

        return gathered(text, self.size, all_gather, self.watch)

    def link(self, groups: Sequence[Ranks]) -> Link:
        """Create a gloo group for each group, and one of all ranks for exchanges."""
        self._links += 1
        names = {group: f"link{self._links}/{'-'.join(map(str, group))}" for group in groups}
        made = {group: self._group(name, group) for group, name in names.items() if self.rank in group}
        everyone = self._group(f"link{self._links}", tuple(range(self.size)))
        return _GlooLink(self._dist, everyone, made, self.watch)

    def _connect(self, seconds: float) -> Torch:
        """Connect to the store of rank 0, and wait for all ranks."""
        deadline = time.monotonic() + seconds
        where = f"rank 0 listens on {self._meeting}"
        try:
            store = self._dist.TCPStore(
                self._meeting.hosts[0],
                self._meeting.port,
                self.size,
                self.rank == 0,
                timeout=self._limit,
                wait_for_workers=False,
            )
        except RuntimeError as error:
            text = str(error).splitlines()[0]
            raise DistributedError(
                f"rank {self.rank}: rank 0 did not connect within {seconds:g} s ({where}; {text})"
                if self.rank
                else f"rank 0 cannot listen on {self._meeting}: {text}"
            ) from None
        if self.rank == 0:
            store.set("pinnace/job", uuid4().hex)
        store.set(f"pinnace/{self.rank}", "here")
        missing = list(range(self.size))
        while missing := [rank for rank in missing if not store.check([f"pinnace/{rank}"])]:
            if time.monotonic() > deadline:
                raise self._meeting.lacking(missing, seconds)
            time.sleep(0.005)
        return store

    def store(self, name: str) -> Torch:
        """Return the store in which a group finds its members."""
        return self._dist.PrefixStore(name, self._store)

    def _group(self, name: str, group: Ranks) -> Torch:
        kind = self._dist.ProcessGroupGloo
        options = kind._Options()
        options._devices = [kind.create_device(hostname=self._meeting.hosts[self.rank], lazy_init=False)]
        options._timeout = timedelta(seconds=self.watch.seconds)
        try:
            return kind(self.store(name), group.index(self.rank), len(group), options)
        except RuntimeError as error:
            raise self.watch.lost(error) from None

    def _run(self, start: Callable[[], Torch]) -> None:
        _wait(start, self.watch, range(self.size))


class _GlooLink:
    def __init__(self, dist: Torch, world: Torch, groups: dict[Ranks, Torch], watch: Watch) -> None:
        self._world, self._groups, self._rank, self._watch = world, groups, watch.rank, watch
        self._broadcast, self._reduce = dist.BroadcastOptions, dist.AllreduceOptions
        self._ops = reductions(dist)

    def all_reduce(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        np.copyto(out, x)
        options = self._reduce()
        options.reduceOp = self._ops[op]
        self._run(group, lambda: self._groups[group].allreduce([_tensor(out)], options))

    def all_gather(self, group: Ranks, x: Array, out: Array) -> None:
        self._run(group, lambda: self._groups[group]._allgather_base(_bytes(out), _bytes(x)))

    def reduce_scatter(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        # gloo supports the sum only
        whole = np.empty_like(x)
        self.all_reduce(group, x, whole, op)
        np.copyto(out, whole.reshape(len(group), *out.shape)[group.index(self._rank)])

    def broadcast(self, group: Ranks, x: Array, out: Array, root: int) -> None:
        if root == self._rank:
            np.copyto(out, x)
        options = self._broadcast()
        options.rootRank = group.index(root)
        self._run(group, lambda: self._groups[group].broadcast([_bytes(out)], options))

    def all_to_all(self, group: Ranks, x: Array, out: Array) -> None:
        self._run(group, lambda: self._groups[group].alltoall_base(_bytes(out), _bytes(x), [], []))

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], tag: int) -> None:
        started = [(rank, self._world.recv([_bytes(array)], rank, tag)) for rank, array in receives]
        started += [(rank, self._world.send([_bytes(array)], rank, tag)) for rank, array in sends]
        for rank, work in started:
            self._run((rank,), lambda work=work: work)  # type: ignore[misc]

    def barrier(self, group: Ranks) -> None:
        self._run(group, lambda: self._groups[group].barrier())

    def _run(self, group: Ranks, start: Callable[[], Torch]) -> None:
        _wait(start, self._watch, group)


def _wait(start: Callable[[], Torch], watch: Watch, ranks: Sequence[int]) -> None:
    """Run an operation to its end; gloo itself notices when a rank ends."""
    begun = time.monotonic()
    try:
        start().wait()
    except RuntimeError as error:
        if time.monotonic() - begun >= watch.seconds:
            raise watch.late(ranks) from None
        raise watch.lost(error) from None


def _tensor(array: Array) -> Torch:
    import torch

    if not array.flags.writeable:
        array = array.copy()  # torch has no read-only tensors
    return torch.from_numpy(array)


def _bytes(array: Array) -> Torch:
    return _tensor(as_bytes(array))


def reductions(dist: Torch) -> dict[str, Torch]:
    """Return torch's reductions by the names of ours."""
    kinds = dist.ReduceOp
    return {"sum": kinds.SUM, "max": kinds.MAX, "min": kinds.MIN, "prod": kinds.PRODUCT}


def _distributed() -> Torch:
    try:
        import torch.distributed as dist
    except ImportError as error:
        raise ConfigError(
            f"torch.distributed is selected for the ranks, and it cannot be imported: {error}"
        ) from None
    return dist
