"""Sharing of the weights of a model that is built already: it changes its place only if it must."""

from __future__ import annotations

import pytest

from pinnace.building.build import build
from pinnace.building.opening import open_model
from pinnace.building.weights import WeightUpdate
from pinnace.options.settings import Settings
from pinnace.options.table import AFTER, BEFORE
from pinnace.options.target import Target


@pytest.mark.filterwarnings("ignore:.*shares no weights")
@pytest.mark.parametrize(
    ("provider", "keep", "installs"),
    [("onnxruntime", BEFORE, 0), ("onnxruntime", AFTER, 1), ("openvino", AFTER, 0)],
)
def test_a_model_that_is_not_loaded_from_files_is_replaced_by_one_that_is(
    data, tmp_path, provider, keep, installs
):
    pytest.importorskip(provider)
    settings = Settings.load(options={"ms_cache": {"serialize_path": str(tmp_path)}})
    model = data / "api" / "add.onnx"
    made = build(open_model(model, None, Target(threads=1, provider=provider), settings, keep))
    assert (made.spec.entry is not None) == (keep == BEFORE)
    installed = []
    WeightUpdate(made).share(installed.append)
    assert len(installed) == installs
    for executable in (made.executable, *installed):
        executable.close()
