"""The main function of the helper process that keeps a model in the compile cache; see `keeping`."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

_LOOKS = 0.2  # seconds between looks at the parent process
_PATIENCE = 3600.0  # seconds that it waits for another process that keeps the same model


def main(told: dict[str, Any]) -> None:
    """Keep the model of a `keeping.Unkept`, in time that no other process wants."""
    os.nice(19)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with suppress(OSError):  # if memory runs out, this process goes before others
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    threading.Thread(target=_end_with, args=(told["parent"],), daemon=True).start()
    keep(told)


def _end_with(parent: int) -> None:
    """End when the parent process ends, at once: the next writer of the cache sweeps what is left."""
    while os.getppid() == parent:
        time.sleep(_LOOKS)
    os._exit(1)


def keep(told: dict[str, Any]) -> None:
    """Build a model into the compile cache. Raises OSError, and the errors of engine and compiler."""
    from pinnace import engines
    from pinnace.building.cached import Contents, entry_of
    from pinnace.building.garbage import rare_garbage_collection
    from pinnace.building.recipe import Recipe
    from pinnace.cache.store import Store
    from pinnace.options.target import Target
    from pinnace.types import ModelType
    from pinnace.weights.source import Source

    source = Source.of_file(told["model"]) if told["model"] else _buffered(told["buffer"], told["folder"])
    target = Target.of_message(told["target"])
    engine = engines.choose(replace(target, provider=told["engine"]), source.name)
    shapes = tuple(map(tuple, told["shapes"]))
    recipe = Recipe(
        source, ModelType[told["kind"]], engine, target, told["plan"], tuple(told["variable"]), shapes
    )
    root, limit = told["store"]
    store = Store(Path(root), limit, _PATIENCE)
    with rare_garbage_collection():
        entry_of(recipe, Contents(source, store), store)


def _buffered(descriptor: int, folder: str | None) -> Any:
    import mmap

    from pinnace.weights.source import Source

    return Source.of_buffer(memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)), folder)
