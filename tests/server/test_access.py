"""Tokens with scopes, TLS, and where a server may listen."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from contextlib import suppress
from http.client import HTTPSConnection
from pathlib import Path

import pytest
import tritonclient.grpc
import tritonclient.http
from tests.server.test_protocol import A, B, inputs
from tests.waiting import until
from tritonclient.utils import InferenceServerException

from pinnace.errors import ConfigError
from pinnace.server.access import Access
from pinnace.server.failures import AccessError
from pinnace.server.server import Options, Server

TOKENS = {"infer": "infer-16-letters", "read": "read-read-read-read", "admin": "admin-admin-admin"}


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text("# who\n" + "".join(f"{token} {scope}\n" for scope, token in TOKENS.items()))
    return file


ACTS = {
    "infer": lambda door, client, **options: client.infer("simple", inputs(door, A, B), **options),
    "read": lambda door, client, **options: client.get_model_metadata("simple", **options),
    "admin": lambda door, client, **options: client.load_model("simple", **options),
}


@pytest.mark.parametrize("door", [tritonclient.http, tritonclient.grpc])
@pytest.mark.parametrize("act", ACTS)
def test_a_token_opens_what_its_scopes_say(serving, simple, tokens, door, act):
    server = serving(simple, tokens=tokens)
    port = server.http_port if door is tritonclient.http else server.grpc_port
    client = door.InferenceServerClient(f"127.0.0.1:{port}")
    assert client.is_server_live()
    for scope, token in TOKENS.items():
        options = {"headers": {"authorization": f"Bearer {token}"}}
        if scope == act:
            ACTS[act](door, client, **options)
        else:
            with pytest.raises(InferenceServerException, match=f"lacks the scope '{act}'"):
                ACTS[act](door, client, **options)
    for header in ("", "Bearer", f"Basic {TOKENS[act]}", f"Bearer {TOKENS[act]}x", "Bearer wröng"):
        with pytest.raises(InferenceServerException):
            ACTS[act](door, client, headers={"authorization": header})


def test_a_body_is_not_read_before_its_token(serving, simple, tokens):
    with socket.create_connection(("127.0.0.1", serving(simple, tokens=tokens).http_port)) as client:
        client.sendall(b"POST /v2/models/simple/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 401")


def test_the_stream_of_grpc_needs_a_token(serving, simple, tokens):
    answers = []
    client = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{serving(simple, tokens=tokens).grpc_port}")
    client.start_stream(lambda result, error: answers.append(error))
    with suppress(InferenceServerException):  # the refusal may be there first
        client.async_stream_infer("simple", inputs(tritonclient.grpc, A, B))
    client.stop_stream()
    assert "a token is needed" in str(answers[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no token"),
        ("fifteen-letters infer", ":1: a token has at least 16"),
        ("\nlong-enough-token", ":2: after the token come scopes"),
        ("long-enough-token write", ":1: after the token come scopes"),
    ],
)
def test_a_wrong_token_file_is_refused_by_its_line(tmp_path, text, message):
    file = tmp_path / "tokens"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        Access.of_file(file)
    assert "long-enough" not in str(raised.value)


def test_without_tokens_everybody_may_do_everything():
    Access().check("admin", "")
    with pytest.raises(AccessError):
        Access({}).check("admin", "Bearer ")


def test_addresses_of_others_need_protection(tokens):
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.org"):
        with pytest.raises(ConfigError, match="can be reached by others"):
            Options(host=host).check()
    Options(host="0.0.0.0", insecure=True).check()
    Options(host="0.0.0.0", tokens=tokens).check()
    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        Options(host=host).check()


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and a certificate of it for the server and one for a client."""
    folder = tmp_path_factory.mktemp("certificates")
    usage = "keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign"  # Python 3.13 asks for it
    new = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-addext", usage)
    openssl(folder, *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    for name in ("server", "client"):
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        openssl(
            folder, *new, *signed, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"
        )
    return folder


def test_the_start_tells_the_time_through_http_with_a_token(serving, simple, tokens):
    (line,) = serving(simple, tokens=tokens).summary()
    assert ", through HTTP " in line


@pytest.mark.parametrize("mutual", [False, True])
def test_tls_protects_both_doors(serving, simple, certificates, mutual):
    place = certificates
    server = serving(
        simple, certificate=place / "server.pem", key=place / "server.key",
        client_ca=place / "ca.pem" if mutual else None,
    )  # fmt: skip
    assert (", through HTTP " in server.summary()[0]) is not mutual
    own = {"keyfile": str(place / "client.key"), "certfile": str(place / "client.pem")}
    chosen = {"certificate_chain": own["certfile"], "private_key": own["keyfile"]}
    for pair in (True, False) if mutual else (False,):
        web = tritonclient.http.InferenceServerClient(
            f"localhost:{server.http_port}", ssl=True,
            ssl_options={"ca_certs": str(place / "ca.pem")} | (own if pair else {}),
        )  # fmt: skip
        rpc = tritonclient.grpc.InferenceServerClient(
            f"localhost:{server.grpc_port}", ssl=True, root_certificates=str(place / "ca.pem"),
            **(chosen if pair else {}),
        )  # fmt: skip
        for door, client in ((tritonclient.http, web), (tritonclient.grpc, rpc)):
            if mutual and not pair:
                with pytest.raises(Exception):  # noqa: B017, PT011, the clients raise many kinds
                    client.infer("simple", inputs(door, A, B))
            else:
                assert client.infer("simple", inputs(door, A, B)).as_numpy("OUTPUT0")[0, 0] == 1


def test_a_connection_over_tls_ends_though_its_client_says_nothing(
    serving, simple, certificates, monkeypatch
):
    """A client's pool reads nothing of its idle connections, and so does not see that the server closed."""
    monkeypatch.setattr("pinnace.server.connections.PATIENCE", 0.3)
    monkeypatch.setattr("pinnace.server.server._KEPT", 1)
    place = certificates
    server = serving(simple, certificate=place / "server.pem", key=place / "server.key")
    client = HTTPSConnection(
        "localhost", server.http_port, context=ssl.create_default_context(cafile=place / "ca.pem")
    )
    client.request("GET", "/v2/health/live")
    assert json.load(client.getresponse()) == {"live": True}
    until(lambda: client.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != b"\1")  # established
    client.close()


def test_options_of_tls_that_do_not_fit_are_refused(certificates):
    for options in (
        {"certificate": certificates / "server.pem"},
        {"client_ca": certificates / "ca.pem"},
        {"certificate": certificates / "none.pem", "key": certificates / "server.key"},
    ):
        with pytest.raises(ConfigError):
            Options(**options).check()


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (("server.pem", "client.key"), "key values mismatch"),
        (("server.key", "server.key"), "server.key"),
        (("server.pem", "server.key", "server.key"), "clients by .*server.key"),
    ],
)
def test_files_that_tls_cannot_use_are_named_before_models_are_opened(certificates, simple, files, named):
    options = dict(zip(("certificate", "key", "client_ca"), map(certificates.joinpath, files), strict=False))
    with pytest.raises(ConfigError, match=f"TLS .*{named}"):
        Server([simple], options=Options(http_port=0, grpc_port=0, **options))
