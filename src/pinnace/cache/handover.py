"""Handover of a cache entry from a master process, which compiled it, to the processes that it admits.

The master serves an abstract socket whose name is derived from the handle, a random number. A client sends
the handle and describes the model that it wants. The kernel provides its process id (SO_PEERCRED), which must
be an admitted one, and a pidfd opened when the master was built proves that the id was not reused. The client
gets a sealed memfd with the description of the cache entry, including the digests of all files, and with the
names of the model's other files; both may exceed a packet. It maps the files themselves from the master's
cache, as the master does: onnxruntime finds packed weights only in files that it opens by path, which a memfd
does not have.

Abstract sockets and memfds end with the process and leave nothing behind.
"""

from __future__ import annotations

import errno
import fcntl
import hmac
import json
import os
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from weakref import finalize

from pinnace.cache import entry as entries
from pinnace.cache.entry import Damaged, Entry
from pinnace.cache.store import Store
from pinnace.engines.forks import renewed_by_forks
from pinnace.errors import ConfigError, ModelStateError
from pinnace.weights.digest import digest

_PATIENCE = 10.0  # timeout in seconds for an answer
_MAX_MESSAGE = 1 << 16  # maximum bytes of a message
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_HANDLES = 1 << 63  # a signed integer holds it in MindSpore's tutorial, and 0 is none


class _Terms(NamedTuple):
    """The expected request, the entry's folder, the files beside the model, and the admitted processes."""

    request: Mapping[str, str]
    folder: Path
    refers: Sequence[str]
    admitted: Mapping[int, int]


class Offer:
    """Offers an entry to other processes, until `close` or the end of this process.

    `handle` is the number that they need.
    """

    def __init__(
        self,
        entry: Entry,
        content: str,
        made_for: str,
        device: str,
        refers: Sequence[str],
        admitted: Mapping[int, int],
        store: Store,
    ) -> None:
        """Begin to serve.

        `content` is the digest of the model file, `made_for` the key of its compiled form, `device` that of
        the model, `refers` the files beside it; `admitted` maps process ids to pidfds, which this object then
        owns. `store` contains the entry.
        """
        self._store = store  # keeps a private store alive
        self.handle = 1 + secrets.randbelow(_HANDLES - 1)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        listening.bind(_address(self.handle))
        listening.listen(1024)
        self._listening, self._pidfds = listening, tuple(admitted.values())
        request = {"handle": str(self.handle), "content": content, "made_for": made_for, "device": device}
        terms = _Terms(request, entry.folder, tuple(refers), dict(admitted))
        waiting = threading.Thread(target=_serve, args=(listening, terms), name="pinnace-offer", daemon=True)
        waiting.start()
        self._end = finalize(self, _end, listening, self._pidfds, waiting, os.getpid())
        renewed_by_forks(self)

    def close(self) -> None:
        """Stop serving. Processes that have the weights keep them."""
        self._end()

    def renew(self) -> None:
        """Drop the parent's offer in a forked child."""
        if self._end.detach() is not None:  # else an earlier fork has dropped it
            self._listening.close()
            _close(self._pidfds)


def admitted(text: str) -> dict[int, int]:
    """Open a pidfd for each process of a list "1, 2, 3", except 0 and this process.

    Raises ConfigError for anything but numbers and for a missing process.
    """
    found: dict[int, int] = {}
    try:
        for part in filter(None, map(str.strip, text.split(","))):
            pid = int(part)
            if pid not in (0, os.getpid(), *found):
                found[pid] = os.pidfd_open(pid)
    except (ValueError, OverflowError):
        _close(found.values())
        raise ConfigError(
            f"shareable_weight_pid_list must be numbers like '12, 34', but got {text!r}"
        ) from None
    except OSError as error:
        _close(found.values())
        raise ConfigError(f"shareable_weight_pid_list names process {pid}: {error.strerror}") from None
    return found


def receive(handle: str, content: str, key: Callable[[Sequence[str]], str], device: str, model: str) -> Entry:
    """Return the entry that the master behind a handle offers for the same model and device.

    `content` is the digest of the model file, and `key` returns the cache key for given files beside it.
    Raises ConfigError for an invalid handle, ModelStateError if the master is gone or refuses, with its
    reason.
    """
    number = _handle(handle)
    request = {"handle": str(number), "content": content, "made_for": key(()), "device": device}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as line:
        line.settimeout(_PATIENCE)
        try:
            _connect(line, _address(number))
            _check_master(line, model)
            message, descriptors = _exchange(line, json.dumps(request).encode())
        except TimeoutError:
            raise ModelStateError(f"{model}: the master of these weights does not answer") from None
        except OSError:
            raise ModelStateError(
                f"{model}: no process offers weights under this shareable_weight_mem_handle: it is wrong, or "
                f"the master was closed or has ended"
            ) from None
    try:
        answer = json.loads(message) if message else {"refused": "it ended during the request"}
        if "refused" in answer:
            raise ModelStateError(f"{model}: the master of these weights refuses: {answer['refused']}")
        folder = Path(answer["folder"])
        contents = json.loads(_unsealed(descriptors))
        if key(contents["refers"]) != folder.name:
            raise ModelStateError(f"{model}: its weight files are not those of the master's model")
        return _entry(folder, contents["description"].encode(), model)
    finally:
        _close(descriptors)


