"""Files on a tmpfs, where writing through a mapping changes no time of a file."""

import math
import mmap
import os
import tempfile
from pathlib import Path

import pytest

from pinnace.cache import known
from pinnace.errors import PinnaceWarning

from .conftest import close_to, make_model, predict


@pytest.fixture
def memory():
    """A folder on a tmpfs (shm_overview(7))."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_a_model_on_a_tmpfs_is_read_again(cache, memory, monkeypatch):
    monkeypatch.setattr(known, "_SETTLED", -math.inf)
    old, new = make_model(memory / "a.onnx", 1), make_model(memory / "b.onnx", 2)
    assert predict(memory / "a.onnx") == close_to(old)
    with (memory / "a.onnx").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        before = os.fstat(file.fileno())
        mapped[:] = (memory / "b.onnx").read_bytes()
        assert os.fstat(file.fileno()) == before
    assert predict(memory / "a.onnx") == close_to(new)


def test_a_cache_on_a_tmpfs_is_read_again(memory, product, monkeypatch):
    path, weight = product
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(memory / "cache"))
    predict(path)
    (tensor,) = (memory / "cache" / "tensors").iterdir()
    with tensor.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[0] ^= 1
    with pytest.warns(PinnaceWarning, match="has changed since it was written"):
        assert predict(path) == close_to(weight)
