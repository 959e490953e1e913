"""Shared memory of two processes: one writes arrays there, the other reads them, and nothing is sent.

The memory is a file without a name (memfd_create), which the kernel frees when both processes are gone.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
from collections.abc import Sequence

import numpy as np

from pinnace.types import Array

Shapes = Sequence[Sequence[int]]
DTypes = Sequence[np.dtype[np.generic]]

_ALIGNED = 64  # bytes: a cache line, which suits kernels
_PAGE = mmap.PAGESIZE


class Memory:
    """A shared file that grows on demand; each of two processes has one of these objects for it."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Create a file, or use that of another process."""
        self.descriptor = os.memfd_create("pinnace") if descriptor is None else descriptor
        self._map: mmap.mmap | None = None
        # Close it only after the last thread is done: the number may be reused for another file.
        weakref.finalize(self, os.close, self.descriptor).atexit = False

    def views(self, shapes: Shapes, dtypes: DTypes) -> list[Array]:
        """Return consecutive arrays of these shapes and dtypes; both processes get the same ones.

        Raises `OSError` if the machine has no memory left.
        """
        places, end = _layout(shapes, dtypes)
        mapped = self._mapped(end)
        return [
            np.ndarray(tuple(shape), dtype, mapped, place)
            for shape, dtype, place in zip(shapes, dtypes, places, strict=True)
        ]

    def _mapped(self, size: int) -> mmap.mmap:
        if self._map is None or len(self._map) < size:
            whole = max(_PAGE, math.ceil(size / _PAGE) * _PAGE)
            if os.fstat(self.descriptor).st_size < whole:
                os.posix_fallocate(self.descriptor, 0, whole)  # else a full machine raises SIGBUS later
            self._map = mmap.mmap(self.descriptor, whole)
        return self._map


class Slot:
    """Shared memory of one request: its inputs and its outputs."""

    def __init__(self, descriptors: tuple[int, int] | None = None) -> None:
        """Create the memory, or use that of another process."""
        into, out = descriptors or (None, None)
        self.inputs, self.outputs = Memory(into), Memory(out)

    @property
    def descriptors(self) -> tuple[int, int]:
        """The file descriptors from which another process makes the same slot."""
        return self.inputs.descriptor, self.outputs.descriptor


def _layout(shapes: Shapes, dtypes: DTypes) -> tuple[list[int], int]:
    """Return the offsets of arrays, and the end of the last one, in bytes."""
    places, end = [], 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        begin = math.ceil(end / _ALIGNED) * _ALIGNED
        places.append(begin)
        end = begin + math.prod(shape) * dtype.itemsize
    return places, end
