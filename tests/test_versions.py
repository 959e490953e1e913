"""Models that several versions of MindSpore exported, run three times in a row; state goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pinnace as mslite

VERSIONS = Path(__file__).parent / "data" / "versions"
CASES = sorted(VERSIONS.glob("*/*.mindir"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_model_of_any_version_gives_what_mindspore_gave(path):
    golden = np.load(path.with_suffix(".npz"))
    inputs = [golden[f"x{i}"] for i in range(sum(name.startswith("x") for name in golden.files))]
    with mslite.Model() as model:
        model.build_from_file(str(path), mslite.ModelType.MINDIR)
        for run in range(3):
            outputs = model.predict([mslite.Tensor(x) for x in inputs])
            for i, output in enumerate(outputs):
                expected = golden[f"run{run}_y{i}"]
                actual = output.get_data_to_numpy()
                assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
                # fp32 sums of at most some hundred products, in another order than MindSpore's.
                np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_every_model_instance_has_a_state_of_its_own():
    path = str(VERSIONS / "2.10.0" / "state.mindir")
    golden = np.load(VERSIONS / "2.10.0" / "state.npz")
    one, other = mslite.Model(), mslite.Model()
    for model in (one, other):
        model.build_from_file(path, mslite.ModelType.MINDIR)
    for expected in ("run0_y0", "run1_y0"):
        (output,) = one.predict([mslite.Tensor(golden["x0"])])
        np.testing.assert_allclose(output.get_data_to_numpy(), golden[expected], rtol=1e-6)
    (output,) = other.predict([mslite.Tensor(golden["x0"])])
    np.testing.assert_allclose(output.get_data_to_numpy(), golden["run0_y0"], rtol=1e-6)
