"""Models that take texts, their clients, and what sentence-transformers computes; see tests/data/text."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import openai

from pinnace.server.server import Server
from pinnace.server.settings import ModelSettings

DATA = Path(__file__).parents[1] / "data" / "text"
TOLD = json.loads((DATA / "texts.json").read_text())
TEXTS, QUERY, VARIANTS = TOLD["texts"], TOLD["query"], TOLD["variants"]
EMBEDDINGS, SCORES = (dict(np.load(DATA / f"{name}.npz")) for name in ("embedding", "reranker"))
MERGED = ("config.json", "tokenizer_config.json", "tokenizer.json")
"""Files of which only the given keys differ."""
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
"""The promise of issue 31; float32 in another order differs by 1e-6."""


def folder_with(folder: Path, source: str, files: dict[str, Any]) -> None:
    """Make the folder of a model with other files beside it, as make_text_models.py does."""
    shutil.copytree(DATA / source, folder)
    for file, change in files.items():
        place = folder / file
        before = json.loads(place.read_text()) if place.exists() else {}
        if isinstance(before, list) and isinstance(change, int):
            change = before[:change]
        elif isinstance(change, dict) and file in MERGED:
            change = before | change
        place.write_text(change if isinstance(change, str) else json.dumps(change))


def client(server: Server, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"http://127.0.0.1:{server.http_port}/v1", **{"api_key": "none", "max_retries": 0} | options
    )


def embedded(server: Server, texts: Any = TEXTS, **options: Any) -> np.ndarray:
    found = client(server).embeddings.create(model="model", input=texts, **options)
    assert [one.index for one in found.data] == list(range(len(found.data)))
    return np.array([one.embedding for one in found.data], np.float32)


def asked(server: Server, path: str, body: Any) -> tuple[int, Any]:
    request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}{path}", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def settings(**more: Any) -> ModelSettings:
    return ModelSettings(workers=2, threads=1, **more)
