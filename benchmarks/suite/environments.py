"""The peers, and an environment of its own for each."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONTESTANTS = Path(__file__).parent / "contestants"


class LeftOut(Exception):
    """Why a peer does not take part."""


@dataclass(frozen=True)
class Peer:
    """A library that is compared with: what to install, and for which Python ("" is that of the caller)."""

    name: str
    packages: tuple[str, ...]
    without_dependencies: tuple[str, ...] = ()
    python: str = ""
    converts: bool = False
    """It reads files of its own converter, not ONNX."""
    pools: bool = True
    """It serves many threads at once."""

    @property
    def script(self) -> Path:
        return CONTESTANTS / f"with_{self.name}.py"


PINNACE = Peer("pinnace", ())
PEERS = {
    peer.name: peer
    for peer in (
        Peer("onnxruntime", ("onnxruntime",)),
        Peer("openvino", ("openvino",)),
        Peer("mindspore_lite", ("mindspore-lite==2.0.0", "numpy<1.22"), python="3.7", converts=True),
        Peer("mnn", ("MNN", "numpy"), converts=True, pools=False),
        # pnnx asks for torch, and its program does without.
        Peer("ncnn", ("ncnn", "numpy"), ("pnnx",), converts=True, pools=False),
    )
}


def interpreter(peer: Peer, folder: Path) -> Path:
    """The interpreter of a peer's environment in `folder`, made where it is not there. Raises `LeftOut`."""
    home = folder / peer.name
    python = home / "bin" / "python"
    if (home / "complete").exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    _run(str(_base(peer.python)), "-m", "venv", str(home))
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(*install, *peer.packages)
    if peer.without_dependencies:
        _run(*install, "--no-deps", *peer.without_dependencies)
    (home / "complete").touch()
    return python


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines() or ["it failed without a word"]
        raise LeftOut(f"{Path(command[0]).name} {' '.join(command[1:3])}: {output[-1]}")


def _base(version: str) -> Path:
    """An interpreter of this version: on the PATH, or among those of pyenv. Raises `LeftOut`."""
    for candidate in _interpreters(version):
        asked = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if not version or done.stdout.strip() == version:  # pyenv's shims are there and do not run
            return Path(candidate)
    raise LeftOut(f"it needs Python {version}, which is neither on the PATH nor among pyenv's versions")


def _interpreters(version: str) -> Iterator[str]:
    if not version:
        yield sys.executable
    elif found := shutil.which(f"python{version}"):
        yield found
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    yield from sorted(glob.glob(f"{root}/versions/{version}.*/bin/python"))
