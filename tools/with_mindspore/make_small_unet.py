"""Make examples/small_unet.mindir, the model of examples/shared_weights_inference.py, and what it computes.

Run with an interpreter that has MindSpore, at the root of the repository:

    python tools/with_mindspore/make_small_unet.py examples/small_unet.mindir tests/data/small_unet.npz
"""

from __future__ import annotations

import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class SmallUnet(nn.Cell):
    """A latent of 8 channels and a time step, down to half the size and up again."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.steps = nn.Embedding(4, width)
        self.mix = nn.Dense(width, width)
        self.down = nn.Conv2d(8, width, 3, 2, pad_mode="pad", padding=1)
        self.up = nn.Conv2dTranspose(width, 8, 2, 2, pad_mode="valid")

    def construct(self, latent: ms.Tensor, step: ms.Tensor) -> ms.Tensor:
        moment = self.mix(self.steps(step % 4)).reshape(1, -1, 1, 1)
        return latent + self.up(ops.silu(self.down(latent) + moment))


def main(model: str, golden: str) -> None:
    ms.set_seed(1)
    random = np.random.default_rng(1)
    net = SmallUnet()
    net.set_train(False)
    latent, step = random.normal(size=(1, 8, 168, 128)).astype(np.float32), np.array([3], np.int32)
    ms.export(net, ms.Tensor(latent), ms.Tensor(step), file_name=model, file_format="MINDIR")
    y = net(ms.Tensor(latent), ms.Tensor(step)).asnumpy()
    # Inputs follow from the seed; of the output a part says enough.
    np.savez_compressed(golden, seed=1, y=y[:, :, ::24, ::16])


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    main(*sys.argv[1:])
