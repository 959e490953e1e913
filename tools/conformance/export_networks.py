"""Networks of timm or transformers, drawn at random, in ONNX with random weights, for `networks_table.py`.

    # wants torch, and the library
    python tools/conformance/export_networks.py FOLDER timm|transformers COUNT SEED [medium]

Each becomes NAME.onnx with inputs (x0, ...) and what PyTorch computes of them (y0, ...) in an `.npz` of the
same name. One of more than 30 million weights, or that cannot be made small or exported, is named, and the next
one is drawn. Transformers have two layers of 64 numbers, `medium` ones four of 256, and 1 to 200 tokens.
"""

from __future__ import annotations

import inspect
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

MOST = 30_000_000
SMALL = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "hidden_dim", "embedding_size"), 64),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim", "d_ff", "n_inner"), 128),
    "vocab_size": 96, "max_position_embeddings": 64, "n_positions": 64, "head_dim": 16, "d_kv": 16,
    "word_embed_proj_dim": 64, "image_size": 32, "patch_size": 8, "num_experts": 4, "num_local_experts": 4,
    "moe_intermediate_size": 32, "type_vocab_size": 2, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1, "rotary_dim": 8, "use_cache": False,
}  # fmt: skip
"""Values of configurations that make a transformer small."""

MEDIUM = SMALL | {
    **{key: 256 for key, value in SMALL.items() if value == 64},
    **{key: 1024 for key, value in SMALL.items() if value == 128},
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 4),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 3),
    "vocab_size": 2000, "head_dim": 64, "d_kv": 64, "image_size": 224, "patch_size": 16, "rotary_dim": 32,
    "moe_intermediate_size": 256,
}  # fmt: skip
"""Values that make it as large as those that run on CPUs."""

LENGTHS = (1, 16, 64, 128, 200)


class First(nn.Module):
    """The first result of a model whose inputs have names."""

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *given: Tensor) -> Tensor:
        result = self.model(**dict(zip(self.names, given, strict=True)))
        values = result.to_tuple() if hasattr(result, "to_tuple") else result
        return next(value for value in values if isinstance(value, Tensor))


def of_timm(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    import timm

    with torch.device("meta"):
        count = sum(p.numel() for p in timm.create_model(name, pretrained=False).parameters())
    if count > MOST:
        raise ValueError(f"{count / 1e6:.0f} million weights")
    model = timm.create_model(name, pretrained=False)
    return model, (torch.randn(1, *timm.data.resolve_model_data_config(model)["input_size"]),)


def of_transformers(name: str, sizes: dict[str, Any] = SMALL) -> tuple[nn.Module, tuple[Tensor, ...]]:
    import transformers

    kind = transformers.CONFIG_MAPPING[name]
    known = kind()
    config = kind(**{key: value for key, value in sizes.items() if hasattr(known, key)})
    config._attn_implementation = "eager"
    with torch.device("meta"):
        count = sum(p.numel() for p in transformers.AutoModel.from_config(config).parameters())
    if count > MOST:
        raise ValueError(f"{count / 1e6:.0f} million weights in the small form")
    model = transformers.AutoModel.from_config(config)
    taken = inspect.signature(model.forward).parameters
    if model.main_input_name == "pixel_values":
        size = config.image_size if isinstance(config.image_size, int) else config.image_size[0]
        given = {"pixel_values": torch.randn(1, getattr(config, "num_channels", 3), size, size)}
    else:
        lengths = (8, 5) if sizes is SMALL else random.Random(name).choices(LENGTHS, k=2)
        given = {"input_ids": torch.randint(3, 96, (1, lengths[0]))}
        if "decoder_input_ids" in taken:
            given["decoder_input_ids"] = torch.randint(3, 96, (1, lengths[1]))
    return First(model, list(given)), tuple(given.values())


def drawn(zoo: str, seed: int) -> Iterator[str]:
    """Yield the names of networks in random order."""
    if zoo == "timm":
        import timm

        names = timm.list_models()
    else:
        from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

        names = sorted(MODEL_MAPPING_NAMES)
    yield from random.Random(seed).sample(names, len(names))


def lively(module: nn.Module) -> None:
    """Give norms, biases and positions random numbers: at zero and one they hide mistakes."""
    for parameter in module.parameters():
        if parameter.dim() <= 1 or not parameter.any():
            parameter.data += 0.1 * torch.randn_like(parameter)


def export(model: nn.Module, given: tuple[Tensor, ...], file: Path, **options: Any) -> None:
    model.eval()
    lively(model)
    with torch.no_grad():
        result = model(*given)
    results = [result] if isinstance(result, Tensor) else list(result)
    if not all(torch.isfinite(y).all() for y in results):
        raise ValueError("results that are no numbers")
    torch.onnx.export(model, given, file, dynamo=True, external_data=False, verbose=False, **options)
    arrays = {f"x{i}": x.numpy() for i, x in enumerate(given)}
    np.savez(file.with_suffix(".npz"), **arrays, **{f"y{i}": y.numpy() for i, y in enumerate(results)})


def main(folder: Path, zoo: str, count: int, seed: int, size: str = "small") -> None:
    warnings.simplefilter("ignore")
    made: Callable[[str], tuple[nn.Module, tuple[Tensor, ...]]]
    sizes = {"small": SMALL, "medium": MEDIUM}[size]
    made = of_timm if zoo == "timm" else partial(of_transformers, sizes=sizes)
    for name in drawn(zoo, seed):
        if count == 0:
            break
        torch.manual_seed(seed)
        try:
            export(*made(name), folder / f"{name}.onnx")
        except Exception as error:  # whatever a library raises is a reason to draw again
            (folder / f"{name}.onnx").unlink(missing_ok=True)
            print(
                f"{name}: left out: {type(error).__name__}: {' '.join(str(error).split())[:100]}", flush=True
            )
            continue
        print(f"{name}: made", flush=True)
        count -= 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
