"""Files on a tmpfs, where writing through an old mapping changes no time of a file."""

import math
import mmap
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from pinnace.cache import key
from pinnace.errors import PinnaceWarning

from .conftest import close_to, make_model, predict


@pytest.fixture
def memory():
    """A folder on a tmpfs (shm_overview(7))."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@contextmanager
def mapping(path):
    """The bytes of a file, each page of which was written before."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:] = mapped[:]
        yield mapped


def test_a_model_on_a_tmpfs_is_read_again(cache, memory, monkeypatch):
    monkeypatch.setattr(key, "_SETTLED", -math.inf)
    path = memory / "a.onnx"
    old, new = make_model(path, 1), make_model(memory / "b.onnx", 2)
    with mapping(path) as mapped:
        assert predict(path) == close_to(old)
        before = path.stat().st_mtime_ns, path.stat().st_ctime_ns
        mapped[:] = (memory / "b.onnx").read_bytes()
        assert (path.stat().st_mtime_ns, path.stat().st_ctime_ns) == before
        assert predict(path) == close_to(new)


def test_a_cache_on_a_tmpfs_is_read_again(memory, product, monkeypatch):
    path, weight = product
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(memory / "cache"))
    predict(path)
    (tensor,) = (memory / "cache" / "tensors").iterdir()
    with mapping(tensor) as mapped:
        predict(path)
        mapped[0] ^= 1
        with pytest.warns(PinnaceWarning, match="has changed since it was written"):
            assert predict(path) == close_to(weight)
