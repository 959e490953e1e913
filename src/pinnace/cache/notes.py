"""Sealed JSON files of the cache, whose first line is the digest of the rest, such as facts about models."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pinnace.cache.folder import Folder, make_private
from pinnace.weights.digest import digest

Record = dict[str, Any]
"""A JSON object."""


def sealed(body: str) -> str:
    """Return a text with its digest as the first line."""
    return f"{digest(body.encode())}\n{body}"


def unsealed(text: str) -> str | None:
    """Return the text that was sealed; None if it is damaged."""
    seal, _, body = text.partition("\n")
    return body if digest(body.encode()) == seal else None


def find(path: Path) -> Any:
    """Return the JSON value stored in a file; None if there is none or it is damaged."""
    try:
        if not path.is_file():
            return None
        body = unsealed(path.read_text(encoding="utf-8"))
        return None if body is None else json.loads(body)
    except (OSError, ValueError):
        return None


def keep(cache: Folder, subfolder: str, name: str, value: object) -> None:
    """Store a JSON value. Raises OSError."""
    with cache.new() as folder:
        (folder / name).write_text(sealed(json.dumps(value)), encoding="utf-8")
        make_private(folder)
        os.replace(folder / name, cache.subfolder(subfolder) / name)
