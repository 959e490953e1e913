"""The calls of HTTP: tables of which the application makes its routes."""

from __future__ import annotations

from typing import NamedTuple

from pinnace.server.access import Scope

_MODEL = "/v2/models/{model}"
_VERSION = f"{_MODEL}/versions/{{version}}"
_REGION = "/v2/systemsharedmemory/region/{region}"


class Route(NamedTuple):
    """A call: the scope that it needs, its place, and the name of its handler.

    `local` calls change or count the process that answers: where several answer, they are refused.
    """

    scope: Scope
    method: str
    path: str
    handler: str
    local: bool = False


PROTOCOL = (
    Route("read", "GET", "/v2/models/stats", "all_statistics", local=True),
    Route("infer", "POST", f"{_MODEL}/infer", "infer"),  # early: it is the one that must be fast
    Route("infer", "POST", f"{_VERSION}/infer", "infer"),
    Route("read", "GET", _MODEL, "model"),
    Route("read", "GET", _VERSION, "model"),
    Route("open", "GET", f"{_MODEL}/ready", "model_ready"),
    Route("open", "GET", f"{_VERSION}/ready", "model_ready"),
    Route("read", "GET", f"{_MODEL}/config", "config"),
    Route("read", "GET", f"{_VERSION}/config", "config"),
    Route("read", "GET", f"{_MODEL}/stats", "statistics", local=True),
    Route("read", "GET", f"{_VERSION}/stats", "statistics", local=True),
    Route("read", "GET", "/v2", "server"),
    Route("open", "GET", "/v2/health/live", "live"),
    Route("open", "GET", "/v2/health/ready", "ready"),
    Route("read", "POST", "/v2/repository/index", "index"),
    Route("admin", "POST", "/v2/repository/models/{model}/load", "load", local=True),
    Route("admin", "POST", "/v2/repository/models/{model}/unload", "unload", local=True),
    Route("read", "GET", "/metrics", "metrics", local=True),
    Route("open", "GET", "/", "page", local=True),
    Route("read", "GET", "/status", "status", local=True),
    Route("read", "GET", "/labels/{model}", "labels"),
    Route("infer", "POST", f"{_REGION}/register", "register", local=True),
    Route("infer", "POST", f"{_REGION}/unregister", "unregister", local=True),
    Route("infer", "POST", "/v2/systemsharedmemory/unregister", "unregister", local=True),
    Route("read", "GET", f"{_REGION}/status", "regions"),
    Route("read", "GET", "/v2/systemsharedmemory/status", "regions"),
    Route("infer", "POST", "/v2/cudasharedmemory/unregister", "no_regions"),
    Route("read", "GET", "/v2/cudasharedmemory/status", "no_regions"),
)
"""The calls of the Open Inference Protocol, and our own."""

TEXT = (
    Route("infer", "POST", "/v1/embeddings", "embeddings"),
    Route("infer", "POST", "/rerank", "rerank"),
    Route("infer", "POST", "/v1/rerank", "rerank"),
    Route("read", "GET", "/v1/models", "models"),
    Route("read", "GET", "/v1/models/{model}", "model"),
)
"""The calls of OpenAI and Jina."""
