"""Write tests/data/custom: a small Qwen3 with operators of Ascend in nodes `Custom`, and what it gives without.

    python tools/with_others/make_custom_goldens.py      # wants torch and transformers

`prefill.onnx` reads a prompt, `decode.onnx` one token beside a cache of fixed length. transformers computes the
expected values (`.npz`) from its own modules; only the exports have the operators.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache, Qwen3Config, Qwen3ForCausalLM

OUT = Path(__file__).parents[2] / "tests" / "data" / "custom"
ROOM, PROMPT = 8, 5  # places of the cache, tokens of the prompt


def operator(name: str, inputs: list[str], outputs: list[str], shaped: Callable[..., Any]) -> Any:
    """A function that exports a node `Custom`; while it is traced, `shaped` gives results of the right shapes."""

    class Operator(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, attributes: Any, *tensors: Tensor) -> Any:
            return shaped(*tensors)

        @staticmethod
        def symbolic(g: Any, attributes: Any, *tensors: Any) -> Any:
            names = {"input_names_s": inputs, "output_names_s": outputs, "optional_input_names_s": []}
            places = {"input_index_i": list(range(len(tensors))), "output_num_i": len(outputs)}
            return g.op(
                "Custom", *tensors, type_s=name, outputs=len(outputs), **names, **places, **attributes
            )

    return lambda *tensors, **attributes: Operator.apply(attributes, *tensors)


def first(x: Tensor, *others: Tensor) -> Tensor:
    return x.clone()


def normal(x: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    return x.clone(), x[..., :1].clone(), x.clone()


rms_norm = operator("RmsNorm", ["x", "gamma"], ["y", "rstd"], lambda x, g: normal(x)[:2])
add_rms_norm = operator("AddRmsNorm", ["x1", "x2", "gamma"], ["y", "rstd", "x"], normal)
rotary = operator(
    "ApplyRotaryPosEmb", ["query", "key", "cos", "sin"], ["query", "key"],
    lambda q, k, cos, sin: (q.clone(), k.clone()),
)  # fmt: skip
rotary_mul = operator("RotaryMul", ["x", "r1", "r2"], ["y"], first)
swiglu = operator("SwiGlu", ["x"], ["y"], lambda x: x[..., : x.shape[-1] // 2].clone())
scatter = operator("Scatter", ["var", "indices", "updates"], ["var"], first)
matmul = operator("MatMulV2", ["x1", "x2"], ["y"], torch.matmul)
attention = ["query", "key", "value", "atten_mask"], ["attention_out"], first
prompt, increment = (operator(n, *attention) for n in ("PromptFlashAttention", "IncreFlashAttention"))


def normalized(norm: nn.Module, x: Tensor) -> Tensor:
    y, _ = rms_norm(x, norm.weight, epsilon_f=norm.variance_epsilon)
    return y


class Exported(nn.Module):
    """The modules of a Qwen3, computed by operators of Ascend."""

    def __init__(self, model: Qwen3ForCausalLM) -> None:
        super().__init__()
        self.model = model

    def attend(self, layer: Any, x: Tensor, cos: Tensor, sin: Tensor, caches: Any, hidden: Tensor) -> Any:
        own = layer.self_attn
        heads = (*x.shape[:2], -1, own.head_dim)
        q, k = (
            normalized(own.q_norm, own.q_proj(x).view(heads)),
            normalized(own.k_norm, own.k_proj(x).view(heads)),
        )
        v = own.v_proj(x).view(heads).transpose(1, 2)
        numbers = {
            "num_heads_i": own.config.num_attention_heads, "scale_value_f": own.scaling,
            "num_key_value_heads_i": own.config.num_key_value_heads, "inner_precise_i": 1,
        }  # fmt: skip
        if caches is None:
            q, k = rotary(q, k, cos[:, :, None], sin[:, :, None], layout_i=1, rotary_mode_s="half")
            q, k = q.transpose(1, 2), k.transpose(1, 2)
            band = {"pre_tokens_i": 2147483647, "next_tokens_i": 0, "sparse_mode_i": 0}
            y = prompt(q, k, v, hidden, input_layout_s="BNSD", **band, **numbers)
        else:
            q, k = (rotary_mul(t.transpose(1, 2), cos[:, None], sin[:, None]) for t in (q, k))
            old_k, old_v, place = caches
            k = scatter(old_k, place, k, reduce_s="update", axis_i=-2)
            v = scatter(old_v, place, v, reduce_s="update", axis_i=-2)
            y = increment(q, k, v, hidden, input_layout_s="BNSD", block_size_i=0, **numbers)
        return own.o_proj(y.transpose(1, 2).reshape(*x.shape[:2], -1)), k, v

    def feed(self, mlp: Any, x: Tensor) -> Tensor:
        gate_up = torch.cat([mlp.gate_proj(x), mlp.up_proj(x)], -1)
        y = swiglu(gate_up, dim_i=-1)
        flat = y.reshape(-1, y.shape[-1])
        product = matmul(flat, mlp.down_proj.weight.t())
        return product.reshape(*x.shape[:2], mlp.down_proj.out_features)

    def through(self, ids: Tensor, positions: Tensor, caches: Any, hidden: Tensor) -> tuple[Tensor, ...]:
        model = self.model.model
        x = model.embed_tokens(ids)
        cos, sin = model.rotary_emb(x, positions)
        y, kept = normalized(model.layers[0].input_layernorm, x), []
        following = [layer.input_layernorm for layer in model.layers[1:]] + [model.norm]
        for i, (layer, norm) in enumerate(zip(model.layers, following, strict=True)):
            own = None if caches is None else (caches[0][2 * i], caches[0][2 * i + 1], caches[1])
            y, k, v = self.attend(layer, y, cos, sin, own, hidden)
            kept += [k, v]
            for part in (layer.post_attention_layernorm, norm):
                y, _, x = add_rms_norm(x, y, part.weight, epsilon_f=part.variance_epsilon)
                y = self.feed(layer.mlp, y) if part is layer.post_attention_layernorm else y
        return self.model.lm_head(y), torch.stack(kept)


class Prefill(Exported):
    def forward(self, ids: Tensor, mask: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        row = torch.arange(ids.shape[1])
        hidden = (row[None, :] > row[:, None])[None, None] | ~mask.to(torch.bool)[:, None, None, :]
        return self.through(ids, positions, None, hidden)


class Decode(Exported):
    def forward(self, ids: Tensor, positions: Tensor, cache: Tensor) -> tuple[Tensor, ...]:
        hidden = (torch.arange(cache.shape[3])[None, :] > positions)[:, None, None, :]
        return self.through(ids, positions, (cache, positions[:, 0]), hidden)


def main() -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(29)
    config = Qwen3Config(
        vocab_size=40, hidden_size=32, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, attn_implementation="eager", tie_word_embeddings=False,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            nn.init.uniform_(parameter, 0.5, 1.5)
        else:
            nn.init.normal_(parameter, 0, 0.3)
    OUT.mkdir(exist_ok=True)
    with torch.no_grad():
        write(model)


def write(model: Qwen3ForCausalLM) -> None:
    ids = torch.randint(0, 40, (2, PROMPT))
    mask = torch.ones(2, PROMPT, dtype=torch.int64)
    positions = torch.arange(PROMPT).expand(2, -1).contiguous()
    cache = DynamicCache()
    logits = model(ids, attention_mask=mask, position_ids=positions, past_key_values=cache).logits
    kept = torch.stack([t.clone() for layer in cache.layers for t in (layer.keys, layer.values)])
    free = {
        "ids": {0: "batch", 1: "tokens"},
        "mask": {0: "batch", 1: "tokens"},
        "positions": {0: "batch", 1: "tokens"},
    }
    export(
        Prefill(model),
        "prefill",
        {"ids": ids, "mask": mask, "positions": positions},
        (logits, kept),
        free,
        17,
    )

    token, place = torch.randint(0, 40, (2, 1)), torch.full((2, 1), PROMPT)
    logits = model(token, position_ids=place, past_key_values=cache).logits
    grown = torch.stack([t for layer in cache.layers for t in (layer.keys, layer.values)])
    before, after = (torch.nn.functional.pad(t, (0, 0, 0, ROOM - t.shape[3])) for t in (kept, grown))
    export(
        Decode(model), "decode", {"ids": token, "positions": place, "cache": before}, (logits, after), {}, 14
    )


def export(
    module: nn.Module,
    name: str,
    given: dict[str, Tensor],
    expected: tuple[Tensor, ...],
    free: Any,
    opset: int,
) -> None:
    torch.onnx.export(
        module, tuple(given.values()), OUT / f"{name}.onnx", input_names=list(given), dynamic_axes=free,
        output_names=["logits", "kept"], opset_version=opset, dynamo=False,
        operator_export_type=torch.onnx.OperatorExportTypes.ONNX_FALLTHROUGH,
    )  # fmt: skip
    arrays = {n: t.numpy() for n, t in given.items()}
    results = {n: t.numpy() for n, t in zip(("expected_logits", "expected_kept"), expected, strict=True)}
    np.savez(OUT / f"{name}.npz", **arrays, **results)


if __name__ == "__main__":
    main()
