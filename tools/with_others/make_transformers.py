"""Write tests/data/transformers: common ways of writing a transformer, exported by both exporters of PyTorch.

    python tools/with_others/make_transformers.py FOLDER

Needs torch 2.13, onnx and onnxscript. NAME_script.onnx is written by the exporter for TorchScript, and
NAME_dynamo.onnx by the one for `torch.export`; NAME.npz has the inputs and what PyTorch computes. Weights are
random and inputs small: what matters is how the graph is written.
"""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as f

WIDTH, HEADS, GROUPS, INNER, LAYERS, WORDS, LENGTH = 32, 4, 2, 64, 2, 61, 6
SIZE = WIDTH // HEADS
FREE = {"bert": ["ids", "kinds"], "llama": ["ids"], "llama_fused": ["ids"], "vit": ["x"]}
"""Inputs whose batch and length are free."""


def heads(x: torch.Tensor, count: int = HEADS) -> torch.Tensor:
    return x.view(x.shape[0], x.shape[1], count, SIZE).transpose(1, 2)


def joined(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def spelled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Attention written by hand."""
    scores = q @ k.transpose(-1, -2) / SIZE**0.5
    if mask is not None:
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    return joined(scores.softmax(-1) @ v)


class Norm(nn.Module):
    """A root mean square norm written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Bert(nn.Module):
    """Separate queries, keys and values with biases, norms after the sums, three tables."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.kinds = (nn.Embedding(n, WIDTH) for n in (WORDS, 16, 2))
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {name: nn.Linear(WIDTH, WIDTH) for name in ("q", "k", "v", "out")}
                | {"up": nn.Linear(WIDTH, INNER), "down": nn.Linear(INNER, WIDTH)}
                | {"norm1": nn.LayerNorm(WIDTH), "norm2": nn.LayerNorm(WIDTH)}
            )
            for _ in range(LAYERS)
        )

    def forward(self, ids: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1])[None]
        x = self.norm(self.words(ids) + self.places(places) + self.kinds(kinds))
        for layer in self.layers:
            q, k, v = (heads(layer[name](x)) for name in "qkv")
            x = layer["norm1"](x + layer["out"](spelled(q, k, v, None)))
            x = layer["norm2"](x + layer["down"](f.gelu(layer["up"](x))))
        return x


def layers_of_one_product() -> nn.ModuleList:
    """Layers in which queries, keys and values come of one product."""
    sizes = {
        "qkv": (WIDTH, 3 * WIDTH),
        "out": (WIDTH, WIDTH),
        "up": (WIDTH, INNER),
        "down": (INNER, WIDTH),
    }
    return nn.ModuleList(
        nn.ModuleDict(
            {name: nn.Linear(*size) for name, size in sizes.items()}
            | {"norm1": nn.LayerNorm(WIDTH), "norm2": nn.LayerNorm(WIDTH)}
        )
        for _ in range(LAYERS)
    )


class Gpt2(nn.Module):
    """Queries, keys and values of one product that `split` takes apart, a cache, and a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(16, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = layers_of_one_product()

    def forward(
        self, ids: torch.Tensor, places: torch.Tensor, *past: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        x = self.words(ids) + self.places(places)
        present = []
        for number, layer in enumerate(self.layers):
            q, k, v = map(heads, layer["qkv"](layer["norm1"](x)).split(WIDTH, 2))
            k, v = torch.cat([past[2 * number], k], 2), torch.cat([past[2 * number + 1], v], 2)
            present += [k, v]
            x = x + layer["out"](spelled(q, k, v, None))
            x = x + layer["down"](f.gelu(layer["up"](layer["norm2"](x)), approximate="tanh"))
        return (self.norm(x) @ self.words.weight.T, *present)


class Llama(nn.Module):
    """Grouped queries, rotated; norms by hand; gated products without biases; a head of its own.

    With `fused`, queries, keys and values are of one product, as are gate and up.
    """

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.norm = Norm()
        other = GROUPS * SIZE
        sizes = {"q": (WIDTH, WIDTH), "k": (WIDTH, other), "v": (WIDTH, other)}
        sizes |= {"gate": (WIDTH, INNER), "up": (WIDTH, INNER)}
        if fused:
            sizes = {"qkv": (WIDTH, WIDTH + 2 * other), "both": (WIDTH, 2 * INNER)}
        sizes |= {"out": (WIDTH, WIDTH), "down": (INNER, WIDTH)}
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {name: nn.Linear(*size, bias=False) for name, size in sizes.items()}
                | {"norm1": Norm(), "norm2": Norm()}
            )
            for _ in range(LAYERS)
        )
        self.register_buffer("turns", 1 / 10000 ** (torch.arange(0, SIZE, 2) / SIZE))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length, other = ids.shape[1], GROUPS * SIZE
        angles = torch.outer(torch.arange(length).float(), self.turns).repeat(1, 2)
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)

        def rotated(x: torch.Tensor) -> torch.Tensor:
            turned = torch.cat([-x[..., SIZE // 2 :], x[..., : SIZE // 2]], -1)
            return x * angles.cos() + turned * angles.sin()

        def repeated(x: torch.Tensor) -> torch.Tensor:
            groups = x[:, :, None].expand(-1, -1, HEADS // GROUPS, -1, -1)
            return groups.reshape(x.shape[0], HEADS, x.shape[2], SIZE)

        x = self.words(ids)
        for layer in self.layers:
            y = layer["norm1"](x)
            if self.fused:
                both = layer["qkv"](y)
                q, k, v = both[..., :WIDTH], both[..., WIDTH : WIDTH + other], both[..., WIDTH + other :]
            else:
                q, k, v = (layer[name](y) for name in "qkv")
            q, k, v = rotated(heads(q)), repeated(rotated(heads(k, GROUPS))), repeated(heads(v, GROUPS))
            x = x + layer["out"](spelled(q, k, v, mask))
            y = layer["norm2"](x)
            gate, up = layer["both"](y).chunk(2, -1) if self.fused else (layer["gate"](y), layer["up"](y))
            x = x + layer["down"](f.silu(gate) * up)
        return self.head(self.norm(x))


class Vit(nn.Module):
    """Queries, keys and values of one product, reshaped to (3, heads, size); PyTorch's attention."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = layers_of_one_product()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            qkv = layer["qkv"](layer["norm1"](x)).reshape(x.shape[0], x.shape[1], 3, HEADS, SIZE)
            q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
            x = x + layer["out"](joined(f.scaled_dot_product_attention(q, k, v)))
            x = x + layer["down"](f.gelu(layer["up"](layer["norm2"](x))))
        return x


class Encoder(nn.Module):
    """PyTorch's own layers."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.0, "relu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def cases() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    ids = torch.randint(0, WORDS, (1, LENGTH))
    rows = torch.randn(1, LENGTH, WIDTH)
    past = [torch.randn(1, HEADS, 5, SIZE) for _ in range(2 * LAYERS)]
    return {
        "bert": (Bert(), (ids, torch.randint(0, 2, (1, LENGTH)))),
        "gpt2": (Gpt2(), (ids[:, :1], torch.tensor([[5]]), *past)),
        "llama": (Llama(False), (ids,)),
        "llama_fused": (Llama(True), (ids,)),
        "vit": (Vit(), (rows,)),
        "encoder": (Encoder(), (rows,)),
    }


def main(folder: Path) -> None:
    torch.manual_seed(1)
    warnings.simplefilter("ignore")
    torch.backends.mha.set_fastpath_enabled(False)  # it has no form in ONNX
    for name, (module, inputs) in cases().items():
        module.eval()
        with torch.no_grad():
            outputs = module(*inputs)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            golden = {f"run0_x{i}": x.numpy() for i, x in enumerate(inputs)}
            np.savez_compressed(
                folder / f"{name}.npz", **golden, **{f"run0_y{i}": y.numpy() for i, y in enumerate(outputs)}
            )
            for way in ("script", "dynamo"):
                written = io.BytesIO()
                names = FREE.get(name, [])
                if way == "dynamo":
                    sizes = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
                    free = {"dynamic_shapes": [sizes] * len(names) or None}
                else:
                    free = {"dynamic_axes": {key: {0: "batch", 1: "length"} for key in names}}
                    free["input_names"] = names
                torch.onnx.export(module, inputs, written, dynamo=way == "dynamo", verbose=False, **free)
                model = onnx.load_from_string(written.getvalue())
                for node in model.graph.node:  # stacks of the exporter, larger than the weights
                    del node.metadata_props[:]
                    node.doc_string = ""
                for info in (*model.graph.value_info, *model.graph.input, *model.graph.output):
                    del info.metadata_props[:]
                for weight in model.graph.initializer:
                    del weight.metadata_props[:]
                onnx.save(model, folder / f"{name}_{way}.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
