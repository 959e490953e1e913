"""The lines of docs/guides/twenty-things.md run, agree, and are never more for Pinnace than for its peers."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs import things

TOOL = Path(__file__).parents[2] / "tools" / "pages" / "make_twenty_things.py"
THINGS = things.things()


@pytest.mark.parametrize("library", things.IMPORTED)
def test_lines(library, tmp_path):
    """In a process of their own: two cores of OpenVINO leave a stack for signals that is freed (2026.4)."""
    pytest.importorskip(library)
    command = [sys.executable, things.__file__, library]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("thing", THINGS, ids=[thing["title"] for thing in THINGS])
def test_pinnace_is_never_longer(thing):
    peers = [thing[key] for key in ("onnxruntime", "openvino") if thing[key]]
    assert len(thing["pinnace"].splitlines()) <= min(len(lines.splitlines()) for lines in peers)
    assert len(thing["pinnace"]) <= min(map(len, peers))


def test_the_page_is_current():
    spec = importlib.util.spec_from_file_location("make_twenty_things", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert len(THINGS) == 20
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page()
