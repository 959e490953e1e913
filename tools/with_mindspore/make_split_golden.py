"""Make tests/data/split: a MindIR whose weights lie beside it, as MindSpore writes models over 1 GiB.

Run with real MindSpore (made with 2.10.0):  python tools/with_mindspore/make_split_golden.py OUTPUT_DIRECTORY
"""

import os
import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from mindspore.train import serialization


class Net(nn.Cell):
    """Two dense layers."""

    def __init__(self):
        super().__init__()
        self.a = nn.Dense(16, 64)
        self.b = nn.Dense(64, 8)

    def construct(self, x):
        return self.b(ms.ops.relu(self.a(x)))


def main(folder):
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_seed(1)
    # In KiB: from what size on weights are saved apart. Lowered, so that a small model shows the form.
    serialization.TOTAL_SAVE = 1
    net = Net()
    net.set_train(False)
    x = Tensor(np.random.RandomState(0).randn(3, 16).astype(np.float32))
    np.savez("big.npz", x0=x.asnumpy(), y0=net(x).asnumpy())
    ms.export(net, x, file_name="big", file_format="MINDIR")


if __name__ == "__main__":
    main(sys.argv[1])
