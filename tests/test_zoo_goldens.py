"""Networks of the zoo, made small: Pinnace gives what MindSpore computed, run after run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinnace.building.build import build_model as build
from pinnace.options.settings import Settings

CASES = sorted((Path(__file__).parent / "data" / "zoo").glob("*.mindir"))

TOLERANCE = 1e-5
"""Of the largest value: a hundred steps of float32, as hundreds of operators round in their own order."""

LOOSER = {
    # The step between its two maps is 50 times as steep as they are: a difference grows up to 12.5 times.
    "dbnet": 1e-4,
}


def test_all_files_are_there():
    assert len(CASES) == 11


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_gives_what_mindspore_computes(path, target):
    golden = np.load(path.with_suffix(".npz"))
    model = build(path, None, target, Settings.load())
    execution = model.execution()  # its state goes on from one run to the next
    for run in range(len({key.split("_")[0] for key in golden})):
        results = execution.run(_arrays(golden, f"run{run}_x"))
        expected = _arrays(golden, f"run{run}_y")
        assert [(r.shape, r.dtype) for r in results] == [(e.shape, e.dtype) for e in expected]
        for given, right in zip(results, expected, strict=True):
            largest = np.abs(right).max() if right.dtype == np.float32 else 0
            tolerance = LOOSER.get(path.stem, TOLERANCE) * largest
            np.testing.assert_allclose(given, right, rtol=0, atol=tolerance)
    model.close()


def _arrays(golden, start: str) -> list[np.ndarray]:
    return [golden[f"{start}{i}"] for i in range(sum(key.startswith(start) for key in golden))]
