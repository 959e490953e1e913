"""Texts as tokens: a model's own tokenizer, which cuts and pads as sentence-transformers does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pinnace.errors import NotSupportedError
from pinnace.server.failures import RequestError
from pinnace.server.text.folder import TOKENIZER, Folder
from pinnace.types import Array

if TYPE_CHECKING:
    import tokenizers

_LONGEST = 1 << 20
"""Tokens; files name larger numbers where they mean no limit."""
_MASK = "attention_mask"
INPUTS = ("input_ids", _MASK, "token_type_ids")

_AS_THE_FILE = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes of transformers that take a tokenizer as the file has it."""
_OF_BERT = (
    ("do_lower_case", "lowercase", True),
    ("strip_accents", "strip_accents", None),
    ("tokenize_chinese_chars", "handle_chinese_chars", True),
)
"""Keys of `tokenizer_config.json` that the other classes take, their names in the file, and defaults."""


class Tokens(NamedTuple):
    """The tokens of a text or a pair of texts, and to which of them each belongs."""

    ids: Array
    kinds: Array


class Tokenizer:
    """The tokenizer of a folder.

    Its limit of tokens, and what it pads with, are those that sentence-transformers takes; those in
    `tokenizer.json` do not count.
    """

    def __init__(self, folder: Folder) -> None:
        """Raise NotSupportedError if the files do not say what is needed, and without the library."""
        try:
            import tokenizers
        except ImportError:
            raise NotSupportedError("texts need the library tokenizers: pip install tokenizers") from None
        try:
            made = tokenizers.Tokenizer.from_file(str(folder.path / TOKENIZER))
        except Exception as error:  # the library has no class of its own for it
            raise NotSupportedError(f"{TOKENIZER} cannot be read: {error}") from None
        own = folder.mapping("tokenizer_config.json")
        padding, cutting = made.padding or {}, made.truncation or {}
        _check_normalizer(own, made.normalizer)
        self._length = _length(folder, own.get("model_max_length"))
        self._left = own.get("padding_side", padding.get("direction")) == "left"
        name = own.get("pad_token") or folder.mapping("special_tokens_map.json").get("pad_token")
        name = name.get("content") if isinstance(name, dict) else name or padding.get("pad_token")
        self._padding = made.token_to_id(str(name))
        if self._padding is None:
            raise NotSupportedError("tokenizer_config.json: it names no pad_token that the tokenizer knows")
        if folder.transformer.get("do_lower_case"):
            lower = tokenizers.normalizers.Lowercase()
            made.normalizer = tokenizers.normalizers.Sequence([lower, *filter(None, [made.normalizer])])
        made.no_padding()
        direction = own.get("truncation_side", cutting.get("direction", "right"))
        made.enable_truncation(self._length, direction=direction)
        self._made, self._cuts_left = made, direction == "left"

    def encoded(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> list[Tokens]:
        """Return the tokens of texts, or of pairs of them, with those that stand around them.

        Raises RequestError for a text that has none, of which models compute nothing.
        """
        short = [one if isinstance(one, str) else self._short(one) for one in texts]
        found = self._made.encode_batch_fast(short)
        if not all(one.ids for one in found):
            raise RequestError("a text has no tokens")
        return [Tokens(np.array(one.ids, np.int32), np.array(one.type_ids, np.int32)) for one in found]

    @cached_property
    def _whole(self) -> tokenizers.Tokenizer:
        """The tokenizer without a limit, which few models and requests need."""
        made = type(self._made).from_str(self._made.to_str())
        made.no_truncation()
        return made

    def _short(self, pair: tuple[str, str]) -> tuple[str, str]:
        """Return a pair without what the cut to the limit leaves no token of.

        The library makes a piece of what it cuts off from one text for each piece of the other one: two texts
        of 250 KB take more than 20 GB.
        """
        first, second = map(self._beginning, pair)
        return first, second

    def _beginning(self, text: str) -> str:
        """Return a text of at most twice as many tokens as the limit, from the end that stays."""
        most = 2 * self._length
        if len(text) <= self._length:
            return text
        places = self._whole.encode(text, add_special_tokens=False).offsets
        if len(places) <= most:
            return text
        return text[places[-most][0] :] if self._cuts_left else text[: places[most - 1][1]]

    def checked(self, texts: Sequence[Sequence[int]]) -> list[Tokens]:
        """Return a client's own tokens of each text, as they are. Raises RequestError."""
        for ids in texts:
            if not 0 < len(ids) <= self._length:
                raise RequestError(f"input: a text has 1 to {self._length} tokens, not {len(ids)}")
        for one in set().union(*texts):
            if not 0 <= one < 1 << 31 or self._made.id_to_token(one) is None:
                raise RequestError(f"input: the model's tokenizer has no token {str(one)[:20]}")
        return [Tokens(np.array(ids, np.int32), np.zeros(len(ids), np.int32)) for ids in texts]

    def padded(self, batch: Sequence[Tokens]) -> dict[str, Array]:
        """Return texts as the inputs of a model, in rows as long as the longest of them."""
        shape = len(batch), max(len(one.ids) for one in batch)
        ids, mask, kinds = (
            np.full(shape, self._padding, np.int32),
            np.zeros(shape, np.int32),
            np.zeros(shape, np.int32),
        )
        for row, one in enumerate(batch):
            place = slice(-len(one.ids), None) if self._left else slice(len(one.ids))
            ids[row, place], mask[row, place], kinds[row, place] = one.ids, 1, one.kinds
        return dict(zip(INPUTS, (ids, mask, kinds), strict=True))


def _check_normalizer(own: Mapping[str, Any], normalizer: object) -> None:
    """Raise NotSupportedError if transformers makes another normalizer of a BERT than the file has."""
    if own.get("tokenizer_class") in _AS_THE_FILE:
        return
    for key, name, default in _OF_BERT:
        wanted = own.get(key, default)
        if getattr(normalizer, name, wanted) != wanted:
            raise NotSupportedError(f"tokenizer_config.json: {key} is {wanted}, other than in {TOKENIZER}")


def _length(folder: Folder, own: object) -> int:
    """Return the number of tokens that texts are cut to."""
    named = folder.transformer.get("max_seq_length")
    places = [named] if named else [own, folder.config.get("max_position_embeddings")]
    limits = [limit for limit in places if isinstance(limit, int) and 0 < limit < _LONGEST]
    if not limits:
        raise NotSupportedError(
            "tokenizer_config.json: it lacks model_max_length, the number of tokens of a text"
        )
    return min(limits)
