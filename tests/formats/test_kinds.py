"""Which reader a file gets."""

from __future__ import annotations

import pytest

from pinnace.errors import ModelFormatError
from pinnace.formats import read
from pinnace.types import ModelType
from pinnace.weights.source import Source


def test_content_that_is_not_what_was_asked_for(data):
    with pytest.raises(ModelFormatError, match=r"is a MindIR model.*use ModelType\.MINDIR"):
        read(Source.of_file(data / "split" / "big_graph.mindir"), ModelType.ONNX)


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n", b"hello, world", b"\xff" * 64, b"\x00"])
def test_what_is_no_model(tmp_path, content):
    path = tmp_path / "m.mindir"
    path.write_bytes(content)
    with pytest.raises(ModelFormatError, match=r"m\.mindir"):
        read(Source.of_file(path))


def test_an_empty_file(tmp_path):
    path = tmp_path / "m.onnx"
    path.touch()
    with pytest.raises(ModelFormatError, match="empty"):
        Source.of_file(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(ModelFormatError, match="no such file"):
        Source.of_file(tmp_path / "m.ms")


def test_a_directory(tmp_path):
    with pytest.raises(ModelFormatError, match="directory"):
        Source.of_file(tmp_path)


def test_an_empty_buffer():
    with pytest.raises(ModelFormatError, match="empty"):
        Source.of_buffer(b"")
