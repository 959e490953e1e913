"""Communication on GPUs, for ranks not started by mpirun: collectives by torch's NCCL, the rest by sockets.

Segments return results in host memory; collectives copy them to the GPU and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from pinnace.distributed.communicator import Link, Ranks, as_bytes
from pinnace.distributed.sockets import Sockets
from pinnace.distributed.tables import Rendezvous
from pinnace.distributed.watch import Watch
from pinnace.types import Array

Torch = Any
"""A module or object of torch, which has no types here."""


def has_nccl() -> bool:
    """Return True if torch has CUDA, a GPU, and NCCL."""
    if not find_spec("torch"):
        return False
    import torch

    return bool(torch.cuda.is_available() and torch.distributed.is_nccl_available())


class Nccl(Sockets):
    """See `Communicator`. Ranks meet and compare models through sockets."""

    name = "torch.distributed: NCCL"

    def __init__(self, meeting: Rendezvous, device_id: int, seconds: float) -> None:
        import torch.distributed as dist

        super().__init__(meeting, seconds)
        self._device_id, self._dist, self._links = device_id, dist, 0
        # The store in which members of a group find each other; it has no secret.
        is_first, host = self.rank == 0, self._hosts[0]
        store = dist.TCPStore(host, 0, self.size, True, wait_for_workers=False) if is_first else None
        port = int(self.gather(str(store.port) if store else "")[0])
        self._store = store or dist.TCPStore(host, port, self.size, False)

    def link(self, groups: Sequence[Ranks]) -> Link:
        """Create an NCCL group for each group."""
        host, made = super().link(groups), {}
        self._links += 1
        for group in groups:
            if self.rank in group:
                name = f"{self._links}/{'-'.join(map(str, group))}"
                store, place = self._dist.PrefixStore(name, self._store), group.index(self.rank)
                made[group] = self._dist.ProcessGroupNCCL(store, place, len(group))
        return _NcclLink(host, made, _GpuBuffers(self._device_id), self._dist, self.watch)


class _GpuBuffers:
    """Copies of arrays in the memory of a GPU during a collective."""

    def __init__(self, number: int) -> None:
        import torch

        self._torch, self._device = torch, torch.device("cuda", number)

    def given(self, array: Array) -> Torch:
        """Copy an array to the GPU."""
        return self._torch.from_numpy(array if array.flags.writeable else array.copy()).to(self._device)

    def empty_like(self, array: Array) -> Torch:
        """Allocate GPU memory for a result."""
        return self._torch.empty_like(self._torch.from_numpy(array), device=self._device)

    def taken(self, tensor: Torch, array: Array) -> None:
        """Copy a result to host memory."""
        self._torch.from_numpy(array).copy_(tensor)


class _NcclLink:
    """See `Link`."""

    def __init__(
        self, host: Link, groups: dict[Ranks, Torch], device: _GpuBuffers, dist: Torch, watch: Watch
    ) -> None:
        self._host, self._groups, self._device = host, groups, device
        self._dist, self._watch = dist, watch
        self.exchange, self.barrier = host.exchange, host.barrier
        kinds = dist.ReduceOp
        self._ops = {"sum": kinds.SUM, "max": kinds.MAX, "min": kinds.MIN, "prod": kinds.PRODUCT}

    def all_reduce(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        options, there = self._dist.AllreduceOptions(), self._device.given(x)
        options.reduceOp = self._ops[op]
        self._run(group, lambda: self._groups[group].allreduce([there], options))
        self._device.taken(there, out)

    def all_gather(self, group: Ranks, x: Array, out: Array) -> None:
        self._moved(group, x, out, lambda to, of: self._groups[group]._allgather_base(to, of))

    def reduce_scatter(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        options = self._dist.ReduceScatterOptions()
        options.reduceOp = self._ops[op]
        there, result = self._device.given(x), self._device.empty_like(out)
        self._run(group, lambda: self._groups[group]._reduce_scatter_base(result, there, options))
        self._device.taken(result, out)

    def broadcast(self, group: Ranks, x: Array, out: Array, root: int) -> None:
        options, there = self._dist.BroadcastOptions(), self._device.given(as_bytes(x))
        options.rootRank = group.index(root)
        self._run(group, lambda: self._groups[group].broadcast([there], options))
        self._device.taken(there, as_bytes(out))

    def all_to_all(self, group: Ranks, x: Array, out: Array) -> None:
        self._moved(group, x, out, lambda to, of: self._groups[group].alltoall_base(to, of, [], []))

    def _moved(self, group: Ranks, x: Array, out: Array, start: Callable[[Torch, Torch], Torch]) -> None:
        there, result = self._device.given(as_bytes(x)), self._device.empty_like(as_bytes(out))
        self._run(group, lambda: start(result, there))
        self._device.taken(result, as_bytes(out))

    def _run(self, group: Ranks, start: Callable[[], Torch]) -> None:
        """Run an operation while watching the ranks: NCCL itself would wait for a dead one."""
        try:
            self._watch.wait(start().is_completed, group)
        except RuntimeError as error:
            raise self._watch.lost(error) from None
