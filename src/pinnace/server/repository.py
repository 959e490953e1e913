"""The models of a server: what there is, what is open, and the memory that they take.

A repository is model files, or a folder with a folder for each model: versions in folders whose names are
numbers, or the file itself, and an optional `model.toml`. The newest version answers. Names of clients are
looked up among what the folder lists: they never become paths.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pinnace.errors import ArgumentValueError, ConfigError, PinnaceError, PredictTimeoutError
from pinnace.log import ERROR, INFO, WARNING, Log
from pinnace.options.context import files_of_ranks
from pinnace.ranking import read as read_labels
from pinnace.server.failures import RequestError, UnavailableError, UnknownModelError
from pinnace.server.metrics import Metrics
from pinnace.server.models import OpenModel
from pinnace.server.settings import ModelSettings
from pinnace.serving.thread_pool import ThreadPool

SUFFIXES = (".mindir", ".ms", ".onnx")
_SETTINGS = "model.toml"
_log = Log("pinnace.server")


@dataclass
class Entry:
    """A model of the repository: its place, and its open versions by number."""

    name: str
    place: Path
    open: dict[str, OpenModel] = field(default_factory=dict)
    newest: str = ""
    """The version that answers requests that name none, open or evicted: `load` changes it."""
    config: str = ""
    """The configuration that the last load brought."""
    withdrawn: bool = False
    """True if it was unloaded, and must not be opened by a request."""
    reason: str = ""
    """Why it could not be opened last, "" if it could."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def state(self) -> str:
        """READY, UNAVAILABLE, or "" for a model that a first request opens."""
        return "UNAVAILABLE" if self.withdrawn or self.failure else "READY" if self.open else ""

    @property
    def failure(self) -> str:
        """The reason why it does not answer, "" if it does: it did not open, or its processes are gone."""
        opened = self.open.get(self.newest)
        return opened.failure if opened else self.reason


