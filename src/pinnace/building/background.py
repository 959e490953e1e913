"""Keeping models in the compile cache after they are given out.

A helper process builds the models once more, into the cache, also beyond the end of this process; then the
kept models, whose weights all processes share, replace those that run, and the helper compares engines for
them. This process has one helper at a time. Forks wait while a model is replaced, so that no child inherits
half of it.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakMethod, ref

from pinnace.engines.choice import Choice
from pinnace.errors import PinnaceError, PinnaceWarning, warn
from pinnace.log import INFO, Log
from pinnace.machine.cgroup import cpu_quota, cpu_seconds, usable_memory
from pinnace.machine.cores import allowed_cores
from pinnace.machine.memory import end_first

if TYPE_CHECKING:
    import subprocess

    from pinnace.building.build import ToKeep
    from pinnace.building.spec import Spec
    from pinnace.weights.source import Source

_log = Log("pinnace.build")

_PAUSE = 0.3  # seconds from a build to the helper's start, which takes 5 ms: the first answer comes first
_MOST = 64  # models that wait to be kept; further ones are not
_ROOT = Path(__file__).parents[2]
_HELPER = (
    "import json, os, sys; "
    "os.nice(19); "
    "task = json.load(sys.stdin); "
    "sys.path += [path for path in task['path'] if path not in sys.path]; "
    "from pinnace.building.background import run_jobs; "
    "run_jobs(task)"
)
_LOOKS = 0.2  # seconds between looks at the parent process
_ALONE = 60.0  # seconds that the helper works on when the parent process has ended
_PATIENCE = 3600.0  # seconds that it waits for another process that keeps models
_COPIES = 3  # of the weights: one in the parent, two in the helper: onnxruntime optimizes and packs them

Message = dict[str, Any]
"""The description of a model for the helper, in JSON."""


class Job(NamedTuple):
    """A model to keep.

    It refers weakly to the model's bytes and to the method that runs the kept one, so that closing a model
    frees it at once. A closed one is kept all the same if it has a file.
    """

    name: str
    described: Message
    source: ref[Source]
    use_kept: WeakMethod[Callable[[], None]]

    @classmethod
    def of(cls, to_keep: ToKeep, use_kept: Callable[[], None]) -> Job:
        """Describe a model; `use_kept` is a method."""
        spec, choices, choice_key = to_keep
        source, store, target = spec.source, spec.cache.store, spec.target
        assert store is not None
        described = {
            "model": source.given,
            "folder": None if source.folder is None else str(source.folder),
            "kind": spec.kind.name,
            "engine": spec.engine.name.partition(" ")[0],
            "target": target._replace(threads=1, parallel_requests=1, cores=())._asdict(),
            "plan": dict(spec.plan),
            "variable": spec.variable,
            "shapes": spec.shapes,
            "choices": choices,
            "choice_key": choice_key,
            "in_pool": target.parallel_requests > 1,
            "store": (str(store.root), store.limit),
        }
        return cls(source.name, described, ref(source), WeakMethod(use_kept))

    def message(self, opened: ExitStack) -> Message:
        """Return the description; the bytes of a model without a file are in a descriptor."""
        source = self.source()
        if source is None or source.path is not None:
            return {**self.described, "buffer": None}
        return {**self.described, "buffer": _in_memory(source.data, opened)}

    def finish(self, answer: bytes) -> None:
        """Run the kept model if its user still has it; `answer` is the helper's."""
        failed = json.loads(answer) if answer else "its helper was killed"
        if failed:
            self.log_failure(failed)
            return
        outcome = "is kept in the compile cache"
        use_kept = self.use_kept()
        try:
            if use_kept is not None:
                use_kept()
        except (PinnaceError, OSError, MemoryError) as error:
            outcome += f", and runs as it was built: {error}"
        _log.event(INFO, "kept", f"{self.name} {outcome}", model=self.name)

    def log_failure(self, why: object) -> None:
        message = f"{self.name} is not kept in the compile cache: {why}"
        _log.event(INFO, "not kept", message, model=self.name)


