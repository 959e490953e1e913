"""Caches of which the first is written, and others, such as that of a container's image, are only read."""

from __future__ import annotations

import os
import warnings

import pytest

import pinnace
from pinnace.cache import key
from pinnace.cache.model import ModelCache
from pinnace.cache.store import Store
from pinnace.cache.tuning import Tuning
from pinnace.errors import PinnaceWarning
from pinnace.weights.source import Source

from .conftest import close_to, make_model, predict
from .test_tuning import measured


@pytest.fixture
def image(tmp_path, product, monkeypatch):
    """A cache with the model, and the files in it."""
    folder = tmp_path / "image"
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(folder))
    predict(product[0])
    return folder


@pytest.fixture
def unprivileged(monkeypatch):
    """A user to whom folders of root are those of another; needs root, who owns what the test makes."""
    if os.geteuid() != 0:
        pytest.skip("only root owns files of root")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)


def state(folder):
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.rglob("*")}


def opened(path):
    with pinnace.Model() as model:
        model.build_from_file(str(path), pinnace.ModelType.ONNX)
        return model.get_model_info("cache")


def use(monkeypatch, *folders):
    monkeypatch.setenv("PINNACE_CACHE_DIR", os.pathsep.join(map(str, folders)))


def test_what_is_below_is_loaded_and_left_as_it_is(image, product, tmp_path, monkeypatch):
    before = state(image)
    use(monkeypatch, tmp_path / "own", image, "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert opened(product[0]) == "loaded"
    assert predict(product[0]) == close_to(product[1])
    assert not (tmp_path / "own" / "entries").exists()
    assert state(image) == before


def test_what_is_not_below_is_written_into_the_first(image, tmp_path, monkeypatch):
    before = state(image)
    make_model(tmp_path / "other.onnx", 2)
    use(monkeypatch, tmp_path / "own", image)
    assert [opened(tmp_path / "other.onnx") for _ in range(2)] == ["written", "loaded"]
    assert len(list((tmp_path / "own" / "entries").iterdir())) == 1
    assert state(image) == before


def test_without_a_folder_to_write_models_are_read(image, product, tmp_path, monkeypatch):
    make_model(tmp_path / "other.onnx", 2)
    use(monkeypatch, "off", image)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert opened(product[0]) == "loaded"
    with pytest.warns(PinnaceWarning, match="built without it: .* is only read"):
        assert opened(tmp_path / "other.onnx") == "not kept"


def test_a_first_folder_that_cannot_be_written_means_one_message(image, product, monkeypatch):
    use(monkeypatch, "/dev/null/pinnace", image)
    with pytest.warns(PinnaceWarning) as caught:
        assert opened(product[0]) == "loaded"
    assert len(caught) == 1
    assert str(caught[0].message).endswith(f"used is {image} (only read)")


def test_a_folder_of_root_is_read_by_others(image, product, monkeypatch, unprivileged):
    """It is as trusted as an installed package; nothing that was noted on its machine has to match."""
    [entry] = (image / "entries").iterdir()
    (entry / "stamp.json").unlink()
    os.utime(entry / "graph.onnx")
    before = state(image)
    monkeypatch.setattr("pinnace.cache.entry.digest_of_file", lambda path: pytest.fail("was read"))
    with pytest.warns(PinnaceWarning, match="belongs to another user .*used is .*only read") as caught:
        assert opened(product[0]) == "loaded"
    assert len(caught) == 1
    assert state(image) == before


@pytest.mark.parametrize("place", [".", "entries", "entries/*", "entries/*/graph.onnx"])
def test_a_folder_of_root_that_others_can_write_to_is_not_used(
    image, product, monkeypatch, unprivileged, place
):
    [changed] = image.glob(place) if place != "." else [image]
    changed.chmod(0o777)
    use(monkeypatch, "off", image)
    with pytest.warns(PinnaceWarning, match="can write to"):
        assert opened(product[0]) in ("off", "not kept")


def test_a_shortened_file_of_root_is_noticed(image, product, monkeypatch, unprivileged):
    [graph] = image.glob("entries/*/graph.onnx")
    graph.write_bytes(graph.read_bytes()[:-1])
    use(monkeypatch, "off", image)
    with pytest.warns(PinnaceWarning, match="has changed since it was written"):
        assert predict(product[0]) == close_to(product[1])
    assert graph.exists()


def test_a_missing_folder_below_is_named(product, tmp_path, monkeypatch):
    use(monkeypatch, tmp_path / "own", tmp_path / "missing")
    with pytest.warns(PinnaceWarning, match=f"missing.*used is {tmp_path / 'own'}$"):
        assert opened(product[0]) == "written"


def test_tunings_and_sizes_below_are_known(image, tmp_path):
    below = ModelCache(Source.of_file(tmp_path / "product.onnx"), Store(image, 10**9))
    assert below.keep_tuning(Tuning("m", (), 0.0, (measured(),)))
    first = Store(tmp_path / "own", 10**9)
    first.below = [Store(image, 10**9, installed=True)]
    cache = ModelCache(below.source, first)
    assert cache.was_tuned
    assert cache.tuning() == below.tuning()
    size = (tmp_path / "product.onnx").stat().st_size
    assert key.has_size(first, size)
    assert not key.has_size(first, size + 1)


def test_nothing_is_kept_in_the_background_where_nothing_can_be_written(image, tmp_path, monkeypatch):
    make_model(tmp_path / "other.onnx", 2)
    use(monkeypatch, "off", image)
    monkeypatch.setenv("PINNACE_CACHE_KEEP", "after")
    assert opened(tmp_path / "other.onnx") == "not kept"
