"""The main function of the helper process that keeps a model in the compile cache; see `keeping`."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinnace.engines.choice import Choice

if TYPE_CHECKING:
    from pinnace.building.cached import Contents
    from pinnace.building.recipe import Recipe
    from pinnace.cache.store import Store
    from pinnace.weights.source import Source

_LOOKS = 0.2  # seconds between looks at the parent process
_ALONE = 60.0  # seconds that it works on when the parent process has ended
_PATIENCE = 3600.0  # seconds that it waits for another process that keeps models
_COPIES = 3  # of the weights: one in the parent, two here, where onnxruntime optimizes and packs them


def main(told: dict[str, Any]) -> None:
    """Keep the models of `keeping.Unkept`, in time that no other process wants; answers a line for each.

    Then engines are compared for those that leave this open.
    """
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with suppress(OSError):  # if memory runs out, this process goes before others
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    threading.Thread(target=_end_after, args=(told["parent"],), daemon=True).start()
    kept = []
    for job in told["jobs"]:
        try:
            keep(job)
            kept.append(job)
            said = ""
        except Exception as error:
            said = str(error) or repr(error)
        with suppress(BrokenPipeError):  # the parent has ended
            print(json.dumps(said), flush=True)
    for job in kept:
        with suppress(Exception):  # the model is kept as it was built
            compare(job)


def _end_after(parent: int) -> None:
    """End some time after the parent process: the next writer of the cache sweeps what is left."""
    while os.getppid() == parent:
        time.sleep(_LOOKS)
    time.sleep(_ALONE)
    os._exit(1)


def keep(told: dict[str, Any]) -> None:
    """Build a model into the compile cache. Raises OSError, and the errors of engine and compiler."""
    from pinnace.building.cached import entry_of

    with _locked(told) as store:
        recipe, contents = _opened(told, store, _COPIES)
        entry_of(recipe, contents, store)
        for first in told["choice"]["candidates"][:1]:
            _remember(told, Choice(*first), contents, store)


def compare(told: dict[str, Any]) -> None:
    """Measure a kept model on both engines, and keep it for the faster one, unless that has been done."""
    from pinnace.building.cached import entry_of
    from pinnace.building.choosing import with_choice
    from pinnace.building.measuring import measured
    from pinnace.cache import chosen

    candidates = [Choice(*one) for one in told["choice"]["candidates"]]
    if not candidates[1:]:
        return
    with _locked(told) as store:
        recipe, contents = _opened(told, store, 2 * _COPIES)
        known = chosen.find(store, contents.file, tuple(told["choice"]["made_for"]))
        if known != candidates[0]._asdict():
            return
        choice = measured(recipe, [one._replace(threads=1) for one in candidates], told["in_pool"])
        entry_of(with_choice(recipe, choice), contents, store)
        _remember(told, choice._replace(threads=candidates[0].threads), contents, store)


def _remember(told: dict[str, Any], choice: Choice, contents: Contents, store: Store) -> None:
    from pinnace.cache import chosen

    chosen.remember(store, contents.file, tuple(told["choice"]["made_for"]), choice._asdict())


@contextmanager
def _locked(told: dict[str, Any]) -> Iterator[Store]:
    """Give the cache to one helper at a time: none takes memory beside another."""
    from pinnace.cache.store import Store

    root, limit = told["store"]
    store = Store(Path(root), limit, _PATIENCE)
    with store.folder.lock("keeper", _PATIENCE):
        yield store


def _opened(told: dict[str, Any], store: Store, copies: int) -> tuple[Recipe, Contents]:
    """Return the recipe of a model, and its digests. Raises OSError if so many copies do not fit."""
    from pinnace import engines
    from pinnace.building.cached import Contents
    from pinnace.building.recipe import Recipe
    from pinnace.machine.cgroup import usable_memory
    from pinnace.options.target import Target
    from pinnace.types import ModelType
    from pinnace.weights.source import Source

    source = Source.of_file(told["model"]) if told["model"] else _buffered(told["buffer"], told["folder"])
    size, most = source.size, usable_memory()
    if copies * size > most:
        raise OSError(f"it takes {copies} x {size / 1e9:.1f} GB, and {most / 1e9:.1f} GB are usable")
    target = Target.of_message(told["target"])
    engine = engines.choose(replace(target, provider=told["engine"]), source.name)
    shapes = tuple(map(tuple, told["shapes"]))
    recipe = Recipe(
        source, ModelType[told["kind"]], engine, target, told["plan"], tuple(told["variable"]), shapes
    )
    return recipe, Contents(source, store)


def _buffered(descriptor: int | None, folder: str | None) -> Source:
    """Return the model in a file descriptor. Raises OSError for None."""
    import mmap

    from pinnace.weights.source import Source

    if descriptor is None:
        raise OSError("it was closed, and has no file")
    return Source.of_buffer(memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)), folder)
