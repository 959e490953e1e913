"""Keeping of models in the compile cache after they are given out.

A helper process (`keeper`) builds the model once more, into the cache; then the kept model, whose weights all
processes share, replaces the one that runs. There is one helper at a time, and none is left behind by a
process that ends. Forks wait while a model is replaced, so that no child inherits half of it.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinnace.errors import PinnaceError
from pinnace.log import INFO, Log
from pinnace.machine.cgroup import usable_memory
from pinnace.options.log_format import OFF
from pinnace.records import dataclass

if TYPE_CHECKING:
    import subprocess

    from pinnace.building.recipe import Recipe
    from pinnace.cache.store import Store

_log = Log("pinnace.build")

_COPIES = 3  # of the weights: one here, two in the helper, where onnxruntime optimises and packs them
_PAUSE = 0.5  # seconds from a build to the helper's start: the first requests come first
_MOST = 64  # models that wait to be kept; further ones are not
_ROOT = Path(__file__).parents[2]
_HELPER = (
    "import json, sys; "
    "told = json.loads(sys.argv[1]); "
    "sys.path += [path for path in told['path'] if path not in sys.path]; "
    "from pinnace.building.keeper import main; "
    "main(told)"
)


@dataclass(frozen=True)
class Unkept:
    """A recipe to keep in a store; `adopt` replaces the model that runs by the kept one."""

    recipe: Recipe
    store: Store
    adopt: Callable[[], None]

    def told(self) -> dict[str, Any]:
        """Return the recipe as a message for the helper, without the model's bytes."""
        recipe, source = self.recipe, self.recipe.source
        return {
            "path": [entry for entry in (*sys.path, str(_ROOT)) if entry],
            "parent": os.getpid(),
            "model": source.given,
            "folder": None if source.folder is None else str(source.folder),
            "kind": recipe.kind.name,
            "engine": recipe.engine.name.partition(" ")[0],
            "target": asdict(recipe.target),
            "plan": dict(recipe.plan),
            "variable": list(recipe.variable),
            "shapes": recipe.shapes,
            "store": [str(self.store.root), self.store.limit],
        }


class _Line:
    """Jobs in order, and the thread that waits for the helper while there are any."""

    def __init__(self) -> None:
        self._jobs: deque[Unkept] = deque()
        self._lock = threading.Lock()
        self._works = self._over = False
        self._helper: subprocess.Popen[bytes] | None = None
        self.adopting = threading.Lock()

    def put(self, job: Unkept) -> None:
        """Queue a job; leave it out if too many wait."""
        with self._lock:
            if self._over or len(self._jobs) >= _MOST:
                return
            self._jobs.append(job)
            starts, self._works = not self._works, True
        if starts:
            threading.Thread(target=self._work, name="pinnace-keep", daemon=True).start()

    def end(self) -> None:
        """Give up, before the process ends: kill the helper, and wait for a replacement that has begun."""
        with self._lock:
            self._over = True
            self._jobs.clear()
            if self._helper is not None:
                self._helper.kill()
        self.adopting.acquire()  # for ever

    def _work(self) -> None:
        time.sleep(_PAUSE)
        while True:
            with self._lock:
                self._works = bool(self._jobs)
                if not self._works:
                    return
                job = self._jobs.popleft()
            name = job.recipe.source.name
            try:
                self._run(job)
                with self.adopting:
                    job.adopt()
                message = f"{name} is kept in the compile cache, and runs from there"
                _log.event(INFO, "kept", message, model=name)
            except (PinnaceError, OSError, MemoryError) as error:
                message = f"{name} is not kept in the compile cache: {error}"
                _log.event(INFO, "not kept", message, model=name)
            del job

    def _run(self, job: Unkept) -> None:
        """Run the helper. Raises OSError with its reason if it fails."""
        import subprocess

        told, descriptors = job.told(), []
        size, most = job.recipe.source.size, usable_memory()
        if _COPIES * size > most:
            raise OSError(f"it takes {_COPIES} x {size / 1e9:.1f} GB, and {most / 1e9:.1f} GB are usable")
        if told["model"] is None:
            told["buffer"] = _in_memory(job.recipe.source.data)
            descriptors = [told["buffer"]]
        try:
            with self._lock:
                if self._over:
                    raise OSError("this process ends")
                self._helper = subprocess.Popen(
                    [sys.executable, "-P", "-c", _HELPER, json.dumps(told)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env=os.environ | OFF,
                    pass_fds=descriptors,
                    start_new_session=True,  # signals of the terminal are for this process
                )
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        said = self._helper.communicate()[1].decode(errors="replace").strip()
        if self._helper.returncode:
            raise OSError(said[-2000:] or f"its helper ended with {self._helper.returncode}")


def _in_memory(data: memoryview) -> int:
    """Return a file descriptor of a copy of the bytes."""
    descriptor = os.memfd_create("pinnace-model")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(data)
    return descriptor


_line = _Line()


def keep_later(job: Unkept) -> None:
    """Keep a model in the background; failures are logged."""
    _line.put(job)


def _before_fork() -> None:
    _line.adopting.acquire()


def _after_fork_in_parent() -> None:
    _line.adopting.release()


def _after_fork_in_child() -> None:
    global _line
    _line = _Line()


def _end() -> None:
    with suppress(RuntimeError):
        _line.end()


atexit.register(_end)
os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
)
