"""Print the collectives of the transformers of a library, cut in two and in four, and compare their results.

    python tools/conformance/transformers_table.py export FOLDER [NAME ...]
    python tools/conformance/transformers_table.py count FOLDER [NAME ...]
    python tools/conformance/transformers_table.py keep FOLDER [NAME ...]

`export` needs torch 2.13 and transformers 5.23: it writes NAME_script.onnx and NAME_dynamo.onnx of small models
with random weights, with fixed shapes and with free batch and length (`..._free`), and NAME.npz with the inputs
and what PyTorch computes. `count` needs Pinnace only: a line has the collectives in each rank of two and of
four, and the greatest error relative to the largest value. `keep` prints that error without a compile cache, for
the process that writes one, and for another process that loads from it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx

WIDTH, WORDS = 64, 96
SIZES = {"hidden_size": WIDTH, "num_attention_heads": 8, "num_hidden_layers": 2, "intermediate_size": 128}
TEXT = SIZES | {"vocab_size": WORDS, "max_position_embeddings": 32}
GROUPED = TEXT | {"num_key_value_heads": 4}
IMAGE = SIZES | {"image_size": 16, "patch_size": 4}
FALCON = {k: TEXT[k] for k in ("hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size")}
TWICE = {"d_model": WIDTH, "vocab_size": WORDS} | {
    f"{side}_{name}": count
    for side in ("encoder", "decoder")
    for name, count in (("layers", 2), ("attention_heads", 8), ("ffn_dim", 128))
}
T5 = {"d_model": WIDTH, "d_kv": 8, "d_ff": 128, "num_layers": 2, "num_heads": 8, "vocab_size": WORDS}
MODELS = {
    "bert": ("Bert", "Model", TEXT),
    "roberta": ("Roberta", "Model", TEXT),
    "distilbert": (
        "DistilBert",
        "Model",
        {"dim": WIDTH, "n_heads": 8, "n_layers": 2, "hidden_dim": 128, "vocab_size": WORDS},
    ),
    "albert": ("Albert", "Model", TEXT | {"embedding_size": WIDTH}),
    "deberta": ("DebertaV2", "Model", TEXT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "gpt2": ("GPT2", "LMHeadModel", {"n_embd": WIDTH, "n_head": 8, "n_layer": 2, "vocab_size": WORDS}),
    "neox": ("GPTNeoX", "ForCausalLM", TEXT),
    "phi": ("Phi", "ForCausalLM", TEXT),
    "phi3": ("Phi3", "ForCausalLM", GROUPED | {"pad_token_id": 0}),
    "mpt": ("Mpt", "ForCausalLM", {"d_model": WIDTH, "n_heads": 8, "n_layers": 2, "vocab_size": WORDS}),
    "opt": ("OPT", "ForCausalLM", TEXT | {"ffn_dim": 128, "word_embed_proj_dim": WIDTH}),
    "llama": ("Llama", "ForCausalLM", GROUPED),
    "mistral": ("Mistral", "ForCausalLM", GROUPED),
    "qwen2": ("Qwen2", "ForCausalLM", GROUPED | {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", "ForCausalLM", GROUPED | {"head_dim": 8, "tie_word_embeddings": True}),
    "gemma": ("Gemma", "ForCausalLM", GROUPED | {"head_dim": 8}),
    "gemma2": ("Gemma2", "ForCausalLM", GROUPED | {"head_dim": 8}),
    "falcon": ("Falcon", "ForCausalLM", FALCON | {"multi_query": True}),
    "falcon_grouped": (
        "Falcon",
        "ForCausalLM",
        FALCON | {"new_decoder_architecture": True, "num_kv_heads": 4},
    ),
    "bloom": ("Bloom", "ForCausalLM", {"hidden_size": WIDTH, "n_head": 8, "n_layer": 2, "vocab_size": WORDS}),
    "t5": ("T5", "ForConditionalGeneration", T5),
    "t5_gated": ("T5", "ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu"}),
    "bart": ("Bart", "ForConditionalGeneration", TWICE),
    "whisper": (
        "Whisper",
        "ForConditionalGeneration",
        TWICE
        | {"max_source_positions": 16, "max_target_positions": 16, "num_mel_bins": 8, "pad_token_id": 0},
    ),
    "vit": ("ViT", "Model", IMAGE),
    "dinov2": ("Dinov2", "Model", IMAGE | {"mlp_ratio": 2}),
    "clip_vision": ("CLIPVision", "Model", IMAGE),
    "deit": ("DeiT", "Model", IMAGE),
    "yolos": ("Yolos", "Model", IMAGE | {"image_size": [16, 16], "num_detection_tokens": 5}),
    "clip_text": ("CLIPText", "Model", TEXT),
}
"""A name -> the library's class, its kind, and its configuration."""


def _inputs(name: str) -> dict:
    import torch

    words = torch.randint(3, WORDS, (1, 6))
    if "patch_size" in MODELS[name][2]:
        return {"pixel_values": torch.randn(1, 3, 16, 16)}
    if name == "whisper":
        return {"input_features": torch.randn(1, 8, 32), "decoder_input_ids": words[:, :4]}
    if name in ("t5", "t5_gated", "bart"):
        return {"input_ids": words, "decoder_input_ids": words[:, :4]}
    return {"input_ids": words}


