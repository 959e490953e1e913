"""One compiled model on disk.

An entry is a folder: the engine's files, the initial values of the model's state in `state`, and `meta.json`,
which describes them with the size and digest of every file. The first line of `meta.json` is its own digest.

Files are trusted as long as their size, modification time and inode match `stamp.json`, recorded in the same
boot of the machine (this detects data that was lost in a power failure, and copies). Otherwise they are read
once and compared with their digests; on a tmpfs always, where a mapping changes a file without its times.
Installed files of root are trusted as those of a package are.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pinnace.cache.folder import Record, check_owner, sealed, unsealed
from pinnace.engines.protocol import TENSORS, Compiled, FileWeight
from pinnace.machine.cgroup import lies_in_memory
from pinnace.types import Array, DataType, Interface, Port
from pinnace.weights.digest import digest_of_file

_META, _STAMP, _STATE = "meta.json", "stamp.json", "state"

PLAN = "plan.json"
"""The file of the plan of one rank's part of a model."""


class Damaged(Exception):
    """An entry differs from what was written."""


class Entry(NamedTuple):
    """A compiled model and its folder. `model` and `engine` are descriptions for people.

    `warnings` are those of the compilation; each load repeats them.
    """

    folder: Path
    compiled: Compiled
    model: str
    engine: str
    warnings: Sequence[str]

    @property
    def is_part(self) -> bool:
        """True for the part of one rank, which `pinnace.building.partition` has written."""
        return (self.folder / PLAN).exists()


def write(folder: Path, compiled: Compiled, model: str, engine: str, warnings: Sequence[str] = ()) -> None:
    """Complete a folder into which an engine has written."""
    (folder / _STATE).write_bytes(b"".join(value.tobytes() for value in compiled.first_state))
    files = {name: (path.stat().st_size, _digest(path)) for name, path in _files(folder)}
    meta = {
        "model": model,
        "engine": engine,
        "warnings": list(warnings),
        "interface": interface_record(compiled.interface),
        "state": [(DataType.from_numpy(v.dtype).name, v.shape) for v in compiled.first_state],
        "weights": [weight._asdict() for weight in compiled.weights],
        "files": files,
    }
    (folder / _META).write_text(sealed(json.dumps(meta, indent=1)), encoding="utf-8")


def read(folder: Path, installed: bool = False) -> Entry:
    """Read an entry; one that is `installed` may be root's, and nothing is written there.

    Raises `Damaged`, and FileNotFoundError if there is none.
    """
    meta = _meta(folder)
    state = _stamp(folder, meta["files"], installed)
    if installed and folder.stat().st_uid == 0:
        verify(folder, content=False)
    elif state != _recorded(folder) or lies_in_memory(folder):
        verify(folder)
        if not installed:
            stamp(folder)
    return described(folder)


def described(folder: Path) -> Entry:
    """Read an entry without checking its files, such as one within an entry that was checked. Raises
    `Damaged`.
    """
    meta = _meta(folder)
    try:
        compiled = Compiled(
            interface=interface(meta["interface"]),
            first_state=tuple(_first_state(folder, meta["state"])),
            weights=tuple(FileWeight(**{**kept, "shape": tuple(kept["shape"])}) for kept in meta["weights"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{folder / _META}: {error}") from None
    return Entry(folder, compiled, meta["model"], meta["engine"], meta.get("warnings", ()))


def description(folder: Path) -> bytes:
    return (folder / _META).read_bytes()


def verify(folder: Path, content: bool = True) -> None:
    """Read every file of an entry, or without `content` its size.

    Raises `Damaged` if one differs from what was written.
    """
    for name, (size, expected) in _meta(folder)["files"].items():
        path = folder / name
        same = path.is_file() and path.stat().st_size == size
        if not same or (content and digest_of_file(path) != expected):
            raise Damaged(f"{path} has changed since it was written")


def stamp(folder: Path) -> None:
    """Record that the files are verified. Does nothing if the folder is read-only."""
    new = folder / f"{_STAMP}.{os.getpid()}"
    try:
        new.touch(mode=0o600)
        new.write_text(json.dumps(_stamp(folder, _meta(folder)["files"])), encoding="utf-8")
        new.replace(folder / _STAMP)
    except OSError:
        pass  # another process wrote it, or the folder is read-only: the files are verified again next time


def touch(folder: Path) -> None:
    with suppress(OSError):  # read-only folder
        os.utime(folder / _STAMP)


def used(folder: Path) -> float:
    """Return the time of the last use in seconds since 1970; 0 if unknown."""
    try:
        return (folder / _STAMP).stat().st_mtime
    except OSError:
        return 0.0


def _meta(folder: Path) -> Record:
    path = folder / _META
    if not path.is_file() and os.path.lexists(folder):
        raise Damaged(f"{path} is not a file")
    body = unsealed(path.read_text(encoding="utf-8", errors="replace"))
    if body is None:
        raise Damaged(f"{path} has changed since it was written")
    meta: Record = json.loads(body)
    return meta


def _digest(path: Path) -> str:
    return path.name if path.parent.name == TENSORS else digest_of_file(path)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path


def _stamp(folder: Path, files: Mapping[str, Any], installed: bool = False) -> Record:
    """Return the boot and the state of each file. Raises `Damaged` if one is missing or not private."""
    facts: Record = {"boot": boot()}
    for name in (".", _META, *files):
        try:
            status = check_owner(folder / name, installed, follow=False)
        except PermissionError as error:
            raise Damaged(str(error)) from None
        except OSError:
            raise Damaged(f"{folder / name} is missing") from None
        if name != ".":
            facts[name] = [status.st_size, status.st_mtime_ns, status.st_ino]
    return facts


def _recorded(folder: Path) -> object:
    path = folder / _STAMP
    try:
        return json.loads(path.read_bytes()) if path.is_file() else None
    except (OSError, ValueError):
        return None


@cache
def boot() -> str:
    """Return the id of the boot of this machine, "" if it is unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def interface_record(ports: Interface) -> Record:
    """Return an interface as JSON values."""
    inputs, outputs = ([port.record() for port in some] for some in (ports.inputs, ports.outputs))
    return {**ports._asdict(), "inputs": inputs, "outputs": outputs}


def interface(record: Record) -> Interface:
    """Inverse of `interface_record`. Raises KeyError, TypeError or ValueError."""
    return Interface(
        inputs=tuple(map(Port.of_record, record["inputs"])),
        outputs=tuple(map(Port.of_record, record["outputs"])),
        states=tuple((before, after) for before, after in record["states"]),
        info=record["info"],
    )


def _first_state(folder: Path, record: list[Any]) -> Iterator[Array]:
    data = (folder / _STATE).read_bytes()
    offset = 0
    for name, shape in record:
        dtype, count = DataType[name].to_numpy(), math.prod(shape)
        yield np.frombuffer(data, dtype, count, offset).reshape(shape)
        offset += count * dtype.itemsize
