"""`python -m tests.kills --count N --seed S`: processes are killed at random moments.

Nothing may be lost, wrong or left. Builders, masters that lend weights, their slaves, devices of DataParallel
and ranks take turns. Children are forked from a process that has imported everything and computed nothing, so
that a trial takes as long as what it tries.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import pinnace
import pinnace.distributed.sockets
import pinnace.engines.onnxruntime.engine
import pinnace.formats
from pinnace.distributed import watchdog
from pinnace.distributed.rendezvous import Rendezvous
from pinnace.distributed.sockets import Sockets
from pinnace.errors import DeviceUnavailableError, DistributedError, ModelStateError

WAIT = 60
"""Seconds after which what still runs hangs."""
X = np.random.default_rng(0).normal(size=(3, 128)).astype(np.float32)


def write_model(path: Path, seed: int) -> np.ndarray:
    """x (3, 128) times a random weight of 256 KiB; returns what it gives for X."""
    weight = np.random.default_rng(seed).normal(size=(128, 512)).astype(np.float32)
    ports = [
        helper.make_tensor_value_info(*one)
        for one in (("x", 1, [3, 128]), ("y", TensorProto.FLOAT, [3, 512]))
    ]
    tensors = [numpy_helper.from_array(weight, "w")]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], tensors
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return X @ weight


def predict(path: Path, **options: object) -> np.ndarray:
    with pinnace.Model() as model:
        model.build_from_file(str(path), pinnace.ModelType.ONNX, config_dict=options or None)
        return model.predict([X])[0].get_data_to_numpy()


def fork(work: Callable[[], object]) -> tuple[int, int]:
    """A child that does `work` and writes what comes of it to a pipe, as JSON; its number and the pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.close(reading)
        try:
            answer: object = {"value": work()}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        os.write(writing, json.dumps(answer).encode())
    finally:
        os._exit(0)


def end(child: int, reading: int) -> dict[str, object]:
    """What a child said, {} where it was killed before; it is not waited for without limit."""
    deadline = time.monotonic() + WAIT
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"a child still ran after {WAIT} s")
        time.sleep(0.001)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    return json.loads(answer) if answer else {}


def kill_later(child: int, chance: random.Random, most: float) -> None:
    time.sleep(chance.random() * most)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def is_right(answer: dict[str, object], expected: np.ndarray) -> None:
    assert "value" in answer, answer
    # 128 products in another order
    np.testing.assert_allclose(np.array(answer["value"], np.float32), expected, rtol=1e-3, atol=1e-3)


def builder(folder: Path, chance: random.Random) -> None:
    """One that compiles into the cache: the next build is right, and nothing of the first is left."""
    expected = write_model(folder / "model.onnx", chance.getrandbits(30))
    killed = fork(lambda: predict(folder / "model.onnx").tolist())
    kill_later(killed[0], chance, 0.05)
    end(*killed)
    is_right(end(*fork(lambda: predict(folder / "model.onnx").tolist())), expected)
    cache = Path(os.environ["PINNACE_CACHE_DIR"])
    assert not list((cache / "new").iterdir())


def lending(folder: Path, chance: random.Random, master_dies: bool) -> None:
    expected = write_model(folder / "lent.onnx", chance.getrandbits(30))
    to_slave, from_master = os.pipe()
    to_master, from_slave = os.pipe()

    def slave() -> object:
        os.close(from_master)  # else the end of the master would not be the end of the pipe
        os.write(from_slave, str(os.getpid()).encode())
        handle = os.read(to_slave, 100).decode()
        if not handle:
            return "no master"
        try:
            return predict(folder / "lent.onnx", shared_mem_handle=handle).tolist()
        except ModelStateError as error:
            return str(error)

    def master() -> object:
        os.close(from_slave)
        pid = os.read(to_master, 100).decode()
        if not pid:
            return "no slave"
        with pinnace.Model() as model:
            model.build_from_file(
                str(folder / "lent.onnx"), pinnace.ModelType.ONNX, config_dict={"pids": pid}
            )
            os.write(from_master, model.get_model_info("shareable_weight_mem_handle").encode())
            time.sleep(0.05)
            return model.predict([X])[0].get_data_to_numpy().tolist()

    borrower, lender = fork(slave), fork(master)
    for pipe in (to_slave, from_master, to_master, from_slave):
        os.close(pipe)
    dies, lives = (lender, borrower) if master_dies else (borrower, lender)
    kill_later(dies[0], chance, 0.1)
    end(*dies)
    answer = end(*lives)
    in_time = "names process" not in str(answer.get("error"))  # the slave lived when the master admitted it
    if in_time and not isinstance(answer.get("value"), str):
        is_right(answer, expected)


