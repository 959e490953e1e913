"""The server on a cluster: each replica is the application of HTTP, in a process of Ray Serve."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from starlette.applications import Starlette

from pinnace.errors import ConfigError
from pinnace.server.access import Access
from pinnace.server.http import application
from pinnace.server.repository import Repository
from pinnace.server.server import Options
from pinnace.server.settings import ModelSettings
from pinnace.serving.ray import doors


@dataclass(frozen=True)
class ClusterServer:
    """A server of `replicas` processes on the nodes of a Ray cluster; 0 lets Ray choose by the load.

    `models` are found on all nodes under the same paths, and so are the files of `options`.
    """

    models: tuple[Path, ...]
    settings: ModelSettings
    options: Options
    replicas: int

    @classmethod
    def of(
        cls, models: Iterable[Path], settings: ModelSettings, options: Options, replicas: int
    ) -> ClusterServer:
        """Check the options, and that there are models. Raises ConfigError."""
        options.check()
        refused = {
            "--grpc-port": options.grpc_port is not None,
            "--unix-socket": options.unix_socket is not None,
            "--shared-memory": options.shared_memory,
            "--tls-certificate": options.certificate is not None,
        }
        for flag, given in refused.items():
            if given:
                raise ConfigError(f"{flag} is not there with --cluster ray: Ray's door speaks plain HTTP")
        if not options.http_port:
            raise ConfigError(f"--http-port {options.http_port or -1}: all nodes of a cluster need one port")
        places = tuple(place.absolute() for place in models)
        Repository(places, settings)
        if options.tokens is not None:
            Access.of_file(options.tokens)
            options = replace(options, tokens=options.tokens.absolute())
        workers, threads = max(1, settings.workers), max(1, settings.threads)
        return cls(places, replace(settings, workers=workers, threads=threads), options, replicas)

    @property
    def cores(self) -> int:
        """The cores that Ray gives each replica."""
        return self.settings.workers * self.settings.threads

    def serve(self, started: Callable[[], None], ended: Callable[[], bool]) -> None:
        """Serve until `ended()`; call `started` once the replicas are there. Raises as `doors.serve` does."""
        options = self.options
        place = doors.Place(options.host, options.http_port or 0, options.max_connections, options.drain)
        build = partial(_application, self.models, self.settings, options)
        doors.serve(build, place, self.replicas, self.cores, started, ended)


def _application(models: tuple[Path, ...], settings: ModelSettings, options: Options) -> Starlette:
    access = Access.of_file(options.tokens) if options.tokens else Access()
    repository = Repository(models, settings, options.memory, server_name=options.name)
    return application(repository, options.max_bytes, access, opens=True, alone=False)
