"""`pinnace serve`: models behind HTTP and gRPC."""

from __future__ import annotations

import gc
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pinnace.cli.options import MOST_SECONDS
from pinnace.errors import NotSupportedError

if TYPE_CHECKING:
    from pinnace.server.server import Options, Server
    from pinnace.server.settings import ModelSettings

Models = Annotated[
    list[Path],
    typer.Argument(metavar="MODEL...", help="Model files, or one folder with a folder for each model."),
]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen at.")]
HttpPort = Annotated[
    int,
    typer.Option(metavar="PORT", min=-1, max=65535, help="Port of HTTP; -1 for none, 0 for any free one."),
]
GrpcPort = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        min=-1,
        max=65535,
        help="Port of gRPC; -1 for none, 0 for any free one.",
        show_default="8001",
    ),
]
UnixSocket = Annotated[
    Path | None, typer.Option(metavar="PATH", help="Listen with HTTP at a Unix socket too.")
]
Workers = Annotated[
    int, typer.Option(min=0, metavar="N", help="Requests at once of each model; 0 is automatic.")
]
Threads = Annotated[int, typer.Option(min=0, metavar="N", help="Threads of each worker; 0 is automatic.")]
Queue = Annotated[
    int, typer.Option(min=1, metavar="N", help="Requests of a model that may wait; others get 429.")
]
Timeout = Annotated[
    float,
    typer.Option(min=0, max=MOST_SECONDS, metavar="SECONDS", help="Limit of each request; 0 is none."),
]
Batch = Annotated[
    int, typer.Option(min=0, metavar="ROWS", help="Batch waiting requests up to this many rows.")
]
Memory = Annotated[
    str, typer.Option(metavar="SIZE", help="Memory of open models, such as 4G: others are opened on demand.")
]
MaxBytes = Annotated[str, typer.Option(metavar="SIZE", help="Size of a request, decompressed.")]
Drain = Annotated[
    float,
    typer.Option(min=0, max=MOST_SECONDS, metavar="SECONDS", help="Time for running requests at the end."),
]
Tokens = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Bearer tokens, a line each: TOKEN SCOPE...; scopes are infer, read, admin."
    ),
]
Certificate = Annotated[Path | None, typer.Option(metavar="FILE", help="TLS: the certificate chain, PEM.")]
Key = Annotated[Path | None, typer.Option(metavar="FILE", help="TLS: the key of the certificate, PEM.")]
ClientCA = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="TLS: the authority of clients' certificates, which they need then."),
]
SharedMemory = Annotated[
    str,
    typer.Option(
        metavar="PREFIX", help="Let clients register shared memory whose keys begin so, such as /pinnace-."
    ),
]
Name = Annotated[str, typer.Option(metavar="NAME", help="The server's name in its metadata.")]
Tracing = Annotated[
    bool, typer.Option("--tracing", help="Trace predictions with OpenTelemetry, below the clients' spans.")
]
Cluster = Annotated[
    Literal["ray"] | None,
    typer.Option(help="Serve by replicas on the Ray cluster of RAY_ADDRESS, or of this machine."),
]
Replicas = Annotated[
    int, typer.Option(min=0, metavar="N", help="On a cluster: processes with all models; 0 is by the load.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Listen at addresses that others reach.")]


