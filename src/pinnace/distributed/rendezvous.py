"""The place where ranks find each other, by HCCL's rank table or the environment, as torchrun sets it."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinnace.distributed.watchdog import named
from pinnace.errors import ConfigError, DistributedError
from pinnace.options.launcher import number

BASE_PORT = 60000
"""HCCL's default; the variable HCCL_IF_BASE_PORT overrides it."""


@dataclass(frozen=True)
class Rendezvous:
    """The addresses of all ranks, and the port on which rank 0 listens."""

    rank: int
    hosts: tuple[str, ...]
    port: int

    def __post_init__(self) -> None:
        """Raise ConfigError for an invalid port."""
        if not 0 < self.port < 1 << 16:
            raise ConfigError(
                f"rank 0 cannot listen on {self}: ports are 1 to 65535; this one comes from MASTER_PORT or, "
                f"with a rank table, is HCCL_IF_BASE_PORT plus the device_id of rank 0"
            )

    def __str__(self) -> str:
        return f"{self.hosts[0]}:{self.port}"

    def missing(self, ranks: Sequence[int], seconds: float) -> DistributedError:
        """Return the error for ranks that have not come in time."""
        return DistributedError(
            f"rank {self.rank}: {named(ranks)} did not connect within {seconds:g} s "
            f"(rank 0 listens on {self})"
        )


def of_rank_table(path: Path, rank: int, ascend: int | None = None) -> Rendezvous:
    """Return the rendezvous of a rank in a rank table. Raises ConfigError if the table cannot be used.

    `ascend` is the rank's Ascend device, if it runs on one, which must match the table. The address is that
    of the server (`host_ip`, or `server_id` if that is an address), else the device's; rank 0 listens on the
    port `HCCL_IF_BASE_PORT` (60000) plus its `device_id`.
    """
    devices = devices_of(path)
    if rank not in devices:
        raise ConfigError(f"{path}: has ranks 0 to {len(devices) - 1}, and context.ascend.rank_id is {rank}")
    if ascend not in (None, devices[rank][1]):
        raise ConfigError(
            f"{path}: says that rank {rank} runs on device_id {devices[rank][1]}, and "
            f"context.ascend.device_id is {ascend}"
        )
    port = number("HCCL_IF_BASE_PORT", default=BASE_PORT) + devices[0][1]
    return Rendezvous(rank, tuple(devices[r][0] for r in range(len(devices))), port)


def devices_of(path: Path) -> dict[int, tuple[str, int]]:
    """Return address and device number by rank from a rank table. Raises ConfigError.

    The format is HCCL's (CANN's "HCCL Collective Communication Library", ranktable file, templates 1 and 2):
    `server_list[].device[]` with `device_id`, `device_ip` and `rank_id`, or the older
    `group_list[].instance_list[].devices[]`, where `rank_id` belongs to the instance, or is omitted: then
    ranks are counted in order.
    """
    table = _table(path)
    if table.get("status", "completed") != "completed":
        raise ConfigError(f"{path}: status is {table['status']!r}: the table is not complete yet")
    found: dict[int, tuple[str, int]] = {}
    try:
        for server, device in _listed(table):
            rank = int(device.get("rank_id", server.get("rank_id", len(found))))
            if rank in found:
                raise ConfigError(f"{path}: rank_id {rank} is given twice")
            found[rank] = (_address(server, device), int(device["device_id"]))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"{path}: is not a rank table of version 1.0 (server_list, device, device_id, device_ip, "
            f"rank_id) nor of the older form (group_list, instance_list, devices): "
            f"{type(error).__name__} {error}"
        ) from None
    if not found:
        raise ConfigError(f"{path}: names no device")
    if sorted(found) != list(range(len(found))):
        raise ConfigError(f"{path}: rank_id must count from 0 without gaps, and they are {sorted(found)}")
    return found


def _listed(table: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Return servers, or instances, with each of their devices."""
    if "server_list" in table or "group_list" not in table:
        for server in table["server_list"]:
            for device in server["device"]:
                if "rank_id" not in device:
                    raise KeyError("rank_id")
                yield server, device
        return
    if len(table["group_list"]) != 1:
        raise ValueError(f"{len(table['group_list'])} groups, but ranks run in one")
    for instance in table["group_list"][0]["instance_list"]:
        for device in instance["devices"]:
            yield instance, device


def _table(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read rank_table_file {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not valid JSON: {error}") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: is not a rank table: it must be an object with server_list")
    return table


def _address(server: dict[str, str], device: dict[str, str]) -> str:
    for given in (server.get("host_ip"), server.get("server_id"), device.get("device_ip")):
        try:
            return str(ipaddress.ip_address(given or ""))
        except ValueError:
            continue
    raise ValueError("no host_ip, server_id or device_ip is an address")


def of_environment() -> Rendezvous:
    """Return the rendezvous that torchrun and `pinnace launch` define in the environment."""
    address, port = os.environ["MASTER_ADDR"], number("MASTER_PORT", default=BASE_PORT)
    rank, size = number("RANK"), number("WORLD_SIZE")
    if not rank < size:
        values = ", ".join(f"{name} is {os.environ.get(name)!r}" for name in ("RANK", "WORLD_SIZE"))
        raise ConfigError(f"{values}: in a world of N ranks each has a number from 0 to N - 1")
    hosts = [address] * size
    if rank:
        hosts[rank] = _own_address(address)
    return Rendezvous(rank, tuple(hosts), port)


def _own_address(other: str) -> str:
    """Return the address of this machine in the network of another one."""
    try:
        found = socket.getaddrinfo(other, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(found[0], socket.SOCK_DGRAM) as probe:
            probe.connect(found[4])  # sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigError(f"MASTER_ADDR: {other!r} is not known here ({error.strerror or error})") from None
