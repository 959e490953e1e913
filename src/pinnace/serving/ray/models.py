"""Transfer of a model's files to the nodes. A node receives them once, and keeps them under their digest."""

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
from pinnace.building.opening import source_of
from pinnace.cache.model import ModelCache
from pinnace.cache.store import Store
from pinnace.deferred import import_onnx_ir
from pinnace.errors import ConfigError, ModelFormatError
from pinnace.options.settings import Settings
from pinnace.types import Buffer
from pinnace.weights.source import Source

_PIECE = 64 << 20  # bytes of an object in Ray's store
_BUFFER = "model"


@dataclass(frozen=True)
class Shipment:
    """The objects in Ray's store that hold each file of a model."""

    files: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Manifest:
    """Identity of a model: `whole` is its digest, `files` are paths in its folder, its own first.

    `path` is the model file on the sending machine, "" if the model was a buffer.
    """

    path: str
    whole: str
    files: tuple[str, ...]


class Cargo:
    """The files of a model on this machine."""

    def __init__(self, model: str | Buffer, settings: Settings) -> None:
        """List the files of a model, which has to be read for that. Raises ModelFormatError."""
        import_onnx_ir()
        self._source = source = source_of(model, settings)
        formats.read(source)
        self._beside = source.files
        path = "" if source.path is None else str(source.path.absolute())
        whole = ModelCache(source).whole(self._beside)
        self.manifest = Manifest(path, whole, (os.path.basename(path) or _BUFFER, *self._beside))

        self._lock = threading.Lock()
        self._sent: weakref.ref[Shipment] | None = None

    def ship(self) -> Shipment:
        """Put all files into Ray's store, once; they stay there as long as a result is referenced."""
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
    """Find the model on this node, at its own path with the same digest or as a copy; None if absent."""
    path = Path(manifest.path)
    if manifest.path and path.is_file() and _whole(path, manifest) == manifest.whole:
        return path
    store = Store.of(settings)
    folder = None if store is None else store.find_model(manifest.whole)
    return None if folder is None else folder / manifest.files[0]


def receive(manifest: Manifest, shipment: Shipment, settings: Settings) -> Path:
    """Store the received files, unless another actor of this node did already. Returns the model's path."""
    store = Store.of(settings)
    if store is None:
        raise ConfigError("a node stores received models in its compile cache, which is off there")

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
    """Return the digest of a model at `path`; "" if files are missing."""
    try:
        source = Source.of_file(path)
        return ModelCache(source).whole(manifest.files[1:])
    except ModelFormatError:
        return ""
