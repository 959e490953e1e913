"""Record what MindSpore computes of networks for pictures and rows of other sizes than they were exported for.

    python tools/with_mindspore/make_ms_resize_goldens.py tests/data/resize        # needs mindspore, 2.10.0 was used

NAME.mindir is exported for the first shape; NAME.npz holds inputs x0, x1, ... of the others, and the results of the
network itself for these, y0, y1, ....
"""

import os
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


class Network(nn.Cell):
    """Layers one after the other."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.SequentialCell(*layers)

    def construct(self, x):
        return self.layers(x)


class View(nn.Cell):
    def construct(self, x):
        return ops.relu(x.view(x.shape[0], -1)).sum(1)


class Flatten(nn.Cell):
    def construct(self, x):
        return ops.flatten(x, start_dim=1)


class Broadcast(nn.Cell):
    def __init__(self):
        super().__init__()
        self.token = Parameter(np.full((1, 1, 4), 3, np.float32))

    def construct(self, x):
        return ops.cat([ops.broadcast_to(self.token, (x.shape[0], 1, 4)), x], 1)


class Zeros(nn.Cell):
    def construct(self, x):
        return x + ops.ones_like(x) + ops.zeros((x.shape[0], 1, 1))


class ReshapeBack(nn.Cell):
    def construct(self, x):
        return ops.softmax(x.reshape(x.shape[0], -1), 1).reshape(x.shape)


class Split(nn.Cell):
    def construct(self, x):
        a, b = ops.split(x, x.shape[1] // 2, axis=1)
        return a - b


def networks():
    """Each with its shape and the others."""
    same = [
        nn.Conv2d(3, 4, 3, 2, pad_mode="same", weight_init="ones"),
        nn.MaxPool2d(3, 2, pad_mode="same"),
        nn.AvgPool2d(2, 2, pad_mode="same"),
    ]
    transposed = nn.Conv2dTranspose(3, 4, 3, 2, pad_mode="same", weight_init="ones")
    rows, maps, pictures = (2, 3, 4), (2, 4, 6, 8), (2, 3, 9, 12)
    return {
        "view": (View(), rows, [(4, 3, 4), (2, 5, 4)]),
        "flatten": (Flatten(), rows, [(4, 3, 4), (2, 5, 4)]),
        "broadcast": (Broadcast(), rows, [(4, 3, 4), (2, 5, 4), (1, 3, 4)]),
        "zeros": (Zeros(), rows, [(4, 3, 4), (1, 3, 4)]),
        "same": (Network(*same), pictures, [(3, 3, 9, 12), (2, 3, 10, 11), (2, 3, 17, 6)]),
        "transposed": (Network(transposed), pictures, [(3, 3, 9, 12), (2, 3, 10, 11)]),
        "adaptive": (Network(nn.AdaptiveAvgPool2d(2)), maps, [(3, 4, 6, 8), (2, 4, 9, 5)]),
        "group_norm": (Network(nn.GroupNorm(2, 4)), maps, [(3, 4, 6, 8), (2, 4, 5, 5)]),
        "reshape_back": (ReshapeBack(), rows, [(4, 3, 4), (2, 5, 4)]),
        "split": (Split(), (2, 4, 4), [(3, 4, 4), (2, 6, 4)]),
    }


def main(out):
    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
    for name, (net, shape, others) in networks().items():
        random = np.random.default_rng(3)
        net.set_train(False)
        first = Tensor(random.normal(size=shape).astype(np.float32))
        ms.export(net, first, file_name=str(out / name), file_format="MINDIR")
        os.chmod(out / f"{name}.mindir", 0o644)
        found = {}
        for i, other in enumerate(others):
            found[f"x{i}"] = random.normal(size=other).astype(np.float32)
            found[f"y{i}"] = net(Tensor(found[f"x{i}"])).asnumpy()
        np.savez_compressed(out / f"{name}.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
