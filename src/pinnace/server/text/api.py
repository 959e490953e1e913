"""Texts over HTTP: `/v1/embeddings` and `/v1/models` as OpenAI has them, `/rerank` as Jina has it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from time import time
from typing import Any, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pinnace.server.calls import Call, continued
from pinnace.server.failures import Answer
from pinnace.server.models import OpenModel
from pinnace.server.repository import Entry, Repository
from pinnace.server.text.bodies import EmbeddingRequest, RankingRequest
from pinnace.server.text.model import TextModel
from pinnace.server.text.pooling import Floats
from pinnace.server.work import aside, unless_gone

R = TypeVar("R", EmbeddingRequest, RankingRequest)
_Compute = Callable[[TextModel, OpenModel, R, Call], Awaitable[tuple[Floats, int]]]


def failure(answer: Answer, text: str) -> dict[str, Any]:
    """Return a failure as OpenAI's clients expect it."""
    kind = "invalid_request_error" if answer.status < 500 else "server_error"
    return {"error": {"message": text, "type": kind, "param": None, "code": answer.cause.replace(" ", "_")}}


def encoded(response: dict[str, Any]) -> bytes:
    return orjson.dumps(response, option=orjson.OPT_SERIALIZE_NUMPY)


class Api:
    """The handlers of these calls."""

    def __init__(self, repository: Repository) -> None:
        self._repository, self._since = repository, int(time())

    async def models(self, request: Request) -> Response:
        return JSONResponse(
            {"object": "list", "data": [self._described(one) for one in self._repository.entries]}
        )

    async def model(self, request: Request) -> Response:
        return JSONResponse(self._described(self._repository.entry(request.path_params["model"])))

    def _described(self, entry: Entry) -> dict[str, Any]:
        owner = self._repository.server_name
        return {"id": entry.name, "object": "model", "created": self._since, "owned_by": owner}

    async def embeddings(self, request: Request) -> Response:
        return await self._answered(request, EmbeddingRequest, TextModel.embeddings)

    async def rerank(self, request: Request) -> Response:
        return await self._answered(request, RankingRequest, TextModel.relevance)

    async def _answered(self, request: Request, kind: type[R], compute: _Compute[R]) -> Response:
        body = await request.body()
        asked = await aside(len(body), kind.of, body)
        with continued(request.headers):
            work = self._computed(asked, request.state.call, compute)
            rows, tokens = await unless_gone(request, work)
        made = await aside(rows.nbytes, encoded, asked.answered(rows, tokens))
        return Response(made, media_type="application/json")

    async def _computed(self, asked: R, call: Call, compute: _Compute[R]) -> tuple[Floats, int]:
        """Compute what is asked for; the time limit of its model is one of all batches together."""
        call.model = asked.model
        async with self._repository.using(asked.model, limit=call.left) as opened:
            call.version = opened.version
            call.within(opened.settings.timeout or math.inf)
            return await compute(opened.text_model(), opened, asked, call)
