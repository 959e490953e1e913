"""Small models with random weights, which stand in for those that upstream's scripts run."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Network:
    """A model: how it is made, and the names and example values or shapes of what it takes and gives."""

    make: Callable[[], nn.Module]
    inputs: Mapping[str, Shape | Tensor]
    outputs: Sequence[str] = ("output",)
    free: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    shapes: str = ""
    """The configuration's input_shape, by default the example's."""

    def write(self, file: Path) -> None:
        """Write the model as ONNX."""
        torch.manual_seed(int.from_bytes(file.stem.encode()[:4]))
        module = self.make().eval()
        given = {k: torch.rand(v) if isinstance(v, tuple) else v for k, v in self.inputs.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tracing: what is traced is fixed where it should be
            torch.onnx.export(
                module, tuple(given.values()), str(file), input_names=list(given), output_names=list(self.outputs),
                dynamic_axes=dict(self.free), opset_version=17, dynamo=False,
            )  # fmt: skip

    def input_shape(self) -> str:
        """The line `input_shape` of a configuration."""
        if self.shapes:
            return self.shapes
        return ";".join(
            name
            + ":"
            + ",".join(str(-1 if i in self.free.get(name, {}) else n) for i, n in enumerate(_shape(value)))
            for name, value in self.inputs.items()
        )


def _shape(value: Shape | Tensor) -> Shape:
    return value if isinstance(value, tuple) else tuple(value.shape)


class MiddleFrame(nn.Module):
    """The frame between two: both warped by a flow, and blended."""

    def __init__(self) -> None:
        super().__init__()
        self.flow = nn.Sequential(nn.Conv2d(6, 8, 3, 2, 1), nn.PReLU(8), nn.ConvTranspose2d(8, 5, 4, 2, 1))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        flow = self.flow(torch.cat([first, second], 1))
        height, width = first.shape[-2:]
        y, x = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
        grid = torch.stack([x, y], -1)[None]
        warped = [
            functional.grid_sample(
                frame, grid + flow[:, i : i + 2].permute(0, 2, 3, 1) * 0.1, "bilinear", "border", True
            )
            for frame, i in ((first, 0), (second, 2))
        ]
        share = torch.sigmoid(flow[:, 4:])
        return warped[0] * share + warped[1] * (1 - share)


class Sequence2d(nn.Module):
    """Frames of a sequence, enlarged: all of them, or one made of all; `extra` is a number that goes with them."""

    def __init__(self, frames: int, scale: int = 1, every: bool = False, channels: int = 3) -> None:
        super().__init__()
        self.every, self.scale, self.channels = every, scale, channels
        self.first = nn.Conv2d(channels if every else frames * channels, 16, 3, 1, 1)
        self.last = nn.Conv2d(16, channels * scale * scale, 3, 1, 1)

    def forward(self, frames: Tensor, extra: Tensor | None = None) -> Tensor:
        batch, count, channels, height, width = frames.shape
        x = frames.reshape(batch * count, channels, height, width) if self.every else frames.flatten(1, 2)
        x = functional.leaky_relu(self.first(x), 0.1)
        if extra is not None:
            x = x * torch.tanh(extra).reshape(-1, 1, 1, 1)
        x = torch.sigmoid(functional.pixel_shuffle(self.last(x), self.scale))
        return x.reshape(batch, count, channels, height * self.scale, width * self.scale) if self.every else x


class Heads(nn.Module):
    """Outputs of given shapes: each input by convolutions or a layer, all of them joined, a layer for each output."""

    def __init__(self, inputs: Sequence[Shape], outputs: Sequence[Shape], width: int = 16) -> None:
        super().__init__()
        self.shapes = list(outputs)
        self.stems = nn.ModuleList(self._stem(shape, width) for shape in inputs)
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(width * len(inputs), 4), nn.GELU(), nn.Linear(4, math.prod(shape)))
            for shape in outputs
        )

    @staticmethod
    def _stem(shape: Shape, width: int) -> nn.Module:
        if len(shape) >= 4 and min(shape[-2:]) >= 32:
            return nn.Sequential(
                nn.Conv2d(shape[-3], 8, 7, 4, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                nn.Conv2d(8, width, 3, 2, 1), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(1),
            )  # fmt: skip
        return nn.Sequential(nn.Flatten(1), nn.LazyLinear(width), nn.LayerNorm(width), nn.GELU())

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        joined = []
        for stem, x in zip(self.stems, inputs, strict=True):
            pictures = isinstance(stem[0], nn.Conv2d) and x.dim() > 4
            y = stem(x.flatten(0, x.dim() - 4) if pictures else x.float() if x.dim() > 1 else x.float()[None])
            joined.append(y.mean(0, keepdim=True) if pictures else y)
        x = torch.cat(joined, 1)
        return tuple(head(x).reshape(shape) for head, shape in zip(self.heads, self.shapes, strict=True))


def middle_frame(height: int = 256, width: int = 256) -> Network:
    shape = (1, 3, height, width)
    return Network(MiddleFrame, {"img0": shape, "img1": shape}, ["mid_frame"])


def sequence(frames: int, size: int, name: str = "lr_seq", extra: str = "", **options: int | bool) -> Network:
    inputs: dict[str, Shape] = {name: (1, frames, 3, size, size)}
    if extra:
        inputs[extra] = (1, 1)
    return Network(lambda: Sequence2d(frames, **options), inputs)


def segments(size: int, kinds: int) -> Network:
    def make() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.GELU(), nn.ConvTranspose2d(8, kinds, 4, 4))

    return Network(make, {"input": (1, 3, size, size)}, ["logits"])


def heads(inputs: Mapping[str, Shape | Tensor], outputs: Mapping[str, Shape], **more: object) -> Network:
    def make() -> nn.Module:
        module = Heads([_shape(x) for x in inputs.values()], list(outputs.values()))
        with torch.no_grad():  # the lazy layers take their widths
            module.eval()(*(torch.rand(x) if isinstance(x, tuple) else x for x in inputs.values()))
        return module

    return Network(make, inputs, list(outputs), **more)


def picture(file: Path, size: tuple[int, int] = (96, 80), seed: int = 0) -> None:
    """Write a smooth random picture."""
    from PIL import Image

    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(file)
