"""Models that came from another machine, as a node keeps them."""

from __future__ import annotations

import os

import pytest

from pinnace.cache.store import Store
from pinnace.weights.digest import digest


def test_a_model_is_written_once_and_goes_when_there_is_no_room(tmp_path):
    store = Store(tmp_path, limit=250)
    written = []

    def keep(name):
        def fill(folder):
            written.append(name)
            (folder / "model").write_bytes(bytes(100))

        return store.keep_model(digest(name), fill)

    for name in (b"a", b"b", b"a"):
        assert os.listdir(keep(name)) == ["model"]
    assert written == [b"a", b"b"]
    for age, name in enumerate((b"a", b"b")):
        os.utime(tmp_path / "models" / digest(name), (1000 - age, 1000 - age))
    keep(b"c")
    assert store.find_model(digest(b"b")) is None, "it was not used for longest"
    assert store.find_model(digest(b"a")) == tmp_path / "models" / digest(b"a")
    store.clear()
    assert store.find_model(digest(b"a")) is None


def test_what_was_not_written_whole_is_not_kept(tmp_path):
    store = Store(tmp_path, limit=1000)

    def fill(folder):
        (folder / "model").write_bytes(b"half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        store.keep_model(digest(b"a"), fill)
    assert store.find_model(digest(b"a")) is None
    assert not os.listdir(tmp_path / "new")
