"""Models of one rank each, with what they give, by real MindSpore: `tests/data/distributed/`.

    msrun --worker_num=2 --local_worker_num=2 --join=True tools/make_distributed_goldens.py OUT

OUT gets `NAME_SIZE_RANK.mindir` and `.npz` with `x` and `y0`, `y1`, ... . On the processor MindSpore runs AllReduce
(sum), AllGather and Broadcast of the world, and AllReduce of a group. It exports the others too; what these give is
computed here by the formulas of its documentation, from the inputs of all ranks.
"""

import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.communication import create_group, get_group_size, get_rank, init
from mindspore.ops import operations as P
from mindspore.train.node_strategy_pb2 import ParallelGroupMap

ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
init()
RANK, SIZE = get_rank(), get_group_size()
OUT = Path(sys.argv[1])
PAIRS = {f"pair{i // 2}": [i, i + 1] for i in range(0, SIZE, 2)}
PAIR = f"pair{RANK // 2}"
create_group(PAIR, PAIRS[PAIR])


def values(name, shape, rank):
    """Numbers that every rank can make for every other."""
    seed = sum(map(ord, name)) * 100 + rank
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(name, shape):
    return values(name, shape, 99) / np.sqrt(shape[0])


def columns(name, shape):
    return Parameter(Tensor(np.split(whole(name, shape), SIZE, 1)[RANK].copy()), name=name)


def rows(name, shape):
    return Parameter(Tensor(np.split(whole(name, shape), SIZE, 0)[RANK].copy()), name=name)


class Mlp(nn.Cell):
    """Column, row, AllReduce, twice; the second input path needs no collective."""

    def __init__(self):
        super().__init__()
        self.up, self.down = columns("up", (16, 32)), rows("down", (32, 16))
        self.up2, self.down2 = columns("up2", (16, 32)), rows("down2", (32, 16))
        self.side = Parameter(Tensor(whole("side", (16, 16))), name="side")
        self.matmul, self.gelu, self.reduce, self.gather = P.MatMul(), P.GeLU(), P.AllReduce(), P.AllGather()

    def construct(self, x):
        hidden = self.gelu(self.matmul(x, self.up))
        y = x + self.reduce(self.matmul(hidden, self.down))
        y = y + self.reduce(self.matmul(self.gelu(self.matmul(y, self.up2)), self.down2))
        return y + self.matmul(x, self.side), self.gather(hidden)


class Attention(nn.Cell):
    """Four heads among the ranks."""

    def __init__(self):
        super().__init__()
        self.heads = 4 // SIZE
        self.q, self.k, self.v = columns("q", (16, 16)), columns("k", (16, 16)), columns("v", (16, 16))
        self.o = rows("o", (16, 16))
        self.matmul, self.reduce = P.MatMul(), P.AllReduce()
        self.norm = nn.LayerNorm((16,), epsilon=1e-5)

    def split(self, x):
        return x.reshape(2, 8, self.heads, 4).transpose(0, 2, 1, 3)

    def construct(self, x):
        flat = x.reshape(16, 16)
        q, k, v = (self.split(self.matmul(flat, w)) for w in (self.q, self.k, self.v))
        weights = ops.softmax(ops.matmul(q, k.transpose(0, 1, 3, 2)) * 0.5, -1)
        joined = ops.matmul(weights, v).transpose(0, 2, 1, 3).reshape(16, 4 * self.heads)
        return self.norm(flat + self.reduce(self.matmul(joined, self.o))).reshape(2, 8, 16)


class One(nn.Cell):
    """One collective of x * 2."""

    def __init__(self, op, packs=False):
        super().__init__()
        self.op, self.packs = op, packs

    def construct(self, x):
        x = x * 2
        y = self.op((x,)) if self.packs else self.op(x)
        return (y[0] if self.packs else y) + 1


class Ring(nn.Cell):
    """Even ranks send first, odd ones receive first."""

    def __init__(self):
        super().__init__()
        self.send = P.Send(sr_tag=3, dest_rank=(RANK + 1) % SIZE)
        self.receive = P.Receive(sr_tag=3, src_rank=(RANK - 1) % SIZE, shape=[4, 4], dtype=ms.float32)
        self.depend = P.Depend()

    def construct(self, x):
        if RANK % 2:
            y = self.receive(x)
            sent = self.send(self.depend(x * 2, y))
            return self.depend(y, sent) + 1
        sent = self.send(x * 2)
        return self.receive(self.depend(x, sent)) + 1


def save(name, net, shape, formula=None):
    """Export, run where MindSpore can, else `formula` says from all ranks' inputs what comes out."""
    inputs = [values(name, shape, rank) for rank in range(SIZE)]
    x = Tensor(inputs[RANK])
    stem = OUT / f"{name}_{SIZE}_{RANK}"
    ms.export(net, x, file_name=str(stem), file_format="MINDIR")
    if formula is None:
        given = net(x)
        outputs = [y.asnumpy() for y in (given if isinstance(given, tuple) else (given,))]
    else:
        outputs = [(formula([2 * one for one in inputs]) + 1).astype(np.float32)]
    np.savez(f"{stem}.npz", x=inputs[RANK], **{f"y{i}": y for i, y in enumerate(outputs)})
    print("saved", stem.name, "by the formula" if formula else "as MindSpore runs it", flush=True)


def save_groups():
    """The file that MindSpore writes of the groups of a model that it has cut (GROUP_INFO_FILE)."""
    groups = ParallelGroupMap()
    for name, ranks in PAIRS.items():
        item = groups.parallel_group_item.add(group_name=name)
        item.parallel_group_ranks.dim.extend(ranks)
    groups.ckpt_restore_rank_list.dim.extend(range(SIZE))
    (OUT / f"groups_{SIZE}.pb").write_bytes(groups.SerializeToString())


def main():
    OUT.mkdir(exist_ok=True)
    save("mlp", Mlp(), (8, 16))
    save("attention", Attention(), (2, 8, 16))
    save("all_reduce", One(P.AllReduce()), (4, 4))
    save("all_gather", One(P.AllGather()), (4, 4))
    save("broadcast", One(P.Broadcast(1), True), (4, 4))
    save("group", One(P.AllReduce(group=PAIR)), (4, 4))
    for op, kind in (("max", np.max), ("min", np.min), ("prod", np.prod)):
        reduction = getattr(ops.ReduceOp, op.upper())
        save(f"all_reduce_{op}", One(P.AllReduce(reduction)), (4, 4), lambda xs, kind=kind: kind(xs, axis=0))
    save("reduce_scatter", One(P.ReduceScatter()), (8, 4), lambda xs: np.split(np.sum(xs, 0), SIZE)[RANK])
    save(
        "all_to_all",
        One(P.AlltoAll(SIZE, 0, 1)),
        (4, 4),
        lambda xs: np.concatenate([np.split(x, SIZE, 0)[RANK] for x in xs], 1),
    )
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    exchange = P.NeighborExchange([after], [before], ([4, 4],), ([4, 4],), ms.float32)
    save("neighbors", One(exchange, True), (4, 4), lambda xs: xs[before])
    if RANK == 0:
        save_groups()
    save("ring", Ring(), (4, 4), lambda xs: xs[before])


main()
