"""C++ programs of tests, compiled and run; skipped, with the reason, where they cannot be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace.cpp.build import BuildError, Built, build

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The library, without optimization, which takes seconds; once for all processes of a test run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    try:
        return build(shared / "cpp", {**os.environ, "CXXFLAGS": "-O0"})
    except BuildError as error:
        if "failed:" in str(error):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def compiled(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile a program of tests/cpp/programs."""
    folder = tmp_path_factory.mktemp("programs")

    def compile_(name: str, *flags: str) -> Path:
        program, source = folder / name, str(PROGRAMS / f"{name}.cc")
        if not program.exists():
            compiler = os.environ.get("CXX") or "c++"
            options = "-O0", "-Wall", "-Werror", *built.cflags
            run(compiler, *options, source, "-o", program, *built.ldflags, *flags)
        return program

    return compile_


def run(*command: object, code: int = 0, **environment: str) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def need(program: str) -> None:
    """Skip a test whose program is missing."""
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")


def pinnace(*arguments: object, code: int = 0, **environment: str) -> str:
    """Run the command `pinnace`."""
    return run(sys.executable, "-m", "pinnace", *arguments, code=code, **environment)
