"""`pinnace cpp` builds the library once, and says what is missing."""

from __future__ import annotations

import os
import shlex
import sysconfig
from pathlib import Path

import pytest
from tests.cpp.conftest import ROOT, need, pinnace, run

from pinnace.cpp.build import BuildError, build

ADD = ROOT / "tests" / "data" / "api" / "add.onnx"


def test_the_command_prints_flags_that_work(built, tmp_path):
    def command(*options: str) -> str:
        return pinnace("cpp", "--folder", built.folder, *options, CXXFLAGS="-O0").splitlines()[0]

    assert command() == str(built.folder)
    assert Path(command("--cmakedir"), "pinnaceConfig.cmake").exists()
    source = tmp_path / "version.cc"
    source.write_text(
        '#include <iostream>\n#include "include/api/types.h"\n'
        'int main() { std::cout << mindspore::Version() << "\\n"; }\n'
    )
    flags = shlex.split(command("--cflags", "--ldflags"))
    compiler = os.environ.get("CXX") or "c++"
    run(compiler, source, "-o", tmp_path / "version", *flags)
    assert run(tmp_path / "version").strip() == pinnace("--version").split()[-1]
    need("pkg-config")
    places = str(built.folder / "lib" / "pkgconfig")
    assert shlex.split(run("pkg-config", "--cflags", "--libs", "pinnace", PKG_CONFIG_PATH=places)) == flags


def test_a_built_library_is_kept(built):
    before = (built.folder / "lib" / "libmindspore-lite.so").stat().st_mtime_ns
    build(built.folder, {**os.environ, "CXXFLAGS": "-O0"})
    assert (built.folder / "lib" / "libmindspore-lite.so").stat().st_mtime_ns == before


def test_missing_parts_of_a_build_are_named(tmp_path, monkeypatch):
    with pytest.raises(BuildError, match=r"no C\+\+ compiler 'nowhere' \(CXX\): install g\+\+"):
        build(tmp_path, {"CXX": "nowhere"})
    compiler = {"CXX": "true"}
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(BuildError, match=r"headers of Python 3\.\d+ are missing .*apt install libpython3"):
        build(tmp_path, compiler)
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: str(tmp_path))
    with pytest.raises(BuildError, match=r"shared library of Python 3\.\d+ is missing"):
        build(tmp_path, compiler)


def test_an_error_of_the_compiler_is_shown(tmp_path):
    with pytest.raises(BuildError, match="failed:"):
        build(tmp_path, {**os.environ, "CXXFLAGS": "--no-such-option"})
