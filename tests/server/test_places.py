"""The places of models: files, folders, versions, labels, and what is ready, without opening any."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from http.client import HTTPConnection
from types import SimpleNamespace

import grpc
import pytest

from pinnace.errors import ConfigError
from pinnace.server import repository
from pinnace.server.failures import UnknownModelError
from pinnace.server.repository import Repository, _versions
from pinnace.server.server import _unix_socket, host_and_port


@pytest.fixture
def laid_out(tmp_path):
    def lay(*names):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        return tmp_path

    return lay


@pytest.mark.parametrize(
    ("files", "versions"),
    [
        (["m/model.onnx"], {"1": "model.onnx"}),
        (["m/any.ms"], {"1": "any.ms"}),
        (["m/model.mindir", "m/other.onnx"], {"1": "model.mindir"}),
        (["m/model.onnx", "m/model.mindir"], {"1": "model.mindir"}),
        (["m/model_graph.mindir", "m/model_variables/data_0"], {"1": "model_graph.mindir"}),
        (["m/a.onnx", "m/b.onnx"], {}),
        (["m/notes.txt"], {}),
        (
            ["m/1/model.onnx", "m/10/any.ms", "m/3/notes.txt", "m/x/model.onnx"],
            {"1": "model.onnx", "10": "any.ms"},
        ),
        (["m/1/model.onnx", "m/model.onnx"], {"1": "model.onnx"}),
        (["m/7/notes.txt", "m/model.onnx"], {}),
        (["m/7", "m/model.onnx"], {"1": "model.onnx"}),
    ],
)
def test_versions_are_folders_with_a_model(laid_out, files, versions):
    found = _versions(laid_out(*files) / "m")
    assert {number: file.name for number, file in found.items()} == versions
    if "m/1/model.onnx" in files:
        assert found["1"].parent.name == "1"


@pytest.mark.parametrize("suffix", [".mindir", ".ms", ".onnx"])
def test_a_file_of_a_model_is_its_only_version(laid_out, suffix):
    folder = laid_out(f"m{suffix}", "notes.txt")
    assert _versions(folder / f"m{suffix}") == {"1": folder / f"m{suffix}"}
    assert _versions(folder / "notes.txt") == _versions(folder / f"none{suffix}") == {}


def test_a_folder_has_its_models_in_order_of_name(laid_out):
    folder = laid_out("b.onnx", "a/1/model.ms", "c.txt", "d/notes.txt", "B.onnx", "a.onnx/model.onnx")
    found = Repository([folder]).entries
    assert [(one.name, one.place.name) for one in found] == [("B", "B.onnx"), ("a", "a"), ("b", "b.onnx")]
    with pytest.raises(UnknownModelError, match="there is no 'd'"):
        Repository([folder]).entry("d")


def test_what_is_hidden_or_may_not_be_read_is_no_model(laid_out, monkeypatch, caplog):
    hidden = ("..2026/m.onnx", ".git/1/m.onnx", "._m.onnx", "n/._m.onnx")
    folder = laid_out(*hidden, "lost+found/m.onnx", "n/m.onnx")
    monkeypatch.setattr(repository.os, "access", lambda place, _: place.name != "lost+found")
    models = Repository([folder])
    assert [(one.name, _versions(one.place)["1"].name) for one in models.entries] == [("n", "m.onnx")]
    assert "lost+found: it may not be read" in caplog.text


def test_files_are_models_by_name_once_each(laid_out):
    folder = laid_out("a/m.onnx", "b/m.ms", "n.ms", "n.txt")
    assert [one.name for one in Repository([folder / "a/m.onnx", folder / "n.ms"]).entries] == ["m", "n"]
    for places, message in (
        ([folder / "a/m.onnx", folder / "b/m.ms"], "two models of the name 'm'"),
        ([folder / "none.onnx"], "there is no such file"),
        ([folder / "a", folder / "b"], "a: name one folder of models, or files .mindir"),
        ([folder / "n.txt"], r"n\.txt: name one folder of models, or files .mindir"),
        ([], "there is no model in the repository"),
    ):
        with pytest.raises(ConfigError, match=message):
            Repository(places)


def test_labels_lie_beside_the_model(laid_out):
    folder = laid_out("m/model.onnx", "alone.onnx", "none/model.onnx")
    (folder / "labels.json").write_text('["cat"]')
    (folder / "m/labels.json").write_text('["dog"]')
    models = Repository([folder])
    assert [models.labels(name) for name in ("m", "alone", "none")] == [["dog"], ["cat"], []]
    (folder / "m/labels.txt").write_text("cow\nhen\n")
    assert models.labels("m") == ["cow", "hen"]


def test_a_model_is_ready_unless_it_failed_or_was_unloaded(laid_out):
    models = Repository([laid_out("m.onnx", "n.onnx")])
    one = models.entry("m")
    assert (one.state, models.is_ready("m"), models.is_ready("m", "1"), models.ready) == (
        "",
        True,
        True,
        True,
    )
    one.reason = "broken"
    assert (one.state, models.is_ready("m"), models.ready) == ("UNAVAILABLE", False, False)
    one.open["2"], one.newest = SimpleNamespace(memory=5, failure=""), "2"
    assert (one.state, models.is_ready("m"), models.ready, models.taken) == ("READY", True, True, 5)
    assert models.is_ready("m", "2")
    assert models.is_ready("m", "1")  # a request that names it opens it
    with pytest.raises(UnknownModelError, match="has no version '7'"):
        models.is_ready("m", "7")
    one.open["2"].failure = "its process cannot start"
    assert (one.state, models.is_ready("m", "2"), models.ready) == ("UNAVAILABLE", False, False)
    one.open, one.reason, one.withdrawn = {}, "", True
    assert (one.state, models.is_ready("m"), models.ready) == ("UNAVAILABLE", False, True)


class Opened:
    """A version that is open."""

    def __init__(self, used, memory=10, busy=False):
        self.last_used, self.memory, self.busy, self.closed = used, memory, busy, False

    async def close(self):
        self.closed = True


def test_the_model_that_was_not_used_for_longest_makes_room(laid_out):
    models = Repository([laid_out("a.onnx", "b.onnx")], memory=40)
    old, newer, busy, own = Opened(1), Opened(2), Opened(0, busy=True), Opened(-1)
    first, second = models.entries
    first.open, first.newest = {"9": newer, "10": old}, "10"
    second.open, second.newest = {"1": busy, "2": own}, "2"
    asyncio.run(models._make_room(0, own))
    assert models.taken == 40
    asyncio.run(models._make_room(1, own))
    assert (old.closed, newer.closed, models.taken) == (True, False, 30)
    asyncio.run(models._make_room(1000, own))
    assert (newer.closed, busy.closed, own.closed) == (True, False, False)
    assert (first.open, first.newest) == ({}, "10")  # the one that answers when it is opened again


def test_a_socket_is_this_users_and_replaces_one_that_nobody_listens_at(tmp_path):
    path = tmp_path / "socket"
    before = os.umask(0)
    try:
        with _unix_socket(path) as first:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            first.listen()
            with pytest.raises(OSError, match="in use"):
                _unix_socket(path)
        with _unix_socket(path) as second:
            second.listen()
        assert os.umask(0) == 0
    finally:
        os.umask(before)


def test_a_server_listens_at_an_address_of_ipv6(serving, simple):
    with socket.socket(socket.AF_INET6) as tried:
        try:
            tried.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    server = serving(simple, host="::1")
    with grpc.insecure_channel(host_and_port("::1", server.grpc_port)) as channel:
        grpc.channel_ready_future(channel).result(60)
    client = HTTPConnection("::1", server.http_port)
    client.request("GET", "/v2/health/ready")
    assert client.getresponse().status == 200
