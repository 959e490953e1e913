"""The calls of HTTP: tables of which the application makes its routes, and `openapi` their description."""

from __future__ import annotations

from typing import NamedTuple

from pinnace.server.access import Scope

_MODEL = "/v2/models/{model}"
_REPOSITORY = "/v2/repository"
_ITS = f"{_REPOSITORY}/models/{{model}}"
_SHARED = "/v2/systemsharedmemory"
_REGION = f"{_SHARED}/region/{{region}}"


class Route(NamedTuple):
    """A call: the scope that it needs, its place, the name of its handler, and what it does.

    `takes` and `gives` are schemas of `openapi` for bodies of JSON, or a type of media; "" is no body.
    `local` calls change or count the process that answers: where several answer, they are refused.
    """

    scope: Scope
    method: str
    path: str
    handler: str
    does: str
    takes: str = ""
    gives: str = ""
    local: bool = False


def _of_versions(route: Route) -> tuple[Route, Route]:
    """Return a call for the newest version of a model, and for one that is named."""
    return route, route._replace(path=route.path.replace("{model}", "{model}/versions/{version}"))


PROTOCOL = (
    Route("read", "GET", "/v2/models/stats", "all_statistics", "Count requests", "", "Statistics", True),
    # Early, as this one must be fast:
    *_of_versions(Route("infer", "POST", f"{_MODEL}/infer", "infer", "Compute", "Inference", "Result")),
    *_of_versions(Route("read", "GET", _MODEL, "model", "Describe a model", gives="Model")),
    *_of_versions(
        Route(
            "open", "GET", f"{_MODEL}/ready", "model_ready", "Say whether a model can answer", gives="Ready"
        )
    ),
    *_of_versions(
        Route("read", "GET", f"{_MODEL}/config", "config", "Describe a model as Triton does", gives="Object")
    ),
    *_of_versions(
        Route("read", "GET", f"{_MODEL}/stats", "statistics", "Count requests", "", "Statistics", True)
    ),
    Route("read", "GET", "/v2", "server", "Describe the server", gives="Server"),
    Route("open", "GET", "/v2/health/live", "live", "Say whether the server lives", gives="Live"),
    Route("open", "GET", "/v2/health/ready", "ready", "Say whether all models can answer", gives="Ready"),
    Route("read", "POST", f"{_REPOSITORY}/index", "index", "List models", "IndexRequest", "Index"),
    Route("admin", "POST", f"{_ITS}/load", "load", "Open a model", "Load", local=True),
    Route("admin", "POST", f"{_ITS}/unload", "unload", "Close a model", local=True),
    Route("read", "GET", "/metrics", "metrics", "Show metrics for Prometheus", "", "text/plain", True),
    Route("open", "GET", "/", "page", "Show a page for people", gives="text/html", local=True),
    Route("read", "GET", "/openapi.json", "openapi", "Describe these calls", gives="Object"),
    Route("read", "GET", "/status", "status", "Show what the page does", gives="Object", local=True),
    Route("read", "GET", "/labels/{model}", "labels", "Name a model's classes", gives="Texts"),
    Route("infer", "POST", f"{_REGION}/register", "register", "Add a region", "Region", "Object", True),
    Route("infer", "POST", f"{_REGION}/unregister", "unregister", "Forget a region", "", "Object", True),
    Route("infer", "POST", f"{_SHARED}/unregister", "unregister", "Forget all regions", "", "Object", True),
    Route("read", "GET", f"{_REGION}/status", "regions", "Show a region", gives="Objects"),
    Route("read", "GET", f"{_SHARED}/status", "regions", "Show all regions", gives="Objects"),
    Route("infer", "POST", "/v2/cudasharedmemory/unregister", "no_regions", "Do nothing", gives="Objects"),
    Route("read", "GET", "/v2/cudasharedmemory/status", "no_regions", "Show no region", gives="Objects"),
)
"""The calls of the Open Inference Protocol, and our own."""

TEXT = (
    Route("infer", "POST", "/v1/embeddings", "embeddings", "Embed texts", "Embedding", "Object"),
    Route("infer", "POST", "/rerank", "rerank", "Rank texts", "Ranking", "Object"),
    Route("infer", "POST", "/v1/rerank", "rerank", "Rank texts", "Ranking", "Object"),
    Route("read", "GET", "/v1/models", "models", "List models as OpenAI does", gives="Object"),
    Route("read", "GET", "/v1/models/{model}", "model", "Describe a model as OpenAI does", gives="Object"),
)
"""The calls of OpenAI and Jina."""
