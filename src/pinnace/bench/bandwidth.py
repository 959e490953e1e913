"""Bandwidth of the memory."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pinnace.machine.caches import caches
from pinnace.machine.cgroup import usable_memory
from pinnace.machine.cores import usable_core_count

_TIMES = 5
_LEAST = 256 << 20
"""Bytes of each of the two arrays, at least."""


def memory_bandwidth() -> float:
    """Return the GB/s that all usable cores read and write together when they copy arrays; the best of 5.

    As in STREAM's Copy, a copied byte counts twice, and the arrays are four times as large as the largest
    cache, or as an eighth of the memory allows. (https://www.cs.virginia.edu/stream/ref.html)
    """
    wanted = max(_LEAST, 4 * max((cache.bytes for cache in caches()), default=0))
    threads = usable_core_count()
    each = min(wanted, usable_memory() // 8) // threads
    pairs = [(np.ones(each, np.uint8), np.ones(each, np.uint8)) for _ in range(threads)]

    def copy() -> float:
        started = time.perf_counter()
        list(pool.map(lambda pair: np.copyto(*pair), pairs))
        return time.perf_counter() - started

    with ThreadPoolExecutor(threads) as pool:
        return 2 * each * threads / min(copy() for _ in range(_TIMES)) / 1e9
