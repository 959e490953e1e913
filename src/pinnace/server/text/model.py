"""A model that takes texts: its tokenizer, its batches, and what its output means."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pinnace.errors import EngineError, NotSupportedError
from pinnace.server.calls import Call
from pinnace.server.text.bodies import EmbeddingRequest, RankingRequest
from pinnace.server.text.folder import TOKENIZER, Folder
from pinnace.server.text.meaning import Embedding, Relevance, meaning_of
from pinnace.server.text.pooling import Floats
from pinnace.server.text.tokens import INPUTS, Tokenizer, Tokens
from pinnace.server.work import aside
from pinnace.types import Port

if TYPE_CHECKING:
    from pinnace.server.models import OpenModel

_TOGETHER = 1 << 16
"""Characters that the tokenizer gets at once, unless one text has more: it needs some 500 bytes for each."""


class TextModel:
    """Turns texts into batches for a model, and its output into embeddings or relevance."""

    def __init__(self, path: Path, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        """`path` is the model's file. Raises NotSupportedError if it, or the files beside it, do not suit."""
        folder = Folder.of(path)
        if folder is None:
            raise NotSupportedError(f"there is no {TOKENIZER} in its folder")
        self._meaning: Embedding | Relevance = meaning_of(folder)
        self._types = {one.name: one.dtype.to_numpy() for one in inputs}
        unknown = [one.name for one in inputs if one.name not in INPUTS or one.shape != (-1, -1)]
        if unknown or not {*INPUTS[:2]} <= self._types.keys():
            names = ", ".join(f"{one.name} {list(one.shape)}" for one in inputs)
            raise NotSupportedError(
                f"its inputs are {names}: texts need input_ids and attention_mask, and take token_type_ids, "
                f"with free batch and length"
            )
        self._output = _output(outputs, self._meaning)
        self._tokenizer = Tokenizer(folder)
        self._turn = asyncio.Lock()

    async def embeddings(self, model: OpenModel, asked: EmbeddingRequest, call: Call) -> tuple[Floats, int]:
        """Return the embedding of each text, and the number of tokens, within the limit of a call.

        Raises NotSupportedError, RequestError, and as `OpenModel.predict` does.
        """
        meaning = self._meaning
        if not isinstance(meaning, Embedding):
            raise NotSupportedError(f"{model.name} ranks documents (/rerank), and has no embeddings")
        tokens = await asyncio.to_thread(self._tokenizer.checked, asked.tokens)
        tokens += await self._encoded([meaning.prompt + text for text in asked.texts], call)
        return meaning.sized(await self._rows(model, tokens, call), asked.size), _count(tokens)

    async def relevance(self, model: OpenModel, asked: RankingRequest, call: Call) -> tuple[Floats, int]:
        """Return the relevance of each document, and the number of tokens; raises as `embeddings` does."""
        if not isinstance(self._meaning, Relevance):
            raise NotSupportedError(f"{model.name} makes embeddings (/v1/embeddings), and ranks no documents")
        tokens = await self._encoded(asked.pairs, call)
        return await self._rows(model, tokens, call), _count(tokens)

    async def _encoded(self, texts: Sequence[str] | Sequence[tuple[str, str]], call: Call) -> list[Tokens]:
        """Return the tokens of texts or of pairs of them; requests get the tokenizer in turns."""
        found = list[Tokens]()
        for some in _pieces(texts):
            async with self._turn:
                call.check()
                found += await asyncio.to_thread(self._tokenizer.encoded, some)
        return found

    async def _rows(self, model: OpenModel, tokens: Sequence[Tokens], call: Call) -> Floats:
        """Return the row or number of each text or pair.

        Texts of like length are computed together, and as many batches at once as the model has workers.
        """
        batches = cut([len(one.ids) for one in tokens], model.settings.max_batch_tokens)
        rows = [np.empty(0, np.float32)] * len(tokens)
        waiting = iter(batches)

        async def worker() -> None:
            for batch in waiting:
                inputs = self._tokenizer.padded([tokens[number] for number in batch])
                given = {name: inputs[name].astype(dtype) for name, dtype in self._types.items()}
                output = (await model.predict(given, call.left))[self._output]
                computed = await aside(output.nbytes, self._meaning.rows, output, inputs[INPUTS[1]])
                if not np.isfinite(computed).all():
                    raise EngineError(f"{model.name} computes infinity or no number for a text")
                for number, row in zip(batch, computed, strict=True):
                    rows[number] = row

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(len(batches), model.workers)):
                    group.create_task(worker())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return np.stack(rows)


def cut(lengths: Sequence[int], limit: int) -> list[list[int]]:
    """Return the numbers of texts in batches, longest first, of at most `limit` tokens with the padding.

    A text that is longer is a batch of its own.
    """
    batches = list[list[int]]()
    for number in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > limit:
            batches.append([])
        batches[-1].append(number)
    return batches


def _pieces(texts: Sequence[str] | Sequence[tuple[str, str]]) -> Iterator[list[Any]]:
    """Yield texts in pieces that the tokenizer gets at once."""
    piece, size = list[Any](), 0
    for text in texts:
        more = len(text) if isinstance(text, str) else sum(map(len, text))
        if piece and size + more > _TOGETHER:
            yield piece
            piece, size = [], 0
        piece.append(text)
        size += more
    if piece:
        yield piece


def _count(tokens: Sequence[Tokens]) -> int:
    return sum(len(one.ids) for one in tokens)


def _output(outputs: Sequence[Port], meaning: Embedding | Relevance) -> int:
    """Return the place of the output that has what is needed: by its name, or the only one of its rank."""
    fitting = [place for place, one in enumerate(outputs) if len(one.shape) == meaning.RANK]
    named = [place for place in fitting if outputs[place].name in meaning.NAMES]
    if len(named or fitting) != 1:
        names = ", ".join(f"{one.name} {list(one.shape)}" for one in outputs)
        raise NotSupportedError(
            f"its outputs are {names}: one of rank {meaning.RANK} is needed, {meaning.NAMES[-1]}"
        )
    return (named or fitting)[0]
