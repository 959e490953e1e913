"""Small networks as PyTorch's two exporters write them, for `exporters_table.py`.

    python tools/conformance/export_torch.py FOLDER      # wants torch and onnxscript

Each becomes NAME_dynamo.onnx and NAME_script.onnx, with inputs (x0, x1, ...) in an `.npz` of the same name.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU(),
            nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.Hardswish(), nn.MaxPool2d(2),
            nn.Conv2d(16, 24, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(),
            nn.Linear(24, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class VisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.first = nn.Parameter(torch.randn(1, 1, 32))
        self.places = nn.Parameter(torch.randn(1, 17, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 7)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.first.expand(y.shape[0], -1, -1), y], 1) + self.places
        return self.head(self.norm(self.layers(y))[:, 0])


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 16)
        self.lstm = nn.LSTM(16, 12, 2, bidirectional=True, batch_first=True)
        self.gru, self.head = nn.GRU(24, 10, batch_first=True), nn.Linear(10, 5)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        y, state = self.gru(self.lstm(self.words(words))[0])
        return self.head(y), state


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle, self.last = (
            nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.GELU())
            for i, o in ((3, 8), (8, 16), (24, 8))
        )
        self.up, self.head = nn.ConvTranspose2d(16, 16, 2, 2), nn.Conv2d(8, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.down(x)
        b = self.up(self.middle(F.avg_pool2d(a, 2)))
        return torch.sigmoid(self.head(self.last(torch.cat([a, b], 1))))


class Pyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = F.relu(self.a(x))
        b = F.leaky_relu(self.b(a), 0.1)
        y = a + F.interpolate(b, scale_factor=2, mode="nearest")
        whole = F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)
        return whole, F.interpolate(b, size=(40, 40), mode="bicubic")


class Waves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv1d(4, 8, 3, dilation=2, padding=4), nn.ConvTranspose1d(8, 4, 4, 2, 1)
        self.norm, self.bend = nn.InstanceNorm1d(8, affine=True), nn.PReLU(8)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.b(self.bend(self.norm(self.a(x)[..., :-4])))
        return y, F.pad(x, (3, 2), mode="reflect"), torch.cumsum(x, -1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.scale = nn.Parameter(torch.randn(32))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        b, n, d = x.shape
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        q, k, v = self.qkv(y).view(b, n, 3, 4, 8).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :].bool())
        return x + self.out(seen.transpose(1, 2).reshape(b, n, d))


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 7, 8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.body(x).flatten(2).transpose(1, 2)
        best, kind = y[..., 4:].sigmoid().max(-1)
        score, place = best.topk(10)
        boxes = torch.gather(y[..., :4], 1, place.unsqueeze(-1).expand(-1, -1, 4))
        return boxes.clamp(0, 64), score, torch.gather(kind, 1, place)


class Sampler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Linear(12, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        turn = self.turn(F.adaptive_avg_pool2d(x, (2, 2)).flatten(1)).view(-1, 2, 3)
        y = F.grid_sample(x, F.affine_grid(turn, [1, 3, 16, 16], align_corners=False), align_corners=False)
        return y, F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2), torch.roll(x, (2, 3), (2, 3))


class Volume(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm = nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4)
        self.b, self.head = nn.Conv3d(4, 4, (1, 3, 3), stride=(1, 2, 2)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = F.max_pool3d(F.relu(self.norm(self.a(x))), 2)
        return self.head(F.relu(self.b(y)).mean((2, 3, 4)))


class Functions(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return (
            F.normalize(x, dim=1), F.log_softmax(x, 1), x.std(-1), torch.logsumexp(x, -1), F.mish(x),
            F.softplus(x), torch.where(x > 0, x, -x), x.argmax(1), torch.einsum("bchw,bdhw->bcd", x, x),
            x.var(dim=(2, 3)), torch.linalg.vector_norm(x, dim=1),
        )  # fmt: skip


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, words: Tensor) -> Tensor:
        n = words.shape[1]
        mask = torch.triu(torch.full((n, n), float("-inf")), 1)
        return self.layers(self.words(words) * 5.6, mask=mask, is_causal=True) @ self.words.weight.t()


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    r = torch.randn
    networks: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
        "classifier": (Classifier(), (r(1, 3, 32, 32),)),
        "vision_transformer": (VisionTransformer(), (r(1, 3, 32, 32),)),
        "recurrent": (Recurrent(), (torch.randint(0, 40, (2, 9)),)),
        "unet": (Unet(), (r(1, 3, 32, 32),)),
        "pyramid": (Pyramid(), (r(1, 3, 64, 64),)),
        "waves": (Waves(), (r(2, 4, 20),)),
        "attention": (Attention(), (r(2, 9, 32), torch.ones(2, 9, dtype=torch.int64))),
        "detector": (Detector(), (r(1, 3, 64, 64),)),
        "sampler": (Sampler(), (r(1, 3, 20, 20),)),
        "volume": (Volume(), (r(1, 1, 8, 16, 16),)),
        "functions": (Functions(), (r(2, 3, 6, 6),)),
        "language": (Language(), (torch.randint(0, 50, (1, 7)),)),
    }
    for name, (network, given) in networks.items():
        for way, options in (("dynamo", {"verbose": False, "external_data": False}), ("script", {})):
            file = folder / f"{name}_{way}.onnx"
            torch.onnx.export(network.eval(), given, file, dynamo=way == "dynamo", **options)
            np.savez(file.with_suffix(".npz"), **{f"x{i}": x.numpy() for i, x in enumerate(given)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
