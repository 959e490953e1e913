"""Models of one rank each, with what they give, by real MindSpore: `tests/data/distributed/`.

    msrun --worker_num=2 --local_worker_num=2 --join=True tools/with_mindspore/make_distributed_goldens.py OUT

OUT gets `NAME_SIZE_RANK.mindir` and `.npz` with `x` and `y0`, `y1`, ... . On the processor MindSpore runs AllReduce
(sum of floats), AllGather and Broadcast of the world (not of 8 bits, nor unsigned), and AllReduce of a group. It
exports the others too; what these give is computed here by the formulas of its documentation, from the inputs of all
ranks. The functions of `mint.distributed` and `comm_func` cannot be exported on the processor; the primitives that
they make can.
"""

import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.communication import create_group, get_group_size, get_rank, init
from mindspore.ops import operations as P
from mindspore.ops.auto_generate import gen_ops_prim as G
from mindspore.train.node_strategy_pb2 import ParallelGroupMap

ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
init()
RANK, SIZE = get_rank(), get_group_size()
OUT = Path(sys.argv[1])
PAIRS = {f"pair{i // 2}": [i, i + 1] for i in range(0, SIZE, 2)}
PAIR = f"pair{RANK // 2}"
WORLD = "mccl_world_group"
create_group(PAIR, PAIRS[PAIR])


def values(name, shape, rank):
    """Numbers that every rank can make for every other."""
    seed = sum(map(ord, name)) * 100 + rank
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(name, shape):
    return values(name, shape, 99) / np.float32(np.sqrt(shape[0]))


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


class Sized(nn.Cell):
    """A collective of x * 2, flat, that is told sizes."""

    def __init__(self, op, *sizes):
        super().__init__()
        self.op, self.sizes = op, sizes

    def construct(self, x):
        return self.op((x * 2).reshape(-1), *self.sizes) + 1


class Broadcasts(nn.Cell):
    """A tuple of two, and a tuple of one as it is."""

    def __init__(self):
        super().__init__()
        self.first, self.last = P.Broadcast(0), P.Broadcast(SIZE - 1)

    def construct(self, x):
        both = self.last((x, x + 1))
        return both[1], both[0], self.first((x * 2,))


class Kinds(nn.Cell):
    """Collectives of other types than float32, and of a scalar."""

    def __init__(self):
        super().__init__()
        self.kinds = (ms.int16, ms.int32, ms.int64, ms.float16, ms.float64)
        self.gather, self.broadcast, self.reduce = P.AllGather(), P.Broadcast(1), P.AllReduce()

    def construct(self, x):
        results = ()
        for kind in self.kinds:
            y = (x * 4).astype(kind)
            results += (self.gather(y), self.broadcast((y,))[0])
        return *results, self.reduce(x.astype(ms.float16)), self.reduce(x.sum())


class Narrow(nn.Cell):
    """Types that MindSpore exports and does not compute."""

    def __init__(self):
        super().__init__()
        self.kinds = (ms.int8, ms.int16, ms.int32, ms.int64)
        self.gather, self.reduce = P.AllGather(), P.AllReduce()

    def construct(self, x):
        results = ()
        for kind in self.kinds:
            results += (self.reduce((x * 4).astype(kind)),)
        return *results, self.gather((x * 4).astype(ms.uint8)), self.gather((x * 4).astype(ms.uint16))


