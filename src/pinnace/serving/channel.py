"""Channels between a process and its device processes: messages in JSON, and memory for arrays."""

from __future__ import annotations

import errno
import json
import math
import mmap
import os
import socket
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pinnace import errors
from pinnace.engines.forks import renewed_by_forks
from pinnace.errors import EngineError, PinnaceError, UnsupportedModelError, UnsupportedPrimitive
from pinnace.machine.cgroup import usable_memory
from pinnace.types import Array

Message = dict[str, Any]
Shapes = Sequence[Sequence[int]]
DTypes = Sequence[np.dtype[np.generic]]

_ALIGNED = 64  # bytes: a cache line, which suits kernels
_TEXT = 1 << 14  # maximum characters of an error message


class Channel:
    """One end of a connection. A message is a line of JSON."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket, self._lines = connected, connected.makefile("rb")

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Create both ends of a connection; children forked from now on have none of them."""
        one, other = map(cls, socket.socketpair())
        renewed_by_forks(one)
        renewed_by_forks(other)
        return one, other

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send a message, from one thread at a time. Raises OSError if the other end is closed."""
        self._socket.sendall(json.dumps(message).encode() + b"\n", socket.MSG_NOSIGNAL)

    def receive(self) -> Message | None:
        """Wait for the next message. Returns None if the other end is closed."""
        try:
            line = self._lines.readline()
        except (OSError, ValueError):  # it failed, or this end is closed
            return None
        message: Message | None = json.loads(line) if line.endswith(b"\n") else None
        return message

    def hang_up(self) -> None:
        """Shut the connection down; this also wakes a thread of this process that waits in `receive`."""
        with suppress(OSError):  # the other end closed first
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def renew(self) -> None:
        """Close the end of the parent in a forked child, so that the other end notices the parent's death."""
        if self._socket.fileno() >= 0:  # the reader may be locked by a thread that only the parent has
            os.close(self._socket.detach())


class Memory:
    """A shared file that grows on demand; each of two processes has one of these objects for it.

    The file has no name (memfd_create), so the kernel frees it when both processes are gone.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = os.memfd_create("pinnace") if descriptor is None else descriptor
        self._map: mmap.mmap | None = None
        # Close it only after the last thread is done: the number may be reused for another file.
        weakref.finalize(self, os.close, self.descriptor).atexit = False

    def views(self, shapes: Shapes, dtypes: DTypes) -> list[Array]:
        """Return consecutive arrays of these shapes and dtypes; both processes get the same ones.

        Raises `OSError` if they take more than this process may use.
        """
        offsets = [0]
        for shape, dtype in zip(shapes, dtypes, strict=True):
            size = math.prod(shape) * dtype.itemsize
            offsets.append(offsets[-1] + math.ceil(size / _ALIGNED) * _ALIGNED)
        mapped = self._mapped(offsets.pop())
        return [
            np.ndarray(tuple(shape), dtype, mapped, offset)
            for shape, dtype, offset in zip(shapes, dtypes, offsets, strict=True)
        ]

    def _mapped(self, size: int) -> mmap.mmap:
        if self._map is None or len(self._map) < size:
            whole = max(1, math.ceil(size / mmap.PAGESIZE)) * mmap.PAGESIZE
            if whole > usable_memory():  # the kernel would fill the memory, and kill processes
                raise OSError(errno.ENOMEM, f"{os.strerror(errno.ENOMEM)} for arrays of {size} bytes")
            if os.fstat(self.descriptor).st_size < whole:
                os.posix_fallocate(self.descriptor, 0, whole)  # else a full machine raises SIGBUS later
            self._map = mmap.mmap(self.descriptor, whole)
        return self._map


class Slot:
    """Shared memory of one request: its inputs and its outputs."""

    def __init__(self, inputs: int | None = None, outputs: int | None = None) -> None:
        self.inputs, self.outputs = Memory(inputs), Memory(outputs)

    @property
    def descriptors(self) -> tuple[int, int]:
        """The file descriptors from which another process makes the same slot."""
        return self.inputs.descriptor, self.outputs.descriptor


def encode_error(error: BaseException) -> Message:
    encoded: Message = {"kind": type(error).__name__, "text": str(error)[:_TEXT]}
    if isinstance(error, UnsupportedModelError):
        encoded["model"], encoded["primitives"] = error.model, [p._asdict() for p in error.primitives[:100]]
    return encoded


def decode_error(encoded: Message, where: str) -> PinnaceError:
    """Decode an error of the process `where`, with its original class if that is one of Pinnace's."""
    if "primitives" in encoded:
        found = [UnsupportedPrimitive(**primitive) for primitive in encoded["primitives"]]
        return UnsupportedModelError(f"{where}: {encoded['model']}", found)
    kind = getattr(errors, encoded["kind"], None)
    if isinstance(kind, type) and issubclass(kind, PinnaceError):
        return kind(f"{where}: {encoded['text']}")
    return EngineError(f"{where}: {encoded['kind']}: {encoded['text']}")
