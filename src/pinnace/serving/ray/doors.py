"""An ASGI application on Ray Serve: Ray starts its replicas, restarts them, and shares requests out."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pinnace.errors import ConfigError, DeviceUnavailableError
from pinnace.options.context import Context
from pinnace.serving.ray import require

_NAME = "pinnace"
_QUIET = {"log_level": "WARNING", "enable_access_log": False}
_PAUSE = 0.1
"""Seconds between two looks at a cluster that starts."""


@dataclass(frozen=True)
class Place:
    """The address of all nodes, the requests that one replica holds, and the seconds these get at the end."""

    host: str
    port: int
    requests: int
    drain: float


def serve(
    build: Callable[[], Any],
    place: Place,
    replicas: int,
    cores: int,
    started: Callable[[], None],
    ended: Callable[[], bool],
) -> None:
    """Serve the application that `build` makes in each replica until `ended()`; then end all of it.

    It runs in the main thread, and keeps the handlers of signals. `started` is called once the replicas are
    there; 0 of them leaves their number to Ray. Raises ConfigError if the cluster serves something already,
    DeviceUnavailableError if it has no room, or no replica starts, and as `Membership.join` does.
    """
    require("serve")
    from ray import serve as ray_serve

    from pinnace.serving.ray.membership import membership
    from pinnace.serving.ray.nodes import share

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    membership.join("")
    try:
        for number, handler in handlers.items():
            signal.signal(number, handler)  # Ray's own ends the process before replicas have answered
        share(Context(), cores, 1, max(1, replicas))
        if ray_serve.status().proxies:
            raise ConfigError(
                "this Ray cluster runs Ray Serve already, which has one door: end that by `serve shutdown`"
            )
        ray_serve.start(http_options={"host": place.host, "port": place.port}, logging_config=_QUIET)
        with _shut_down(ray_serve):
            deployment = ray_serve.deployment(
                ray_serve.ingress(lambda: build())(),  # Ray takes functions only
                name=_NAME,
                num_replicas=replicas or "auto",
                max_ongoing_requests=place.requests,
                graceful_shutdown_timeout_s=place.drain,
                ray_actor_options={"num_cpus": cores},
                logging_config=_QUIET,
            )
            _run(ray_serve, deployment.bind(), ended)
            started()
            while not ended():
                time.sleep(_PAUSE)
    finally:
        membership.leave()


@contextmanager
def _shut_down(ray_serve: Any) -> Iterator[None]:
    """End Ray Serve after the block; replicas answer first what they have."""
    try:
        yield
    finally:
        ray_serve.delete(_NAME)
        ray_serve.shutdown()


def _run(ray_serve: Any, target: Any, ended: Callable[[], bool]) -> None:
    """Start an application, and wait until it runs. Raises DeviceUnavailableError if it does not."""
    wanted = ray_serve.RunTarget(target=target, name=_NAME)
    ray_serve.run_many(
        [wanted], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False
    )
    while not ended():
        application = ray_serve.status().applications.get(_NAME)
        if application and application.status == "RUNNING":
            return
        if application and application.status in ("DEPLOY_FAILED", "UNHEALTHY"):
            messages = [one.message for one in application.deployments.values()] or [application.message]
            raise DeviceUnavailableError(f"no replica starts: {' '.join(' '.join(messages).split())[-900:]}")
        time.sleep(_PAUSE)
