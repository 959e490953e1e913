"""Models that came from another machine, as a node keeps them; entries, as they are written and read."""

from __future__ import annotations

import os

import numpy as np
import pytest

from pinnace.cache.entry import Damaged
from pinnace.cache.store import Store
from pinnace.engines.protocol import Compiled, FileWeight
from pinnace.shapes import alternatives
from pinnace.types import DataType, Format, Interface, Port
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


PORTS = (
    Port("x", DataType.FLOAT32, (-1, 3), Format.NHWC, alternatives("[1],[2~5]"), ("n", "")),
    Port("z", DataType.INT64, (-2,)),
)
STATE = (
    np.arange(6, dtype=np.int16).reshape(2, 3),
    np.array(7.5),
    np.zeros((0, 2), np.float32),
    np.array([True]),
)
COMPILED = Compiled(
    Interface(PORTS, PORTS[1:], (("before", "after"),), {"engine": "e"}),
    STATE,
    (FileWeight("w", "beside", 4, 8, 1, (1, 2), "0" * 64),),
)


def publish(store, name, size=1000):
    """An entry with a file of this size."""
    with store.writing(digest(name)) as folder:
        (folder / "graph").write_bytes(bytes(size))
        return store.publish(digest(name), folder, COMPILED, "model", "engine 1", ["a warning"])


def test_an_entry_is_read_as_it_was_written(tmp_path):
    store = Store(tmp_path, limit=10**6)
    for found in (publish(store, b"a"), store.find(digest(b"a"))):
        assert (found.model, found.engine, list(found.warnings)) == ("model", "engine 1", ["a warning"])
        assert found.compiled.interface == COMPILED.interface
        assert found.compiled.weights == COMPILED.weights
        assert not found.is_part
        for value, wanted in zip(found.compiled.first_state, STATE, strict=True):
            assert value.dtype == wanted.dtype
            np.testing.assert_array_equal(value, wanted)
    assert store.find(digest(b"b")) is None


@pytest.mark.parametrize("damage", ["a byte", "shorter", "missing"])
def test_a_damaged_file_of_an_entry_is_named(tmp_path, damage):
    store = Store(tmp_path, limit=10**6)
    file = publish(store, b"a").folder / "graph"
    store.verify(digest(b"a"))
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(bytes(999) + b"1" * (damage == "a byte"))
    with pytest.raises(Damaged, match=r"graph (has changed|is missing)"):
        store.verify(digest(b"a"))


def test_an_entry_whose_times_changed_is_verified_once(tmp_path, monkeypatch):
    store = Store(tmp_path, limit=10**6)
    file = publish(store, b"a").folder / "graph"
    os.utime(file, (1000, 1000))  # as a copy of the cache has others
    read = []
    monkeypatch.setattr(
        "pinnace.cache.entry.digest_of_file", lambda path: read.append(path) or digest(path.read_bytes())
    )
    monkeypatch.setattr("pinnace.cache.entry.lies_in_memory", lambda _: False)
    for _ in range(2):
        assert store.find(digest(b"a")) is not None
    assert read.count(file) == 1


def test_entries_stay_up_to_the_limit_and_the_last_used_longest(tmp_path):
    names = [digest(name) for name in (b"a", b"b", b"c")]
    whole = Store(tmp_path, limit=10**6)
    for name in (b"a", b"b", b"c"):
        publish(whole, name)
    for age, name in enumerate((b"b", b"c", b"a")):
        os.utime(tmp_path / "entries" / digest(name) / "stamp.json", (1000 - age, 1000 - age))
    assert whole.entry_keys() == [names[1], names[2], names[0]]
    size = whole.size()
    assert size == sum(whole.size(name) for name in names)
    assert size > 3000
    publish(Store(tmp_path, limit=size), b"c")
    assert {*whole.entry_keys()} == {*names}
    publish(Store(tmp_path, limit=size - 1), b"c")
    assert {*whole.entry_keys()} == {*names[1:]}  # the one just written stays, the last used too
    publish(Store(tmp_path, limit=1), b"c")
    assert whole.entry_keys() == names[2:]
    assert whole.remove(names[2])
    assert not whole.remove(names[2])