class Functions(nn.Cell):
    """What the functions of `ops.communication` and `comm_func` make, which do not write into their arguments."""

    def __init__(self):
        super().__init__()
        self.equal = (8 // SIZE,) * SIZE

    def construct(self, x):
        flat = x.reshape(-1)[:8]
        return (
            G.inner_comm_all_reduce_op(x, "max", WORLD, False),
            G.inner_comm_all_gather_op(x, SIZE, WORLD, False),
            G.inner_comm_reduce_scatter_op(x, SIZE, "min", WORLD, False),
            G.inner_comm_all_to_all_v_op(flat, WORLD, self.equal, self.equal, SIZE, False, False),
        )


class Written(nn.Cell):
    """What the functions of `mint.distributed` make, which write into their first argument."""

    def construct(self, x):
        x = x * 2
        G.dist_comm_barrier_op(WORLD, False)
        G.dist_comm_all_reduce_op(x, "sum", WORLD, False)
        whole = ops.zeros((4 * SIZE, 4), ms.float32)
        G.dist_comm_all_gather_into_tensor_op(whole, x + RANK, SIZE, WORLD, False)
        part = ops.zeros((4 // SIZE, 4), ms.float32)
        G.dist_comm_reduce_scatter_tensor_op(part, x + RANK, SIZE, "sum", WORLD, False)
        return x, whole, part


class Lists(nn.Cell):
    """As Written, of the functions that take lists, and of all_to_all_single."""

    def __init__(self):
        super().__init__()
        self.sizes = (16 // SIZE,) * SIZE

    def construct(self, x):
        x = x * 2
        each = [x * (3 + i) for i in range(SIZE)]
        G.dist_comm_all_gather_op(each, x, SIZE, WORLD, False)
        part, dealt = x * 8, x * 9
        G.dist_comm_reduce_scatter_op(part, [x * (1 + i) for i in range(SIZE)], SIZE, "max", WORLD, False)
        G.dist_comm_all_to_all_v_single_op(dealt, x, WORLD, self.sizes, self.sizes, SIZE, True, False)
        return *each, part, dealt


class Alone(nn.Cell):
    """A collective of the input that is the output."""

    def __init__(self):
        super().__init__()
        self.reduce = P.AllReduce()

    def construct(self, x):
        return self.reduce(x)


class Posted(nn.Cell):
    """Send and receive as the functions of `mint.distributed` and `comm_func` do: as in Ring."""

    def construct(self, x):
        y = x * 1
        if RANK % 2:
            y = G.inner_comm_irecv_op(5, RANK - 1, (4, 4), WORLD, ms.float32)
            G.dist_comm_isend_op(x * 2, (RANK + 1) % SIZE, WORLD, 0)
        else:
            G.inner_comm_isend_op(x * 2, RANK + 1, WORLD, 5)
            G.dist_comm_irecv_op(y, 0, (RANK - 1) % SIZE, WORLD)
        return y + 1


class Waits(nn.Cell):
    def __init__(self):
        super().__init__()
        self.barrier = P.Barrier()

    def construct(self, x):
        self.barrier()
        return x * 2 + 1


class Batch(nn.Cell):
    """To the next rank and from the one before, in a group of two."""

    def __init__(self):
        super().__init__()
        other = 1 - RANK % 2
        self.batch = P.BatchISendIRecv(("irecv", "isend"), (other, other), ((4, 4),), (ms.float32,), PAIR)

    def construct(self, x):
        return self.batch((x * 2,))[0] + 1


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


def flattened(given):
    """The tensors of nested tuples."""
    return [y for one in given for y in flattened(one)] if isinstance(given, tuple) else [given]


def save(name, net, shape, formula=None):
    """Export, run where MindSpore can, else `formula` says from all ranks' inputs what comes out.

    `shape` is that of the input, or a list of one for each rank.
    """
    shapes = shape if isinstance(shape, list) else [shape] * SIZE
    inputs = [values(name, shapes[rank], rank) for rank in range(SIZE)]
    x = Tensor(inputs[RANK])
    stem = OUT / f"{name}_{SIZE}_{RANK}"
    ms.export(net, x, file_name=str(stem), file_format="MINDIR")
    given = net(x) if formula is None else formula(inputs)
    outputs = [np.asarray(y) for y in flattened(given)]
    np.savez(f"{stem}.npz", x=inputs[RANK], **{f"y{i}": y for i, y in enumerate(outputs)})
    print("saved", stem.name, "by the formula" if formula else "as MindSpore runs it", flush=True)


def one(formula):
    """The formula of a cell that gives one collective of x * 2, plus 1."""
    return lambda xs: (np.asarray(formula([2 * x for x in xs])) + 1).astype(np.float32)


def flat(formula):
    """Likewise, of arrays of one dimension."""
    return one(lambda xs: formula([x.reshape(-1) for x in xs]))


def dealt(xs, counts):
    """What this rank gets where rank i sends counts[i][j] elements to rank j."""
    ends = [np.cumsum([0, *row]) for row in counts]
    return np.concatenate([x[e[RANK] : e[RANK + 1]] for x, e in zip(xs, ends, strict=True)])


def borders(xs):
    """NeighborExchangeV2 of ranks that stand one below the other."""
    above = xs[RANK - 1][:, :, -1:] if RANK else np.zeros((1, 2, 0, 3), np.float32)
    below = xs[RANK + 1][:, :, :2] if RANK < SIZE - 1 else np.zeros((1, 2, 0, 3), np.float32)
    return np.concatenate([above, xs[RANK], below], 2)


def corners(xs):
    """NeighborExchangeV2 of two by two ranks: one row and two columns of each neighbor."""
    down, right = divmod(RANK, 2)
    grid = [np.concatenate(xs[i : i + 2], 3) for i in (0, 2)]
    whole = np.concatenate(grid, 2)
    return whole[:, :, 3 * down + down * -1 :][:, :, :4][..., 3 * right + right * -2 :][..., :5]


def below_each_other():
    """Each rank gives two rows to the rank above, one to that below."""
    up, down = RANK - 1, RANK + 1 if RANK < SIZE - 1 else -1
    ranks = [up, -1, -1, -1, down, -1, -1, -1]
    sends = [2 if up >= 0 else 0, 1 if down >= 0 else 0, 0, 0]
    receives = [1 if up >= 0 else 0, 2 if down >= 0 else 0, 0, 0]
    return P.NeighborExchangeV2(ranks, sends, ranks, receives, "NCHW")


def two_by_two():
    """Each rank gives a row and two columns to its neighbors, the one at the corner included."""
    down, right = divmod(RANK, 2)
    ranks, lens = [-1] * 8, [down, 1 - down, 2 * right, 2 * (1 - right)]
    around = {(-1, 0): 0, (-1, 1): 1, (0, 1): 2, (1, 1): 3, (1, 0): 4, (1, -1): 5, (0, -1): 6, (-1, -1): 7}
    for other in set(range(4)) - {RANK}:
        ranks[around[other // 2 - down, other % 2 - right]] = other
    return P.NeighborExchangeV2(ranks, lens, ranks, lens, "NCHW")


def narrow(xs):
    """The formula of Narrow."""
    xs = [4 * x for x in xs]
    sums = (np.sum([x.astype(k) for x in xs], 0, dtype=k) for k in (np.int8, np.int16, np.int32, np.int64))
    return *sums, *(np.concatenate([x.astype(k) for x in xs]) for k in (np.uint8, np.uint16))


def reduced(xs):
    """The formula of Reduce: a zero in ranks that have nothing."""
    return np.sum(xs, 0) if RANK == SIZE - 1 else np.zeros(1)


def gathered(xs):
    """The formula of CollectiveGather."""
    return np.concatenate(xs) if RANK == SIZE - 1 else np.zeros(1)


def functions(xs):
    """The formula of Functions."""
    parts = np.concatenate([np.split(x.reshape(-1)[:8], SIZE)[RANK] for x in xs])
    return np.max(xs, 0), np.concatenate(xs), np.split(np.min(xs, 0), SIZE)[RANK], parts


def written(xs):
    """The formula of Written."""
    total = 2 * np.sum(xs, 0)
    each = [total + rank for rank in range(SIZE)]
    return total, np.concatenate(each), np.split(np.sum(each, 0), SIZE)[RANK]


def lists(xs):
    """The formula of Lists."""
    xs = [2 * x for x in xs]
    largest = np.max([x * np.float32(1 + RANK) for x in xs], 0)
    return *xs, largest, np.concatenate([np.split(x, SIZE)[RANK] for x in xs])


def save_uneven():
    """Collectives of parts that are not equally long."""
    sizes = [2 + rank for rank in range(SIZE)]
    total = sum(sizes)
    counts = np.add.outer(range(SIZE), range(SIZE)) % 3  # to some nothing
    sends, receives = counts[RANK].tolist(), counts[:, RANK].tolist()

    def scattered(kind):
        return flat(lambda xs: np.split(kind(xs, axis=0), np.cumsum(sizes))[RANK])

    def received(factor, table):
        return one(lambda xs: dealt([x.reshape(-1) for x in xs], factor * table))

    save("all_gather_v", Sized(P.AllGatherV(), sizes), [(s,) for s in sizes], flat(np.concatenate))
    save("reduce_scatter_v", Sized(P.ReduceScatterV(), sizes), (total,), scattered(np.sum))
    save("reduce_scatter_v_max", Sized(P.ReduceScatterV("max"), sizes), (total,), scattered(np.max))
    shapes = [(int(row.sum()),) for row in counts]
    save("all_to_all_v", Sized(P.AlltoAllV(), sends, receives), shapes, received(1, counts))
    blocks = [(int(2 * row.sum()),) for row in counts]
    save(
        "all_to_all_v_blocks", Sized(P.AlltoAllV(block_size=2), sends, receives), blocks, received(2, counts)
    )
    uneven = counts + np.arange(SIZE)  # rank 0 sends more to rank 1 than that to it
    shapes, turned = [(int(row.sum()),) for row in uneven], [(int(row.sum()),) for row in uneven.T]
    matrix = uneven.reshape(-1).tolist()
    save("all_to_all_v_c", Sized(P.AlltoAllVC(), matrix), shapes, received(1, uneven))
    save("all_to_all_v_c_t", Sized(P.AlltoAllVC(transpose=True), matrix), turned, received(1, uneven.T))


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
        save(
            f"all_reduce_{op}",
            One(P.AllReduce(reduction)),
            (4, 4),
            one(lambda xs, kind=kind: kind(xs, axis=0)),
        )
    save(
        "reduce_scatter", One(P.ReduceScatter()), (8, 4), one(lambda xs: np.split(np.sum(xs, 0), SIZE)[RANK])
    )
    save(
        "all_to_all",
        One(P.AlltoAll(SIZE, 0, 1)),
        (4, 4),
        one(lambda xs: np.concatenate([np.split(x, SIZE, 0)[RANK] for x in xs], 1)),
    )
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    exchange = P.NeighborExchange([after], [before], ([4, 4],), ([4, 4],), ms.float32)
    save("neighbors", One(exchange, True), (4, 4), one(lambda xs: xs[before]))
    if RANK == 0:
        save_groups()
    save("ring", Ring(), (4, 4), one(lambda xs: xs[before]))
    save("broadcasts", Broadcasts(), (4, 4))
    save("kinds", Kinds(), (4, 4))
    save("narrow", Narrow(), (4, 4), narrow)
    save("reduce", One(P.Reduce(SIZE - 1)), (4, 4), one(reduced))
    save("gather", One(P.CollectiveGather(SIZE - 1)), (4, 4), one(gathered))
    last = SIZE - 1
    save("scatter", One(P.CollectiveScatter(last)), (4, 4), one(lambda xs: np.split(xs[last], SIZE)[RANK]))
    save("barrier", Waits(), (4, 4), one(lambda xs: xs[RANK]))
    save("functions", Functions(), (4, 4), functions)
    save("written", Written(), (4, 4), written)
    save("lists", Lists(), (4, 4), lists)
    save("alone", Alone(), (4, 4))
    save("posted", Posted(), (4, 4), one(lambda xs: xs[before]))
    save("batch", Batch(), (4, 4), one(lambda xs: xs[RANK ^ 1]))
    save("group_broadcast", One(P.Broadcast(1, PAIR), True), (4, 4), one(lambda xs: xs[RANK | 1]))
    save_uneven()
    save("borders", One(below_each_other()), (1, 2, 4, 3), one(borders))
    if SIZE == 4:
        save("corners", One(two_by_two()), (1, 1, 3, 3), one(corners))


main()
