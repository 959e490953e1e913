"""Choice of the communicator: MPI under mpirun; sockets or NCCL by a rank table or environment variables."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from pinnace.distributed.communicator import Communicator
from pinnace.distributed.mpi import Mpi
from pinnace.distributed.nccl import Nccl, has_nccl
from pinnace.distributed.sockets import Sockets
from pinnace.distributed.tables import BASE_PORT, Rendezvous, devices_of, meeting
from pinnace.errors import ConfigError
from pinnace.options.launcher import number
from pinnace.options.settings import Settings
from pinnace.options.target import Target

COMMUNICATOR = "PINNACE_COMMUNICATOR"
"""The variable that selects the communicator of ranks not started by mpirun."""
_made: dict[Rendezvous | None, Communicator] = {}
"""Communicators of this process, by rendezvous; the key is None for MPI."""
_making: dict[Rendezvous | None, threading.RLock] = {}
"""Locks while a communicator is created: concurrent builds in threads share it."""
TABLE = "RANK_TABLE_FILE"
"""The variable with the path of a rank table, as in scripts for Ascend."""
_SECONDS = 300
"""Time limit of a collective in seconds, unless `[distributed] timeout` sets it."""

_HOW = (
    "start the ranks by mpirun -n N or pinnace launch -n N, or name a rank table as rank_table_file of "
    "[ascend_context] or RANK_TABLE_FILE and set context.ascend.rank_id"
)


def communicator(target: Target, settings: Settings) -> Communicator:
    """Return the communicator of this process, as a launcher, a rank table or variables define it.

    It is created once per process; the last build sets its time limit. Raises `ConfigError` if the number of
    ranks is unknown or contradictory, and `DistributedError` if ranks are missing.
    """
    seconds = settings.number("distributed", "timeout") or _SECONDS
    table = _rank_table(settings)

    def once(where: Rendezvous | None, make: Callable[[], Communicator]) -> Communicator:
        with _making.setdefault(where, threading.RLock()):
            if where not in _made:
                _made[where] = make()
        _made[where].watch.seconds = seconds
        return _made[where]

    def by_hand(meeting: Rendezvous) -> Communicator:
        if by_nccl(os.environ.get(COMMUNICATOR, ""), target.device, has_nccl):
            return once(meeting, lambda: Nccl(meeting, target.device_id, seconds))
        return once(meeting, lambda: Sockets(meeting, seconds))

    own = {"context.ascend.rank_id": target.rank, **_said("RANK_ID")}
    sizes = {"context.ascend.group_size": target.ranks, **_said("RANK_SIZE")}
    if table:
        sizes[str(table)] = len(devices_of(table))
    if number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        _one("the rank", own | _said("OMPI_COMM_WORLD_RANK", "PMI_RANK"))
        _one("the number of ranks", sizes | _said("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"))
        return once(None, lambda: Mpi(seconds))
    own |= _said("RANK")
    _one("the number of ranks", sizes | _said("WORLD_SIZE"))
    rank = _one("the rank", own)
    if table:
        on_ascend = target.device == "ascend" or target.simulates.startswith("ascend")
        return by_hand(meeting(table, rank or 0, target.device_id if on_ascend else None))
    if os.environ.get("WORLD_SIZE") and os.environ.get("MASTER_ADDR"):
        return by_hand(_of_environment())
    raise ConfigError(f"the model is one rank's part of a whole, but this process has no other ranks: {_HOW}")


def _said(*names: str) -> dict[str, int | None]:
    """Return those of these environment variables that are numbers."""
    return {name: number(name) for name in names if os.environ.get(name, "").isdecimal()}


def _one(what: str, said: dict[str, int | None]) -> int | None:
    """Return the one value of all sources. Raises ConfigError if two differ."""
    known = {where: value for where, value in said.items() if value is not None}
    (first, value), *others = known.items() or [("", None)]
    for where, other in others:
        if other != value:
            raise ConfigError(f"{what} is {value} in {first}, but {other} in {where}: leave one out")
    return value


def _rank_table(settings: Settings) -> Path | None:
    """Return the rank table of the settings or the environment. Raises ConfigError if they differ."""
    given, variable = settings.get("ascend_context", "rank_table_file"), os.environ.get(TABLE, "")
    named, other = _beside(given, settings) if given else None, Path(variable) if variable else None
    if named and other and named.resolve() != other.resolve():
        raise ConfigError(
            f"rank_table_file of [ascend_context] is {named}, and {TABLE} in the environment is {other}: "
            f"leave one out"
        )
    return named or other


def by_nccl(wanted: str, device: str, has_nccl: Callable[[], bool]) -> bool:
    """Return True for NCCL, False for sockets alone.

    `wanted` is "nccl", "sockets", or "": NCCL on GPUs where torch has it. `device` is the kind of device.
    `has_nccl`, which imports torch, is called only if it matters. Raises `ConfigError`.
    """
    if wanted not in ("", "nccl", "sockets"):
        raise ConfigError(f"{COMMUNICATOR} is {wanted!r}: it must be nccl or sockets")
    if wanted == "nccl" and not has_nccl():
        raise ConfigError(f"{COMMUNICATOR} is nccl, which needs a GPU and torch with CUDA: pip install torch")
    return wanted == "nccl" or (not wanted and device == "gpu" and has_nccl())


def _beside(path: str, settings: Settings) -> Path:
    """Return a path as given, or relative to the folder of the .ini file."""
    beside = Path(settings.folder, path)
    return beside if beside.exists() and not Path(path).exists() else Path(path)


def _of_environment() -> Rendezvous:
    """Return the rendezvous that torchrun and `pinnace launch` define in the environment."""
    address, port = os.environ["MASTER_ADDR"], number("MASTER_PORT", default=BASE_PORT)
    rank, size = number("RANK"), number("WORLD_SIZE")
    if not rank < size:
        said = ", ".join(f"{name} is {os.environ.get(name)!r}" for name in ("RANK", "WORLD_SIZE"))
        raise ConfigError(f"{said}: in a world of N ranks each has a number from 0 to N - 1")
    hosts = [address] * size
    if rank:
        hosts[rank] = _own_address(address)
    return Rendezvous(rank, tuple(hosts), port)


def _own_address(other: str) -> str:
    """Return the address of this machine in the network of another one."""
    try:
        found = socket.getaddrinfo(other, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(found[0], socket.SOCK_DGRAM) as way:
            way.connect(found[4])  # sends nothing
            return str(way.getsockname()[0])
    except OSError as error:
        raise ConfigError(f"MASTER_ADDR: {other!r} is not known here ({error.strerror or error})") from None
