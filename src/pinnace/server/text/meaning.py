"""Meanings of a model's output: the embedding of each text, or the relevance of each pair of texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from pinnace.errors import NotSupportedError
from pinnace.server.failures import RequestError
from pinnace.server.text.folder import MODULES, Folder
from pinnace.server.text.pooling import MODES, Floats, normalized
from pinnace.types import Array

_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The modes as older versions wrote them, in the order in which their rows are joined."""
_POOLING = (*_FLAGS, "pooling_mode", "embedding_dimension", "word_embedding_dimension", "include_prompt")


class Embedding:
    """An embedding for each text, of the model's rows for its tokens."""

    NAMES = ("token_embeddings", "last_hidden_state")
    RANK = 3

    def __init__(self, folder: Folder) -> None:
        """Raise NotSupportedError for modules that are not done here."""
        kinds = [module.kind for module in folder.modules]
        if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
            raise NotSupportedError(
                f"{MODULES}: {', '.join(kinds)} are not supported, Transformer, Pooling and Normalize are"
            )
        _check_place(folder)
        self._modes = _modes(folder, folder.modules[1].place)
        self._normalized = len(kinds) == 3
        if self._normalized:
            config = folder.mapping(f"{folder.modules[2].place}/config.json")
            if set(config.values()) - {"sentence_embedding"}:
                raise NotSupportedError(f"{folder.modules[2].place}: only embeddings of texts are normalized")
        self.prompt = _default_prompt(folder)
        """The text that stands before each text."""
        if (
            self.prompt
            and folder.mapping(f"{folder.modules[1].place}/config.json").get("include_prompt") is False
        ):
            raise NotSupportedError("include_prompt: pooling without the prompt's tokens is not supported")
        self._sizes = folder.config.get("matryoshka_dimensions")
        self._any_size = folder.config.get("is_matryoshka") is True

    def rows(self, output: Array, mask: Array) -> Floats:
        """Return the embeddings of a batch."""
        tokens, there = output.astype(np.float32, copy=False), mask.astype(bool)
        found = np.concatenate([MODES[mode](tokens, there) for mode in self._modes], axis=1)
        return normalized(found) if self._normalized else found

    def sized(self, rows: Floats, size: int | None) -> Floats:
        """Return embeddings with the first `size` numbers, normalized again.

        Raises RequestError unless the model was made for it.
        """
        whole = rows.shape[1]
        if size is None or size == whole:
            return rows
        if not 0 < size < whole or not (self._any_size or size in (self._sizes or ())):
            sizes = f"1 to {whole}" if self._any_size else ", ".join(map(str, [*(self._sizes or ()), whole]))
            raise RequestError(f"dimensions: embeddings of this model have {sizes} numbers, not {size}")
        return normalized(rows[:, :size])


class Relevance:
    """A number for each pair of texts, as a CrossEncoder gives it."""

    NAMES = ("logits",)
    RANK = 2

    def __init__(self, folder: Folder) -> None:
        """Raise NotSupportedError for modules and activations that are not done here."""
        if folder.modules:
            if [module.kind for module in folder.modules] != ["Transformer"]:
                raise NotSupportedError(f"{MODULES}: a reranker of more than a Transformer is not supported")
            _check_place(folder)
        if _default_prompt(folder):
            raise NotSupportedError("default_prompt_name: a reranker with a prompt is not supported")
        name = _activation(folder)
        if name not in ("torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"):
            raise NotSupportedError(f"activation_fn: {name} is not supported, Sigmoid and Identity are")
        self._sigmoid = name.endswith("Sigmoid")

    def rows(self, output: Array, mask: Array) -> Floats:
        """Return the relevance of each pair of a batch. Raises NotSupportedError if there are several."""
        if output.shape[1] != 1:
            raise NotSupportedError(f"the model has {output.shape[1]} labels: a reranker has one")
        logits = output[:, 0].astype(np.float32)
        found: Floats = (1 + np.tanh(logits / 2)) / 2 if self._sigmoid else logits
        return found


def meaning_of(folder: Folder) -> Embedding | Relevance:
    """Return what the output of a folder's model means. Raises NotSupportedError."""
    kind, architectures = folder.saved.get("model_type", ""), folder.config.get("architectures") or [""]
    if kind == "CrossEncoder" or (
        not folder.modules and architectures[0].endswith("ForSequenceClassification")
    ):
        return Relevance(folder)
    if kind not in ("", "SentenceTransformer"):
        raise NotSupportedError(f"a {kind} is not supported, a SentenceTransformer and a CrossEncoder are")
    if not folder.modules:
        raise NotSupportedError(
            f"there is no {MODULES}, which says how embeddings are made of the model's output"
        )
    return Embedding(folder)


def _check_place(folder: Folder) -> None:
    if folder.modules[0].place:
        raise NotSupportedError(f"{MODULES}: the Transformer must be in the folder itself, not in one below")


def _modes(folder: Folder, place: str) -> list[str]:
    """Return the ways of pooling whose results are joined."""
    name = f"{place}/config.json"
    given: dict[str, Any] = folder.mapping(name)
    other = [key for key, value in given.items() if value and key not in _POOLING]
    if other or not given:
        raise NotSupportedError(
            f"{name}: {other[0] if other else 'a file that is not there'} is not supported"
        )
    wanted = given.get("pooling_mode") or [mode for flag, mode in _FLAGS.items() if given.get(flag)] or "mean"
    modes = [wanted] if isinstance(wanted, str) else list(wanted)
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        raise NotSupportedError(
            f"{name}: the pooling {unknown[0]!r} is not supported, only {', '.join(MODES)}"
        )
    return modes


def _default_prompt(folder: Folder) -> str:
    name = folder.saved.get("default_prompt_name")
    return str(folder.saved.get("prompts", {}).get(name) or "") if name else ""


def _activation(folder: Folder) -> str:
    """Return the name of what a CrossEncoder applies to the model's one number."""
    newer = folder.config.get("sentence_transformers", {})
    return str(
        folder.saved.get("activation_fn")
        or newer.get("activation_fn")
        or folder.config.get("sbert_ce_default_activation_function")
        or "torch.nn.modules.activation.Sigmoid"
    )
