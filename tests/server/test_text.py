"""Embeddings and reranking, beside the numbers of sentence-transformers."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import sys
from typing import Any

import numpy as np
import openai
import pytest
from tests.server.texts import (
    CLOSE,
    DATA,
    EMBEDDINGS,
    QUERY,
    SCORES,
    TEXTS,
    VARIANTS,
    asked,
    client,
    embedded,
    folder_with,
    settings,
)
from tests.waiting import until

from pinnace.errors import QueueFullError
from pinnace.server.settings import ModelSettings
from pinnace.server.text.folder import Folder
from pinnace.server.text.model import _pieces, cut
from pinnace.server.text.tokens import Tokenizer


def test_embeddings_are_those_of_sentence_transformers(serving, folders):
    server = serving(folders("embedding"), settings=settings(max_batch_tokens=64))
    found = client(server).embeddings.create(model="model", input=TEXTS)
    np.testing.assert_allclose([one.embedding for one in found.data], EMBEDDINGS["own"], **CLOSE)
    assert found.usage.prompt_tokens == found.usage.total_tokens == EMBEDDINGS["own_tokens"].sum()
    assert found.model == "model"


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "matryoshka"])
def test_what_the_files_beside_a_model_say_counts(serving, folders, name):
    server = serving(folders("embedding", VARIANTS[name]))
    # Where texts are padded on their left, positions depend on the batch: all texts are one, as there.
    np.testing.assert_allclose(embedded(server), EMBEDDINGS[name], **CLOSE)


def test_embeddings_of_a_matryoshka_model_may_be_shorter(serving, folders):
    server = serving(folders("embedding", VARIANTS["matryoshka"]))
    np.testing.assert_allclose(embedded(server, dimensions=8), EMBEDDINGS["matryoshka"], **CLOSE)
    np.testing.assert_allclose(embedded(server, dimensions=32), EMBEDDINGS["own"], **CLOSE)
    with pytest.raises(openai.BadRequestError, match=r"dimensions: .* 8, 16, 32 numbers, not 9"):
        embedded(server, dimensions=9)


def test_texts_that_the_tokenizer_gets_in_pieces_keep_their_order(serving, folders):
    expected = [*[EMBEDDINGS["own"][6]] * 40, EMBEDDINGS["own"][1]]
    assert len(TEXTS[6]) * 40 > 2 << 16
    np.testing.assert_allclose(
        embedded(serving(folders("embedding")), [TEXTS[6]] * 40 + [TEXTS[1]]), expected, **CLOSE
    )


@pytest.mark.parametrize("way", ["float", "base64"])
def test_embeddings_come_as_numbers_or_base64(serving, folders, way):
    server = serving(folders("embedding"))
    _, found = asked(server, "/v1/embeddings", {"model": "model", "input": "ship", "encoding_format": way})
    plain = found["data"][0]["embedding"]
    assert isinstance(plain, list) == (way == "float")
    np.testing.assert_allclose(
        embedded(server, "ship", encoding_format="float"), EMBEDDINGS["own"][1:2], **CLOSE
    )


def test_tokens_are_taken_as_they_are(serving, folders):
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer.from_file(str(DATA / "embedding" / "tokenizer.json"))
    tokens = [one.ids for one in made.encode_batch(TEXTS[:2])]
    server = serving(folders("embedding"))
    np.testing.assert_allclose(embedded(server, tokens), EMBEDDINGS["own"][:2], **CLOSE)
    np.testing.assert_allclose(embedded(server, tokens[1]), EMBEDDINGS["own"][1:2], **CLOSE)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("own", {}),
        (
            "bare",
            {"config.json": {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}},
        ),
        (
            "oldest",
            {"config.json": {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}},
        ),
        (
            "saved",
            {path.name: json.loads(path.read_text()) for path in (DATA / "reranker_saved").glob("*.json")},
        ),
    ],
)
def test_relevance_is_that_of_a_cross_encoder(serving, folders, name, files):
    server = serving(folders("reranker", files), settings=settings(max_batch_tokens=100))
    body = {"model": "model", "query": QUERY, "documents": TEXTS}
    status, found = asked(server, "/rerank", body)
    assert status == 200
    order = [one["index"] for one in found["results"]]
    np.testing.assert_allclose(
        [one["relevance_score"] for one in found["results"]], SCORES[name][order], **CLOSE
    )
    assert sorted(order) == list(range(len(TEXTS)))
    assert np.all(np.diff(SCORES[name][order]) <= CLOSE["atol"])
    assert asked(server, "/v1/rerank", body) == (200, found)


def test_the_most_relevant_documents_come_with_their_text(serving, folders):
    server = serving(folders("reranker"))
    documents = [TEXTS[0], {"text": TEXTS[1]}, TEXTS[2]]
    body = {"model": "model", "query": QUERY, "documents": documents, "top_n": 2, "return_documents": True}
    _, found = asked(server, "/rerank", body)
    best = [int(place) for place in np.argsort(-SCORES["own"][:3])[:2]]
    assert [(one["index"], one["document"]) for one in found["results"]] == [
        (place, {"text": TEXTS[place]}) for place in best
    ]


def test_models_are_listed_as_openai_lists_them(running):
    assert [one.id for one in client(running).models.list()] == ["embedding", "reranker"]
    assert client(running).models.retrieve("reranker").id == "reranker"
    with pytest.raises(openai.NotFoundError):
        client(running).models.retrieve("third")


def test_texts_need_the_scope_infer(serving, folders, tmp_path):
    tokens = {scope: f"{scope}-0123456789abcdef" for scope in ("infer", "read")}
    (tmp_path / "tokens").write_text("".join(f"{token} {scope}\n" for scope, token in tokens.items()))
    server = serving(folders("embedding"), tokens=tmp_path / "tokens")
    make = lambda key: client(server, api_key=key).embeddings.create(model="model", input="ship")  # noqa: E731
    assert len(make(tokens["infer"]).data) == 1
    with pytest.raises(openai.PermissionDeniedError):
        make(tokens["read"])
    with pytest.raises(openai.AuthenticationError):
        make("another")
    assert [one.id for one in client(server, api_key=tokens["read"]).models.list()] == ["model"]


def test_without_the_library_the_answer_names_it(serving, folders, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    server = serving(folders("embedding"))
    with pytest.raises(openai.APIStatusError, match="pip install tokenizers"):
        embedded(server)


def test_a_full_queue_and_a_deadline_are_told_as_for_other_requests(serving, folders, caplog):
    folder = folders("embedding")
    short = settings(timeout=1e-6)
    with pytest.raises(openai.APIStatusError) as late:
        embedded(serving(folder, settings=short))
    assert late.value.status_code == 504
    server = serving(folder, settings=ModelSettings(workers=1, threads=1, queue=1))
    opened = server.repository.entry("model").open["1"]
    with pytest.MonkeyPatch.context() as patch:

        def full(*_: Any) -> None:
            raise QueueFullError("the queue is full")

        patch.setattr(opened.runner, "submit", full)
        with pytest.raises(openai.RateLimitError) as refused:
            embedded(server)
    assert refused.value.response.headers["retry-after"] == "1"
    assert 'cause="queue full"' in server.repository.metrics.text().decode()
    found = [vars(one) for one in caplog.records if getattr(one, "event", "") == "request failed"]
    assert [(one["call"], one["model"], one["cause"]) for one in found] == [
        ("POST /v1/embeddings", "model", "timeout"),
        ("POST /v1/embeddings", "model", "queue full"),
    ]


def test_what_is_no_number_is_an_error_of_the_model(serving, folders, monkeypatch):
    server = serving(folders("embedding"))

    async def nothing(given: dict[str, np.ndarray], _: float | None) -> list[np.ndarray]:
        return [np.full((*given["input_ids"].shape, 32), np.nan, np.float32)]

    monkeypatch.setattr(server.repository.entry("model").open["1"], "predict", nothing)
    with pytest.raises(openai.InternalServerError, match="model computes infinity or no number for a text"):
        embedded(server)


def test_texts_of_a_client_that_has_gone_are_computed_no_more(serving, folders, monkeypatch, caplog):
    server = serving(folders("embedding"))
    events = list[str]()

    async def endless(*_: Any) -> None:
        events.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            events.append("ended")

    monkeypatch.setattr(server.repository.entry("model").open["1"], "predict", endless)
    body = json.dumps({"model": "model", "input": "ship"})
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    connection.request("POST", "/v1/embeddings", body)
    until(lambda: events == ["begun"])
    connection.close()
    until(lambda: events == ["begun", "ended"])
    until(lambda: any(getattr(one, "cause", "") == "cancelled" for one in caplog.records))


def test_the_files_may_be_beside_the_versions(serving, folders):
    folder = folders("embedding")
    (folder / "model" / "1").mkdir()
    (folder / "model" / "model.onnx").rename(folder / "model" / "1" / "model.onnx")
    np.testing.assert_allclose(embedded(serving(folder)), EMBEDDINGS["own"], **CLOSE)


def test_the_files_may_be_links_out_of_the_folder(serving, folders, tmp_path):
    folder = folders("embedding")
    for number, file in enumerate([one for one in (folder / "model").rglob("*") if one.is_file()]):
        file.symlink_to(file.rename(tmp_path / str(number)))  # as in Hugging Face's cache
    np.testing.assert_allclose(embedded(serving(folder)), EMBEDDINGS["own"], **CLOSE)


def test_batches_have_texts_of_like_length_within_the_limit():
    lengths = [3, 20, 4, 50, 4, 19]
    assert cut(lengths, 40) == [[3], [1, 5], [2, 4, 0]]
    assert cut(lengths, 10**6) == [[3, 1, 5, 2, 4, 0]]
    assert cut(lengths, 0) == [[3], [1], [5], [2], [4], [0]]


@pytest.mark.parametrize(
    ("lengths", "pieces"),
    [
        ([], []), ([1 << 17], [1]), ([1 << 15, 1 << 15, 1], [2, 1]), ([1, 1 << 16, 1], [1, 1, 1]),
        ([1 << 15, 1 << 14, 1 << 14], [3]),
    ],
)  # fmt: skip
def test_the_tokenizer_gets_no_more_than_65536_characters_at_once(lengths, pieces):
    texts = ["a" * length for length in lengths]
    assert [len(piece) for piece in _pieces(texts)] == pieces
    assert [text for piece in _pieces(texts) for text in piece] == texts
    pairs = [(text[1:], "a") for text in texts]
    assert [len(piece) for piece in _pieces(pairs)] == pieces


@pytest.mark.parametrize("side", ["left", "right"])
def test_long_pairs_have_the_tokens_that_the_cut_to_the_limit_leaves(tmp_path, side):
    folder_with(tmp_path / "model", "reranker", {"tokenizer_config.json": {"truncation_side": side}})
    found = Tokenizer(Folder(tmp_path / "model"))
    words = " ".join([*TEXTS, "grüß", "日本", "😀"]).split()
    choices, pairs = random.Random(1), []
    for _ in range(300):
        lengths = choices.choices([1, 5, 20, 60, 100, 200, 400], k=2)
        pairs.append(tuple(" ".join(choices.choices(words, k=length)) for length in lengths))
    short = found.encoded(pairs)
    for one, whole in zip(short, found._made.encode_batch(pairs), strict=True):
        assert (one.ids.tolist(), one.kinds.tolist()) == (whole.ids, whole.type_ids)


def test_two_long_texts_take_no_memory_of_both_lengths(running):
    """They took more than 20 GB: a piece of one for each piece of the other."""
    body = {"model": "reranker", "query": "ship " * 26_000, "documents": ["sea " * 26_000]}
    status, found = asked(running, "/rerank", body)
    assert status == 200
    assert len(found["results"]) == 1
