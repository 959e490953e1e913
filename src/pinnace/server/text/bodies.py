"""Requests and responses about texts as JSON: OpenAI's embeddings, and Jina's reranking."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pinnace.server import fields
from pinnace.server.failures import RequestError, TooLargeError
from pinnace.server.text.pooling import Floats

_TEXTS = 2048
"""Texts of a request, as many as OpenAI takes."""
_CHARACTERS, _ALL_CHARACTERS = 1 << 17, 1 << 22
"""Characters or tokens of a text, and of all: the tokenizer reads a text before it cuts it."""


@dataclass(frozen=True)
class EmbeddingRequest:
    """Texts, or the tokens of each; `size` is the number of numbers that are wanted, None for all."""

    model: str
    texts: list[str]
    tokens: list[list[int]]
    binary: bool
    size: int | None

    @classmethod
    def of(cls, body: bytes) -> EmbeddingRequest:
        """Decode a request. Raises RequestError and TooLargeError."""
        given = _given(body, "input", "encoding_format", "dimensions", "user")
        way, size = given.get("encoding_format") or "float", given.get("dimensions")
        if way not in ("float", "base64"):
            raise RequestError("encoding_format must be float or base64")
        if size is not None and type(size) is not int:
            raise RequestError("dimensions must be a whole number")
        texts, tokens = _inputs(given.get("input"))
        return cls(given["model"], texts, tokens, way == "base64", size)

    def answered(self, rows: Floats, tokens: int) -> dict[str, Any]:
        """Return the response with the embedding of each text, an array unless base64 is wanted."""
        plain: Sequence[Any]
        if self.binary:
            plain = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
        else:
            plain = list(rows)
        data = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(plain)]
        return {"object": "list", "data": data, "model": self.model, "usage": _usage(tokens)}


@dataclass(frozen=True)
class RankingRequest:
    """A query, and documents of which the most relevant `top` are wanted."""

    model: str
    query: str
    documents: list[str]
    top: int
    with_documents: bool

    @classmethod
    def of(cls, body: bytes) -> RankingRequest:
        """Decode a request. Raises RequestError and TooLargeError."""
        given = _given(body, "query", "documents", "top_n", "return_documents")
        query, found = fields.text(given, "query"), fields.items(given, "documents")
        documents: list[Any] = [one.get("text") if isinstance(one, dict) else one for one in found]
        if not documents or not all(isinstance(one, str) for one in documents):
            raise RequestError("documents must be a list of texts, or of objects with a text")
        top, wanted = given.get("top_n"), given.get("return_documents") or False
        if top is not None and (type(top) is not int or top < 1):
            raise RequestError("top_n must be a whole number of at least 1")
        if not isinstance(wanted, bool):
            raise RequestError("return_documents must be true or false")
        _check_texts([query])
        _check_texts(documents, len(documents) * len(query))
        return cls(given["model"], query, documents, top or len(documents), wanted)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The query with each document."""
        return [(self.query, document) for document in self.documents]

    def answered(self, scores: Floats, tokens: int) -> dict[str, Any]:
        """Return the response with the documents in order of relevance."""
        results = []
        for at in np.argsort(-scores, kind="stable")[: self.top].tolist():
            one = {"index": at, "relevance_score": scores[at].item()}
            results.append(one | ({"document": {"text": self.documents[at]}} if self.with_documents else {}))
        return {"object": "list", "model": self.model, "results": results, "usage": _usage(tokens)}


def _given(body: bytes, *known: str) -> dict[str, Any]:
    """Return a request's fields, among them a `model`; a field that is not known might change the result."""
    given = fields.parsed(body)
    fields.text(given, "model")
    other = [key for key in given if key not in ("model", *known)]
    if other:
        raise RequestError(f"there is no field {other[0][:50]!r}; there are model, {', '.join(known)}")
    return given


def _inputs(found: Any) -> tuple[list[str], list[list[int]]]:
    """Return the texts of an input, or else the tokens of each."""
    many = found if isinstance(found, list) else [found]
    if many and all(type(one) is int for one in many):
        many = [many]
    if many and all(isinstance(one, str) for one in many):
        _check_texts(many)
        return many, []
    if not many or not all(isinstance(one, list) and all(type(id_) is int for id_ in one) for one in many):
        raise RequestError("input must be a text, a list of tokens, or a list of either")
    _check_sizes(many)
    return [], many


def _check_texts(texts: list[str], more: int = 0) -> None:
    """Raise as `_check_sizes` does, and RequestError for what is no text."""
    _check_sizes(texts, more)
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise RequestError("a text has half a surrogate pair, which is no character") from None


def _check_sizes(texts: Sequence[str | list[int]], more: int = 0) -> None:
    """Raise TooLargeError for texts that are too many or too long; `more` is what stands before them."""
    if len(texts) > _TEXTS:
        raise TooLargeError(f"the request has {len(texts)} texts: at most {_TEXTS} are taken at once")
    sizes = [len(text) for text in texts]
    if max(sizes) > _CHARACTERS or sum(sizes) + more > _ALL_CHARACTERS:
        raise TooLargeError(
            f"texts have at most {_CHARACTERS} characters or tokens, and those of a request together "
            f"{_ALL_CHARACTERS}"
        )


def _usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": tokens, "total_tokens": tokens}
