"""Memory of two processes: arrays are written here by the one and read there by the other, and never sent.

The memory is a file without a name (memfd_create): where both processes are gone, however they went, it is
gone too.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Shapes = Sequence[Sequence[int]]
DTypes = Sequence[np.dtype[np.generic]]

_ALIGNED = 64  # bytes: a line of the cache, and what kernels like
_PAGE = mmap.PAGESIZE


class Memory:
    """A shared file that grows as it must; each of the two processes has one of these over the same file."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Make a file, or take one that another process has made."""
        self.descriptor = os.memfd_create("pinnace") if descriptor is None else descriptor
        self._map: mmap.mmap | None = None
        # Not before the last thread has let go: by then the number may be that of another file.
        weakref.finalize(self, os.close, self.descriptor).atexit = False

    def views(self, shapes: Shapes, dtypes: DTypes) -> list[Array]:
        """Arrays of these shapes and dtypes, one behind the other; both sides get the same ones.

        Raises `OSError` where the machine has no such memory left.
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
                os.posix_fallocate(self.descriptor, 0, whole)  # else a full machine is a SIGBUS later
            self._map = mmap.mmap(self.descriptor, whole)
        return self._map


class Slot:
    """Room for one request on its way: what goes in, and what comes out."""

    def __init__(self, descriptors: tuple[int, int] | None = None) -> None:
        """Make the memory, or take that of another process."""
        into, out = descriptors or (None, None)
        self.inputs, self.outputs = Memory(into), Memory(out)

    @property
    def descriptors(self) -> tuple[int, int]:
        """What another process makes the same slot of."""
        return self.inputs.descriptor, self.outputs.descriptor


def _layout(shapes: Shapes, dtypes: DTypes) -> tuple[list[int], int]:
    """Where arrays begin, and where the last one ends, in bytes."""
    places, end = [], 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        begin = math.ceil(end / _ALIGNED) * _ALIGNED
        places.append(begin)
        end = begin + math.prod(shape) * dtype.itemsize
    return places, end
