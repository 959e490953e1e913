"""Memory of this process."""

from __future__ import annotations

import gc
import os

from pinnace.machine.memory import return_free_memory


def resident() -> int:
    """Return the bytes of memory that this process holds, with pages of files that it maps.

    What was freed is given back to the system before, where the C library can do that.
    """
    gc.collect()
    return_free_memory()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
