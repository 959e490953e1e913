"""Building of the C++ library for this environment: a folder laid out as MindSpore Lite's package is."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from pinnace import __version__
from pinnace.errors import PinnaceError
from pinnace.machine.file_lock import locked
from pinnace.writing import replacing

_HERE = Path(__file__).parent
_SOURCES = sorted((_HERE / "source").iterdir())
_LIBRARY = "libmindspore-lite.so"


class BuildError(PinnaceError, RuntimeError):
    """The library cannot be built here; the message says what to install."""

    _lines = True


@dataclass(frozen=True)
class Built:
    """The folder of a built library."""

    folder: Path

    @property
    def cmakedir(self) -> Path:
        """Folder of the package that CMake's `find_package(pinnace)` finds."""
        return self.folder / "lib" / "cmake" / "pinnace"

    @property
    def cflags(self) -> list[str]:
        return ["-std=c++17", f"-I{self.folder}"]

    @property
    def ldflags(self) -> list[str]:
        library = self.folder / "lib"
        return [f"-L{library}", f"-Wl,-rpath,{library}", "-lmindspore-lite"]


def default_folder() -> Path:
    return Path(sys.prefix) / "lib" / "pinnace-cpp"


def build(folder: Path, environment: Mapping[str, str] = os.environ) -> Built:
    """Compile the library into `folder`, unless it is there already, for the running Python.

    CXX and CXXFLAGS are the compiler and its options. Raises `BuildError` if something is missing.
    """
    folder = folder.absolute()
    built = Built(folder)
    command = _command(environment)
    stamp = _digest(command)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock"):
        if _read(folder / "stamp") != stamp:
            with replacing(folder / "stamp") as place:
                _compile(command, place.parent / "lib")
                _lay_out(Built(place.parent), folder)
                place.write_text(stamp)
            if not (folder / "runtime").exists():  # of MindSpore Lite's package, for cmake -DLITE_HOME=
                (folder / "runtime").symlink_to(".")
    return built


def _command(environment: Mapping[str, str]) -> list[str]:
    compiler = environment.get("CXX", "")
    words = shlex.split(compiler) or [next(filter(shutil.which, ("c++", "g++", "clang++")), "")]
    if not words[0] or not shutil.which(words[0]):
        raise BuildError(
            f"there is no C++ compiler{f' {compiler!r} (CXX)' if compiler else ''}: install g++ "
            f"(apt install g++, or dnf install gcc-c++)"
        )
    flags = shlex.split(environment.get("CXXFLAGS", "-O2"))
    sources = [str(source) for source in _SOURCES if source.suffix == ".cc"]
    built_for = f'-DPINNACE_BUILT_FOR="{sys.executable}"'
    shared = ["-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", built_for]
    return [*words, *flags, *shared, f"-I{_HERE}", *sources, *_python(), "-ldl"]


def _python() -> list[str]:
    """Return the options to use Python's headers and library."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    install = (
        f"install them (apt install libpython{version}-dev, or dnf install python{version}-devel), or use "
        f"a Python that has them, such as that of uv, of conda or of Docker's image `python`"
    )
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        raise BuildError(f"the headers of Python {version} are missing ({headers}/Python.h): {install}")
    folder, multiarch, name = map(sysconfig.get_config_var, ("LIBDIR", "MULTIARCH", "LDLIBRARY"))
    name = name if str(name).endswith(".so") else f"libpython{version}.so"
    places = [Path(folder), Path(folder) / str(multiarch)]
    found = next((place for place in places if (place / name).exists()), None)
    if found is None:
        raise BuildError(f"the shared library of Python {version} is missing ({folder}/{name}): {install}")
    return [f"-I{headers}", f"-L{found}", f"-Wl,-rpath,{found}", f"-l{name[3:-3]}"]


def _digest(command: list[str]) -> str:
    content = blake3("\0".join((__version__, *command)).encode())
    for path in (*_SOURCES, *sorted(_HERE.rglob("*.h"))):
        content.update(path.read_bytes())
    return content.hexdigest()


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _compile(command: list[str], folder: Path) -> None:
    folder.mkdir()
    done = subprocess.run(
        [*command, "-o", str(folder / _LIBRARY)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{shlex.join(command)} failed:\n{done.stderr[-4000:]}")


def _lay_out(built: Built, prefix: Path) -> None:
    """Copy the headers, and write the files of CMake and pkg-config, which name the folder `prefix`."""
    shutil.copytree(_HERE / "include", built.folder / "include")
    written = {"PREFIX": str(prefix), "VERSION": __version__}
    for source, target in (
        ("pinnaceConfig.cmake", built.cmakedir),
        ("pinnaceConfigVersion.cmake", built.cmakedir),
        ("pinnace.pc", built.folder / "lib" / "pkgconfig"),
        ("libmindspore_glog.so", built.folder / "lib"),
    ):
        target.mkdir(parents=True, exist_ok=True)
        text = (_HERE / "templates" / source).read_text()
        for name, value in written.items():
            text = text.replace(f"@{name}@", value)
        (target / source).write_text(text)
