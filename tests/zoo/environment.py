"""The oracle's environment: made here where none is given."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

PACKAGES = ("mindspore==2.10.0", "mindcv==0.3.0", "opencv-python-headless==4.10.0.84", "numpy<2", "PyYAML")
"""mindyolo comes as a checkout; it imports OpenCV, whose newer versions need a newer numpy than MindSpore."""

MINDYOLO = ("https://github.com/mindspore-lab/mindyolo", "v0.5.0")


def oracle(work: Path, given: str | None) -> str:
    """The interpreter of MindSpore: the one given, or that of a virtual environment in the work folder."""
    if given:
        return given
    python = work / "oracle" / "bin" / "python"
    done = work / "oracle" / "installed"
    if not done.exists():
        venv.create(work / "oracle", clear=True, with_pip=True)
        _run(str(python), "-m", "pip", "install", "--quiet", *PACKAGES)
        done.touch()
    return str(python)


def mindyolo(work: Path, given: Path | None) -> Path:
    """A checkout of mindyolo, whose package on PyPI lacks the configurations of the networks."""
    if given:
        return given.absolute()
    folder = work / "mindyolo"
    if not folder.exists():
        url, tag = MINDYOLO
        _run("git", "clone", "--quiet", "--depth", "1", "--branch", tag, url, str(folder))
    return folder


def _run(*command: str) -> None:
    print(*command, file=sys.stderr)
    subprocess.run(command, check=True)
