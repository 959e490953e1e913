"""Texts that are refused: requests, files beside a model, and models that do something else."""

from __future__ import annotations

import json
import shutil

import numpy as np
import openai
import pytest
from tests.server.texts import VARIANTS, asked, embedded

from pinnace.errors import NotSupportedError
from pinnace.server.failures import Answer, TooLargeError
from pinnace.server.text.api import encoded, failure
from pinnace.server.text.bodies import EmbeddingRequest, RankingRequest
from pinnace.server.text.folder import Folder
from pinnace.server.text.meaning import Relevance
from pinnace.server.text.model import TextModel
from pinnace.types import DataType, Port

REFUSED = {
    "modules.json": [
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
        {"type": "sentence_transformers.models.Dense", "path": "2_Dense"},
    ]
}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (REFUSED, "modules.json: Transformer, Pooling, Dense are not supported"),
        ({"modules.json": [{"type": "their.Module", "path": ""}]}, "their.Module is no module of"),
        (
            {
                "modules.json": [
                    REFUSED["modules.json"][0],
                    {**REFUSED["modules.json"][1], "path": "../second"},
                ]
            },
            "outside",
        ),
        ({"modules.json": "[1]"}, "modules.json is no list of modules"),
        ({"modules.json": "{"}, "modules.json cannot be read"),
        ({"modules.json": []}, "there is no modules.json"),
        (
            {"1_Pooling/config.json": {"pooling_mode": "weightedmean"}},
            "pooling 'weightedmean' is not supported",
        ),
        ({"1_Pooling/config.json": {"pooling_mode_weightedmean_tokens": True}}, "pooling 'weightedmean'"),
        ({"1_Pooling/config.json": {"pooling_mode": "mean", "new": 1}}, "new is not supported"),
        (
            {
                "1_Pooling/config.json": {"pooling_mode": "mean", "include_prompt": False},
                **VARIANTS["prompt"],
            },
            "include_prompt",
        ),
        ({"2_Normalize/config.json": {"module_input_name": "token_embeddings"}}, "only embeddings of texts"),
        (
            {"sentence_bert_config.json": {"query_expansion": {"length": 9}}},
            "query_expansion is not supported",
        ),
        (
            {"config_sentence_transformers.json": {"model_type": "SparseEncoder"}},
            "SparseEncoder is not supported",
        ),
        ({"tokenizer.json": "{}"}, "tokenizer.json cannot be read"),
        ({"tokenizer_config.json": {"pad_token": "[none]"}}, "pad_token"),
        (
            {"tokenizer_config.json": {"tokenizer_class": "BertTokenizer"}},
            "do_lower_case is True, other than in",
        ),
        (
            {
                "tokenizer_config.json": {"model_max_length": 10**30},
                "config.json": {"max_position_embeddings": -1},
            },
            "model_max_length",
        ),
    ],
)
def test_what_the_files_ask_for_and_is_not_done_is_refused_by_name(folders, files, reason):
    ids = [Port(name, DataType.INT64, (-1, -1)) for name in ("input_ids", "attention_mask")]
    with pytest.raises(NotSupportedError, match=reason):
        TextModel(
            folders("embedding", files) / "model" / "model.onnx",
            ids,
            [Port("y", DataType.FLOAT32, (-1, -1, 32))],
        )


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"config.json": {"sentence_transformers": {"activation_fn": "torch.nn.ReLU"}}}, "ReLU is not"),
        (
            {
                "config_sentence_transformers.json": {
                    "model_type": "CrossEncoder", "prompts": {"a": "b"}, "default_prompt_name": "a",
                },
                "modules.json": REFUSED["modules.json"][:1],
            },
            "default_prompt_name",
        ),
        (
            {
                "config_sentence_transformers.json": {"model_type": "CrossEncoder"},
                "modules.json": REFUSED["modules.json"],
            },
            "more than a Transformer",
        ),
        ({"config.json": {"architectures": ["RobertaModel"]}}, "there is no modules.json"),
    ],
)  # fmt: skip
def test_a_reranker_of_another_kind_is_refused_by_name(serving, folders, files, reason):
    server = serving(folders("reranker", files))
    status, found = asked(server, "/rerank", {"model": "model", "query": "a", "documents": ["b"]})
    assert status == 501
    assert reason in found["error"]["message"]


@pytest.mark.parametrize(
    "files",
    [
        {"config_sentence_transformers.json": {"prompts": 1, "default_prompt_name": "a"}},
        {"config.json": {"architectures": 1}, "modules.json": []},
        {"tokenizer_config.json": {"truncation_side": "above"}},
    ],
)
def test_files_of_another_form_keep_no_model_from_taking_tensors(serving, folders, files):
    server = serving(folders("embedding", files))
    assert asked(server, "/v1/embeddings", {"model": "model", "input": "ship"})[0] == 501
    tensor = {"shape": [1, 2], "datatype": "INT64", "data": [1, 1]}
    names = ("input_ids", "attention_mask", "token_type_ids")
    body = {"inputs": [{"name": name} | tensor for name in names]}
    assert asked(server, "/v2/models/model/infer", body)[0] == 200


