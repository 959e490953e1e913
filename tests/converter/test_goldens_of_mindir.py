"""Files of `.mindir` that real MindSpore runs rightly, made again.

`tools/with_mindspore/make_converted_mindirs.py` made the first ones.
"""

from pathlib import Path

import numpy as np
import pytest

from pinnace.converter.convert import Conversion, convert
from pinnace.weights.source import Source

FOLDER = Path(__file__).parent.parent / "data" / "converted"
CASES = sorted(path.stem for path in FOLDER.glob("*.mindir"))


@pytest.mark.parametrize("name", CASES)
def test_a_model_becomes_the_file_that_mindspore_runs(name, tmp_path):
    (path,) = convert(Source.of_file(FOLDER / f"{name}.onnx"), None, tmp_path / name, Conversion()).files
    # Made again where rules changed: MindSpore must run what they write now.
    assert path.read_bytes() == (FOLDER / f"{name}.mindir").read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_pinnace_computes_what_the_original_does(run_model, name):
    golden = np.load(FOLDER / f"{name}.npz")
    inputs, expected = ([golden[k] for k in golden.files if k[0] == kind] for kind in "xy")
    given = run_model(FOLDER / f"{name}.mindir", inputs)
    for x, y in zip(given, expected, strict=True):
        # The results are MindSpore Lite's, whose exponential is an approximation.
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5, strict=True)
