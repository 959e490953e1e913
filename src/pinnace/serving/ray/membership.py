"""Membership of this process in a Ray cluster."""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import suppress

import ray

from pinnace.errors import ConfigError, DeviceUnavailableError
from pinnace.log import WARNING, Log

_log = Log("pinnace.serving")
_SECONDS = 5.0  # timeout for a cluster to answer
_QUIET = {"logging_level": logging.WARNING}


class Membership:
    """Counts the models that use the cluster, and notes whether Pinnace joined it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._ours = False

    def join(self, address: str) -> None:
        """Join the cluster at `address` ("host:port") for one more model, until `leave`.

        "" is the cluster that this process is in already, that of RAY_ADDRESS, or that of this machine; if
        there is none, one is started. Raises `ConfigError` if the process is in another cluster, and
        `DeviceUnavailableError` if the cluster does not answer.
        """
        with self._lock:
            if ray.is_initialized():
                _check_same(address)
            else:
                _enter(address)
                self._ours, self._users = True, 0
            self._users += 1

    def leave(self) -> None:
        """Leave for one model. After the last one the process leaves the cluster if it joined it here.

        A cluster that was started here ends with that.
        """
        with self._lock:
            self._users -= 1
            if self._ours and not self._users:
                self._ours = False
                ray.shutdown()


membership = Membership()
"""The membership of this process."""


def _enter(address: str) -> None:
    named = address or os.environ.get("RAY_ADDRESS", "")
    if named not in ("", "auto", "local"):
        _reach(named)
        _init(named)
        return
    if named != "local":
        with suppress(ConnectionError):
            ray.init(address="auto", **_QUIET)
            return
    message = "no Ray cluster runs on this machine, and RAY_ADDRESS names none: one is started here"
    _log.event(WARNING, "cluster started", message)
    # Only this machine can reach it, and it sends no usage statistics.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    _init("local", include_dashboard=False, _node_ip_address="127.0.0.1")


def _init(address: str, **options: object) -> None:
    try:
        ray.init(address=address, **_QUIET, **options)
    except (RuntimeError, ValueError, OSError) as error:
        raise DeviceUnavailableError(f"the Ray cluster {address!r} cannot be joined: {error}") from None


def _reach(address: str) -> None:
    """Check that the address answers; Ray itself would try for a long time."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _SECONDS).close()
    except (OSError, ValueError) as error:
        raise DeviceUnavailableError(
            f"no Ray cluster answers at {address!r} ({error}); `ray start --head` starts one, and prints its "
            f"address"
        ) from None


def _check_same(address: str) -> None:
    here = ray.get_runtime_context().gcs_address
    if address and _resolved(address) != _resolved(here):
        raise ConfigError(
            f"context.parallel.address is {address!r}, and this process is in the Ray cluster {here!r}"
        )


def _resolved(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    with suppress(OSError):
        host = socket.gethostbyname(host)
    return host, port
