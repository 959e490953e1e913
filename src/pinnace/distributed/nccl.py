"""Communication on GPUs, for ranks not started by mpirun: collectives by torch's NCCL, the rest by sockets.

Segments return results in host memory; collectives copy them to the GPU and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from pinnace.distributed.communicator import Link, Ranks, as_bytes
from pinnace.distributed.rendezvous import Rendezvous
from pinnace.distributed.sockets import Sockets
from pinnace.distributed.watchdog import Watchdog
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

    def __init__(self, rendezvous: Rendezvous, device_id: int, seconds: float) -> None:
        import torch.distributed as dist

        super().__init__(rendezvous, seconds)
        self._device_id, self._dist, self._links = device_id, dist, 0
        # The store in which members of a group find each other; it has no secret.
        is_first, host = self.rank == 0, self._hosts[0]
        store = dist.TCPStore(host, 0, self.size, True, wait_for_workers=False) if is_first else None
        port = int(self.gather(str(store.port) if store else "")[0])
        self._store = store or dist.TCPStore(host, port, self.size, False)

    def link(self, groups: Sequence[Ranks]) -> Link:
        host, made = super().link(groups), {}
        self._links += 1
        for group in groups:
            if self.rank in group:
                name = f"{self._links}/{'-'.join(map(str, group))}"
                store, place = self._dist.PrefixStore(name, self._store), group.index(self.rank)
                made[group] = self._dist.ProcessGroupNCCL(store, place, len(group))
        return _NcclLink(host, made, self._device_id, self.watchdog)


class _NcclLink:
    """See `Link`."""

    def __init__(self, host: Link, groups: dict[Ranks, Torch], device_id: int, watchdog: Watchdog) -> None:
        import torch

        self._torch, self._dist, self._device = torch, torch.distributed, torch.device("cuda", device_id)
        self._groups, self._watchdog = groups, watchdog
        self.exchange, self.barrier = host.exchange, host.barrier
        kinds = self._dist.ReduceOp
        self._ops = {"sum": kinds.SUM, "max": kinds.MAX, "min": kinds.MIN, "prod": kinds.PRODUCT}

    def all_reduce(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        options = self._dist.AllreduceOptions()
        options.reduceOp = self._ops[op]
        self._run(group, x, out, lambda nccl, x, out: nccl.allreduce([out.copy_(x)], options))

    def all_gather(self, group: Ranks, x: Array, out: Array) -> None:
        self._run(group, as_bytes(x), as_bytes(out), lambda nccl, x, out: nccl._allgather_base(out, x))

    def reduce_scatter(self, group: Ranks, x: Array, out: Array, op: str) -> None:
        options = self._dist.ReduceScatterOptions()
        options.reduceOp = self._ops[op]
        self._run(group, x, out, lambda nccl, x, out: nccl._reduce_scatter_base(out, x, options))

    def broadcast(self, group: Ranks, x: Array, out: Array, root: int) -> None:
        options = self._dist.BroadcastOptions()
        options.rootRank = group.index(root)
        self._run(
            group, as_bytes(x), as_bytes(out), lambda nccl, x, out: nccl.broadcast([out.copy_(x)], options)
        )

    def all_to_all(self, group: Ranks, x: Array, out: Array) -> None:
        self._run(group, as_bytes(x), as_bytes(out), lambda nccl, x, out: nccl.alltoall_base(out, x, [], []))

    def _run(self, group: Ranks, x: Array, out: Array, start: Callable[[Torch, Torch, Torch], Torch]) -> None:
        """Run an operation on copies in the GPU, watching the ranks: NCCL would wait for a dead one."""
        given = self._torch.from_numpy(x if x.flags.writeable else x.copy()).to(self._device)
        target = self._torch.from_numpy(out)
        result = self._torch.empty_like(target, device=self._device)
        try:
            self._watchdog.wait(start(self._groups[group], given, result).is_completed, group)
        except RuntimeError as error:
            raise self._watchdog.lost(error) from None
        target.copy_(result)
