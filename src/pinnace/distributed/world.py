"""The ranks that run one model with this process: by MPI under mpirun, else by NCCL or sockets."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from pinnace.distributed.communicator import Communicator
from pinnace.distributed.mpi import Mpi
from pinnace.distributed.nccl import Nccl, has_nccl
from pinnace.distributed.rendezvous import Rendezvous, devices_of, of_environment, of_rank_table
from pinnace.distributed.sockets import Sockets
from pinnace.errors import ConfigError
from pinnace.options.launcher import number
from pinnace.options.settings import Settings
from pinnace.options.target import Target

COMMUNICATOR = "PINNACE_COMMUNICATOR"
"""The variable that selects the communicator of ranks not started by mpirun."""
RANK_TABLE = "RANK_TABLE_FILE"
"""The variable with the path of a rank table, as in scripts for Ascend."""
_SECONDS = 300
"""Time limit of a collective in seconds, unless `[distributed] timeout` sets it."""

_communicators: dict[Rendezvous | None, Communicator] = {}
"""Communicators of this process, by rendezvous; the key is None for MPI."""
_locks: dict[Rendezvous | None, threading.RLock] = {}
"""Locks while a communicator is created: concurrent builds in threads share it."""


def communicator(target: Target, settings: Settings) -> Communicator:
    """Return the communicator of this process, as a launcher, a rank table or variables define it.

    It is created once per process; the last build sets its time limit. Raises `ConfigError` if the number of
    ranks is unknown or contradictory, and `DistributedError` if ranks are missing.
    """
    seconds = settings.number("distributed", "timeout") or _SECONDS
    rendezvous = _rendezvous(target, settings)

    def create() -> Communicator:
        if rendezvous is None:
            return Mpi(seconds)
        if uses_nccl(os.environ.get(COMMUNICATOR, ""), target.device, has_nccl):
            return Nccl(rendezvous, target.device_id, seconds)
        return Sockets(rendezvous, seconds)

    with _locks.setdefault(rendezvous, threading.RLock()):
        if rendezvous not in _communicators:
            _communicators[rendezvous] = create()
    _communicators[rendezvous].watchdog.seconds = seconds
    return _communicators[rendezvous]


def _rendezvous(target: Target, settings: Settings) -> Rendezvous | None:
    """Return the place where the ranks meet; None under mpirun."""
    table = _rank_table(settings)
    ranks = {"context.ascend.rank_id": target.rank, **_numbers("RANK_ID")}
    sizes = {"context.ascend.group_size": target.ranks, **_numbers("RANK_SIZE")}
    if table:
        sizes[str(table)] = len(devices_of(table))
    by_mpirun = bool(number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"))
    ranks |= _numbers("OMPI_COMM_WORLD_RANK", "PMI_RANK") if by_mpirun else _numbers("RANK")
    sizes |= _numbers("OMPI_COMM_WORLD_SIZE", "PMI_SIZE") if by_mpirun else _numbers("WORLD_SIZE")
    _agreed("the number of ranks", sizes)
    rank = _agreed("the rank", ranks)
    if by_mpirun:
        return None
    if table:
        on_ascend = target.device == "ascend" or target.simulates.startswith("ascend")
        return of_rank_table(table, rank or 0, target.device_id if on_ascend else None)
    if os.environ.get("WORLD_SIZE") and os.environ.get("MASTER_ADDR"):
        return of_environment()
    raise ConfigError(
        "the model is one rank's part of a whole, but this process has no other ranks: start the ranks by "
        "mpirun -n N or pinnace launch -n N, or name a rank table as rank_table_file of [ascend_context] or "
        f"{RANK_TABLE} and set context.ascend.rank_id"
    )


def _numbers(*names: str) -> dict[str, int | None]:
    """Return those of these environment variables that are numbers."""
    return {name: number(name) for name in names if os.environ.get(name, "").isdecimal()}


def _agreed(what: str, sources: Mapping[str, int | None]) -> int | None:
    """Return the one value of all sources. Raises ConfigError if two differ."""
    given = {source: value for source, value in sources.items() if value is not None}
    (first, value), *others = given.items() or [("", None)]
    for source, other in others:
        if other != value:
            raise ConfigError(f"{what} is {value} in {first}, but {other} in {source}: leave one out")
    return value


def _rank_table(settings: Settings) -> Path | None:
    """Return the rank table of the settings or the environment. Raises ConfigError if they differ."""
    given, variable = settings.get("ascend_context", "rank_table_file"), os.environ.get(RANK_TABLE, "")
    option, other = settings.path(given) if given else None, Path(variable) if variable else None
    if option and other and option.resolve() != other.resolve():
        raise ConfigError(
            f"rank_table_file of [ascend_context] is {option}, and {RANK_TABLE} in the environment is "
            f"{other}: leave one out"
        )
    return option or other


def uses_nccl(wanted: str, device: str, has_nccl: Callable[[], bool]) -> bool:
    """Return True for NCCL, False for sockets alone.

    `wanted` is "nccl", "sockets", or "": NCCL on GPUs where torch has it. `device` is the kind of device.
    `has_nccl`, which imports torch, is called only if it matters. Raises `ConfigError`.
    """
    if wanted not in ("", "nccl", "sockets"):
        raise ConfigError(f"{COMMUNICATOR} is {wanted!r}: it must be nccl or sockets")
    if wanted == "nccl" and not has_nccl():
        raise ConfigError(f"{COMMUNICATOR} is nccl, which needs a GPU and torch with CUDA: pip install torch")
    return wanted == "nccl" or (not wanted and device == "gpu" and has_nccl())
