"""`pinnace bench NAME --url URL`."""

from __future__ import annotations

import json
import warnings

import pytest

from pinnace.cli import main


@pytest.fixture
def bench(monkeypatch, capsys):
    """Call `pinnace bench ARGUMENTS`; return its exit status and what it printed."""
    monkeypatch.setattr("warnings.showwarning", warnings.showwarning)  # the command sets one

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["pinnace", "bench", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return call


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_model_of_a_server_is_measured(serving, simple, scheme, bench):
    server = serving(simple)
    port = server.http_port if scheme == "http" else server.grpc_port
    limits = ["--clients", "2", "--rate", "20", "--batch", "3", "--runs", "5", "--warm-up", "1"]
    code, out, err = bench("simple", "--url", f"{scheme}://127.0.0.1:{port}", *limits, "--json")
    assert code == 0, err
    report = json.loads(out)
    assert (report["model"], report["engine"]) == ("simple", f"{scheme}://127.0.0.1:{port}")
    assert report["latency"][0]["runs"] == 5
    assert report["throughput"][0]["clients"] == 2
    assert report["arrivals"][0]["requests"] == 5
    assert server.repository.entry("simple").open["1"].counts.served == 2 + 5 + 10 + 5 + 2
    assert err.count("input INPUT0 [3, 16]: no file") == 1


@pytest.mark.parametrize(
    ("name", "url", "message"),
    [
        ("simple", "ftp://127.0.0.1:1", "expected http://HOST:PORT or grpc://HOST:PORT"),
        ("simple", "http://127.0.0.1:{closed}", "the server does not answer"),
        ("nothing", "http://127.0.0.1:{http}", "Request for unknown model"),
        ("nothing", "grpc://127.0.0.1:{grpc}", "Request for unknown model"),
    ],
)
def test_what_cannot_be_measured_is_one_message(serving, simple, bench, name, url, message):
    server = serving(simple)
    place = url.format(http=server.http_port, grpc=server.grpc_port, closed=1)
    code, out, err = bench(name, "--url", place)
    assert (code, out) == (1, "")
    assert message in " ".join(err.split())