def test_a_text_without_tokens_is_refused(serving, folders):
    server = serving(folders("embedding", {"tokenizer.json": {"post_processor": None}}))
    status, found = asked(server, "/v1/embeddings", {"model": "model", "input": ["ship", ""]})
    assert (status, found["error"]["message"]) == (400, "a text has no tokens")


def test_each_model_does_what_it_is_for(running, serving, simple):
    for server, model, path, reason in (
        (running, "reranker", "/v1/embeddings", "ranks documents"),
        (running, "embedding", "/rerank", "makes embeddings"),
        (serving(simple), "simple", "/v1/embeddings", "there is no tokenizer.json in its folder"),
    ):
        body = {"model": model} | ({"input": "a"} if "emb" in path else {"query": "a", "documents": ["b"]})
        status, found = asked(server, path, body)
        assert (status, found["error"]["type"], found["error"]["code"]) == (
            501,
            "server_error",
            "not_supported",
        )
        assert reason in found["error"]["message"]


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"input": []}, 400, "input must be"),
        ({"input": None}, 400, "input must be"),
        ({"input": ["a", 1]}, 400, "input must be"),
        ({"input": [["a"]]}, 400, "input must be"),
        ({"input": [True]}, 400, "input must be"),
        ({"input": [[]]}, 400, "1 to 20 tokens, not 0"),
        ({"input": [[5] * 21]}, 400, "1 to 20 tokens, not 21"),
        ({"input": [5, 250]}, 400, "no token 250"),
        ({"input": [-1]}, 400, "no token -1"),
        ({"input": [10**18]}, 400, "no token 1000"),
        ({"input": [10**40]}, 400, "input must be"),
        ({"input": "\ud800"}, 400, "surrogate"),
        ({"input": ["a"] * 2049}, 413, "2049 texts"),
        ({"input": [[5]] * 2049}, 413, "2049 texts"),
        ({"input": [[5] * ((1 << 17) + 1)]}, 413, "131072 characters or tokens"),
        ({"input": "a" * ((1 << 17) + 1)}, 413, "131072 characters"),
        ({"input": ["a" * (1 << 17)] * 33}, 413, "together 4194304"),
        ({"encoding_format": "int8"}, 400, "encoding_format must be float or base64"),
        ({"dimensions": 8}, 400, "have 32 numbers, not 8"),
        ({"dimensions": "8"}, 400, "dimensions must be a whole number"),
        ({"dimensions": 0}, 400, "not 0"),
        ({"truncate": True}, 400, "no field 'truncate'"),
        ({"model": "other"}, 404, "there is no 'other'"),
        ({"model": 1}, 400, "model must be text"),
    ],
)
def test_a_wrong_request_for_embeddings_is_refused_in_openais_form(running, change, status, reason):
    found = asked(running, "/v1/embeddings", {"model": "embedding", "input": "ship", "user": "me"} | change)
    assert found[0] == status
    assert found[1]["error"]["type"] == "invalid_request_error"
    assert found[1]["error"].keys() == {"message", "type", "param", "code"}
    assert reason in found[1]["error"]["message"]


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"documents": []}, 400, "documents must be"),
        ({"documents": ["a", 1]}, 400, "documents must be"),
        ({"documents": [{"image": "a"}]}, 400, "documents must be"),
        ({"documents": "a"}, 400, "documents must be a list"),
        ({"documents": ["a"] * 2049}, 413, "2049 texts"),
        ({"documents": ["a"] * 64, "query": "a" * (1 << 17)}, 413, "together"),
        ({"query": ["a"]}, 400, "query must be text"),
        ({"query": "a" * ((1 << 17) + 1)}, 413, "texts have at most"),
        ({"query": "\ud800"}, 400, "surrogate"),
        ({"top_n": 0}, 400, "top_n"),
        ({"return_documents": 1}, 400, "return_documents"),
        ({"texts": ["a"]}, 400, "no field 'texts'"),
    ],
)
def test_a_wrong_request_for_relevance_is_refused(running, change, status, reason):
    found = asked(running, "/rerank", {"model": "reranker", "query": "a", "documents": ["b"]} | change)
    assert found[0] == status
    assert reason in found[1]["error"]["message"]


def test_a_model_with_other_inputs_is_refused_by_name_and_the_log_says_so(serving, folders, simple, caplog):
    folder = folders("embedding")
    shutil.copy(simple, folder / "model" / "model.onnx")
    with pytest.raises(
        openai.APIStatusError, match=r"INPUT0 \[-1, 16\].*texts need input_ids and attention_mask"
    ):
        embedded(serving(folder))
    (found,) = [vars(one) for one in caplog.records if getattr(one, "event", "") == "no texts"]
    assert found["levelname"] == "WARNING"


