"""Make the models of examples/multicard_inference.py, a small U-Net of a diffusion, and what it computes.

Run with an interpreter that has MindSpore, at the root of the repository:

    python tools/with_mindspore/make_small_diffusion.py examples tests/data/small_diffusion.npz

writes small_diffusion_bs1.mindir and small_diffusion_bs2.mindir, the same network for batches of 1 and 2.
"""

from __future__ import annotations

import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn, ops

WIDTH = 32
STATES = (77, 64)  # words, and numbers of each


class CrossAttention(nn.Cell):
    """Every place of a picture looks at all words."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.query = nn.Dense(width, width, has_bias=False)
        self.key = nn.Dense(words, width, has_bias=False)
        self.value = nn.Dense(words, width, has_bias=False)
        self.scale = width**-0.5

    def construct(self, x: ms.Tensor, states: ms.Tensor) -> ms.Tensor:
        batch, width, high, wide = x.shape
        places = x.reshape(batch, width, high * wide).transpose(0, 2, 1)
        scores = ops.BatchMatMul(transpose_b=True)(self.query(places), self.key(states)) * self.scale
        seen = ops.BatchMatMul()(ops.softmax(scores, -1), self.value(states))
        return x + seen.transpose(0, 2, 1).reshape(batch, width, high, wide)


class SmallDiffusion(nn.Cell):
    """A latent, a time and the words of a prompt: down to half the size, attention, and up again."""

    def __init__(self) -> None:
        super().__init__()
        self.frequencies = ms.Tensor(
            np.exp(-np.arange(WIDTH // 2) * (np.log(10000) / (WIDTH // 2))), ms.float32
        )
        self.time = nn.SequentialCell(nn.Dense(WIDTH, WIDTH), nn.SiLU(), nn.Dense(WIDTH, WIDTH))
        self.into = nn.Conv2d(4, WIDTH, 3, pad_mode="pad", padding=1, has_bias=True)
        self.down = nn.Conv2d(WIDTH, WIDTH, 3, 2, pad_mode="pad", padding=1, has_bias=True)
        self.norm = nn.GroupNorm(8, WIDTH)
        self.look = CrossAttention(WIDTH, STATES[1])
        self.up = nn.Conv2dTranspose(WIDTH, WIDTH, 2, 2, pad_mode="valid", has_bias=True)
        self.out = nn.Conv2d(2 * WIDTH, 4, 3, pad_mode="pad", padding=1, has_bias=True)

    def construct(
        self, sample: ms.Tensor, timestep: ms.Tensor, encoder_hidden_states: ms.Tensor
    ) -> ms.Tensor:
        angles = timestep.astype(ms.float32).reshape(-1, 1) * self.frequencies
        moment = self.time(ops.concat((ops.sin(angles), ops.cos(angles)), 1)).reshape(1, -1, 1, 1)
        whole = self.into(sample)
        half = ops.silu(self.norm(self.down(whole) + moment))
        half = self.look(half, encoder_hidden_states)
        return self.out(ops.concat((whole, self.up(half)), 1))


def main(folder: str, golden: str) -> None:
    ms.set_seed(1)
    random = np.random.default_rng(1)
    net = SmallDiffusion()
    net.set_train(False)
    sample = random.normal(size=(2, 4, 64, 64)).astype(np.float32)
    timestep = np.array([981], np.int32)
    states = random.normal(size=(2, *STATES)).astype(np.float32)
    for batch in (1, 2):
        inputs = ms.Tensor(sample[:batch]), ms.Tensor(timestep), ms.Tensor(states[:batch])
        path = Path(folder, f"small_diffusion_bs{batch}")
        ms.export(net, *inputs, file_name=str(path), file_format="MINDIR")
    y = net(*inputs).asnumpy()
    # Inputs follow from the seed; of the output a part says enough.
    np.savez_compressed(golden, seed=1, y=y[:, :, ::8, ::8])


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    main(*sys.argv[1:])