class Repository:
    """Opens, switches, evicts and closes models; all methods run on one event loop."""

    def __init__(
        self,
        places: Iterable[Path],
        settings: ModelSettings | None = None,
        memory: int = 0,
        server_name: str = "pinnace",
    ) -> None:
        """`places` are model files, or one folder of models; `memory` is the bytes that open models may take.

        Raises ConfigError if there is no model.
        """
        self._settings, self._memory = settings or ModelSettings(), memory
        self.metrics = Metrics()
        self.server_name = server_name
        self._folder: Path | None = None
        self._entries: dict[str, Entry] = {}
        self._builds = ThreadPoolExecutor(1, "pinnace-open")
        self._threads = ThreadPool()
        self._running = set[asyncio.Future[Any]]()
        places = list(places)
        if len(places) == 1 and places[0].is_dir():
            self._folder = places[0].absolute()
            self._scan()
        else:
            for place in places:
                self._add(place)
        if not self._entries:
            raise ConfigError(f"there is no model in {', '.join(map(str, places)) or 'the repository'}")

    def _add(self, place: Path) -> None:
        if not place.exists():
            raise ConfigError(f"{place}: there is no such file")
        if place.suffix not in SUFFIXES or not place.is_file():
            raise ConfigError(f"{place}: name one folder of models, or files {', '.join(SUFFIXES)}")
        name = place.name.removesuffix(place.suffix)
        if name in self._entries:
            raise ConfigError(f"{place}: there are two models of the name {name!r}")
        self._entries[name] = Entry(name, place.absolute())

    def _scan(self) -> None:
        """Enter the models that are new in the folder."""
        assert self._folder is not None
        for place in _listed(self._folder):
            if place.is_dir() and not os.access(place, os.R_OK | os.X_OK):
                _log.event(WARNING, "not read", f"{place}: it may not be read, and is taken for no model")
                continue
            name = place.name.removesuffix(place.suffix) if place.suffix in SUFFIXES else place.name
            if name not in self._entries and _versions(place):
                self._entries[name] = Entry(name, place)

    @property
    def entries(self) -> Sequence[Entry]:
        """All models, in order of name."""
        return [self._entries[name] for name in sorted(self._entries)]

    @property
    def ready(self) -> bool:
        """True unless a model cannot answer."""
        return not any(entry.failure for entry in self._entries.values())

    def entry(self, name: str) -> Entry:
        """Return a model. Raises UnknownModelError if there is none of that name."""
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownModelError(f"Request for unknown model: there is no {name[:100]!r}") from None

    def is_ready(self, name: str, version: str = "") -> bool:
        """Return True if a model answers, at the latest once its first request has opened it."""
        entry = self.entry(name)
        if version and version not in entry.open:
            _check_version(entry, version, _versions(entry.place))
        return entry.state in ("READY", "")

    def labels(self, name: str) -> list[str]:
        """Return the names of a model's classes, of its setting, or `labels.txt` or `labels.json` beside it.

        Raises ConfigError.
        """
        entry = self.entry(name)
        return _labels(entry.place, self._settings_of(entry))

    async def start(self) -> None:
        """Open all models, if memory has no limit; otherwise requests open them."""
        if not self._memory:
            for entry in self.entries:
                try:
                    await self.load(entry.name)
                except (PinnaceError, OSError) as error:
                    _log.event(ERROR, "not opened", f"{entry.name}: {error}", model=entry.name)

    async def load(self, name: str, config: str = "") -> None:
        """Open the newest version of a model, and let it answer in place of an older one.

        If it cannot be opened, the older one goes on, and the error is raised. Requests of the older one are
        answered by it before it is closed. `config` is that of `ModelSettings.overridden`; it holds until the
        next load.
        """
        await self._to_its_end(self._load(name, config))

    async def _to_its_end(self, work: Coroutine[Any, Any, None], limit: float | None = None) -> None:
        """Await work for `limit` seconds; it goes on if its client has gone, or does not wait longer."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait_for(asyncio.shield(task), limit)
        except TimeoutError:
            raise PredictTimeoutError("the model was being opened when the request's time was over") from None

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # asyncio would complain of one whose client has gone

    async def _load(self, name: str, config: str) -> None:
        if self._folder is not None:
            self._scan()
        if name not in self._entries:
            raise UnknownModelError(f"failed to load {name[:100]!r}: there is no model of that name")
        entry = self.entry(name)
        async with entry.lock:
            version = max(_versions(entry.place), key=int, default="")
            if not version:
                entry.reason = "its folder has no model file, or several of which none is named model"
                raise UnavailableError(f"{name}: {entry.reason}")
            if config:
                self._settings.overridden(config)  # a wrong one changes nothing
            opened = await self._open(entry, version, config)
            entry.config, entry.withdrawn, entry.reason = config, False, ""
            older = [one for one in entry.open.values() if one is not opened]
            entry.open, entry.newest = {version: opened}, version
        for one in older:
            await one.close()

    async def unload(self, name: str) -> None:
        """Close a model once its requests are answered; requests do not open it again, `load` does."""
        await self._to_its_end(self._unload(name))

    async def _unload(self, name: str) -> None:
        entry = self.entry(name)
        async with entry.lock:
            older, entry.open, entry.newest, entry.withdrawn = list(entry.open.values()), {}, "", True
            entry.reason = ""  # it is not wanted any more, so nothing is wrong with it
        for one in older:
            await one.close()

    def opened(self, name: str, version: str = "") -> OpenModel | None:
        """Return a version of a model if it is open. Raises UnknownModelError."""
        entry = self.entry(name)
        return entry.open.get(version or entry.newest)

    @asynccontextmanager
    async def using(
        self, name: str, version: str = "", limit: float | None = None
    ) -> AsyncIterator[OpenModel]:
        """Hold a version of a model for the block; open it if nothing but memory is in the way.

        Raises PredictTimeoutError if it is not open after `limit` seconds.
        """
        while (found := self.opened(name, version)) is None:
            await self._to_its_end(self._open_for_request(self.entry(name), version), limit)
        with found.held():
            yield found

    async def _open_for_request(self, entry: Entry, version: str) -> None:
        async with entry.lock:
            if entry.withdrawn:
                raise UnavailableError(f"{entry.name} is not loaded")
            there = _versions(entry.place)
            newest = entry.newest if entry.newest in there else max(there, key=int, default="")
            wanted = version or newest
            if wanted not in entry.open:
                _check_version(entry, wanted, there)
                try:
                    entry.open[wanted] = await self._open(entry, wanted, entry.config)
                except (PinnaceError, OSError) as error:
                    raise UnavailableError(f"{entry.name} cannot be opened: {error}") from error
            if not version:
                entry.newest, entry.reason = wanted, ""

    def _settings_of(self, entry: Entry) -> ModelSettings:
        return self._settings.read(entry.place / _SETTINGS) if entry.place.is_dir() else self._settings

    async def _open(self, entry: Entry, version: str, config: str) -> OpenModel:
        """Open a version, and warm it up; others are closed for it if memory is short."""
        loop = asyncio.get_running_loop()
        try:
            path = _versions(entry.place)[version]
            settings = self._settings_of(entry)
            settings = settings.overridden(config) if config else settings
            await self._make_room(path.stat().st_size * max(1, settings.ranks))
            make = partial(_opened, entry, version, path, settings, self.metrics, self._threads)
            opened = await loop.run_in_executor(self._builds, make)
        except (PinnaceError, OSError) as error:
            if config and isinstance(error, ConfigError):
                raise RequestError(f"failed to load {entry.name}: {error}") from None
            entry.reason = str(error)
            raise
        _log.event(INFO, "opened", f"{entry.name} {version}", model=entry.name, bytes=opened.memory)
        await self._make_room(0, opened)
        return opened

    async def _make_room(self, wanted: int, but: OpenModel | None = None) -> None:
        """Close the models that were not used for longest, as far as memory is short and they are idle."""
        while self._memory and self.taken + wanted > self._memory:
            idle = [
                (one.last_used, entry, version)
                for entry in self._entries.values()
                for version, one in entry.open.items()
                if not one.busy and one is not but
            ]
            if not idle:
                return
            _, entry, version = min(idle, key=lambda found: found[0])
            closed = entry.open.pop(version)
            _log.event(INFO, "evicted", f"{entry.name} {version}", model=entry.name, bytes=closed.memory)
            await closed.close()

    @property
    def taken(self) -> int:
        """Bytes of memory of all open models."""
        return sum(one.memory for entry in self._entries.values() for one in entry.open.values())

    async def close(self) -> None:
        """Answer all requests that wait or run, and close all models."""
        for entry in self.entries:
            await self.unload(entry.name)
        self._builds.shutdown()
        self._threads.end()


def _check_version(entry: Entry, version: str, there: Iterable[str]) -> None:
    if version not in there:
        raise UnknownModelError(
            f"{entry.name} has no version {version[:20]!r}; it has {', '.join(there) or 'no file'}"
        )


def _opened(
    entry: Entry, version: str, path: Path, settings: ModelSettings, metrics: Metrics, threads: ThreadPool
) -> OpenModel:
    labels = _labels(entry.place, settings)
    opened = OpenModel(entry.name, version, path, settings, metrics, labels, threads)
    opened.warm_up()
    return opened


def _labels(place: Path, settings: ModelSettings) -> list[str]:
    folder = place if place.is_dir() else place.parent
    beside = [file for file in (folder / "labels.txt", folder / "labels.json") if file.is_file()]
    for file in [Path(settings.labels)] if settings.labels else beside:
        try:
            return read_labels(file)
        except OSError as error:
            raise ConfigError(f"labels: {file} cannot be read: {error.strerror}") from None
        except ArgumentValueError as error:  # no client's
            raise ConfigError(str(error)) from None
    return []


def _versions(place: Path) -> dict[str, Path]:
    """Return the model file of each version: of a file alone, and of a folder without numbers, it is "1"."""
    if place.suffix in SUFFIXES and place.is_file():
        return {"1": place}
    if not place.is_dir():
        return {}
    numbered = {one.name: one for one in place.iterdir() if one.name.isdecimal() and one.is_dir()}
    found = {number: _model_in(folder) for number, folder in numbered.items()}
    if not found:
        found = {"1": _model_in(place)}
    return {number: file for number, file in found.items() if file is not None}


def _listed(folder: Path) -> list[Path]:
    """Return what is in a folder but for what is hidden: volumes and editors keep copies there."""
    return sorted(one for one in folder.iterdir() if not one.name.startswith("."))


def _model_in(folder: Path) -> Path | None:
    """Return the model file of a folder: `model.*`, the only one, or rank 0's if all are ranks'."""
    files = [file for file in _listed(folder) if file.suffix in SUFFIXES and file.is_file()]
    named = [file for file in files if file.name.removesuffix(file.suffix) in ("model", "model_graph")]
    return (named or files)[0] if len(files) == 1 or named or _are_ranks(files) else None


def _are_ranks(files: list[Path]) -> bool:
    try:
        return {str(file) for file in files} == {*files_of_ranks(str(files[0]), len(files))}
    except (ConfigError, IndexError):
        return False
