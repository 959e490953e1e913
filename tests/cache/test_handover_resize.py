"""Weights that one process lends to another are still lent when the borrower is resized."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import pinnace
from pinnace.errors import PinnaceWarning

from .conftest import make_model

BORROWER = """
    import sys
    import warnings
    import numpy as np
    import pinnace

    def private():
        with open("/proc/self/smaps_rollup") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Private_")) / 1024

    model = pinnace.Model()
    print(model.get_model_info("current_pid"), flush=True)
    handle, provider = sys.stdin.readline().split()
    context = pinnace.Context()
    context.cpu.provider = provider
    before = private()
    with warnings.catch_warnings(record=True, action="always") as caught:
        config = {"shared_mem_handle": handle}
        model.build_from_file(sys.argv[1], pinnace.ModelType.ONNX, context, config_dict=config)
        model.resize(model.get_inputs(), [[5, 128]])
    x = np.load(sys.argv[2])
    y = np.asarray(model.predict([x])[0])
    warned = [one for one in caught if "shares no weights" in str(one.message)]
    print(private() - before, len(warned), flush=True)
    np.save(sys.argv[2], y)
"""


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("provider", ["onnxruntime", "openvino"])
def test_a_borrower_that_is_resized_shares_the_weights_or_says_why_not(
    provider: str, cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "cache") if cached else "off")
    path, given = tmp_path / "model.onnx", tmp_path / "x.npy"
    weight = make_model(path, outputs=1 << 17, rows=2)  # 64 MB
    x = np.random.default_rng(2).normal(size=(5, 128)).astype(np.float32)
    np.save(given, x)
    command = [sys.executable, "-c", textwrap.dedent(BORROWER), str(path), str(given)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=os.environ | {"PINNACE_CACHE_DIR": "off"}, **pipes) as borrower:
        pid = borrower.stdout.readline()
        model, context = pinnace.Model(), pinnace.Context()
        context.cpu.provider = provider
        config = {"pids": pid}
        if provider == "openvino":
            with pytest.warns(PinnaceWarning, match="shares no weights: openvino"):
                model.build_from_file(str(path), pinnace.ModelType.ONNX, context, config_dict=config)
        else:
            model.build_from_file(str(path), pinnace.ModelType.ONNX, context, config_dict=config)
        handle = model.get_model_info("shareable_weight_mem_handle")
        answer, _ = borrower.communicate(f"{handle} {provider}\n")
    megabytes, warned = map(float, answer.split())
    if provider == "onnxruntime":
        assert (
            megabytes < 48
        )  # the compiler and the results take some 25; a copy of the weights would be 64 more
    assert warned == (0 if provider == "onnxruntime" else 2)
    # 128 products summed in another order than numpy's
    np.testing.assert_allclose(np.load(given), x @ weight, rtol=1e-4, atol=1e-4)
    model.close()
