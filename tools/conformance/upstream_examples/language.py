"""Small language models of transformers with random weights, and a tokenizer for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from models import Network
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BlipTextConfig,
    BlipVisionConfig,
    BlipVisionModel,
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessor,
)
from transformers.cache_utils import DynamicCache
from transformers.models.blip.modeling_blip_text import BlipTextLMHeadModel, BlipTextModel

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "[PAD]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[UNK]",
    "yes",
    "no",
]
WORDS = 256 + len(SPECIAL)
LAYERS, HEADS, GROUPS, WIDTH = 2, 4, 2, 32
SIZES = {
    "vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "intermediate_size": 64, "max_position_embeddings": 4096, "attn_implementation": "eager",
}  # fmt: skip
DECODERS = {
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {"num_key_value_heads": GROUPS}),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {"num_key_value_heads": GROUPS}),
}
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer(folder: Path) -> None:
    """Write a tokenizer of bytes with the special tokens of Qwen and BERT."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({word: i for i, word in enumerate(letters + SPECIAL)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>", mask_token="[MASK]",
        cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]", extra_special_tokens=["<|im_start|>"], chat_template=TEMPLATE,
    ).save_pretrained(folder)  # fmt: skip


def _decoder(kind: str, layers: int = LAYERS, head: int = WIDTH // HEADS) -> nn.Module:
    make, config, more = DECODERS[kind]
    torch.manual_seed(len(kind))
    return make(
        config(**SIZES | {"num_hidden_layers": layers, "head_dim": head, **more}, initializer_range=0.3)
    ).eval()


def _mask(given: Tensor, queries: Tensor) -> Tensor:
    """What is added to the attention's scores: each query sees the keys before it that `given` has."""
    keys = given.shape[1]
    before = torch.arange(keys)[None, :] <= torch.arange(keys - queries.shape[1], keys)[:, None]
    seen = before[None, None] & (given[:, None, None, :] > 0)
    return torch.where(seen, 0.0, -1e4)


class Step(nn.Module):
    """A decoder whose keys and values come and go as one tensor, layer by layer; none come at the first step."""

    def __init__(self, kind: str, layers: int, head: int) -> None:
        super().__init__()
        self.layers, self.decoder = layers, _decoder(kind, layers, head)

    def forward(
        self, ids: Tensor, mask: Tensor, positions: Tensor, past: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        cache = DynamicCache()
        if past is not None:
            for i in range(self.layers):
                cache.update(past[2 * i], past[2 * i + 1], i)
        done = self.decoder(
            input_ids=ids,
            attention_mask=_mask(mask, ids),
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
        )
        kept = [x for layer in done.past_key_values.layers for x in (layer.keys, layer.values)]
        return done.logits, torch.stack(kept)


class Embedding(nn.Module):
    """The decoder's state at the last token."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.decoder = _decoder(kind).model

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        states = self.decoder(
            input_ids=ids, attention_mask=_mask(mask, ids), position_ids=positions, use_cache=False
        )
        return states.last_hidden_state[:, -1]


class Scores(Embedding):
    """What the decoder gives for the last token, as one word of a text."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.head(super().forward(ids, mask))[:, None]


class First(nn.Module):
    """The named outputs of a model of transformers."""

    def __init__(self, inner: nn.Module, *names: str) -> None:
        super().__init__()
        self.inner, self.names = inner, names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        done = self.inner(*inputs)
        return tuple(done[name] for name in self.names)


def _ids(length: int) -> Tensor:
    return torch.arange(length)[None] % WORDS


TEXT = {0: "batch", 1: "length"}


def prefill(kind: str, layers: int = LAYERS, head: int = WIDTH // HEADS) -> Network:
    inputs = {"input_ids": _ids(7), "attention_mask": torch.ones_like(_ids(7)), "position_ids": _ids(7)}
    free = dict.fromkeys(inputs, TEXT) | {"logits": TEXT, "past_kv": {1: "batch", 3: "length"}}
    return Network(lambda: Step(kind, layers, head), inputs, ["logits", "past_kv"], free)


def decode(kind: str, layers: int = LAYERS, head: int = WIDTH // HEADS) -> Network:
    inputs = {
        "input_ids": _ids(1),
        "attention_mask": torch.ones_like(_ids(8)),
        "position_ids": _ids(1) + 7,
        "past_key_values": (2 * layers, 1, GROUPS, 7, head),
    }
    free = {"attention_mask": {1: "total"}, "past_key_values": {3: "past"}, "past_kv": {3: "total"}}
    return Network(lambda: Step(kind, layers, head), inputs, ["logits", "past_kv"], free)


def embedding(kind: str) -> Network:
    inputs = {"input_ids": _ids(7), "attention_mask": torch.ones_like(_ids(7))}
    return Network(
        lambda: Embedding(kind),
        inputs,
        ["embeddings"],
        dict.fromkeys(inputs, TEXT) | {"embeddings": {0: "batch"}},
    )


def scores(kind: str) -> Network:
    inputs = {"input_ids": _ids(7), "attention_mask": torch.ones_like(_ids(7))}
    return Network(
        lambda: Scores(kind), inputs, ["logits"], dict.fromkeys(inputs, TEXT) | {"logits": {0: "batch"}}
    )


def bert() -> Network:
    inputs = {
        "input_ids": _ids(7),
        "attention_mask": torch.ones_like(_ids(7)),
        "token_type_ids": torch.zeros_like(_ids(7)),
    }
    return Network(
        lambda: First(BertForMaskedLM(BertConfig(**SIZES)), "logits"),
        inputs,
        ["logits"],
        dict.fromkeys([*inputs, "logits"], TEXT),
    )


PICTURE = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "patch_size": 32,
}
VIT = PICTURE | {"image_size": 224, "id2label": {i: f"kind {i}" for i in range(10)}}


def vit() -> Network:
    make = ViTConfig(**VIT)
    return Network(
        lambda: First(ViTForImageClassification(make), "logits"),
        {"pixel_values": (1, 3, 224, 224)},
        ["logits"],
    )


def vit_folder(folder: Path) -> None:
    """Write the configuration and the preprocessing of `vit`."""
    ViTConfig(**VIT).save_pretrained(folder)
    ViTImageProcessor().save_pretrained(folder)


def clip() -> Network:
    outputs = ["image_embeds", "last_hidden_state"]
    config = CLIPVisionConfig(**PICTURE, image_size=224, projection_dim=16)
    return Network(
        lambda: First(CLIPVisionModelWithProjection(config), *outputs),
        {"pixel_values": (1, 3, 224, 224)},
        outputs,
    )


class Named(nn.Module):
    """An output of a model of transformers that attends to the states of an encoder, of inputs by their names."""

    def __init__(self, inner: nn.Module, names: Sequence[str], output: str) -> None:
        super().__init__()
        self.inner, self.names, self.output = inner, names, output

    def forward(self, *inputs: Tensor) -> Tensor:
        given = dict(zip(self.names, inputs, strict=True))
        mask = given.pop("encoder_attention_mask")  # transformers 5.23 reads it nowhere
        given["encoder_hidden_states"] = given["encoder_hidden_states"] * mask[..., None]
        return self.inner(**given)[self.output]


QUESTION, PATCHES = 20, (384 // 32) ** 2 + 1
_OF_ENCODER = ("encoder_hidden_states", "encoder_attention_mask")


def _blip_text(**more: bool) -> BlipTextConfig:
    sizes = SIZES | {"vocab_size": 30524}  # the script begins answers with word 30522
    return BlipTextConfig(**sizes, **more, encoder_hidden_size=WIDTH, initializer_range=0.3)


def blip() -> dict[str, Network]:
    """The parts that see a picture, read a question about it, and answer."""
    names = ("input_ids", "attention_mask", *_OF_ENCODER)
    image, question = (1, PATCHES, WIDTH), _ids(QUESTION)
    mask, known = (torch.ones_like(_ids(n)) for n in (PATCHES, QUESTION))
    vision = BlipVisionConfig(**PICTURE | {"initializer_range": 0.3}, image_size=384)
    return {
        "vision": Network(
            lambda: First(BlipVisionModel(vision), "last_hidden_state"),
            {"pixel_values": (1, 3, 384, 384)},
            ["image_embeds"],
        ),
        "encoder": Network(
            lambda: Named(BlipTextModel(_blip_text(), add_pooling_layer=False), names, "last_hidden_state"),
            {"input_ids": question, "attention_mask": known, "image_embeds": image, "image_attention_mask": mask},
            ["question_embeds"],
        ),
        "decoder": Network(
            lambda: Named(BlipTextLMHeadModel(_blip_text(is_decoder=True)), ("input_ids", *_OF_ENCODER), "logits"),
            {"decoder_input_ids": _ids(3), "encoder_hidden_states": (1, QUESTION, WIDTH), "encoder_attention_mask": known},
            ["logits"],
            {"decoder_input_ids": {1: "length"}, "logits": {1: "length"}},
        ),
    }  # fmt: skip
