"""The lines of docs/guides/twenty-things.md run, agree, and are never more for Pinnace than for its peers."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import pinnace

TOOL = Path(__file__).parents[2] / "tools" / "make_twenty_things.py"
_spec = importlib.util.spec_from_file_location("make_twenty_things", TOOL)
tool = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tool)
THINGS = tool.things()

MODEL = """<ir_version: 10, opset_import: ["": 18]>
g (float[batch, 3] x, float scale) => (float[batch, 3] logits) {
    scaled = Mul(x, scale)
    logits = Sin(scaled)
}"""
X = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], np.float32)
RIGHT = np.sin(2 * X)


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the lines take as given."""
    monkeypatch.chdir(tmp_path)
    made = onnx.parser.parse_model(MODEL)
    onnx.save(made, "model.onnx")
    with ThreadPoolExecutor(4) as threads:
        yield {
            "asyncio": asyncio, "json": json, "time": time, "np": np,
            "data": made.SerializeToString(), "x": X, "scale": np.array(2, np.float32),
            "threads": threads, "taken": [],
        }  # fmt: skip


def imported(library):
    if library == "pinnace":
        return {"pinnace": pinnace}
    if library == "onnxruntime":
        return {"ort": onnxruntime}
    return {"ov": pytest.importorskip("openvino")}


def run(lines, names):
    code = compile(lines, "<lines>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))
    else:
        exec(code, names)


@pytest.mark.parametrize("library", tool.LIBRARIES)
@pytest.mark.parametrize("thing", THINGS, ids=[thing["title"] for thing in THINGS])
def test_lines(thing, library, names):
    if not thing[library]:
        return
    names |= imported(library)
    if "tensor" in thing["pinnace"]:
        torch = pytest.importorskip("torch")
        names["tensor"] = torch.from_numpy(X.copy()).requires_grad_()
    run(THINGS[0][library], names)
    run(THINGS[3][library], names)
    names["y"] = np.zeros_like(X)
    run(thing[library], names)
    y = names["y"]
    if isinstance(y, list):
        assert [name for name, _ in y] == ["x", "scale"]
    elif not isinstance(y, np.ndarray):
        assert y  # a name, a time
    else:
        if not y.any():  # the lines open a model
            run(THINGS[3][library], names)
        np.testing.assert_allclose(names["y"], RIGHT, rtol=1e-6)


@pytest.mark.parametrize("thing", THINGS, ids=[thing["title"] for thing in THINGS])
def test_pinnace_is_never_longer(thing):
    peers = [thing[key] for key in ("onnxruntime", "openvino") if thing[key]]
    assert len(thing["pinnace"].splitlines()) <= min(len(lines.splitlines()) for lines in peers)


def test_the_page_is_current():
    assert len(THINGS) == 20
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page()
