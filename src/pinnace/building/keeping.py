"""Keeping of models in the compile cache after they are given out.

A helper process (`keeper`) builds the models once more, into the cache, also beyond the end of this process;
then the kept models, whose weights all processes share, replace those that run. This process has one helper
at a time. Forks wait while a model is replaced, so that no child inherits half of it.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakMethod, ref

from pinnace.errors import PinnaceError
from pinnace.log import INFO, Log
from pinnace.machine.cgroup import cpu_quota, cpu_seconds
from pinnace.machine.cores import allowed_cores

if TYPE_CHECKING:
    import subprocess

    from pinnace.building.recipe import Recipe
    from pinnace.cache.store import Store
    from pinnace.weights.source import Source

_log = Log("pinnace.build")

_PAUSE = 0.3  # seconds from a build to the helper's start, which takes 5 ms: the first answer comes first
_MOST = 64  # models that wait to be kept; further ones are not
_ROOT = Path(__file__).parents[2]
_HELPER = (
    "import json, os, sys; "
    "os.nice(19); "
    "told = json.load(sys.stdin); "
    "sys.path += [path for path in told['path'] if path not in sys.path]; "
    "from pinnace.building.keeper import main; "
    "main(told)"
)


class Unkept(NamedTuple):
    """A model to keep: what the helper is told of it.

    It refers weakly to the model's bytes and to the method that runs the kept one, so that closing a model
    frees it at once. A closed one is kept all the same if it has a file.
    """

    name: str
    told: dict[str, Any]
    source: ref[Source]
    adopt: WeakMethod[Callable[[], None]]

    @classmethod
    def of(cls, recipe: Recipe, store: Store, choice: dict[str, Any], adopt: Callable[[], None]) -> Unkept:
        """Describe a recipe, a store and a choice (`Chooser.hand_over`); `adopt` is a method."""
        source = recipe.source
        told = {
            "model": source.given,
            "folder": None if source.folder is None else str(source.folder),
            "kind": recipe.kind.name,
            "engine": recipe.engine.name.partition(" ")[0],
            "target": asdict(replace(recipe.target, threads=1, parallel_requests=1, cores=())),
            "plan": dict(recipe.plan),
            "variable": list(recipe.variable),
            "shapes": recipe.shapes,
            "choice": choice,
            "in_pool": recipe.target.parallel_requests > 1,
            "store": [str(store.root), store.limit],
        }
        return cls(source.name, told, ref(source), WeakMethod(adopt))

    def message(self, opened: ExitStack) -> dict[str, Any]:
        """Return what the helper is told; the bytes of a model without a file are in a descriptor."""
        source = self.source()
        if source is None or source.path is not None:
            return {**self.told, "buffer": None}
        return {**self.told, "buffer": _in_memory(source.data, opened)}

    def log(self, event: str, what: str) -> None:
        """Log what became of the model."""
        _log.event(INFO, event, f"{self.name} {what}", model=self.name)


class _Line:
    """Models in order, and the thread that waits for the helper while there is one."""

    def __init__(self) -> None:
        self._jobs: list[Unkept] = []
        self._lock = threading.Lock()
        self._works = self._over = False
        self.adopting = threading.Lock()

    def put(self, job: Unkept) -> None:
        """Queue a model; leave it out if too many wait."""
        with self._lock:
            if self._over or len(self._jobs) >= _MOST:
                return
            self._jobs.append(job)
            starts, self._works = not self._works, True
        if starts:
            with suppress(RuntimeError):  # no thread can start: `end` hands it over
                threading.Thread(target=self._work, name="pinnace-keep", daemon=True).start()

    def end(self) -> None:
        """Leave the rest to a helper, before the process ends, and wait for a replacement that has begun."""
        with self._lock:
            self._over = True
            self._hand_over()
        self.adopting.acquire()  # for ever

    def _work(self) -> None:
        time.sleep(_PAUSE)
        while True:
            _wait_for_quota()
            with self._lock:
                jobs, helper = self._hand_over()
                self._works = helper is not None
            if helper is None:
                return
            assert helper.stdout is not None
            with helper:
                for job in jobs:
                    self._finish(job, helper.stdout.readline())

    def _hand_over(self) -> tuple[list[Unkept], subprocess.Popen[bytes] | None]:
        """Give all models to a new helper, and return both; the caller holds the lock."""
        jobs, self._jobs = self._jobs, []
        try:
            return jobs, _started(jobs) if jobs else None
        except OSError as error:
            for job in jobs:
                job.log("not kept", f"is not kept in the compile cache: {error}")
            return [], None

    def _finish(self, job: Unkept, answer: bytes) -> None:
        """Run the kept model if its user still has it; `answer` is the helper's."""
        failed = json.loads(answer) if answer else "its helper was killed"
        if failed:
            job.log("not kept", f"is not kept in the compile cache: {failed}")
            return
        with self.adopting:
            adopt = job.adopt()
            try:
                if adopt is not None:
                    adopt()
                job.log("kept", "is kept in the compile cache")
            except (PinnaceError, OSError, MemoryError) as error:
                job.log("kept", f"is kept in the compile cache, and runs as it was built: {error}")


def _wait_for_quota() -> None:
    """Wait until a CPU quota, from which idle time is taken too, leaves a core or its half for a second."""
    quota = cpu_quota()
    while 0 < quota < len(allowed_cores()):
        before = cpu_seconds()
        time.sleep(1)
        if cpu_seconds() - before <= max(quota - 1, quota / 2):
            return


def _started(jobs: list[Unkept]) -> subprocess.Popen[bytes]:
    """Start a helper, which answers each job by a line: "", or why it failed. Raises OSError.

    It has a group of its own, as signals of the terminal are for this process, but no session: where the
    kernel shares cores between sessions (autogroup), another one gets half of a core whatever its priority.
    """
    import subprocess

    with ExitStack() as opened:
        told = [job.message(opened) for job in jobs]
        path = [os.path.abspath(entry) for entry in (*sys.path, str(_ROOT)) if entry]
        text = json.dumps({"path": path, "parent": os.getpid(), "jobs": told})
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _HELPER],
            stdin=_in_memory(text.encode(), opened),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[job["buffer"] for job in told if job["buffer"] is not None],
            cwd="/",
            process_group=0,
        )


def _in_memory(data: bytes | memoryview, opened: ExitStack) -> int:
    """Return a file descriptor of a copy of the bytes, which `opened` closes."""
    descriptor = os.memfd_create("pinnace-model")
    opened.callback(os.close, descriptor)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
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
