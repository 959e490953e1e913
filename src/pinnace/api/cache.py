"""The compile cache and the tunings in it, for commands: `pinnace cache`, `compile`, `bench` and `tune`."""

from __future__ import annotations

import os
from pathlib import Path

from pinnace.building.opening import open_model
from pinnace.building.spec import Spec, Stages, lowered
from pinnace.cache.entry import Damaged
from pinnace.cache.folder import Folder, make_folder
from pinnace.cache.store import Store
from pinnace.cache.tuning import Configuration, Measurement, Tuning, all_kept
from pinnace.errors import ConfigError
from pinnace.options.settings import Settings
from pinnace.options.target import Target

__all__ = [
    "Configuration", "Damaged", "Measurement", "Store", "Tuning", "all_kept", "cache_of", "cached_models",
    "forget_tunings", "keep_tuning", "shared_folder",
]  # fmt: skip


def cache_of(folder: Path | None = None) -> Store:
    """Return the cache in a folder, by default that of builds. Raises ConfigError if there is none."""
    options = None if folder is None else {"ms_cache": {"serialize_path": str(folder)}}
    try:
        store = Store.from_settings(Settings.load(options=options))
    except (OSError, ValueError) as error:
        raise ConfigError(f"there is no cache: {error}") from None
    if store is None:
        raise ConfigError("there is no cache: it is switched off by PINNACE_CACHE_DIR or --folder")
    return store


def cached_models(config: str) -> set[str] | None:
    """Return the keys in the cache of a configuration file; None if there is no cache."""
    store = Store.of(Settings.load(config))
    return None if store is None else set(store.entry_keys())


def shared_folder(root: Path) -> Folder:
    """Return the folder of a cache that others may read, and create it if needed. Raises ConfigError."""
    try:
        make_folder(root, 0o755)
        return Folder(root)
    except OSError as error:
        raise ConfigError(f"--to: {error}") from None


def keep_tuning(model: str | os.PathLike[str], config: str, tuning: Tuning) -> bool:
    """Store the tuning of a model. Returns False if the compile cache is off. Raises OSError."""
    spec = _spec(model, config)
    lowered(spec, Stages())  # which files belong to the model
    return spec.cache.keep_tuning(tuning)


def forget_tunings(model: str | os.PathLike[str], config: str) -> int:
    """Delete the tunings of a model, and return their number."""
    return _spec(model, config).cache.forget_tunings()


def _spec(model: str | os.PathLike[str], config: str) -> Spec:
    return open_model(model, None, Target(), Settings.load(config))
