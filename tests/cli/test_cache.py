"""`pinnace cache`."""

import os
import pty
import subprocess
import sys

import pytest

from pinnace.cli.quickstart import MODEL, data


@pytest.fixture
def cache(tmp_path, monkeypatch, pinnace):
    """A cache with the carried model."""
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path))
    assert pinnace("compile", data(MODEL), "--provider", "onnxruntime").code == 0
    return tmp_path


def test_list_shows_what_is_kept(cache, pinnace):
    answer = pinnace("cache", "list")
    assert str(cache) in answer.out
    assert str(data(MODEL)) in answer.out
    assert "onnxruntime" in answer.out


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_cache_has_nothing(tmp_path, pinnace, exists):
    folder = tmp_path / "cache"
    if exists:
        folder.mkdir()
    answers = [pinnace("cache", command, "--folder", folder) for command in ("list", "verify", "clear")]
    assert [answer.code for answer in answers] == [0, 0, 0]
    assert answers[0].out.splitlines()[1:] == ["  none"]
    assert pinnace("cache", "list", "--folder", folder, "--json").json["entries"] == []


def test_verify_finds_and_removes_what_is_damaged(cache, pinnace):
    assert pinnace("cache", "verify").out == "1 intact, 0 damaged\n"
    (record,) = cache.glob("entries/*/meta.json")
    before = record.read_bytes()
    record.write_text("{")
    (entry,) = pinnace("cache", "list", "--json").json["entries"]
    assert (entry["engine"], entry["model"], entry["key"]) == ("damaged", "", record.parent.name)
    record.write_bytes(before)
    (graph,) = cache.glob("entries/*/graph.onnx")
    graph.write_bytes(b"")
    answer = pinnace("cache", "verify")
    assert (answer.code, answer.out) == (1, "0 intact, 1 damaged\n")
    assert "graph.onnx has changed since it was written" in answer.err
    assert pinnace("cache", "verify").out == "0 intact, 0 damaged\n"


def test_clear_removes_everything(cache, pinnace):
    answer = pinnace("cache", "clear", "--folder", cache)
    assert answer.out.startswith(f"removed from {cache}: 1 compiled models, 0 received models, 0 tunings, ")
    assert not list(cache.glob("entries/*"))
    assert not list(cache.glob("tensors/*"))


def test_without_a_cache_there_is_nothing_to_show(monkeypatch, pinnace):
    monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    answer = pinnace("cache", "list")
    assert answer.code == 1
    assert "there is no cache" in answer.err


@pytest.mark.parametrize("command", ["list", "verify", "clear"])
def test_a_folder_that_people_use_is_no_cache(tmp_path, pinnace, command):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine").write_text("")
    answer = pinnace("cache", command, "--folder", tmp_path)
    assert answer.code == 1
    assert f"{tmp_path} is neither empty nor a cache of Pinnace" in answer.err
    assert (tmp_path / "models" / "mine").exists()


@pytest.mark.parametrize(("answer", "left"), [("n", 1), ("y", 0)])
def test_clear_asks_in_a_terminal(cache, answer, left):
    master, slave = pty.openpty()
    os.write(master, f"{answer}\n".encode())
    command = [sys.executable, "-m", "pinnace", "cache", "clear", "--folder", cache]
    done = subprocess.run(command, stdin=slave, capture_output=True, text=True)
    os.close(master)
    os.close(slave)
    assert f"Remove everything in {cache}" in done.stdout + done.stderr
    assert len(list(cache.glob("entries/*"))) == left


def test_json(cache, pinnace):
    listed = pinnace("cache", "list", "--json").json
    (entry,) = listed["entries"]
    assert (listed["folder"], listed["tuned"]) == (str(cache), [])
    assert entry["model"] == str(data(MODEL))
    assert 0 < entry["bytes"] <= listed["bytes"] <= listed["limit"]
    assert pinnace("cache", "verify", "--json").json == {"whole": 1, "damaged": 0}
    cleared = pinnace("cache", "clear", "--json").json
    assert (cleared["folder"], cleared["entries"]) == (str(cache), 1)


def test_all_folders_are_shown_and_the_first_is_changed(cache, pinnace, tmp_path_factory, monkeypatch):
    own = tmp_path_factory.mktemp("own")
    monkeypatch.setenv("PINNACE_CACHE_DIR", f"{own}{os.pathsep}{cache}")
    titles = [line.split(",")[0] for line in pinnace("cache", "list").out.splitlines() if line[0] == "/"]
    assert titles == [str(own), str(cache)]
    (below,) = pinnace("cache", "list", "--json").json["below"]
    assert [entry["model"] for entry in below["entries"]] == [str(data(MODEL))]
    (graph,) = cache.glob("entries/*/graph.onnx")
    graph.write_bytes(b"")
    verified = pinnace("cache", "verify")
    assert (verified.code, verified.out) == (1, "0 intact, 1 damaged\n")
    assert "it stays, as this cache is only read" in verified.err
    assert pinnace("cache", "clear").code == 0
    assert graph.exists()
    monkeypatch.setenv("PINNACE_CACHE_DIR", f"off{os.pathsep}{cache}")
    refused = pinnace("cache", "clear")
    assert (refused.code, graph.exists()) == (1, True)
    assert f"{cache} is only read" in refused.err