def serve(
    models: Models,
    host: Host = "127.0.0.1",
    http_port: HttpPort = 8000,
    grpc_port: GrpcPort = None,
    unix_socket: UnixSocket = None,
    workers: Workers = 0,
    threads: Threads = 0,
    queue: Queue = 128,
    timeout: Timeout = 0.0,
    max_batch_size: Batch = 0,
    memory: Memory = "0",
    max_bytes: MaxBytes = "256M",
    drain: Drain = 30.0,
    tokens: Tokens = None,
    tls_certificate: Certificate = None,
    tls_key: Key = None,
    tls_client_ca: ClientCA = None,
    shared_memory: SharedMemory = "",
    name: Name = "pinnace",
    tracing: Tracing = False,
    insecure: Insecure = False,
    cluster: Cluster = None,
    replicas: Replicas = 1,
) -> None:
    """Serve models over HTTP and gRPC.

    The protocol is the Open Inference Protocol (KServe v2), which the clients of Triton speak. A folder has a
    folder for each model, with its file or with folders of versions (1, 2, ...), and perhaps a model.toml.
    SIGTERM and Ctrl-C end the server: what was accepted is answered.
    """
    try:
        from pinnace.server.server import Options
        from pinnace.server.settings import ModelSettings
    except ModuleNotFoundError as error:
        raise NotSupportedError(f"pinnace serve needs {error.name}: pip install {_packages()}") from None

    if cluster and tracing:
        raise typer.BadParameter("--tracing is not there with --cluster: Ray traces its replicas")
    if tracing:
        from pinnace.tracing import instrument

        instrument()
    settings = ModelSettings(
        workers=workers, threads=threads, queue=queue, timeout=timeout, max_batch_size=max_batch_size
    )
    if grpc_port is None:
        grpc_port = -1 if cluster else 8001
    options = Options(
        host, _port(http_port), _port(grpc_port), unix_socket, _bytes("--max-bytes", max_bytes),
        memory=_bytes("--memory", memory), drain=drain, tokens=tokens,
        certificate=tls_certificate, key=tls_key, client_ca=tls_client_ca,
        insecure=insecure, shared_memory=shared_memory, name=name,
    )  # fmt: skip
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    if cluster:
        _serve_on_cluster(models, settings, options, replicas, ended)
    else:
        _serve_here(models, settings, options, ended)
    sys.exit(0)


def _serve_here(
    models: list[Path], settings: ModelSettings, options: Options, ended: threading.Event
) -> None:
    from pinnace.cli.console import note
    from pinnace.options import log_format
    from pinnace.server.server import Server

    log_format.print_faults()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # 1024 files are not enough for 2000 clients
    server = Server(models, settings, options)
    start = time.perf_counter()
    server.start()
    note(f"ready after {time.perf_counter() - start:.2f} s: {_places(server, options)}", "ready")
    gc.collect()
    gc.freeze()  # modules and models stay: a full collection would stop all requests for 20 ms
    for line in server.summary():
        note(line, "model")
    ended.wait()
    note("ending: running requests are answered", "ending")
    server.stop()


def _serve_on_cluster(
    models: list[Path], settings: ModelSettings, options: Options, replicas: int, ended: threading.Event
) -> None:
    from pinnace.cli.console import note
    from pinnace.server.cluster import ClusterServer
    from pinnace.server.server import host_and_port

    server = ClusterServer.of(models, settings, options, replicas)
    start = time.perf_counter()

    def started() -> None:
        place = host_and_port(options.host, options.http_port or 0)
        note(
            f"ready after {time.perf_counter() - start:.2f} s: http://{place} "
            f"on each node with a replica; replicas: {replicas or 'by the load'}, each with {server.cores} "
            f"cores",
            "ready",
        )

    server.serve(started, ended.is_set)


def _places(server: Server, options: Options) -> str:
    from pinnace.server.server import host_and_port

    ports = (("http://", server.http_port), ("grpc://", server.grpc_port))
    named = [f"{scheme}{host_and_port(options.host, port)}" for scheme, port in ports if port]
    return ", ".join([*named, *([f"unix:{options.unix_socket}"] if options.unix_socket else [])])


def _packages() -> str:
    """Return the packages of the extra `serve`."""
    from importlib.metadata import requires

    needed = (one.partition(";") for one in requires("pinnace") or ())
    return " ".join(f"'{package.strip()}'" for package, _, when in needed if "serve" in when)


def _port(number: int) -> int | None:
    return None if number < 0 else number


def _bytes(flag: str, text: str) -> int:
    """Parse a size such as 4G."""
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    number, unit = text.rstrip("KMGkmgBb"), text.upper().rstrip("B").lstrip("0123456789.")
    try:
        return int(float(number) * units[unit])
    except (KeyError, ValueError):
        raise typer.BadParameter(f"{flag} {text}: expected a size such as 512M or 4G") from None