@pytest.mark.parametrize(
    ("inputs", "outputs", "reason"),
    [
        (
            {"input_ids": (1, 128), "attention_mask": (-1, -1)},
            [3],
            r"input_ids \[1, 128\].*free batch and length",
        ),
        ({"input_ids": (-1, -1)}, [3], "texts need input_ids and attention_mask"),
        (dict.fromkeys(("input_ids", "attention_mask", "position_ids"), (-1, -1)), [3], "position_ids"),
        (dict.fromkeys(("input_ids", "attention_mask"), (-1, -1)), [2], "one of rank 3 is needed"),
        (dict.fromkeys(("input_ids", "attention_mask"), (-1, -1)), [3, 3], "one of rank 3 is needed"),
    ],
)
def test_a_model_of_other_tensors_is_refused_by_name(folders, inputs, outputs, reason):
    given = [Port(name, DataType.INT64, shape) for name, shape in inputs.items()]
    made = [Port(f"y{place}", DataType.FLOAT32, (-1,) * rank) for place, rank in enumerate(outputs)]
    with pytest.raises(NotSupportedError, match=reason):
        TextModel(folders("embedding") / "model" / "model.onnx", given, made)


def test_a_classifier_of_several_labels_is_no_reranker(folders):
    meaning = Relevance(Folder(folders("reranker") / "model"))
    with pytest.raises(NotSupportedError, match="the model has 3 labels: a reranker has one"):
        meaning.rows(np.zeros((2, 3), np.float32), np.ones((2, 4)))


def embeddings(given):
    return EmbeddingRequest.of(json.dumps({"model": "m", "input": given}).encode())


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (["a"] * 2048, ["a"] * 2049),
        ("a" * (1 << 17), "a" * ((1 << 17) + 1)),
        (["a" * (1 << 17)] * 32, ["a" * (1 << 17)] * 32 + ["a"]),
        ([0] * (1 << 17), [0] * ((1 << 17) + 1)),
        ([[1]] * 2048, [[1]] * 2049),
    ],
    ids=["texts", "characters", "together", "tokens", "texts of tokens"],
)
def test_texts_are_taken_up_to_the_limits(right, wrong):
    embeddings(right)
    with pytest.raises(TooLargeError):
        embeddings(wrong)


def test_the_query_counts_with_each_document():
    def of(*documents):
        query = "q" * (1 << 16)
        return RankingRequest.of(json.dumps({"model": "m", "query": query, "documents": documents}).encode())

    half = "d" * (1 << 16)
    assert len(of(*[half] * 32).pairs) == 32
    with pytest.raises(TooLargeError):
        of(*[half] * 31, half + "d")


def test_answers_have_the_form_of_openai_and_jina():
    rows = np.array([[1.5, 2.0], [0.25, -1.0]], np.float32)
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    asked = embeddings(["a", "b"])
    assert (asked.texts, asked.tokens, asked.binary, asked.size) == (["a", "b"], [], False, None)
    assert json.loads(encoded(asked.answered(rows, 7))) == {
        "object": "list", "model": "m", "usage": usage,
        "data": [
            {"object": "embedding", "index": 0, "embedding": [1.5, 2.0]},
            {"object": "embedding", "index": 1, "embedding": [0.25, -1.0]},
        ],
    }  # fmt: skip
    assert (embeddings([3, 4]).texts, embeddings([3, 4]).tokens) == ([], [[3, 4]])
    given = {"model": "m", "query": "q", "documents": ["a", {"text": "b"}, "c"]}
    ranking = RankingRequest.of(json.dumps(given | {"top_n": 2, "return_documents": True}).encode())
    assert ranking.pairs == [("q", "a"), ("q", "b"), ("q", "c")]
    scores = np.array([0.5, 0.75, 0.5], np.float32)
    assert ranking.answered(scores, 7) == {
        "object": "list", "model": "m", "usage": usage,
        "results": [
            {"index": 1, "relevance_score": 0.75, "document": {"text": "b"}},
            {"index": 0, "relevance_score": 0.5, "document": {"text": "a"}},
        ],
    }  # fmt: skip
    plain = RankingRequest.of(json.dumps(given).encode())
    assert [one["index"] for one in plain.answered(scores, 7)["results"]] == [1, 0, 2]
    assert plain.answered(scores, 7)["results"][0] == {"index": 1, "relevance_score": 0.75}


@pytest.mark.parametrize(("status", "kind"), [(499, "invalid_request_error"), (500, "server_error")])
def test_failures_have_the_form_of_openai(status, kind):
    told = failure(Answer(status, "CODE", "queue full"), "reason")
    assert told == {"error": {"message": "reason", "type": kind, "param": None, "code": "queue_full"}}
