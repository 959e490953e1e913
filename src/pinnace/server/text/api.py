"""Texts over HTTP: `/v1/embeddings` and `/v1/models` as OpenAI has them, `/rerank` as Jina has it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import time
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pinnace.server.calls import Call, continued
from pinnace.server.failures import Answer
from pinnace.server.models import OpenModel
from pinnace.server.repository import Entry, Repository
from pinnace.server.text.bodies import EmbeddingRequest, RankingRequest
from pinnace.server.text.pooling import Floats
from pinnace.server.work import aside, unless_gone


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
        body = await request.body()
        asked = await aside(len(body), EmbeddingRequest.of, body)
        with continued(request.headers):
            rows, tokens = await unless_gone(request, self._embedded(asked, request.state.call))
        body = await aside(rows.nbytes, encoded, asked.answered(rows, tokens))
        return Response(body, media_type="application/json")

    async def rerank(self, request: Request) -> Response:
        body = await request.body()
        asked = await aside(len(body), RankingRequest.of, body)
        with continued(request.headers):
            scores, tokens = await unless_gone(request, self._ranked(asked, request.state.call))
        return JSONResponse(asked.answered(scores, tokens))

    async def _embedded(self, asked: EmbeddingRequest, call: Call) -> tuple[Floats, int]:
        async with self._using(asked.model, call) as opened:
            return await opened.text_model().embeddings(opened, asked, call)

    async def _ranked(self, asked: RankingRequest, call: Call) -> tuple[Floats, int]:
        async with self._using(asked.model, call) as opened:
            return await opened.text_model().relevance(opened, asked, call)

    @asynccontextmanager
    async def _using(self, name: str, call: Call) -> AsyncIterator[OpenModel]:
        """Hold the model of a call for the block; its time limit is one of all batches together."""
        call.model = name
        async with self._repository.using(name, limit=call.left) as opened:
            call.version = opened.version
            call.within(opened.settings.timeout or math.inf)
            yield opened
