"""The server: a repository behind HTTP and gRPC, in a thread or for a whole process."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
import uvicorn

from pinnace.errors import ConfigError
from pinnace.log import INFO, Log
from pinnace.server import door
from pinnace.server import grpc as grpc_server
from pinnace.server.access import Access
from pinnace.server.bodies import MAX_BYTES
from pinnace.server.connections import HttpServer
from pinnace.server.http import application
from pinnace.server.models import OpenModel
from pinnace.server.repository import Repository
from pinnace.server.settings import ModelSettings
from pinnace.server.shared_memory import SharedMemory

_log = Log("pinnace.server")
_BACKLOG = 2048
"""Connections that the kernel holds until they are accepted."""
_KEPT = 75
"""Seconds that a connection may idle: a server that closes first fails a request that is just being sent."""


@dataclass(frozen=True)
class Options:
    """The addresses and limits of a server.

    A port of 0 is any free one, None is none. `drain` is the seconds that requests get to end when the server
    stops; `max_bytes` is the size of a request, decompressed. `max_connections` holds for each door, and for
    gRPC's requests at once. `memory` is the bytes that open models may take, 0 for no limit. `tokens` is a
    file for `Access`. `certificate` and `key` are PEM files for TLS; with `client_ca` clients must have a
    certificate of this authority. `shared_memory` is the prefix of keys of system shared memory that clients
    may register, "" for none. `name` is what the server tells clients.
    """

    host: str = "127.0.0.1"
    http_port: int | None = 8000
    grpc_port: int | None = 8001
    unix_socket: Path | None = None
    max_bytes: int = MAX_BYTES
    max_connections: int = 1000
    memory: int = 0
    drain: float = 30.0
    tokens: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    insecure: bool = False
    shared_memory: str = ""
    name: str = "pinnace"

    def check(self) -> None:
        """Raise ConfigError for options that do not fit, or let everybody in."""
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("TLS needs a certificate and its key: --tls-certificate and --tls-key")
        if self.client_ca is not None and self.certificate is None:
            raise ConfigError("certificates of clients need TLS: --tls-certificate and --tls-key")
        for file in filter(None, (self.tokens, self.certificate, self.key, self.client_ca)):
            if not file.is_file():
                raise ConfigError(f"{file}: there is no such file")
        if self.certificate is not None and self.key is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # gRPC would say that it cannot listen
            with _named(f"TLS by {self.certificate} and {self.key}"):
                context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                with _named(f"TLS for clients by {self.client_ca}"):
                    context.load_verify_locations(self.client_ca)
        if self.http_port is None and self.grpc_port is None and self.unix_socket is None:
            raise ConfigError("a server needs a port or a socket: --http-port, --grpc-port, --unix-socket")
        guarded = self.tokens is not None or self.certificate is not None
        if not (guarded or self.insecure or _is_loopback(self.host)):
            raise ConfigError(
                f"{self.host} can be reached by others: protect it by --tokens or --tls-certificate, name "
                f"127.0.0.1, or allow it by --insecure"
            )


def _credentials(options: Options) -> grpc.ServerCredentials | None:
    if options.certificate is None or options.key is None:
        return None
    pair = options.key.read_bytes(), options.certificate.read_bytes()
    ca = options.client_ca.read_bytes() if options.client_ca else None
    return grpc.ssl_server_credentials([pair], ca, ca is not None)


def host_and_port(host: str, port: int) -> str:
    """Return host and port as a URL has them, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop, in which calls over gRPC are shorter; None where it does not exist."""
    try:
        from uvloop import new_event_loop
    except ImportError:  # on Windows
        return None
    return new_event_loop


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Raise ConfigError for an OSError of the block, which names no place."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{what}: {error.strerror or error}") from None


def _unix_socket(path: Path) -> socket.socket:
    """Return a socket at a path, which only this user may connect to.

    One that nobody listens at is replaced.
    """
    made = socket.socket(socket.AF_UNIX)
    if path.is_socket():
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
    before = os.umask(0o177)
    try:
        made.bind(str(path))
    finally:
        os.umask(before)
    return made


class Server:
    """Serves models until it is stopped, at `http_port` and `grpc_port`.

    with Server(["model.mindir"]) as server:
        print(server.http_port, server.grpc_port)
    """

    def __init__(
        self,
        models: Iterable[str | Path],
        settings: ModelSettings | None = None,
        options: Options | None = None,
    ) -> None:
        """`models` are files, or one folder of models. Without `options`, ports are free ones of 127.0.0.1.

        Raises ConfigError for options that do not fit, and if there is no model.
        """
        self._options = options or Options(http_port=0, grpc_port=0)
        self._options.check()
        self.repository = Repository(
            map(Path, models), settings, self._options.memory, server_name=self._options.name
        )
        self._access = Access.of_file(self._options.tokens) if self._options.tokens else Access()
        self._memory = SharedMemory(self._options.shared_memory, self._options.max_bytes)
        self.http_port = self.grpc_port = 0
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> Self:
        """Open the models, and serve in a thread. Raises what stops it from listening."""
        started = Future[None]()
        self._thread = threading.Thread(target=self._run, args=(started,), name="pinnace-server", daemon=True)
        self._thread.start()
        started.result()
        return self

    def stop(self) -> None:
        """Refuse new requests, answer those that are there within `drain` seconds, and close the models."""
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.stop()

    def _run(self, started: Future[None]) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self.serve(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    def summary(self) -> list[str]:
        """Return a line for each model: what was chosen for it, and its times, or why it is not open."""
        lines, entries = [], self.repository.entries
        for entry in entries:
            opened = entry.open.get(entry.newest)
            text = opened.summary() + self._door(opened) if opened else entry.reason
            if text:
                lines.append(f"{entry.name}: {text}")
        rest = len(entries) - len(lines)
        return [*lines, f"opened on demand: {rest}"] if rest else lines

    def _door(self, opened: OpenModel) -> str:
        """Return the time of a request through HTTP; "" without HTTP, and if clients need certificates."""
        options = self._options
        if not (self.http_port and opened.warm_ms) or options.client_ca is not None:
            return ""
        client = door.connection(options.host, self.http_port, options.certificate is not None)
        took = door.milliseconds(client, opened, self._access.token_for("infer"))
        client.close()
        return f", through HTTP {took:.3g} ms" if took else ""

    async def serve(self, started: Future[None] | None = None) -> None:
        """Serve on the running loop until `stop`; complete `started` once the server is ready."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        options = self._options
        sockets = self._sockets()
        http = HttpServer(
            uvicorn.Config(
                application(self.repository, options.max_bytes, self._access, self._memory),
                lifespan="off", log_config=None, log_level="error", access_log=False, server_header=False,
                ws="none", proxy_headers=False,
                limit_concurrency=options.max_connections + 1, timeout_keep_alive=_KEPT,
                timeout_graceful_shutdown=int(options.drain),
                ssl_certfile=options.certificate, ssl_keyfile=options.key,
                ssl_ca_certs=options.client_ca,
                ssl_cert_reqs=ssl.CERT_REQUIRED if options.client_ca else ssl.CERT_NONE,
            )
        )  # fmt: skip
        rpc = grpc_server.server(
            self.repository, options.max_bytes, options.max_connections, self._access, self._memory
        )
        if options.grpc_port is not None:
            place, credentials = host_and_port(options.host, options.grpc_port), _credentials(options)
            try:
                self.grpc_port = (
                    rpc.add_secure_port(place, credentials) if credentials else rpc.add_insecure_port(place)
                )
            except RuntimeError:  # without a reason, which gRPC prints
                raise ConfigError(f"gRPC cannot listen at {place}: is another server there?") from None
        await self.repository.start()
        await rpc.start()
        serving = asyncio.ensure_future(http.serve(sockets))
        if started is not None:
            started.set_result(None)
        _log.event(
            INFO,
            "serving",
            f"serving {len(self.repository.entries)} models",
            http=self.http_port,
            grpc=self.grpc_port,
        )
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        if options.unix_socket is not None:
            options.unix_socket.unlink(missing_ok=True)  # now: soon another server's may be there
        http.should_exit = True
        await rpc.stop(options.drain)
        await serving
        await self.repository.close()
        self._memory.unregister()

    def _sockets(self) -> list[socket.socket]:
        """Return the sockets of HTTP, which listen already."""
        options, made = self._options, list[socket.socket]()
        if options.http_port is not None:
            ((family, kind, _, _, address), *_) = socket.getaddrinfo(
                options.host, options.http_port, type=socket.SOCK_STREAM
            )
            # Named TCP, as asyncio sets TCP_NODELAY for such only: without it each answer takes 40 ms.
            made.append(socket.socket(family, kind, socket.IPPROTO_TCP))
            made[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with _named(f"HTTP cannot listen at {host_and_port(options.host, options.http_port)}"):
                made[-1].bind(address)
            self.http_port = made[-1].getsockname()[1]
        if options.unix_socket is not None:
            with _named(f"HTTP cannot listen at the socket {options.unix_socket}"):
                made.append(_unix_socket(options.unix_socket))
        for one in made:
            one.listen(_BACKLOG)
        return made
