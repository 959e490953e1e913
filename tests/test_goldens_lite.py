"""What MindSpore Lite's converter wrote, in both kinds of file, gives what ONNX expects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinnace.building.build import build_model as build
from pinnace.options.settings import Settings

DATA = Path(__file__).parent / "data"
FILES = sorted(
    p for d in ("lite_ops", "lite_layers") for p in (DATA / d).iterdir() if p.suffix in (".ms", ".mindir")
)

# Both sides compute in float32, with a step of 1.2e-7; the sums here, of some hundred terms, lose a digit.
TOLERANCE = 2e-6
LOOSER = {
    # The converter wrote alpha = 0 for ONNX's 1e-4: that much is missing from the result.
    "test_lrn_default_lite.mindir": 5e-4,
    # ... and epsilon = 0 for 1e-5.
    "instn.ms": 2e-5,
}


def test_all_files_are_there():
    assert len(FILES) == 249 + 171


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_gives_what_onnx_expects(path, target):
    golden = np.load(path.parent / f"{path.stem.removesuffix('_lite')}.npz")
    executable = build(path, None, target, Settings.load())
    inputs = [as_the_file_has_it(golden[f"x{i}"], port) for i, port in enumerate(executable.inputs)]
    results = executable.execution().run(inputs)
    assert len(results) == sum(key.startswith("y") for key in golden)
    tolerance = LOOSER.get(path.name, TOLERANCE)
    for i, (result, port) in enumerate(zip(results, executable.outputs, strict=True)):
        expected = golden[f"y{i}"]
        # MindSpore Lite counts in int32 where ONNX does in int64 (Shape, ArgMax).
        assert result.dtype == (np.int32 if expected.dtype == np.int64 else expected.dtype)
        assert result.dtype == port.dtype.to_numpy()
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def as_the_file_has_it(array, port):
    """An input of an ONNX model for the converted one: `.ms` images have their channels last."""
    if array.ndim == 4 and array.shape != port.shape:
        array = array.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(array, port.dtype.to_numpy())
