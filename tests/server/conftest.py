"""Servers and clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.server import models, texts

from pinnace.server.server import Options, Server
from pinnace.server.settings import ModelSettings

Serving = Callable[..., Server]


@pytest.fixture
def serving() -> Iterator[Serving]:
    """Start servers, which end with the test."""
    with ExitStack() as running:

        def start(*places: Path, settings: ModelSettings | None = None, **options: Any) -> Server:
            ports = {"http_port": 0, "grpc_port": 0}
            server = Server(
                places, settings or ModelSettings(workers=2, threads=1), Options(**(ports | options))
            )
            return running.enter_context(server)

        yield start


@pytest.fixture(scope="session")
def simple(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.simple(tmp_path_factory.mktemp("simple") / "simple.onnx")


@pytest.fixture(scope="session")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.rounds(tmp_path_factory.mktemp("rounds") / "rounds.onnx")


@pytest.fixture
def folders(tmp_path: Path) -> Callable[..., Path]:
    """Make a repository with a model of texts, named "model"."""

    def make(source: str, files: dict[str, Any] | None = None) -> Path:
        texts.folder_with(tmp_path / "models" / "model", source, files or {})
        return tmp_path / "models"

    return make


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve both models of texts, `embedding` and `reranker`."""
    folder = tmp_path_factory.mktemp("text")
    for name in ("embedding", "reranker"):
        texts.folder_with(folder / name, name, {})
    with Server([folder], texts.settings(), Options(http_port=0, grpc_port=0)) as server:
        yield server
