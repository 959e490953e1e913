"""Which reader a file gets."""

from __future__ import annotations

import os
import shutil

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


@pytest.mark.parametrize(
    "name", ["relu_AES-CBC.mindir", "relu_AES-GCM.mindir", "relu_SM4-CBC.mindir", "softmax_AES-GCM.ms"]
)
def test_an_encrypted_file_needs_its_key(data, name):
    with pytest.raises(ModelFormatError, match=r"is encrypted.*dec_key.* by pinnace convert --decrypt-key"):
        read(Source.of_file(data / "encrypted" / name), ModelType.MINDIR)


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


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFormatError, match="pipe"):
        Source.of_file(tmp_path / "pipe")


@pytest.mark.parametrize("where", ["latin-\udce9.onnx", "latin-\udce9/m.onnx"])
def test_paths_that_engines_cannot_be_told(data, tmp_path, run_model, where):
    path = tmp_path / where
    path.parent.mkdir(exist_ok=True)
    shutil.copy(data / "api" / "add.onnx", path)
    with pytest.raises(ModelFormatError, match="not UTF-8"):
        run_model(path, [])
    beside = {"model_file": {"mindir_path": str(path)}}
    if path.parent != tmp_path:
        with pytest.raises(ModelFormatError, match="not UTF-8"):
            run_model(path.read_bytes(), [], beside)


def test_an_empty_buffer():
    with pytest.raises(ModelFormatError, match="empty"):
        Source.of_buffer(b"")