def _connect(line: socket.socket, address: str) -> None:
    """Connect as soon as there is a place in the queue, which strangers can fill. Raises OSError."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return line.connect(address)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError from None
            time.sleep(0.002)


def _exchange(line: socket.socket, question: bytes) -> tuple[bytes, list[int]]:
    """Return the answer and its descriptors; a master that refuses this process answers without reading."""
    with suppress(BrokenPipeError):
        line.sendall(question)
    try:
        message, descriptors, _, _ = socket.recv_fds(line, _MAX_MESSAGE, 1)
    except ConnectionResetError:  # reported before the answer if the question was not read
        message, descriptors, _, _ = socket.recv_fds(line, _MAX_MESSAGE, 1)
    return message, descriptors


def _handle(text: str) -> int:
    with suppress(ValueError):
        if 0 < int(text) < _HANDLES:
            return int(text)
    raise ConfigError(f"shareable_weight_mem_handle must be the number that a master gave, but got {text!r}")


def _address(handle: int) -> str:
    """Return the name of the socket; every user can list such names, so it does not reveal the handle."""
    return f"\0pinnace-{digest(str(handle).encode())[:32]}"


def _check_master(line: socket.socket, model: str) -> None:
    """Raise if another user has taken the name of a master that is gone."""
    _, uid = _peer(line)
    if uid not in (0, os.getuid()):
        raise ModelStateError(f"{model}: the process behind this handle belongs to another user (uid {uid})")


def _peer(line: socket.socket) -> tuple[int, int]:
    """Return process and user id of the other end, as the kernel reports them."""
    credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(credentials)
    return pid, uid


def _serve(listening: socket.socket, terms: _Terms) -> None:
    while True:
        try:
            line, _ = listening.accept()
        except OSError as error:
            if error.errno in (errno.EBADF, errno.EINVAL):  # closed
                return
            time.sleep(0.1)  # too many open files, perhaps not for long
            continue
        # Errors of one client must not stop the service for others.
        with line, suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            _answer(line, terms)


def _answer(line: socket.socket, terms: _Terms) -> None:
    refused = _stranger(line, terms.admitted)  # strangers must not delay admitted clients
    line.settimeout(0 if refused else _PATIENCE)
    refused = refused or _difference(line.recv(_MAX_MESSAGE), terms.request)
    try:
        description = b"" if refused else entries.description(terms.folder)
    except OSError as error:
        refused = f"the shared weights are no longer in the compile cache: {error}"
    if refused:
        line.sendall(json.dumps({"refused": refused}).encode())
        return
    contents = {"description": description.decode(errors="replace"), "refers": terms.refers}
    ticket = _sealed(json.dumps(contents).encode())
    try:
        socket.send_fds(line, [json.dumps({"folder": str(terms.folder)}).encode()], [ticket])
    finally:
        os.close(ticket)


def _stranger(line: socket.socket, admitted: Mapping[int, int]) -> str:
    """Return why the process at the other end is not admitted; "" if it is."""
    pid, uid = _peer(line)
    if pid not in admitted:
        return f"process {pid} is not in its shareable_weight_pid_list"
    if uid not in (0, os.getuid()):
        return f"process {pid} belongs to another user"
    if select.select([admitted[pid]], [], [], 0)[0]:
        return f"process {pid} that it admitted has ended; this is another one with the same id"
    return ""


def _difference(message: bytes, expected: Mapping[str, str]) -> str:
    """Return how the request differs from the offer; "" if it does not."""
    request = json.loads(message)
    if not hmac.compare_digest(str(request["handle"]).encode(), expected["handle"].encode()):
        return "the handle is wrong"
    if request.get("content") != expected["content"]:
        return "it offers another model: both must be built from the same file"
    if request.get("device") != expected["device"]:
        return (
            f"it built this model for {expected['device']}, and this process for {request.get('device')}: "
            f"set the same target and device_id in both"
        )
    if request.get("made_for") != expected["made_for"]:
        return "it built this model for another target, with other options, or with another version"
    return ""


def _sealed(text: bytes) -> int:
    memory = os.memfd_create("pinnace-weights", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(memory, "wb", closefd=False) as file:
        file.write(text)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, _SEALS)
    return memory


def _unsealed(descriptors: list[int]) -> bytes:
    if not descriptors or fcntl.fcntl(descriptors[0], fcntl.F_GET_SEALS) & _SEALS != _SEALS:
        raise ModelStateError("the memory from the master of these weights is not sealed")
    return os.pread(descriptors[0], os.fstat(descriptors[0]).st_size, 0)


def _entry(folder: Path, description: bytes, model: str) -> Entry:
    try:
        found = entries.read(folder, installed=folder.stat().st_uid != os.geteuid())
        same = entries.description(folder) == description
    except (OSError, Damaged) as error:
        raise ModelStateError(
            f"{model}: this process cannot open what the master shares: {error}; it must be able to read the "
            f"master's compile cache, as the same user and in the same container"
        ) from None
    if not same:
        raise ModelStateError(f"{model}: {folder} is not what the master shares; build the master again")
    return found


def _end(listening: socket.socket, pidfds: tuple[int, ...], thread: threading.Thread, owner: int) -> None:
    if os.getpid() != owner:
        return
    with suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)  # ends the thread's accept
    if thread is not threading.current_thread():
        thread.join(_PATIENCE)
    listening.close()
    _close(pidfds)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
