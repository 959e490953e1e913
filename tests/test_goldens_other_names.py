"""A primitive under another of its names gives what MindSpore computes."""

from __future__ import annotations

import numpy as np
import pytest

from renaming import DATA, OTHER_NAMES, renamed


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_gives_the_same_under_another_name(name, run_model):
    file, primitive = OTHER_NAMES[name]
    golden = np.load((DATA / file).with_suffix(".npz"))
    x, y = ([golden[k] for k in sorted(golden.files, key=_place) if k[0] == letter] for letter in "xy")
    results = run_model(renamed(DATA / file, primitive, name), x)
    assert len(results) == len(y)
    for result, expected in zip(results, y, strict=True):
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        # As in test_goldens_mindspore: sums in another order; one step of a half is 1e-3.
        half = expected.dtype.itemsize <= 2
        inexact = expected.dtype.kind == "f"
        relative, absolute = (2e-3, 1e-3) if half and inexact else (2e-5, 2e-6) if inexact else (0, 0)
        np.testing.assert_allclose(result, expected, rtol=relative, atol=absolute)


def _place(key: str) -> int:
    return int(key[1:])
