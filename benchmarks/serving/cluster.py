"""One model on a Ray cluster of two nodes on this machine: what a prediction's way costs, a node's death.

    python -m benchmarks cluster [--rounds 50] [SECTION ...]

Sections: transport, kill. `transport` predicts in turns through a `Model` of this process, a process of
`DataParallel`, and actors of this node and of another one; the model reads no more than a column of what it
is given. `kill` ends a node with SIGKILL while four clients predict.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

WIDTH = 1 << 10
WAIT = 120  # seconds after which something hangs
_ROOM = 512 << 20  # bytes of Ray's object store on a node


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks cluster", description=__doc__)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args(arguments)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PINNACE_CACHE_DIR"] = str(Path(folder, "cache"))
        for section in options.sections:
            print(f"\n## {section}\n", flush=True)
            for line in SECTIONS[section](column(Path(folder, "column.onnx")), options):
                print(line, flush=True)


def column(path: Path) -> Path:
    """A model that gives the first column of its input."""
    nodes = [helper.make_node("Slice", ["x", "from", "to", "axes"], ["y"])]
    numbers = {"from": 0, "to": 1, "axes": 1}
    initializers = [helper.make_tensor(k, TensorProto.INT64, [1], [v]) for k, v in numbers.items()]
    shapes = {"x": ["n", WIDTH], "y": ["n", 1]}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    graph = helper.make_graph(nodes, "column", [x], [y], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def cluster_of(processors: int) -> Any:
    """A cluster of one node."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": processors, "include_dashboard": False, "object_store_memory": _ROOM}
    return Cluster(initialize_head=True, head_node_args=head)


def transport(path: Path, options: argparse.Namespace) -> Iterator[str]:
    import pinnace

    cluster = cluster_of(1)
    here = pinnace.Context(thread_num=1)
    there = pinnace.Context(thread_num=1)
    there.parallel.address = cluster.address
    there.parallel.workers_num = 1
    model, near, far = pinnace.Model(), pinnace.ModelParallelRunner(), pinnace.ModelParallelRunner()
    model.build_from_file(str(path), pinnace.ModelType.ONNX, here)
    near.build_from_file(str(path), there)
    cluster.add_node(num_cpus=1, object_store_memory=_ROOM)  # the only one that has room now
    far.build_from_file(str(path), there)
    with near, far, pinnace.DataParallel(str(path), here) as process:
        for name, rows in {"4 KB": 1, "16 MB": (16 << 20) // 4 // WIDTH}.items():
            x = np.random.default_rng(0).random((rows, WIDTH), np.float32)
            runs: dict[str, Callable[[], list[Any]]] = {
                "in this process (`Model`)": lambda x=x: model.predict([x]),
                "in another process (`DataParallel`)": lambda x=x: process.predict([x]),
                "in an actor of this node": lambda x=x: near.predict([x]),
                "in an actor of another node": lambda x=x: far.predict([x]),
            }
            yield f"\n| {name} to a model, its first column back | ms, median | least |\n| --- | --- | --- |"
            taken: dict[str, list[float]] = {what: [] for what in runs}
            for turn in range(options.rounds + 3):
                for what, run in runs.items():
                    start = time.perf_counter()
                    (result,) = run()
                    if turn > 2:
                        taken[what].append((time.perf_counter() - start) * 1000)
                    np.testing.assert_array_equal(result.get_data_to_numpy(), x[:, :1])
            for what, times in taken.items():
                yield f"| {what} | {statistics.median(times):.2f} | {min(times):.2f} |"
    cluster.shutdown()


def kill(path: Path, options: argparse.Namespace) -> Iterator[str]:
    import pinnace

    cluster = cluster_of(2)
    second = cluster.add_node(num_cpus=1, object_store_memory=_ROOM)
    context = pinnace.Context(thread_num=1)
    context.parallel.address = cluster.address
    with pinnace.DataParallel(str(path), context, device_ids=[0, 1]) as model:
        x = np.random.default_rng(0).random((8, WIDTH), np.float32)
        over = threading.Event()
        failed: list[BaseException] = []
        taken: list[list[float]] = [[] for _ in range(4)]
        wrong = [0] * 4

        def client(number: int) -> None:
            while not over.is_set():
                start = time.perf_counter()
                try:
                    (result,) = model.predict([x], timeout=WAIT)
                except Exception as error:
                    failed.append(error)
                    continue
                taken[number].append(time.perf_counter() - start)
                wrong[number] += not np.array_equal(result.get_data_to_numpy(), x[:, :1])

        clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for thread in clients:
            thread.start()
        time.sleep(3)
        before = sum(map(len, taken))
        start = time.perf_counter()
        cluster.remove_node(second, allow_graceful=False)
        while not model.stats().restarts and time.perf_counter() - start < WAIT:
            time.sleep(0.01)
        back = time.perf_counter() - start
        meanwhile = sum(map(len, taken)) - before
        time.sleep(2)
        over.set()
        for thread in clients:
            thread.join()
        stats = model.stats()
    cluster.shutdown()
    yield f"{sum(map(len, taken))} predictions were served, {sum(wrong)} were wrong, {len(failed)} failed;"
    yield f"{stats.retried} parts were computed once more,"
    yield f"the slowest prediction took {max(map(max, taken)):.1f} s."
    yield f"After {back:.1f} s the actor had been started on the other node; {meanwhile} were served by then."


SECTIONS = {f.__name__: f for f in (transport, kill)}
