"""Settings of one model of a repository: the file `model.toml` in its folder."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pinnace.errors import ConfigError
from pinnace.server.failures import RequestError

_KINDS: dict[type, str] = {
    tuple: "a list of whole numbers",
    str: "text",
    int: "a whole number of at least 0",
    float: "a number of at least 0",
}


@dataclass(frozen=True)
class ModelSettings:
    """The opening and scheduling of a model; 0 leaves a number to Pinnace.

    `queue` is the number of requests that may wait; `timeout` is in seconds, 0 for none; `warm_up` is the
    number of predictions before a model is ready. `max_batch_size` above 1 batches waiting requests up to
    that many rows; the first of them waits up to `max_queue_delay_us` microseconds for others.
    """

    engine: str = ""
    precision: str = "enforce_fp32"
    workers: int = 0
    threads: int = 0
    device: str = "cpu"
    device_ids: tuple[int, ...] = ()
    max_batch_size: int = 0
    max_queue_delay_us: int = 0
    queue: int = 128
    timeout: float = 0.0
    warm_up: int = 3
    config: str = ""

    def read(self, file: Path) -> ModelSettings:
        """Return these settings with those of a `model.toml`; these if there is no such file.

        Raises ConfigError, which names the file and the key.
        """
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return self
        try:
            return self.updated(tomllib.loads(text), str(file))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{file} is not TOML: {error}") from None

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
            if not fits or (isinstance(value, int | float) and value < 0):
                raise ConfigError(f"{where}: {key} must be {_KINDS[wanted]}, not {value!r}")
            known[key] = wanted(value)
        return replace(self, **known)

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
                "workers": sum(int(group["count"]) for group in groups) or None,
            }
            whole = {name: int(value) for name, value in given.items() if value is not None}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RequestError(
                f"failed to load: the configuration is not Triton's JSON of a model: {error}"
            ) from None
        try:
            return self.updated(whole, "the configuration")
        except ConfigError as error:
            raise RequestError(str(error)) from None
