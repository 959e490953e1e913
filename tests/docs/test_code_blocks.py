"""Every code block of the manual runs as it stands, or a comment before it says why it does not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.docs.page import LANGUAGES, blocks

import pinnace
from pinnace import errors

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
API = ROOT / "docs" / "reference" / "api.md"
RUNNER = Path(__file__).with_name("page.py")


@pytest.fixture
def folder(tmp_path):
    """A clone's examples and sources, and a model of each kind."""
    for name in ("examples", "src"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "model.mindir").symlink_to(ROOT / "src" / "pinnace" / "data" / "efficientnet_lite0.mindir")
    onnx.save(classifier(), tmp_path / "model.onnx")
    return tmp_path


def classifier():
    """Scores of 3 classes for any number of rows: logits = x @ weight + bias."""
    random = np.random.default_rng(1)
    weights = {"fc.weight": random.normal(size=(4, 3)), "fc.bias": random.normal(size=3)}
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["logits"], "/fc/Gemm")],
        "classifier",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_has_a_language(page):
    assert {block.language for block in blocks(page)} <= LANGUAGES


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_blocks_write_are_used(page):
    for block in blocks(page):
        assert not block.title or any(block.title in other.text for other in blocks(page))


@pytest.mark.parametrize("page", [p for p in PAGES if any(b.runs for b in blocks(p))], ids=name)
def test_code_blocks(page, folder):
    """Each page begins with an empty compile cache, as that of a reader who tries it first."""
    answer = subprocess.run(
        [sys.executable, str(RUNNER), str(page)],
        cwd=folder,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PINNACE_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, f"{answer.stdout}\n{answer.stderr}"


def test_the_reference_has_every_public_name():
    described = set(re.findall(r"^::: pinnace\.(\w+)$", API.read_text("utf-8"), re.MULTILINE))
    on_the_page_of_errors = {name for name in pinnace.__all__ if hasattr(errors, name)}
    assert described | on_the_page_of_errors | {"__version__"} >= set(pinnace.__all__)
