"""Settings of one model of a repository: the file `model.toml` in its folder."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pinnace.errors import ArgumentValueError, ConfigError
from pinnace.options.context import Context
from pinnace.options.settings import sections_of
from pinnace.server.failures import RequestError

_KINDS: dict[type, str] = {
    bool: "true or false",
    tuple: "a list of whole numbers",
    str: "text",
    int: "a whole number from 0 to 2^31",
    float: "a number from 0 to 2^31",
}

_FILES = ("_path", "_file", "_dir")
"""Ends of the options of a configuration that name files."""


@dataclass(frozen=True)
class ModelSettings:
    """The opening and scheduling of a model; 0 and "" leave the choice to Pinnace.

    `queue` is the number of requests that may wait; `timeout` is in seconds, 0 for none; `warm_up` is the
    number of predictions before a model is ready; `default_priority` is the priority of requests that name
    none. `max_batch_size` above 1 batches waiting requests up to that many rows; the first of them waits up
    to `max_queue_delay_us` microseconds for others. With `isolate` each worker is a process of its own, whose
    end is an error for its request only. With `ranks` the folder has a file for each rank of a model, which
    are processes that compute each request together. `labels` is the file with the names of classes. Texts
    are computed in batches of at most `max_batch_tokens`.
    """

    engine: str = ""
    precision: str = ""
    workers: int = 0
    threads: int = 0
    device: str = "cpu"
    device_ids: tuple[int, ...] = ()
    max_batch_size: int = 0
    max_queue_delay_us: int = 0
    queue: int = 128
    default_priority: int = 2
    timeout: float = 0.0
    warm_up: int = 3
    config: str = ""
    labels: str = ""
    isolate: bool = False
    ranks: int = 0
    max_batch_tokens: int = 512

    def read(self, file: Path) -> ModelSettings:
        """Return these settings with those of a `model.toml`; these if there is no such file.

        Paths, `config` and `labels`, are relative to its folder, and stay in it, and a configuration names no
        files: who brings a model must not choose other files of the server. Raises ConfigError, which names
        the file and the key.
        """
        try:
            given = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return self
        except OSError as error:
            raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(f"{file} is not TOML: {error}") from None
        for key in ("config", "labels"):
            if isinstance(given.get(key), str):
                place = file.parent / given[key]
                if not place.resolve().is_relative_to(file.parent.resolve()):
                    raise ConfigError(f"{file}: {key}: {given[key]!r} is not in the folder of the model")
                given[key] = str(place)
        made = self.updated(given, str(file))
        for section, options in sections_of(made.config).items() if made.config else ():
            for option in options:
                if option.lower().endswith(_FILES):
                    raise ConfigError(f"{made.config}: [{section}] {option} names files: not in a server")
        return made

    def updated(self, given: Mapping[str, Any], where: str) -> ModelSettings:
        """Return these settings with others; `where` names their source in errors."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        for key, value in given.items():
            if key not in known:
                raise ConfigError(f"{where}: there is no setting {key!r}; there are {', '.join(known)}")
            wanted = type(known[key])
            if wanted is tuple:
                fits = isinstance(value, list) and all(type(one) is int for one in value)
            else:
                fits = type(value) is wanted or (wanted is float and type(value) is int)
            if not fits or (isinstance(value, int | float) and not 0 <= value < 1 << 31):
                raise ConfigError(f"{where}: {key} must be {_KINDS[wanted]}, not {value!r}")
            known[key] = wanted(value)
        made = replace(self, **known)
        try:
            made.context()
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        return made

    def context(self) -> Context:
        """Return the context of a runner with these settings. Raises ConfigError, which names the setting."""
        context = Context()
        _set(context, "target", [self.device], "device")
        device, parallel = getattr(context, self.device.lower()), context.parallel
        for group, name, value, key in (
            (device, "provider", self.engine, "engine"),
            (device, "precision_mode", self.precision, "precision"),
            (context.cpu, "thread_num", self.threads, "threads"),
            (parallel, "workers_num", 0 if self.ranks else self.workers, "workers"),
            (parallel, "device_ids", list(self.device_ids), "device_ids"),
            (parallel, "config_path", self.config, "config"),
        ):
            if value:
                _set(group, name, value, key)
        runner = {"max_queue": str(self.queue), "isolate": str(self.isolate).lower()}
        if self.ranks:
            runner["ranks"] = str(self.ranks)
        if self.max_batch_size > 1:
            runner["max_batch_size"] = str(self.max_batch_size)
            runner["max_queue_delay_us"] = str(self.max_queue_delay_us)
        parallel.config_info = {"runner": runner}
        return context

    def overridden(self, config: str) -> ModelSettings:
        """Return these settings with those of a client's configuration in Triton's JSON.

        Of it count max_batch_size, instance_group and dynamic_batching. Raises RequestError if it is wrong.
        """
        try:
            found = json.loads(config)
            batching, groups = found.get("dynamic_batching", {}), found.get("instance_group", [])
            given = {
                "max_batch_size": found.get("max_batch_size"),
                "max_queue_delay_us": batching.get("max_queue_delay_microseconds"),
                "default_priority": batching.get("default_priority_level"),
                "workers": sum(int(group.get("count", 1)) for group in groups) or None,
            }
            whole = {name: int(value) for name, value in given.items() if value is not None}
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise RequestError(
                f"failed to load: the configuration is not Triton's JSON of a model: {error}"
            ) from None
        try:
            return self.updated(whole, "the configuration")
        except ConfigError as error:
            raise RequestError(str(error)) from None


def _set(group: object, name: str, value: object, key: str) -> None:
    try:
        setattr(group, name, value)
    except ArgumentValueError as error:
        raise ConfigError(f"{key}: {error}") from None
