"""`pinnace cache`."""

import pytest

from pinnace.cli.quickstart import MODEL, data


@pytest.fixture
def cache(tmp_path, monkeypatch, pinnace):
    """A cache with the carried model."""
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path))
    assert pinnace("run", data(MODEL)).code == 0
    return tmp_path


def test_list_shows_what_is_kept(cache, pinnace):
    answer = pinnace("cache", "list")
    assert str(cache) in answer.out
    assert str(data(MODEL)) in answer.out
    assert "onnxruntime" in answer.out


def test_verify_finds_and_removes_what_is_damaged(cache, pinnace):
    assert pinnace("cache", "verify").out == "1 whole, 0 damaged\n"
    (graph,) = cache.glob("entries/*/graph.onnx")
    graph.write_bytes(b"")
    answer = pinnace("cache", "verify")
    assert (answer.code, answer.out) == (1, "0 whole, 1 damaged\n")
    assert "graph.onnx is not what was written" in answer.err
    assert pinnace("cache", "verify").out == "0 whole, 0 damaged\n"


def test_clear_removes_everything(cache, pinnace):
    assert pinnace("cache", "clear", "--folder", cache).out.startswith("1 removed, ")
    assert not list(cache.glob("entries/*"))
    assert not list(cache.glob("tensors/*"))


def test_without_a_cache_there_is_nothing_to_show(monkeypatch, pinnace):
    monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    answer = pinnace("cache", "list")
    assert answer.code == 1
    assert "there is no cache" in answer.err
