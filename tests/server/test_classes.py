"""Triton's extension "classification", asked by its client; texts are what C++'s to_string makes."""

from __future__ import annotations

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper
from tests.server import models
from tritonclient.utils import InferenceServerException

from pinnace.server.classes import classified
from pinnace.server.failures import RequestError
from pinnace.server.settings import ModelSettings

LABELS = ("cat", "dog", "ship")


def ask(module, server, x, count, **options):
    port = server.http_port if module is tritonclient.http else server.grpc_port
    given = module.InferInput("x", x.shape, {"f": "FP32", "O": "BYTES"}[x.dtype.kind])
    given.set_data_from_numpy(x)
    wanted = module.InferRequestedOutput("y", class_count=count, **options)
    client = module.InferenceServerClient(f"127.0.0.1:{port}")
    return client.infer("echo", [given], outputs=[wanted]).as_numpy("y").tolist()


DOORS = pytest.mark.parametrize("module", [tritonclient.http, tritonclient.grpc])


@DOORS
@pytest.mark.parametrize("named", ["labels.txt", "names.json"])
def test_the_client_gets_the_highest_classes_with_their_labels(serving, tmp_path, module, named):
    models.echo(tmp_path / "echo" / "1" / "model.onnx", TensorProto.FLOAT)
    text = "\n".join(LABELS) if named.endswith("txt") else '["cat", "dog", "ship"]'
    (tmp_path / "echo" / named).write_text(text)
    if named == "names.json":
        (tmp_path / "echo" / "model.toml").write_text('labels = "names.json"\n')
    server = serving(tmp_path)
    x = np.array([0.25, 3.5, -1.0, 2.0], np.float32)
    found = [b"3.500000:1:dog", b"2.000000:3", b"0.250000:0:cat", b"-1.000000:2:ship"]
    assert ask(module, server, x, 2) == found[:2]
    assert ask(module, server, x, 9) == found
    if module is tritonclient.http:
        assert ask(module, server, x, 1, binary_data=False) == ["3.500000:1:dog"]


@DOORS
@pytest.mark.parametrize(("size", "rows"), [(0, 1), (1, 1), (2, 2)])
def test_where_requests_are_batched_each_row_has_its_classes(serving, tmp_path, module, size, rows):
    nodes, shape = [helper.make_node("Identity", ["x"], ["y"])], ["n", 2]
    file = models.write(tmp_path / "echo.onnx", nodes, [models.value("x", shape)], [models.value("y", shape)])
    server = serving(file, settings=ModelSettings(workers=1, threads=1, max_batch_size=size))
    found = ask(module, server, np.array([[1, 2], [9, 8]], np.float32), 1)
    assert found == [[b"2.000000:1"], [b"9.000000:0"]] if rows == 2 else [b"9.000000:2"]


@DOORS
def test_texts_have_no_classes(serving, tmp_path, module):
    server = serving(models.echo(tmp_path / "echo.onnx", TensorProto.STRING))
    with pytest.raises(InferenceServerException, match=r"(400|INVALID).*output 'y' has no numbers"):
        ask(module, server, np.array([b"a"], object), 1)


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_file_of_labels_that_cannot_be_read_is_named_and_no_fault_of_the_client(serving, tmp_path, content):
    models.echo(tmp_path / "echo" / "model.onnx", TensorProto.FLOAT)
    if content is not None:
        (tmp_path / "echo" / "names.txt").write_bytes(content)
    (tmp_path / "echo" / "model.toml").write_text('labels = "names.txt"\n')
    server = serving(tmp_path)
    with pytest.raises(InferenceServerException, match=r"\[500\].*names\.txt"):
        tritonclient.http.InferenceServerClient(f"127.0.0.1:{server.http_port}").load_model("echo")


def test_each_row_of_a_batch_has_classes():
    x = np.array([[[1, 2], [3, 2]], [[9, 0], [0, 0]]], np.uint8)
    assert classified("y", x, 3, LABELS, batched=True).tolist() == [
        ["3:2:ship", "2:1:dog", "2:3"],
        ["9:0:cat", "0:1:dog", "0:2:ship"],
    ]
    assert classified("y", x, 2, (), batched=False).tolist() == ["9:4", "3:2"]
    assert classified("y", np.zeros((0, 3), np.float32), 2, (), batched=True).shape == (0, 2)
    assert classified("y", np.array(7, np.int64), 2, (), batched=False).tolist() == ["7:0"]
    half = np.array([0.5, 1.5], np.float16)
    assert classified("y", half, 1, (), batched=False).tolist() == ["1.500000:1"]


def test_very_many_classes_are_refused():
    with pytest.raises(RequestError, match="gives at most 65536 classes"):
        classified("y", np.zeros((2, 40_000), np.float32), 40_000, (), batched=True)
    most = np.zeros((2, 1 << 15), np.float32)
    assert classified("y", most, 1 << 15, (), batched=True).shape == (2, 1 << 15)
    with pytest.raises(RequestError, match="gives at most 65536 classes"):
        classified("y", np.zeros(65_537, np.float32), 65_537, (), batched=False)


def test_rows_without_values_are_counted_too():
    assert classified("y", np.empty((3, 0), np.float32), 1, [], True).shape == (3, 0)
    with pytest.raises(RequestError, match="at most 65536 classes"):
        classified("y", np.empty((1 << 17, 0), np.float32), 1, [], True)
