"""The one door: a file or buffer and a target go in, an executable comes out."""

from __future__ import annotations

import os

from pinnace.config import Settings
from pinnace.engines.protocol import Executable
from pinnace.target import Target
from pinnace.types import ModelType

Buffer = bytes | bytearray | memoryview


def build(
    model: str | os.PathLike[str] | Buffer,
    model_type: ModelType | None,
    target: Target,
    settings: Settings,
) -> Executable:
    """Compile a model for a target.

    `model` is a path, or the bytes of a model. `model_type` None means: told from the content. Raises
    `ModelFormatError`, `UnsupportedModelError`, `DeviceUnavailableError` or `EngineError`.
    """
    raise NotImplementedError
