"""Model files with several hard links, by which uv installs packages and backups hold files."""

import os
import shutil

import numpy as np
import onnxruntime
import pytest

from pinnace import Model, ModelType
from pinnace.cli.quickstart import MODEL, data


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [(".mindir", ModelType.MINDIR), (".ms", ModelType.MINDIR_LITE), (".onnx", ModelType.ONNX)],
)
def test_a_file_with_two_names_is_converted(pinnace, tmp_path, suffix, kind):
    shutil.copy(data(MODEL), tmp_path / "one.mindir")
    pinnace("inspect", tmp_path / "one.mindir", "--onnx", tmp_path / "one.onnx")
    for name in ("one.mindir", "one.onnx"):
        os.link(tmp_path / name, tmp_path / f"other-{name}")
    written = tmp_path / f"written{suffix}"
    if suffix == ".onnx":
        answer = pinnace("inspect", tmp_path / "one.mindir", "--onnx", written)
    else:
        answer = pinnace("convert", tmp_path / "one.onnx", written)
    assert answer.code == 0, answer.err
    model = Model()
    model.build_from_file(str(written), kind)
    image = np.random.default_rng(0).random((1, 3, 224, 224), np.float32)
    session = onnxruntime.InferenceSession(tmp_path / "one.onnx", providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {session.get_inputs()[0].name: image})
    # probabilities of one file by kernels of two graphs: the errors of float32
    np.testing.assert_allclose(model.predict([image])[0].get_data_to_numpy(), expected, rtol=1e-3, atol=1e-6)
