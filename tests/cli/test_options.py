"""Limits and defaults of options, as help and errors of wrong use say them."""

from __future__ import annotations

import re

import pytest

from pinnace.server import server
from pinnace.server.settings import ModelSettings

BELOW = {
    "run": {"--threads": (-1, 0)},
    "bench": {
        "--seconds": (0, 0.001), "--runs": (0, 1), "--warm-up": (-1, 0), "--threshold": (-0.1, 0),
        "--cosine-threshold": (-1.1, -1), "--threads": (-1, 0), "--workers": (0, 1), "--clients": (-1, 0),
        "--batch": (0, 1),
    },
    "tune": {"--seconds": (-1, 0), "--threads": (0, 1), "--workers": (0, 1), "--max-error": (-0.1, 0)},
    "serve": {
        "--workers": (-1, 0), "--threads": (-1, 0), "--queue": (0, 1), "--timeout": (-0.1, 0),
        "--max-batch-size": (-1, 0), "--drain": (-1, 0),
    },
    "shard": {"--ranks": (1, 2)},
}  # fmt: skip
LEAST = [(command, *one) for command, options in BELOW.items() for one in options.items()]
DEFAULTS = {
    "run": {"--threads": "0", "--scale": "1/255", "--mean": "0", "--std": "1"},
    "bench": {
        "--threads": "0", "--clients": "5", "--seconds": "3.0", "--warm-up": "3", "--provider": "automatic",
        "--precision": "enforce_fp32", "--threshold": "0.5",
    },
    "tune": {"--precision": "enforce_fp32"},
    "serve": {
        "--host": "127.0.0.1", "--http-port": "8000", "--grpc-port": "8001", "--workers": "0",
        "--threads": "0", "--queue": "128", "--timeout": "0.0", "--max-batch-size": "0", "--memory": "0",
        "--max-bytes": "256M", "--drain": "30.0", "--name": "pinnace",
    },
    "quickstart": {"--workers": "3", "--clients": "5", "--threads": "1"},
}  # fmt: skip


@pytest.mark.parametrize(("command", "option", "limits"), LEAST)
def test_a_number_below_the_least_is_wrong_use_and_the_least_is_not(
    pinnace, tmp_path, command, option, limits
):
    (below, least), missing = limits, tmp_path / "none.onnx"
    wrong = pinnace(command, missing, option, below)
    assert (wrong.code, wrong.out) == (2, "")
    assert option in wrong.err
    right = pinnace(command, missing, option, least)
    assert right.code == 1  # there is no such file
    assert option not in right.err


@pytest.mark.parametrize(
    ("command", "option"),
    [("bench", "--seconds"), ("tune", "--seconds"), ("serve", "--timeout"), ("serve", "--drain")],
)
def test_seconds_have_an_end(pinnace, tmp_path, command, option):
    for seconds in ("inf", "1e30"):
        wrong = pinnace(command, tmp_path / "none.onnx", option, seconds)
        assert (wrong.code, wrong.out) == (2, "")
        assert "2147483648" in wrong.err


@pytest.mark.parametrize("command", DEFAULTS)
def test_help_says_the_defaults_that_scripts_rely_on(pinnace, command):
    text = " ".join(pinnace(command, "--help").out.split())
    for option, default in DEFAULTS[command].items():
        shown = text.partition(f" {option} ")[2].partition(" --")[0]
        found = re.search(r"\[default: \(?([^]);]+)", shown)
        assert found is not None, option
        assert found[1] == default, option


@pytest.mark.parametrize("command", ["serve", "launch", "compile", "exec"])
def test_a_command_without_arguments_shows_its_help(pinnace, command):
    answer, wanted = pinnace(command), pinnace(command, "--help").out
    assert (answer.code, answer.err.split()) == (2, wanted.split())


@pytest.mark.parametrize(
    ("option", "text", "is_right"),
    [
        ("--memory", "4G", True), ("--memory", "1.5mb", True), ("--max-bytes", "512k", True),
        ("--max-bytes", "7", True), ("--memory", "4X", False), ("--max-bytes", "G", False),
        ("--memory", "1K2", False),
    ],
)  # fmt: skip
def test_sizes_of_the_server_have_units(pinnace, tmp_path, option, text, is_right):
    answer = pinnace("serve", tmp_path / "none.onnx", option, text)
    assert answer.code == (1 if is_right else 2)
    assert ("expected a size such as 512M or 4G" in " ".join(answer.err.split())) is not is_right


@pytest.fixture
def taken(monkeypatch):
    """The settings and options of servers, which are not started."""
    seen = []

    def server_of(models, settings, options):
        seen.append((settings, options))
        raise server.ConfigError("seen")

    monkeypatch.setattr(server, "Server", server_of)
    return seen


def test_a_server_of_the_command_has_the_defaults_of_one_in_python(pinnace, taken, tmp_path):
    assert pinnace("serve", tmp_path / "m.onnx").code == 1
    assert taken == [(ModelSettings(), server.Options())]


def test_units_of_sizes_are_powers_of_1024(taken, pinnace, tmp_path):
    given = {
        "--memory": "1.5K", "--max-bytes": "2MB", "--http-port": "-1", "--workers": 3, "--threads": 2,
        "--queue": 9, "--timeout": 0.5, "--max-batch-size": 4, "--drain": 7, "--shared-memory": "/p-",
        "--name": "ours", "--host": "::1", "--unix-socket": tmp_path / "s", "--tokens": tmp_path / "t",
        "--tls-certificate": tmp_path / "c", "--tls-key": tmp_path / "k", "--tls-client-ca": tmp_path / "a",
    }  # fmt: skip
    assert pinnace("serve", tmp_path / "m.onnx", *(x for pair in given.items() for x in pair)).code == 1
    assert pinnace("serve", tmp_path / "m.onnx", "--memory", "3G", "--insecure", "--grpc-port", "0").code == 1
    (settings, options), (_, other) = taken
    assert (options.memory, options.max_bytes, other.memory) == (1536, 2 << 20, 3 << 30)
    assert (options.http_port, options.grpc_port, other.grpc_port) == (None, 8001, 0)
    assert (settings.workers, settings.threads, settings.queue, settings.timeout) == (3, 2, 9, 0.5)
    assert (settings.max_batch_size, options.drain, options.shared_memory) == (4, 7, "/p-")
    assert (options.name, options.host, options.unix_socket) == ("ours", "::1", tmp_path / "s")
    files = (options.tokens, options.certificate, options.key, options.client_ca)
    assert files == tuple(tmp_path / name for name in "tcka")
    assert (options.insecure, other.insecure) == (False, True)
