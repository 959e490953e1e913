"""The garbage collector during builds."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_RARER = 200
_counting = threading.RLock()
_builds: list[tuple[int, ...]] = []
"""Collector thresholds at the start of each running build; the first are those of the process."""
_imported = [0]
"""The number of modules when they were last forgotten."""


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Run the garbage collector less often while any such block is running.

    A build makes many small objects that live until its end: collections took 6 % of the time
    (EfficientNet-Lite0 without the cache: 654 against 613 ms of CPU time with the collector off, and 606 this
    way). The collector stays on because other threads make garbage too.
    """
    with _counting:
        _builds.append(gc.get_threshold())
        gc.set_threshold(_builds[0][0] * _RARER, *_builds[0][1:])
    try:
        yield
    finally:
        with _counting:
            first = _builds[0]
            _builds.pop()
            if not _builds:
                gc.set_threshold(*first)


def forget_imported() -> None:
    """Keep the next collections from looking at what was just imported, which lives on: 10 ms of a start.

    All objects become the oldest, as if they had survived collections: garbage of before stays until the next
    full one. So later builds, which import nothing more, leave it to the collector.
    """
    count = len(sys.modules)
    if count > _imported[0] and not gc.get_freeze_count():  # else what the process has frozen would thaw
        gc.freeze()
        gc.unfreeze()
    _imported[0] = count
