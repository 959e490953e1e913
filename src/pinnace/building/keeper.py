"""The main function of the helper process that keeps a model in the compile cache; see `keeping`."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pinnace.cache.store import Store
    from pinnace.weights.source import Source

_LOOKS = 0.2  # seconds between looks at the parent process
_ALONE = 60.0  # seconds that it works on when the parent process has ended
_PATIENCE = 3600.0  # seconds that it waits for another process that keeps models
_COPIES = 3  # of the weights: one in the parent, two here, where onnxruntime optimises and packs them


def main(told: dict[str, Any]) -> None:
    """Keep the models of `keeping.Unkept`, in time that no other process wants; answers a line for each."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with suppress(OSError):  # if memory runs out, this process goes before others
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    threading.Thread(target=_end_after, args=(told["parent"],), daemon=True).start()
    for job in told["jobs"]:
        try:
            keep(job)
            said = ""
        except Exception as error:
            said = str(error) or repr(error)
        with suppress(BrokenPipeError):  # the parent has ended
            print(json.dumps(said), flush=True)


def _end_after(parent: int) -> None:
    """End some time after the parent process: the next writer of the cache sweeps what is left."""
    while os.getppid() == parent:
        time.sleep(_LOOKS)
    time.sleep(_ALONE)
    os._exit(1)


def keep(told: dict[str, Any]) -> None:
    """Build a model into the compile cache. Raises OSError, and the errors of engine and compiler."""
    from pinnace.cache.store import Store

    root, limit = told["store"]
    store = Store(Path(root), limit, _PATIENCE)
    with store.folder.lock("keeper", _PATIENCE):  # one for each cache: none takes memory beside another
        _build(told, store)


def _build(told: dict[str, Any], store: Store) -> None:
    from pinnace import engines
    from pinnace.building.cached import Contents, entry_of
    from pinnace.building.recipe import Recipe
    from pinnace.machine.cgroup import usable_memory
    from pinnace.options.target import Target
    from pinnace.types import ModelType
    from pinnace.weights.source import Source

    source = Source.of_file(told["model"]) if told["model"] else _buffered(told["buffer"], told["folder"])
    size, most = source.size, usable_memory()
    if _COPIES * size > most:
        raise OSError(f"it takes {_COPIES} x {size / 1e9:.1f} GB, and {most / 1e9:.1f} GB are usable")
    target = Target.of_message(told["target"])
    engine = engines.choose(replace(target, provider=told["engine"]), source.name)
    shapes = tuple(map(tuple, told["shapes"]))
    recipe = Recipe(
        source, ModelType[told["kind"]], engine, target, told["plan"], tuple(told["variable"]), shapes
    )
    entry_of(recipe, Contents(source, store), store)


def _buffered(descriptor: int | None, folder: str | None) -> Source:
    """Return the model in a file descriptor. Raises OSError for None."""
    import mmap

    from pinnace.weights.source import Source

    if descriptor is None:
        raise OSError("it was closed, and has no file")
    return Source.of_buffer(memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)), folder)
