"""Make tests/data/versions/VERSION: small networks exported and run by one version of MindSpore.

Run with the MindSpore in question (3.7 to 3.11, as it needs):  python tools/with_mindspore/make_version_goldens.py FOLDER
Files go to FOLDER/VERSION. Networks that a version cannot export are named and left out.
"""

import os
import sys

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.train.serialization import export


def randomize(net, seed=7):
    """Weights, and moving averages too, that do not hide mistakes."""
    rng = np.random.RandomState(seed)
    for p in net.get_parameters():
        low, high = (0.5, 1.5) if "variance" in p.name or "gamma" in p.name else (-0.5, 0.5)
        p.set_data(Tensor(rng.uniform(low, high, p.shape).astype(np.float32)))


class Convolution(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.SequentialCell(
            nn.Conv2d(3, 8, 3, stride=2, pad_mode="same", has_bias=True),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            nn.Conv2d(8, 8, 3, pad_mode="pad", padding=1, group=8),
            nn.BatchNorm2d(8),
            nn.HSwish(),
            nn.MaxPool2d(2, 2),
            nn.AvgPool2d(2, 2),
            nn.Flatten(),
            nn.Dense(32, 5),
            nn.Softmax(),
        )

    def construct(self, x):
        return self.layers(x)


class Attention(nn.Cell):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Dense(16, 48)
        self.out = nn.Dense(16, 16)
        self.norm = nn.LayerNorm((16,))
        self.gelu = nn.GELU()
        self.split = ops.Split(axis=2, output_num=3)
        self.bmm_t = ops.BatchMatMul(transpose_b=True)
        self.bmm = ops.BatchMatMul()
        self.softmax = ops.Softmax(axis=-1)

    def construct(self, x):
        q, k, v = self.split(self.qkv(x))
        a = self.bmm(self.softmax(self.bmm_t(q, k) / 4.0), v)
        return self.gelu(self.norm(x + self.out(a)))


class Recurrent(nn.Cell):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 8, num_layers=1, has_bias=True, batch_first=True)
        self.h = Tensor(np.zeros((1, 2, 8), np.float32))
        self.c = Tensor(np.zeros((1, 2, 8), np.float32))

    def construct(self, x):
        y, _ = self.lstm(x, (self.h, self.c))
        return y[:, -1]


class Control(nn.Cell):
    def construct(self, x, n):
        i = ops.zeros_like(n)
        while i < n:
            x = x * 1.5 + 1.0
            i = i + 1
        if x.sum() > 10.0:
            y = x - 1.0
        else:
            y = x + 1.0
        return y, x.max(axis=1)


class State(nn.Cell):
    def __init__(self):
        super().__init__()
        self.total = Parameter(Tensor(np.ones((2, 3), np.float32)), name="total")

    def construct(self, x):
        self.total = self.total * 0.5 + x
        return self.total * 2.0


class Indexing(nn.Cell):
    def construct(self, x, i):
        y = ops.Gather()(x, i, 1) if hasattr(ops, "Gather") else ops.GatherV2()(x, i, 1)
        return ops.Concat(1)((x[:, 1:3], y[:, ::-1], ops.Transpose()(x, (0, 1, 2))[:, :1])), ops.Tile()(
            y, (1, 2, 1)
        )


def arrays(*shapes):
    rng = np.random.RandomState(3)
    return [rng.randn(*s).astype(np.float32) for s in shapes]


CASES = {
    "convolution": (Convolution, arrays((1, 3, 16, 16))),
    "attention": (Attention, arrays((2, 5, 16))),
    "recurrent": (Recurrent, arrays((2, 7, 6))),
    "control": (Control, [*arrays((2, 3)), np.array(4, np.int32)]),
    "state": (State, arrays((2, 3))),
    "indexing": (Indexing, [*arrays((2, 5, 3)), np.array([4, 0, 2], np.int32)]),
}


def main(folder):
    folder = os.path.join(folder, ms.__version__)
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    set_context = getattr(ms, "set_context", None) or ms.context.set_context  # where MindSpore 1 has it
    set_context(mode=getattr(ms, "GRAPH_MODE", 0), device_target="CPU")
    for name, (kind, inputs) in CASES.items():
        try:
            make(name, kind, inputs)
        except Exception as error:
            print(name, "cannot be made by", ms.__version__, ":", str(error).strip().splitlines()[0])


def make(name, kind, inputs):
    tensors = [Tensor(x) for x in inputs]
    net = kind()
    net.set_train(False)
    randomize(net)
    export(net, *tensors, file_name=name, file_format="MINDIR")
    # Three runs one after the other: state goes on from one to the next.
    saved = {f"x{i}": x for i, x in enumerate(inputs)}
    for run in range(3):
        outputs = net(*tensors)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        saved.update({f"run{run}_y{i}": y.asnumpy() for i, y in enumerate(outputs)})
    np.savez(f"{name}.npz", **saved)


if __name__ == "__main__":
    main(sys.argv[1])
