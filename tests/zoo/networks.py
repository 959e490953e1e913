"""Networks that are written here: small, and shaped as those that people serve.

Each function of `catalog` gives a network and the inputs of runs one after the other; its arguments are
sizes.
"""

from __future__ import annotations

import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

Run = tuple[np.ndarray, ...]


def _images(*shape: int) -> list[Run]:
    random = np.random.default_rng(5)
    return [(random.normal(size=shape).astype(np.float32),) for _ in range(2)]


def _ids(below: int, *shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, below, shape).astype(np.int32)


def _floats(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# -- text in pictures ------------------------------------------------------------------------------------


class ConvNormAct(nn.SequentialCell):
    def __init__(self, cin: int, cout: int, kernel: int = 3, stride=1) -> None:
        convolution = nn.Conv2d(cin, cout, kernel, stride, pad_mode="pad", padding=kernel // 2)
        super().__init__(convolution, nn.BatchNorm2d(cout), nn.ReLU())


class Crnn(nn.Cell):
    """Convolutions shrink the height to one, two LSTMs in both directions read the width."""

    def __init__(self, classes: int = 37, width: int = 32) -> None:
        super().__init__()
        self.features = nn.SequentialCell(
            ConvNormAct(1, width),
            nn.MaxPool2d(2, 2),
            ConvNormAct(width, 2 * width),
            nn.MaxPool2d(2, 2),
            ConvNormAct(2 * width, 3 * width),
            nn.MaxPool2d((2, 1), (2, 1)),
            ConvNormAct(3 * width, 3 * width),
            nn.MaxPool2d((2, 1), (2, 1)),
            nn.Conv2d(3 * width, 3 * width, 2, pad_mode="valid", has_bias=True),
            nn.ReLU(),
        )
        self.lstm = nn.LSTM(3 * width, 2 * width, num_layers=2, bidirectional=True)
        self.classes = nn.Dense(4 * width, classes)

    def construct(self, image: Tensor) -> Tensor:
        features = self.features(image).squeeze(2).transpose(2, 0, 1)
        read, _ = self.lstm(features)
        return ops.log_softmax(self.classes(read), -1)


def crnn(**sizes: int):
    return Crnn(**sizes), _images(1, 1, 32, 64 if sizes else 128)


class Residual(nn.Cell):
    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.first = ConvNormAct(cin, cout, 3, stride)
        self.second = nn.SequentialCell(
            nn.Conv2d(cout, cout, 3, pad_mode="pad", padding=1), nn.BatchNorm2d(cout)
        )
        straight = [nn.Conv2d(cin, cout, 1, stride), nn.BatchNorm2d(cout)]
        self.straight = nn.SequentialCell(*straight) if stride > 1 else nn.Identity()

    def construct(self, x: Tensor) -> Tensor:
        return ops.relu(self.second(self.first(x)) + self.straight(x))


class DbNet(nn.Cell):
    """A residual backbone, a pyramid of features, and maps of probability, threshold and their step."""

    def __init__(self, widths: tuple[int, ...], inner: int) -> None:
        super().__init__()
        self.stem = nn.SequentialCell(ConvNormAct(3, widths[0], 7, 2), nn.MaxPool2d(3, 2, pad_mode="same"))
        self.stages = nn.CellList(
            [
                Residual(cin, cout, 1 + (i > 0))
                for i, (cin, cout) in enumerate(zip((widths[0], *widths), widths, strict=False))
            ]
        )
        self.lateral = nn.CellList([nn.Conv2d(w, inner, 1) for w in widths])
        self.smooth = nn.CellList(
            [nn.Conv2d(inner, inner // 4, 3, pad_mode="pad", padding=1) for _ in widths]
        )
        self.probability, self.threshold = self._head(inner), self._head(inner)

    @staticmethod
    def _head(inner: int) -> nn.Cell:
        return nn.SequentialCell(
            ConvNormAct(inner, inner // 4),
            nn.Conv2dTranspose(inner // 4, inner // 4, 2, 2, pad_mode="valid", has_bias=True),
            nn.BatchNorm2d(inner // 4),
            nn.ReLU(),
            nn.Conv2dTranspose(inner // 4, 1, 2, 2, pad_mode="valid", has_bias=True),
            nn.Sigmoid(),
        )

    def construct(self, image: Tensor):
        x = self.stem(image)
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        above = self.lateral[3](features[3])
        merged = [above]
        for i in (2, 1, 0):
            size = features[i].shape[2:]
            above = ops.interpolate(above, size=size, mode="nearest") + self.lateral[i](features[i])
            merged = [above, *merged]
        size = features[0].shape[2:]
        fused = [
            ops.interpolate(self.smooth[i](merged[i]), size=size, mode="bilinear", align_corners=False)
            for i in range(4)
        ]
        fuse = ops.cat(fused, 1)
        probability, threshold = self.probability(fuse), self.threshold(fuse)
        return probability, threshold, 1 / (1 + ops.exp(-50 * (probability - threshold)))


def dbnet(widths: tuple[int, ...] = (24, 48, 96, 192), inner: int = 64, size: int = 160):
    return DbNet(widths, inner), _images(1, 3, size, size)


# -- transformers ----------------------------------------------------------------------------------------


def _heads(x: Tensor, heads: int) -> Tensor:
    """(batch, length, width) as (batch, heads, length, width / heads)."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def _joined(x: Tensor) -> Tensor:
    """(batch, heads, length, width) as (batch, length, heads * width)."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


class Attention(nn.Cell):
    """Attention of `x` to `memory`, with something added to the scores."""

    def __init__(self, width: int, heads: int, memory: int = 0, bias: bool = True, scale: float = 0) -> None:
        super().__init__()
        self.heads = heads
        self.scale = scale or 1 / math.sqrt(width // heads)
        self.query = nn.Dense(width, width, has_bias=bias)
        self.key = nn.Dense(memory or width, width, has_bias=bias)
        self.value = nn.Dense(memory or width, width, has_bias=bias)
        self.out = nn.Dense(width, width, has_bias=bias)

    def construct(self, x: Tensor, memory: Tensor, added=None) -> Tensor:
        q, k, v = (
            _heads(self.query(x), self.heads),
            _heads(self.key(memory), self.heads),
            _heads(self.value(memory), self.heads),
        )
        scores = ops.matmul(q, k.swapaxes(-1, -2)) * self.scale
        if added is not None:
            scores = scores + added
        return self.out(_joined(ops.matmul(ops.softmax(scores, -1), v)))


class BertLayer(nn.Cell):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm((width,), epsilon=1e-12), nn.LayerNorm((width,), epsilon=1e-12)
        self.up, self.down = nn.Dense(width, 4 * width), nn.Dense(4 * width, width)
        self.gelu = nn.GELU(approximate=False)

    def construct(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x, x, mask))
        return self.norm2(x + self.down(self.gelu(self.up(x))))


class Bert(nn.Cell):
    def __init__(self, words: int = 2000, width: int = 128, layers: int = 4, longest: int = 64) -> None:
        super().__init__()
        self.words, self.kinds = nn.Embedding(words, width), nn.Embedding(2, width)
        self.places = nn.Embedding(longest, width)
        self.norm = nn.LayerNorm((width,), epsilon=1e-12)
        self.layers = nn.CellList([BertLayer(width, 4) for _ in range(layers)])
        self.pooler = nn.Dense(width, width, activation="tanh")

    def construct(self, ids: Tensor, mask: Tensor, kinds: Tensor):
        places = ops.arange(ids.shape[1]).expand_dims(0)
        x = self.norm(self.words(ids) + self.kinds(kinds) + self.places(places))
        added = (1.0 - mask.expand_dims(1).expand_dims(1).astype(ms.float32)) * -10000.0
        for layer in self.layers:
            x = layer(x, added)
        return x, self.pooler(x[:, 0])


def bert(words: int = 2000, **sizes: int):
    mask = np.ones((2, 48), np.int32)
    mask[1, 30:] = 0
    kinds = np.repeat([[0, 1]], 24, 1).astype(np.int32).repeat(2, 0)
    runs = [(_ids(words, 2, 48, seed=i), mask[:: 1 - 2 * i].copy(), kinds) for i in range(2)]
    return Bert(words, **sizes), runs


class Gpt2Layer(nn.Cell):
    """Keys and values of earlier tokens are kept in Parameters."""

    def __init__(self, width: int, heads: int, longest: int, name: str) -> None:
        super().__init__()
        self.heads, self.scale = heads, 1 / math.sqrt(width // heads)
        self.norm1, self.norm2 = nn.LayerNorm((width,), epsilon=1e-5), nn.LayerNorm((width,), epsilon=1e-5)
        self.attend, self.out = nn.Dense(width, 3 * width), nn.Dense(width, width)
        self.up, self.down, self.gelu = nn.Dense(width, 4 * width), nn.Dense(4 * width, width), nn.GELU()
        nothing = np.zeros((1, heads, longest, width // heads), np.float32)
        self.keys = Parameter(Tensor(nothing), name=f"{name}.keys", requires_grad=False)
        self.values = Parameter(Tensor(nothing), name=f"{name}.values", requires_grad=False)

    def construct(self, x: Tensor, here: Tensor, added: Tensor) -> Tensor:
        q, k, v = ops.split(self.attend(self.norm1(x)), x.shape[-1], axis=-1)
        q, k, v = _heads(q, self.heads), _heads(k, self.heads), _heads(v, self.heads)
        self.keys = self.keys * (1 - here) + k * here
        self.values = self.values * (1 - here) + v * here
        scores = ops.matmul(q, self.keys.swapaxes(-1, -2)) * self.scale + added
        x = x + self.out(_joined(ops.matmul(ops.softmax(scores, -1), self.values)))
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class Gpt2(nn.Cell):
    """One token at a time: (1, 1) ids and their place give the logits of the next."""

    def __init__(self, words: int = 3000, width: int = 128, layers: int = 3, longest: int = 32) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.layers = nn.CellList([Gpt2Layer(width, 4, longest, f"layer{i}") for i in range(layers)])
        self.norm = nn.LayerNorm((width,), epsilon=1e-5)
        self.all = Tensor(np.arange(longest, dtype=np.int32))

    def construct(self, token: Tensor, place: Tensor) -> Tensor:
        here = (self.all == place).astype(ms.float32).reshape(1, 1, -1, 1)
        added = ops.select(self.all <= place, ops.zeros_like(self.all), ops.ones_like(self.all) * -10000)
        x = self.words(token) + self.places(place.reshape(1, 1))
        for layer in self.layers:
            x = layer(x, here, added.astype(ms.float32))
        return ops.matmul(self.norm(x), self.words.embedding_table.swapaxes(0, 1))


def gpt2_cache(words: int = 3000, **sizes: int):
    return Gpt2(words, **sizes), [(_ids(words, 1, 1, seed=i), np.array(i, np.int32)) for i in range(6)]


class RmsNorm(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = Parameter(Tensor(np.ones(width, np.float32)), name="gamma")

    def construct(self, x: Tensor) -> Tensor:
        return x * ops.rsqrt(ops.square(x).mean(-1, keep_dims=True) + 1e-6) * self.gamma


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions: the halves of a head's width turn around each other."""
    half = x.shape[-1] // 2
    other = ops.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + other * sin


class LlamaLayer(nn.Cell):
    """Several heads of queries share one of keys and values."""

    def __init__(self, width: int, heads: int, shared: int) -> None:
        super().__init__()
        size = width // heads
        self.heads, self.shared, self.scale = heads, shared, 1 / math.sqrt(size)
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.query = nn.Dense(width, width, has_bias=False)
        self.key = nn.Dense(width, shared * size, has_bias=False)
        self.value = nn.Dense(width, shared * size, has_bias=False)
        self.out = nn.Dense(width, width, has_bias=False)
        self.gate = nn.Dense(width, 2 * width, has_bias=False)
        self.up = nn.Dense(width, 2 * width, has_bias=False)
        self.down = nn.Dense(2 * width, width, has_bias=False)

    def construct(self, x: Tensor, cos: Tensor, sin: Tensor, added: Tensor) -> Tensor:
        y = self.norm1(x)
        q = _turned(_heads(self.query(y), self.heads), cos, sin)
        k = _turned(_heads(self.key(y), self.shared), cos, sin)
        v = _heads(self.value(y), self.shared)
        k = k.repeat_interleave(self.heads // self.shared, 1)
        v = v.repeat_interleave(self.heads // self.shared, 1)
        scores = ops.matmul(q, k.swapaxes(-1, -2)) * self.scale + added
        x = x + self.out(_joined(ops.matmul(ops.softmax(scores, -1), v)))
        y = self.norm2(x)
        return x + self.down(ops.silu(self.gate(y)) * self.up(y))


class Llama(nn.Cell):
    def __init__(self, words: int = 3000, width: int = 128, heads: int = 8, layers: int = 3) -> None:
        super().__init__()
        size = width // heads
        self.words = nn.Embedding(words, width)
        self.layers = nn.CellList([LlamaLayer(width, heads, 2) for _ in range(layers)])
        self.norm, self.head = RmsNorm(width), nn.Dense(width, words, has_bias=False)
        self.speeds = Tensor(10000.0 ** (-np.arange(0, size, 2) / size), ms.float32)

    def construct(self, ids: Tensor) -> Tensor:
        places = ops.arange(ids.shape[1]).astype(ms.float32)
        angles = ops.outer(places, self.speeds)
        angles = ops.cat((angles, angles), -1)
        added = ops.triu(ops.ones((ids.shape[1], ids.shape[1]), ms.float32), 1) * -10000.0
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, ops.cos(angles), ops.sin(angles), added)
        return self.head(self.norm(x))


def llama(words: int = 3000, **sizes: int):
    return Llama(words, **sizes), [(_ids(words, 2, 24, seed=i),) for i in range(2)]


class T5Bias(nn.Cell):
    """What the distance of two tokens adds to their score, in buckets that grow with it."""

    # A farthest distance of 128 would put 16, 32 and 64 on the edges of buckets, where MindSpore's logarithm
    # on CPUs, which is two steps of float32 too small, falls into the bucket before.
    def __init__(self, heads: int, both: bool, buckets: int = 32, farthest: int = 120) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.both, self.buckets, self.farthest = both, buckets // (2 if both else 1), farthest

    def construct(self, length: int) -> Tensor:
        distance = ops.arange(length).expand_dims(0) - ops.arange(length).expand_dims(1)
        start = ops.zeros_like(distance)
        if self.both:
            start = (distance > 0).astype(ms.int64) * self.buckets
            distance = ops.abs(distance)
        else:
            distance = -ops.minimum(distance, 0)
        exact = self.buckets // 2
        grown = ops.log(ops.maximum(distance, 1).astype(ms.float32) / exact) / math.log(self.farthest / exact)
        far = ops.minimum(exact + (grown * (self.buckets - exact)).astype(ms.int64), self.buckets - 1)
        bucket = start + ops.where(distance < exact, distance, far)
        return self.table(bucket).transpose(2, 0, 1).expand_dims(0)


class T5Layer(nn.Cell):
    def __init__(self, width: int, heads: int, reads: bool) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3 = RmsNorm(width), RmsNorm(width), RmsNorm(width)
        self.attention = Attention(width, heads, bias=False, scale=1)
        self.cross = Attention(width, heads, bias=False, scale=1) if reads else None
        self.up, self.down = (
            nn.Dense(width, 2 * width, has_bias=False),
            nn.Dense(2 * width, width, has_bias=False),
        )

    def construct(self, x: Tensor, added: Tensor, memory=None) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, added)
        if self.cross is not None:
            x = x + self.cross(self.norm2(x), memory)
        return x + self.down(ops.relu(self.up(self.norm3(x))))


class T5(nn.Cell):
    def __init__(self, words: int = 3000, width: int = 96, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.encoder = nn.CellList([T5Layer(width, heads, False) for _ in range(layers)])
        self.decoder = nn.CellList([T5Layer(width, heads, True) for _ in range(layers)])
        self.encoder_bias, self.decoder_bias = T5Bias(heads, True), T5Bias(heads, False)
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.scale = width**-0.5

    def construct(self, ids: Tensor, decoded: Tensor) -> Tensor:
        x, added = self.words(ids), self.encoder_bias(ids.shape[1])
        for layer in self.encoder:
            x = layer(x, added)
        memory = self.norm1(x)
        length = decoded.shape[1]
        later = ops.triu(ops.ones((length, length), ms.float32), 1) * -1e9
        x, added = self.words(decoded), self.decoder_bias(length) + later
        for layer in self.decoder:
            x = layer(x, added, memory)
        return ops.matmul(self.norm2(x) * self.scale, self.words.embedding_table.T)


def t5(words: int = 3000, **sizes: int):
    runs = [(_ids(words, 1, 40, seed=i), _ids(words, 1, 12, seed=i + 9)) for i in range(2)]
    return T5(words, **sizes), runs


class WhisperLayer(nn.Cell):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm((width,), epsilon=1e-5), nn.LayerNorm((width,), epsilon=1e-5)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Dense(width, 4 * width), nn.Dense(4 * width, width)

    def construct(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y)
        return x + self.down(ops.gelu(self.up(self.norm2(x)), approximate="none"))


class WhisperEncoder(nn.Cell):
    """Convolutions over (1, 80, frames) of a mel spectrogram, sinusoids for the places, transformers."""

    def __init__(self, width: int = 128, layers: int = 3, frames: int = 300) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(80, width, 3, pad_mode="pad", padding=1, has_bias=True)
        self.conv2 = nn.Conv1d(width, width, 3, 2, pad_mode="pad", padding=1, has_bias=True)
        angles = np.outer(np.arange(frames // 2), 10000.0 ** (-np.arange(width // 2) / (width // 2 - 1)))
        self.places = Tensor(np.concatenate([np.sin(angles), np.cos(angles)], 1), ms.float32)
        self.layers = nn.CellList([WhisperLayer(width, 4) for _ in range(layers)])
        self.norm = nn.LayerNorm((width,), epsilon=1e-5)

    def construct(self, mel: Tensor) -> Tensor:
        x = ops.gelu(self.conv1(mel), approximate="none")
        x = ops.gelu(self.conv2(x), approximate="none").swapaxes(1, 2) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def whisper_encoder(frames: int = 300, **sizes: int):
    return WhisperEncoder(frames=frames, **sizes), _images(1, 80, frames)


# -- diffusion -------------------------------------------------------------------------------------------


class TimedResidual(nn.Cell):
    def __init__(self, cin: int, cout: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, cin), nn.GroupNorm(8, cout)
        self.conv1 = nn.Conv2d(cin, cout, 3, pad_mode="pad", padding=1, has_bias=True)
        self.conv2 = nn.Conv2d(cout, cout, 3, pad_mode="pad", padding=1, has_bias=True)
        self.time = nn.Dense(time, cout)
        self.straight = nn.Conv2d(cin, cout, 1, has_bias=True) if cin != cout else nn.Identity()

    def construct(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(ops.silu(self.norm1(x)))
        y = y + self.time(ops.silu(time)).expand_dims(-1).expand_dims(-1)
        return self.straight(x) + self.conv2(ops.silu(self.norm2(y)))


class TextBlock(nn.Cell):
    """The pixels attend to each other, then to the text; a gated layer at the end."""

    def __init__(self, width: int, heads: int, text: int) -> None:
        super().__init__()
        self.group, self.enter, self.leave = (
            nn.GroupNorm(8, width, eps=1e-6),
            nn.Conv2d(width, width, 1, has_bias=True),
            nn.Conv2d(width, width, 1, has_bias=True),
        )
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm((width,), epsilon=1e-5) for _ in range(3))
        self.attention, self.cross = Attention(width, heads), Attention(width, heads, text)
        self.up, self.down = nn.Dense(width, 8 * width), nn.Dense(4 * width, width)

    def construct(self, image: Tensor, text: Tensor) -> Tensor:
        n, c, h, w = image.shape
        x = self.enter(self.group(image)).transpose(0, 2, 3, 1).reshape(n, h * w, c)
        y = self.norm1(x)
        x = x + self.attention(y, y)
        x = x + self.cross(self.norm2(x), text)
        value, gate = ops.chunk(self.up(self.norm3(x)), 2, axis=-1)
        x = x + self.down(value * ops.gelu(gate, approximate="none"))
        return image + self.leave(x.reshape(n, h, w, c).transpose(0, 3, 1, 2))


class DiffusionUnet(nn.Cell):
    """(sample, timestep, encoder_hidden_states): the noise in a latent picture, under a text."""

    def __init__(self, low: int = 32, high: int = 64, text: int = 48) -> None:
        super().__init__()
        time = 4 * low
        self.speeds = Tensor(np.exp(-math.log(10000) * np.arange(low // 2) / (low // 2)), ms.float32)
        self.time1, self.time2 = nn.Dense(low, time), nn.Dense(time, time)
        self.enter = nn.Conv2d(4, low, 3, pad_mode="pad", padding=1, has_bias=True)
        self.down1, self.look1 = TimedResidual(low, low, time), TextBlock(low, 4, text)
        self.shrink = nn.Conv2d(low, low, 3, 2, pad_mode="pad", padding=1, has_bias=True)
        self.down2, self.look2 = TimedResidual(low, high, time), TextBlock(high, 4, text)
        self.middle1, self.look3 = TimedResidual(high, high, time), TextBlock(high, 4, text)
        self.middle2 = TimedResidual(high, high, time)
        self.up1, self.look4 = TimedResidual(2 * high, high, time), TextBlock(high, 4, text)
        self.grow = nn.Conv2d(high, high, 3, pad_mode="pad", padding=1, has_bias=True)
        self.up2, self.look5 = TimedResidual(high + low, low, time), TextBlock(low, 4, text)
        self.norm = nn.GroupNorm(8, low)
        self.leave = nn.Conv2d(low, 4, 3, pad_mode="pad", padding=1, has_bias=True)

    def construct(self, sample: Tensor, timestep: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        angles = timestep.astype(ms.float32).expand_dims(1) * self.speeds
        time = self.time2(ops.silu(self.time1(ops.cat((ops.cos(angles), ops.sin(angles)), -1))))
        first = self.look1(self.down1(self.enter(sample), time), encoder_hidden_states)
        second = self.look2(self.down2(self.shrink(first), time), encoder_hidden_states)
        x = self.middle2(self.look3(self.middle1(second, time), encoder_hidden_states), time)
        x = self.look4(self.up1(ops.cat((x, second), 1), time), encoder_hidden_states)
        x = self.grow(ops.interpolate(x, size=first.shape[2:], mode="nearest"))
        x = self.look5(self.up2(ops.cat((x, first), 1), time), encoder_hidden_states)
        return self.leave(ops.silu(self.norm(x)))


def diffusion_unet(size: int = 32, **widths: int):
    runs = [
        (_floats(1, 4, size, size, seed=i), np.array([t], np.int32), _floats(1, 13, 48, seed=i + 9))
        for i, t in enumerate((981, 21))
    ]
    return DiffusionUnet(**widths), runs


# -- sequences, recommendation, video --------------------------------------------------------------------


class LstmTagger(nn.Cell):
    """Words to tags: an LSTM in both directions, and the best path over the transitions of tags."""

    def __init__(self, words: int = 5000, width: int = 64, tags: int = 9) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.tags = nn.Dense(2 * width, tags)
        self.transitions = Parameter(Tensor(np.zeros((tags, tags), np.float32)), name="transitions")

    def construct(self, ids: Tensor):
        read, _ = self.lstm(self.words(ids))
        scores = self.tags(read)
        best = scores[:, 0]
        came = []
        for i in range(1, scores.shape[1]):
            paths = best.expand_dims(2) + self.transitions
            source, best = ops.max(paths, axis=1)[1], ops.max(paths, axis=1)[0]
            best = best + scores[:, i]
            came.append(source)
        tag = ops.argmax(best, -1).expand_dims(1)
        path = [tag]
        for source in came[::-1]:
            tag = ops.gather_elements(source, 1, tag)
            path = [tag, *path]
        return scores, ops.cat(path, 1)


def lstm_tagger(words: int = 5000, **sizes: int):
    return LstmTagger(words, **sizes), [(_ids(words, 2, 20, seed=i),) for i in range(2)]


class Tower(nn.Cell):
    def __init__(self, entries: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(entries, width)
        self.entries = entries
        self.hidden, self.out = nn.Dense(2 * width, 64, activation="relu"), nn.Dense(64, width)

    def construct(self, key: Tensor, history: Tensor, count: Tensor) -> Tensor:
        own = self.table(key % self.entries)
        there = (ops.arange(history.shape[1]).expand_dims(0) < count.expand_dims(1)).astype(ms.float32)
        seen = (self.table(history % self.entries) * there.expand_dims(2)).sum(1)
        seen = seen / ops.maximum(count.astype(ms.float32), Tensor(1.0, ms.float32)).expand_dims(1)
        return ops.L2Normalize(axis=1)(self.out(self.hidden(ops.cat((own, seen), 1))))


class TwoTower(nn.Cell):
    """A user with a history, and items: probabilities that they fit. Keys are larger than the tables."""

    def __init__(self, users: int = 60000, items: int = 100000, width: int = 24) -> None:
        super().__init__()
        self.user, self.item = Tower(users, width), Tower(items, width)

    def construct(self, user, seen, seen_count, item, tags, tag_count):
        query, document = self.user(user, seen, seen_count), self.item(item, tags, tag_count)
        return ops.sigmoid(ops.matmul(query, document.T) * 5.0), query


def two_tower(**sizes: int):
    def run(seed: int) -> Run:
        big = 2**31 - 1
        count = np.array([0, 3, 20], np.int32), np.array([1, 2, 3, 4, 5], np.int32)
        user = _ids(big, 3, seed=seed), _ids(big, 3, 20, seed=seed + 1), count[0]
        return (*user, _ids(big, 5, seed=seed + 2), _ids(big, 5, 5, seed=seed + 3), count[1])

    return TwoTower(**sizes), [run(5), run(15)]


class Residual3d(nn.Cell):
    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv3d(cin, cout, 3, stride, pad_mode="pad", padding=1)
        self.conv2 = nn.Conv3d(cout, cout, 3, pad_mode="pad", padding=1)
        self.norm1, self.norm2 = nn.BatchNorm3d(cout), nn.BatchNorm3d(cout)
        self.straight = nn.Conv3d(cin, cout, 1, stride) if stride > 1 else nn.Identity()

    def construct(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(ops.relu(self.norm1(self.conv1(x)))))
        return ops.relu(y + self.straight(x))


class Conv3dNet(nn.Cell):
    """Clips of (1, 3, frames, height, width) to classes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv3d(3, width, (3, 7, 7), (1, 2, 2), pad_mode="pad", padding=(1, 1, 3, 3, 3, 3))
        self.norm = nn.BatchNorm3d(width)
        self.pool = nn.MaxPool3d((1, 2, 2), (1, 2, 2))
        self.blocks = nn.SequentialCell(
            Residual3d(width, width, 1), Residual3d(width, 2 * width, 2), Residual3d(2 * width, 4 * width, 2)
        )
        self.classes = nn.Dense(4 * width, 10)

    def construct(self, clip: Tensor) -> Tensor:
        x = self.blocks(self.pool(ops.relu(self.norm(self.stem(clip)))))
        return self.classes(x.mean((2, 3, 4)))


def conv3d(width: int = 16, size: int = 64):
    return Conv3dNet(width), _images(1, 3, 8, size, size)
