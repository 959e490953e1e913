"""A ResNet-50 and a diffusion U-Net with random weights, as PyTorch exports them today.

    python tools/with_others/make_torch_models.py FOLDER      # wants torch and onnxscript

FOLDER gets resnet50_torch.onnx and unet_torch.onnx, for `python -m benchmarks converting`. The U-Net has the inputs of
Stable Diffusion 2.1's (sample, timestep, encoder_hidden_states of width 1024) with a free batch, and 45 M weights.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F


def conv(a: int, b: int, size: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(a, b, size, stride, size // 2, bias=False), nn.BatchNorm2d(b))


class Bottleneck(nn.Module):
    def __init__(self, a: int, width: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            conv(a, width, 1), nn.ReLU(), conv(width, width, 3, stride), nn.ReLU(), conv(width, 4 * width, 1)
        )
        self.beside = conv(a, 4 * width, 1, stride) if a != 4 * width or stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.way(x) + self.beside(x))


def resnet50() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    a = 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(count):
            layers.append(Bottleneck(a, width, 2 if i == 0 and width > 64 else 1))
            a = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Residual(nn.Module):
    def __init__(self, a: int, b: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, a), nn.SiLU(), nn.Conv2d(a, b, 3, padding=1))
        self.time = nn.Linear(time, b)
        self.last = nn.Sequential(nn.GroupNorm(32, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1))
        self.beside = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.first(x) + self.time(F.silu(time))[:, :, None, None]
        return self.beside(x) + self.last(y)


class Attention(nn.Module):
    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(context, width), nn.Linear(context, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            t.unflatten(-1, (-1, 64)).transpose(1, 2) for t in (self.q(x), self.k(context), self.v(context))
        )
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = Attention(width, width), Attention(width, context)
        self.gate, self.out = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        y = self.norm(x).flatten(2).transpose(1, 2)
        y = y + self.own(self.norms[0](y), self.norms[0](y))
        y = y + self.cross(self.norms[1](y), context)
        a, b = self.gate(self.norms[2](y)).chunk(2, -1)
        y = y + self.out(a * F.gelu(b))
        return x + y.transpose(1, 2).unflatten(-1, x.shape[-2:])


class Unet(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (64, 128, 256), context: int = 1024) -> None:
        super().__init__()
        time = 4 * widths[0]
        self.width = widths[0]
        self.time = nn.Sequential(nn.Linear(self.width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, widths[0], 3, padding=1)
        pairs = list(zip((widths[0], *widths), widths, strict=False))
        self.down = nn.ModuleList(
            nn.ModuleList((Residual(a, b, time), Transformer(b, context), nn.Conv2d(b, b, 3, 2, 1)))
            for a, b in pairs
        )
        self.middle = Residual(widths[-1], widths[-1], time)
        self.up = nn.ModuleList(
            nn.ModuleList((nn.Conv2d(b, b, 3, padding=1), Residual(2 * b, a, time), Transformer(a, context)))
            for a, b in pairs[::-1]
        )
        self.last = nn.Sequential(
            nn.GroupNorm(32, widths[0]), nn.SiLU(), nn.Conv2d(widths[0], 4, 3, padding=1)
        )

    def forward(
        self, sample: torch.Tensor, timestep: torch.Tensor, encoder_hidden_states: torch.Tensor
    ) -> torch.Tensor:
        half = self.width // 2
        angles = timestep[:, None].float() * torch.exp(-math.log(10000) * torch.arange(half) / half)
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        x, kept = self.first(sample), []
        for residual, transformer, shrink in self.down:
            x = transformer(residual(x, time), encoder_hidden_states)
            kept.append(x)
            x = shrink(x)
        x = self.middle(x, time)
        for grow, residual, transformer in self.up:
            x = grow(F.interpolate(x, scale_factor=2.0, mode="nearest"))
            x = transformer(residual(torch.cat([x, kept.pop()], 1), time), encoder_hidden_states)
        return self.last(x)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    net = resnet50().eval()
    for part in net.modules():  # statistics that a trained network has, so that values stay in range
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.running_var, 0.5, 2)
            nn.init.normal_(part.running_mean, 0, 0.1)
    torch.onnx.export(net, (torch.rand(1, 3, 224, 224),), folder / "resnet50_torch.onnx", dynamo=True)
    given = {
        "sample": torch.rand(2, 4, 64, 64),
        "timestep": torch.tensor([7, 9]),
        "encoder_hidden_states": torch.rand(2, 77, 1024),
    }
    batch = torch.export.Dim("batch")
    shapes = {name: {0: batch} for name in given}
    torch.onnx.export(
        Unet().eval(), kwargs=given, f=folder / "unet_torch.onnx", dynamo=True, dynamic_shapes=shapes
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
