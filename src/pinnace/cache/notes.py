"""Small JSON files of the cache: facts about models. The first line of a file is the digest of the rest."""

from __future__ import annotations

import json
import os
from typing import Any

from pinnace.cache.folder import Folder, make_private
from pinnace.weights.digest import digest


def find(cache: Folder, subfolder: str, name: str) -> Any:
    """Return the JSON value stored under this name; None if there is none or it is damaged."""
    path = cache.root / subfolder / name
    try:
        if not path.is_file():
            return None
        seal, _, body = path.read_text(encoding="utf-8").partition("\n")
        return json.loads(body) if digest(body.encode()) == seal else None
    except (OSError, ValueError):
        return None


def keep(cache: Folder, subfolder: str, name: str, value: object) -> None:
    """Store a JSON value. Raises OSError."""
    body = json.dumps(value)
    with cache.new() as folder:
        (folder / name).write_text(f"{digest(body.encode())}\n{body}", encoding="utf-8")
        make_private(folder)
        os.replace(folder / name, cache.subfolder(subfolder) / name)
