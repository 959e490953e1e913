"""Memory of this process."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress


def resident() -> int:
    """Return the bytes of memory that this process holds, with pages of files that it maps.

    What was freed is given back to the system before, where the C library can do that.
    """
    gc.collect()
    with suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
