"""The garbage collector during builds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Turn the garbage collector off in the block.

    A build makes many small objects that live until its end, and each collection visits them all: with the
    collector on, the first build of EfficientNet-Lite0 takes 1.1 of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
