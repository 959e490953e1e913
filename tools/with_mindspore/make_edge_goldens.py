"""Make tests/data/edges: what goes in and out of a model in ways that few models use, run by MindSpore 2.10.

Run with MindSpore:  python tools/with_mindspore/make_edge_goldens.py FOLDER
`NAME.mindir` is exported, `NAME.npz` holds runs: inputs xR_I and outputs yR_I of the run R, tuples taken apart.
"""

import os
import sys

import mindspore as ms
import numpy as np
from mindspore import Symbol, Tensor, mutable, nn, ops

RANDOM = np.random.RandomState(5)


def drawn(*shape):
    return Tensor(RANDOM.randn(*shape).astype(np.float32))


class Dynamic(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(6, 4, weight_init=drawn(4, 6))

    def construct(self, x):
        y = self.dense(x)
        return ops.softmax(y.sum(axis=0)), y.reshape((-1, 2)) + x.shape[0]


class Nested(nn.Cell):
    def construct(self, a, y):
        return a[0] + a[1][0] * y, (a[1][1], (y, a[0]))


class Named(nn.Cell):
    def construct(self, a):
        return a["p"] * 2 + a["q"]


class Listed(nn.Cell):
    def construct(self, a):
        return a[0] * 2 + a[1]


class Scaled(nn.Cell):
    def construct(self, x, s):
        return x * s, s + 1


class Optional(nn.Cell):
    def construct(self, x, mask=None, s=2):
        if mask is None:
            return x * s
        return x * mask


class NoneOut(nn.Cell):
    def construct(self, x):
        return x + 1, None, (None, x)


class Written(nn.Cell):
    """Writes into a constant, and into a new tensor of the same numbers."""

    def __init__(self):
        super().__init__()
        self.kept = Tensor(np.zeros(3, np.float32))

    def construct(self, x):
        kept = self.kept
        kept += x
        new = ops.zeros((3,), ms.float32)
        new += x
        return kept * 1, new * 1


class WrittenInLoop(nn.Cell):
    """Writes into a Parameter that goes by another name."""

    def __init__(self):
        super().__init__()
        self.kept = ms.Parameter(Tensor(np.zeros(3, np.float32)), name="kept")

    def construct(self, x, n):
        total = self.kept
        i = 0
        while i < n:
            total += x
            i = i + 1
        return total * 1, self.kept * 2


class Complex(nn.Cell):
    def construct(self, x):
        return x.astype(ms.complex64).real()


@ms.jit
def series(x, n):
    if n < 1:
        return x
    return series(x, n - 1) * 2 + x


class Recursive(nn.Cell):
    def construct(self, x, n):
        return series(x, n)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    even = Symbol(min=2, max=8, divisor=2)
    sizes = [[drawn(n, 6)] for n in (2, 4, 8)]
    make("range", Dynamic(), [Tensor(shape=[even, 6], dtype=ms.float32)], sizes)
    make("free", Dynamic(), [Tensor(shape=[None, 6], dtype=ms.float32)], sizes)
    nested = [(drawn(2, 3), (drawn(2, 3), drawn(1, 3))), Tensor(2.0, ms.float32)]
    make("nested", Nested(), [mutable(nested[0]), nested[1]])
    make("dict", Named(), [mutable({"p": drawn(2, 3), "q": drawn(2, 3)})])
    make("list", Listed(), [mutable([drawn(2, 3), drawn(2, 3)])])
    make("scalar_int", Scaled(), [drawn(2, 3), mutable(3)])
    make("scalar_float", Scaled(), [drawn(2, 3), mutable(2.5)])
    make("scalar_constant", Scaled(), [drawn(2, 3), 3])
    make("none_in", Optional(), [drawn(2, 3), None, 3])
    make("none_out", NoneOut(), [drawn(2, 3)])
    make("written", Written(), [drawn(3)], [[drawn(3)] for _ in range(3)])
    turns = [[drawn(3), Tensor(n, ms.int32)] for n in (2, 0, 1)]
    make("written_in_loop", WrittenInLoop(), turns[0], turns)
    # These two are refused, and need no run.
    ms.export(Complex(), drawn(2, 3), file_name="complex", file_format="MINDIR")
    ms.export(Recursive(), drawn(2, 3), Tensor(3, ms.int32), file_name="recursion", file_format="MINDIR")


def make(name, net, declared, runs=None):
    """Export for the declared inputs, and run on each of `runs`, by default on what is declared."""
    ms.export(net, *declared, file_name=name, file_format="MINDIR")
    saved = {}
    for r, inputs in enumerate([declared] if runs is None else runs):
        # What is not mutable is a constant of the graph.
        given = [
            i for i in inputs if isinstance(i, Tensor | dict | tuple | list) or hasattr(i, "__ms_mutable__")
        ]
        saved |= {f"x{r}_{i}": x for i, x in enumerate(arrays(given))}
        saved |= {f"y{r}_{i}": y for i, y in enumerate(arrays(net(*inputs)))}
    np.savez(f"{name}.npz", **saved)


def arrays(value):
    """The arrays in a value, in order; None is nothing."""
    if value is None:
        return []
    if isinstance(value, Tensor):
        return [value.asnumpy()]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, tuple | list):
        return [np.asarray(value, np.int64 if isinstance(value, int) else np.float32)]
    return [array for item in value for array in arrays(item)]


if __name__ == "__main__":
    main(sys.argv[1])
