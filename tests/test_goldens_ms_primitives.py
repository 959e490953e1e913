"""Files of one primitive, written by hand for what converters do not, give what MindSpore Lite gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinnace.building.build import build_model as build
from pinnace.options.settings import Settings

DATA = Path(__file__).parent / "data" / "ms_primitives"
FILES = sorted(DATA.glob("*.ms"))

# Both sides compute in float32, with a step of 1.2e-7; normalizations and recurrences lose two digits.
TOLERANCE = 1e-5
LOOSER = {
    # MindSpore Lite's Rsqrt is an approximation of 12 bits, and its Tanh and Sigmoid of 14.
    "activation_10.ms": 2e-4,
    "activation_gelu_tanh.ms": 5e-4,
    "rsqrt.ms": 5e-4,
    "gru.ms": 2e-4,
    "gru_bi.ms": 2e-4,
}
# A step of the result where integers are computed with: the two sides round halves differently.
STEPS = {
    "int8_conv.ms": 0.1,
    "int8_depthwise.ms": 0.05,
    "int8_matmul.ms": 0.1,
    "int8_max_pool.ms": 0.025,
    "int8_sigmoid.ms": 1 / 256,
}


def test_all_files_are_there():
    assert len(FILES) == 199


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_gives_what_mindspore_lite_gives(path, target):
    golden = np.load(path.with_suffix(".npz"))
    executable = build(path, None, target, Settings.load())
    inputs = [golden[f"x{i}"] for i in range(len(executable.inputs))]
    results = executable.execution().run(inputs)
    assert len(results) == sum(key.startswith("y") for key in golden)
    tolerance = LOOSER.get(path.name, TOLERANCE)
    for i, result in enumerate(results):
        expected = golden[f"y{i}"]
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        step = STEPS.get(path.name, 0)
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance + 1.01 * step)
        assert step == 0 or (abs(result - expected) > tolerance).mean() < 0.05