def master(folder: Path, chance: random.Random) -> None:
    """One that lends weights: the slave has them, or one clear error."""
    lending(folder, chance, True)


def slave(folder: Path, chance: random.Random) -> None:
    """One that borrows: the master goes on."""
    lending(folder, chance, False)


def device(folder: Path, chance: random.Random) -> None:
    """Ten processes of DataParallel under requests: all are answered right, but those killed twice."""
    expected = write_model(folder / "parallel.onnx", chance.getrandbits(30))

    def serve() -> object:
        context = pinnace.Context()
        context.target = ["ascend"]
        with pinnace.DataParallel(str(folder / "parallel.onnx"), context) as model:
            for _ in range(10):
                while not (pids := model.pids):
                    time.sleep(0.01)
                futures = [model.submit([X]) for _ in range(8)]
                kill_later(chance.choice(pids), chance, 0.005)
                for future in futures:
                    with suppress(DeviceUnavailableError):  # a request is tried twice, and both were killed
                        is_right({"value": future.result(WAIT)[0].get_data_to_numpy()}, expected)
        return True

    answer = end(*fork(serve))
    assert answer == {"value": True}, answer


def rank(folder: Path, chance: random.Random) -> None:
    """One of two, over sockets: the other one says so, and the table of ranks leaves nothing."""
    port = chance.randrange(20_000, 30_000)

    def run(number: int) -> object:
        try:
            link = Sockets(Rendezvous(number, ("127.0.0.1",) * 2, port), 5).link([])
            while True:
                link.barrier((0, 1))
        except DistributedError as error:
            return str(error)

    ranks = [fork(lambda number=number: run(number)) for number in range(2)]
    dies = chance.randrange(2)
    kill_later(ranks[dies][0], chance, 0.2)
    end(*ranks[dies])
    answer = end(*ranks[1 - dies])
    assert isinstance(answer.get("value"), str), answer
    left = list(watchdog._FOLDER.glob("pinnace-*"))
    assert not left, f"a table of ranks is left: {left}"


KINDS = {kind.__name__: kind for kind in (builder, master, slave, device, rank)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many processes to kill")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, help="only these; all in turn otherwise")
    options = parser.parse_args()
    os.environ["PINNACE_SIMULATE"] = "ascend:2"
    done: Counter[str] = Counter()
    failed = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PINNACE_CACHE_DIR"] = f"{folder}/cache"
        os.environ["PINNACE_CACHE_KEEP"] = "before"
        watchdog._FOLDER = Path(folder)  # apart from those of other jobs
        number = 0
        while sum(done.values()) < options.count:
            chance = random.Random(f"{options.seed} {number}")
            name = options.kind or list(KINDS)[number % len(KINDS)]
            number += 1
            try:
                KINDS[name](Path(folder), chance)
            except AssertionError as error:
                failed.append((name, number - 1))
                print(f"--- {name}, trial {number - 1}: {error}", flush=True)
            done[name] += 10 if name == "device" else 1
        left = list(Path(folder, "cache", "new").glob("*"))
    print(
        ", ".join(f"{count} {name}s" for name, count in done.items())
        + f" killed in {time.monotonic() - began:.0f} s"
    )
    print(f"{len(failed)} in trouble: {failed}; {len(left)} folders left in the cache")
    return bool(failed or left)


if __name__ == "__main__":
    sys.exit(main())
