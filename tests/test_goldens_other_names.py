"""A primitive under another of its names, put into the file of a golden, gives what MindSpore computes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pinnace.formats.mindir.schema import model_class

DATA = Path(__file__).parent / "data"
# Name -> the golden that is renamed, and the primitive in it that gets the name.
OTHER_NAMES: dict[str, list[str]] = json.loads((DATA / "other_names.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_gives_the_same_under_another_name(name, run_model):
    file, primitive = OTHER_NAMES[name]
    golden = np.load((DATA / file).with_suffix(".npz"))
    x, y = ([golden[k] for k in sorted(golden.files, key=_place) if k[0] == letter] for letter in "xy")
    results = run_model(_renamed(DATA / file, primitive, name), x)
    assert len(results) == len(y)
    for result, expected in zip(results, y, strict=True):
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        # As in test_goldens_mindspore: sums in another order; one step of a half is 1e-3.
        half = expected.dtype.itemsize <= 2
        inexact = expected.dtype.kind == "f"
        relative, absolute = (2e-3, 1e-3) if half and inexact else (2e-5, 2e-6) if inexact else (0, 0)
        np.testing.assert_allclose(result, expected, rtol=relative, atol=absolute)


def _renamed(path: Path, old: str, new: str) -> bytes:
    model = model_class().FromString(path.read_bytes())
    nodes = [node for graph in (model.graph, *model.functions) for node in graph.node]
    found = [entry for entry in (*model.primitives, *nodes) if entry.op_type == old]
    assert found, f"{path.name} has no {old}"
    for entry in found:
        entry.op_type = new
    return bytes(model.SerializeToString())


def _place(key: str) -> int:
    return int(key[1:])