class _Queue:
    """Models in order, and the thread that waits for the helper while there is one."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._lock = threading.Lock()
        self.works = self._over = False
        self.replacing = threading.Lock()

    def put(self, job: Job) -> None:
        with self._lock:
            if self._over or len(self._jobs) >= _MOST:
                return
            self._jobs.append(job)
            starts, self.works = not self.works, True
        if starts:
            with suppress(RuntimeError):  # no thread can start: `end` hands it over
                threading.Thread(target=self._work, name="pinnace-keep", daemon=True).start()

    def end(self) -> None:
        """Leave the rest to a helper, before the process ends, and wait for a replacement that has begun."""
        with self._lock:
            self._over = True
            self._hand_over()
        self.replacing.acquire()  # for ever

    def _work(self) -> None:
        time.sleep(_PAUSE)
        while True:
            _wait_for_quota()
            with self._lock:
                jobs, helper = self._hand_over()
                self.works = helper is not None
            if helper is None:
                return
            assert helper.stdout is not None
            with helper:
                for job in jobs:
                    answer = helper.stdout.readline()
                    with self.replacing:
                        job.finish(answer)
                for line in helper.stdout:
                    with suppress(PinnaceWarning):  # raised where warnings are errors
                        warn(json.loads(line))

    def _hand_over(self) -> tuple[list[Job], subprocess.Popen[bytes] | None]:
        """Give all models to a new helper, and return both; the caller holds the lock."""
        jobs, self._jobs = self._jobs, []
        try:
            return jobs, _started(jobs) if jobs else None
        except OSError as error:
            for job in jobs:
                job.log_failure(error)
            return [], None


def _wait_for_quota() -> None:
    """Wait until a CPU quota, from which idle time is taken too, leaves a core or its half for a second."""
    quota = cpu_quota()
    while 0 < quota < len(allowed_cores()):
        before = cpu_seconds()
        time.sleep(1)
        if cpu_seconds() - before <= max(quota - 1, quota / 2):
            return


def _started(jobs: list[Job]) -> subprocess.Popen[bytes]:
    """Start a helper, which answers each job by a line: "", or why it failed. Raises OSError.

    It has a group of its own, as signals of the terminal are for this process, but no session: where the
    kernel shares cores between sessions (autogroup), another one gets half of a core whatever its priority.
    """
    import subprocess

    with ExitStack() as opened:
        messages = [job.message(opened) for job in jobs]
        path = [os.path.abspath(entry) for entry in (*sys.path, str(_ROOT)) if entry]
        text = json.dumps({"path": path, "parent": os.getpid(), "jobs": messages})
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _HELPER],
            stdin=_in_memory(text.encode(), opened),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[one["buffer"] for one in messages if one["buffer"] is not None],
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


_queue = _Queue()


def keep_later(job: Job) -> None:
    """Keep a model in the background; failures are logged."""
    _queue.put(job)


def _after_fork_in_child() -> None:
    global _queue
    _queue = _Queue()


def _end() -> None:
    with suppress(RuntimeError):
        _queue.end()


atexit.register(_end)
os.register_at_fork(
    before=lambda: _queue.replacing.acquire(),
    after_in_parent=lambda: _queue.replacing.release(),
    after_in_child=_after_fork_in_child,
)


def run_jobs(task: dict[str, Any]) -> None:
    """Keep models as the helper process, in time that no other process wants; print a line for each.

    Then engines are compared for those that leave this open; a line is printed for each warning.
    """
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    end_first(1000)
    threading.Thread(target=_end_after, args=(task["parent"],), daemon=True).start()
    kept = []
    for job in task["jobs"]:
        try:
            keep(job)
            kept.append(job)
            failure = ""
        except Exception as error:
            failure = str(error) or repr(error)
        with suppress(BrokenPipeError):  # the parent has ended
            print(json.dumps(failure), flush=True)
    for job in kept:
        with suppress(Exception):  # the model is kept as it was built
            if warning := compare(job):
                print(json.dumps(warning), flush=True)


def _end_after(parent: int) -> None:
    """End some time after the parent process: the next writer of the cache sweeps what is left."""
    while os.getppid() == parent:
        time.sleep(_LOOKS)
    time.sleep(_ALONE)
    os._exit(1)


def keep(job: Message) -> None:
    """Build a model into the compile cache. Raises OSError, and the errors of engine and compiler."""
    from pinnace.building.build import found_or_written
    from pinnace.building.spec import Stages

    with _opened(job, _COPIES) as spec:
        found_or_written(spec, Stages())
        for first in job["choices"][:1]:
            spec.cache.keep_engine_choice(job["choice_key"], Choice(*first)._asdict())


def compare(job: Message) -> str:
    """Measure a kept model on both engines, and keep it for the faster one, unless that has been done.

    Returns a warning if it was built on OpenVINO, whose results are others.
    """
    choices = [Choice(*one) for one in job["choices"]]
    if not choices[1:]:
        return ""
    from pinnace.building.build import found_or_written
    from pinnace.building.choosing import with_choice
    from pinnace.building.measuring import DIFFERENT, measured
    from pinnace.building.spec import Stages

    with _opened(job, 2 * _COPIES) as spec:
        if spec.cache.engine_choice(job["choice_key"]) != choices[0]._asdict():
            return ""
        choice = measured(spec, [one._replace(threads=1) for one in choices], job["in_pool"])
        found_or_written(with_choice(spec, choice), Stages())
        choice = choice._replace(threads=choices[0].threads)
        spec.cache.keep_engine_choice(job["choice_key"], choice._asdict())
        if choices[0].provider != "openvino" or DIFFERENT not in choice.why:
            return ""
        return f"{spec.source.name} runs on openvino here: {choice.why}. Build it again to use onnxruntime."


@contextmanager
def _opened(job: Message, copies: int) -> Iterator[Spec]:
    """Open a model while no other helper uses the cache: none takes memory beside another.

    Raises OSError if so many copies of the model do not fit.
    """
    from pinnace import engines
    from pinnace.building.spec import Spec
    from pinnace.cache.model import ModelCache
    from pinnace.cache.store import Store
    from pinnace.options.target import Target
    from pinnace.types import ModelType
    from pinnace.weights.source import Source

    root, limit = job["store"]
    store = Store(Path(root), limit)
    store.patience = _PATIENCE
    with store.folder.lock("keeper", _PATIENCE):
        source = Source.of_file(job["model"]) if job["model"] else _buffered(job["buffer"], job["folder"])
        size, most = source.size, usable_memory()
        if copies * size > most:
            raise OSError(f"it takes {copies} x {size / 1e9:.1f} GB, and {most / 1e9:.1f} GB are usable")
        target = Target.of_message(job["target"])
        engine = engines.choose(target._replace(provider=job["engine"]), source.name)
        kind, shapes = ModelType[job["kind"]], tuple(map(tuple, job["shapes"]))
        variable, cache = tuple(job["variable"]), ModelCache(source, store)
        yield Spec(source, kind, engine, target, job["plan"], variable, shapes, cache)


def _buffered(descriptor: int | None, folder: str | None) -> Source:
    """Return the model in a file descriptor. Raises OSError for None."""
    import mmap

    from pinnace.weights.source import Source

    if descriptor is None:
        raise OSError("it was closed, and has no file")
    return Source.of_buffer(memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)), folder)
