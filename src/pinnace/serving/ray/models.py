"""A model's files on their way to the nodes: each node gets them once, and keeps them under their content."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray

from pinnace import formats
from pinnace.building.opening import Buffer, source_of
from pinnace.cache.key import content_of, whole_of
from pinnace.cache.store import Store
from pinnace.deferred import import_onnx_ir
from pinnace.errors import ConfigError, ModelFormatError
from pinnace.options.settings import Settings
from pinnace.weights.source import Source

_PIECE = 64 << 20  # bytes of an object in Ray's store
_BUFFER = "model"


@dataclass(frozen=True)
class Shipment:
    """For each file of a model, the objects in Ray's store that it consists of."""

    files: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Manifest:
    """Which model it is: `whole` names its content, `files` are paths from its folder, its own file first.

    `path` is where it lies on the machine that sends it, "" where it was a buffer.
    """

    path: str
    whole: str
    files: tuple[str, ...]


class Cargo:
    """The files of a model here."""

    def __init__(self, model: str | Buffer, settings: Settings) -> None:
        """Find out which files a model has, for which it must be read; ModelFormatError."""
        import_onnx_ir()
        self._source = source = source_of(model, settings)
        formats.read(source)
        self._beside = source.files
        path = "" if source.path is None else str(source.path.absolute())
        whole = whole_of(content_of(source), source, self._beside)
        self.manifest = Manifest(path, whole, (os.path.basename(path) or _BUFFER, *self._beside))

        self._lock = threading.Lock()
        self._sent: weakref.ref[Shipment] | None = None

    def ship(self) -> Shipment:
        """All of it in Ray's store, where it stays as long as anybody holds the result; put there once."""
        with self._lock:
            sent = self._sent() if self._sent else None
            if sent is None:
                self._source.check_unchanged()
                sent = Shipment([_put(self._source.bytes_of(file)) for file in ("", *self._beside)])
                self._source.unload()
                self._sent = weakref.ref(sent)
            return sent


def _put(data: memoryview) -> list[Any]:
    whole = np.frombuffer(data, np.uint8)
    return [ray.put(whole[begin : begin + _PIECE]) for begin in range(0, max(len(whole), 1), _PIECE)]


def find(manifest: Manifest, settings: Settings) -> Path | None:
    """The model on this node, at its own path with this content, or a copy; None where it is not here."""
    path = Path(manifest.path)
    if manifest.path and path.is_file() and _whole(path, manifest) == manifest.whole:
        return path
    store = Store.of(settings)
    folder = None if store is None else store.model(manifest.whole)
    return None if folder is None else folder / manifest.files[0]


def receive(manifest: Manifest, shipment: Shipment, settings: Settings) -> Path:
    """Keep a model that has come, unless another actor of this node was faster; gives where it is."""
    store = Store.of(settings)
    if store is None:
        raise ConfigError("a node keeps models that it is sent in its compile cache, and that is off there")

    def fill(folder: Path) -> None:
        for file, pieces in zip(manifest.files, shipment.files, strict=True):
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as out:
                for piece in pieces:
                    out.write(ray.get(piece).data)
        if _whole(folder / manifest.files[0], manifest) != manifest.whole:
            raise ModelFormatError(
                f"{manifest.path or 'the model'}: it was changed while it was sent to the cluster"
            )

    return store.keep_model(manifest.whole, fill) / manifest.files[0]


def _whole(path: Path, manifest: Manifest) -> str:
    """The name for the content of a model at `path`; "" where files are missing."""
    try:
        source = Source.of_file(path)
        return whole_of(content_of(source), source, manifest.files[1:])
    except ModelFormatError:
        return ""