def _module(name: str):
    import torch
    import transformers

    family, kind, sizes = MODELS[name]
    config = getattr(transformers, f"{family}Config")(**sizes)
    model = getattr(transformers, f"{family}{kind}")(config)

    class First(torch.nn.Module):
        """The first output of a model that takes its inputs by name."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values):
            given = dict(zip(_inputs(name), values, strict=True))
            cache = {"use_cache": False} if hasattr(config, "use_cache") and kind != "Model" else {}
            return self.model(**given, **cache)[0]

    return First().eval()


def _diff(x, n=1, dim=-1, prepend=None, append=None):
    import torch

    whole = torch.cat([y for y in (prepend, x, append) if y is not None], dim)
    return whole.narrow(dim, 1, whole.shape[dim] - 1) - whole.narrow(dim, 0, whole.shape[dim] - 1)


def export(folder: Path, name: str) -> None:
    import torch

    torch.manual_seed(1)
    torch.diff = _diff  # masks of the library use it, and the exporter for TorchScript lacks it
    module, inputs = _module(name), _inputs(name)
    values = tuple(inputs.values())
    with torch.no_grad():
        result = module(*values)
        for free in (False, True):
            axes = [
                {0: "batch"} | ({1: f"{name}_length"} if x.dtype == torch.int64 else {})
                for name, x in inputs.items()
            ]
            script = {"dynamic_axes": dict(zip(inputs, axes, strict=True))} if free else {}
            dynamic = tuple(dict.fromkeys(found, torch.export.Dim.DYNAMIC) for found in axes)
            dynamo = {"dynamic_shapes": (dynamic,)} if free else {}
            twice = tuple(torch.cat([x, x]) for x in values) if free else values
            ways = (("script", values, script | {"opset_version": 17}), ("dynamo", twice, dynamo))
            for way, example, options in ways:
                stem = folder / f"{name}_{way}{'_free' if free else ''}"
                try:
                    torch.onnx.export(
                        module,
                        example,
                        f"{stem}.onnx",
                        input_names=list(inputs),
                        dynamo=way == "dynamo",
                        external_data=False,
                        verbose=False,
                        **options,
                    )
                except Exception as error:  # whatever an exporter raises is a line of the table
                    print(f"{stem.name}: PyTorch does not export it: {type(error).__name__}", flush=True)
                    continue
                arrays = {f"run0_x{i}": x.numpy() for i, x in enumerate(values)}
                np.savez(f"{stem}.npz", **arrays, run0_y0=result.numpy())


def count(path: Path) -> str:
    from pinnace.distributed.shard import costs
    from pinnace.distributed.shard.cutting import shard

    costs.HELD = 100  # a byte of weights, so that models of this size are cut as large ones
    cells = []
    for ranks in (2, 4):
        with tempfile.TemporaryDirectory() as folder:
            shares = shard(path, ranks, Path(folder), "tensor")
            graph = onnx.load(Path(folder) / shares[0].file, load_external_data=False).graph
            kinds = Counter(n.op_type for n in graph.node if n.domain == "pinnace.distributed")
            counted = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
            held = shares[0].weights / shares[0].whole
            cells.append(f"{counted}, {held:.2f} of the weights, error {_error(path, ranks, folder)}")
    return " | ".join(cells)


def _error(path: Path, ranks: int, parts: str) -> str:
    """Run the parts as ranks on this machine; the largest error of their outputs."""
    script = Path(__file__).parents[2] / "tests" / "distributed" / "rank.py"
    with tempfile.TemporaryDirectory() as answers:
        command = [sys.executable, "-m", "pinnace", "launch", "-n", str(ranks), "--with", "sockets"]
        command += [
            str(script),
            f"{parts}/{path.stem}_{{rank}}.onnx",
            str(ranks),
            "--golden",
            str(path.parent),
        ]
        subprocess.run([*command, "--answers", answers], capture_output=True, timeout=300)
        given = [json.loads(file.read_text()) for file in Path(answers).glob("*.json")]
    if len(given) < ranks or any("raised" in one for one in given):
        raised = [one["raised"] for one in given if "raised" in one]
        return raised[0][:200] if raised else "none: the ranks did not answer"
    return f"{max(one['error'] for one in given):.0e}"


def opened(path: Path) -> str:
    """What became of the compile cache, and the error of the output."""
    import pinnace

    with np.load(path.with_suffix(".npz")) as golden, pinnace.Model() as model:
        model.build_from_file(str(path), pinnace.ModelType.ONNX)
        wanted = golden["run0_y0"]
        given = model.predict([golden[f"run0_x{i}"] for i in range(len(golden) - 1)])[0]
        error = np.abs(given.get_data_to_numpy() - wanted).max() / np.abs(wanted).max()
        return f"{model.get_model_info('cache')} | error {error:.0e}"


def keep(*arguments: str) -> None:
    with tempfile.TemporaryDirectory() as cache:
        for used in ("off", cache, cache):
            settings = {"PINNACE_CACHE_DIR": used, "PINNACE_CACHE_KEEP": "before"}
            command = [sys.executable, __file__, "open", *arguments]
            subprocess.run(command, env=os.environ | settings, check=True)


def main(way: str, folder: str, *names: str) -> None:
    warnings.simplefilter("ignore")
    if way == "keep":
        keep(folder, *names)
        return
    for name in names or MODELS:
        if way == "export":
            export(Path(folder), name)
            continue
        for path in sorted(Path(folder).glob(f"{name}_*.onnx")):
            if path.stem.removeprefix(f"{name}_") in ("script", "dynamo", "script_free", "dynamo_free"):
                try:
                    print(f"{path.stem} | {opened(path) if way == 'open' else count(path)}", flush=True)
                except Exception as error:  # a model that is refused is a line of the table
                    print(f"{path.stem} | {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
