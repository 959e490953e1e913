"""What update_weights costs: clients of a runner while all weights are exchanged again and again.

    python -m benchmarks update [--seconds 60] [--clients 8] [--workers 1] [--network bert_base]

The networks of `benchmarks.models`, one thread a worker. Every float weight is variable; two sets take turns,
one a second. Each output is compared with what onnxruntime makes of the two files, to the last bit. Slices of
some seconds with updates and without take turns, until each has lasted for the seconds given, so that a drift
of the machine meets both: what is compared are predictions in all. Where other processes take the cores, the
processor time of a prediction tells what would come of it if one were free. Latency is processor time of
predictions alone, on two models in turns: one as it was built, the other after an update.
"""

from __future__ import annotations

import argparse
import gc
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
from onnx import TensorProto, numpy_helper

from benchmarks.models import INPUTS, MAKERS
from benchmarks.startup.opening import open_onnxruntime

SLICE = 6.0  # seconds
EVERY = 1.0  # seconds between the starts of two updates
Weights = dict[str, np.ndarray]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks update", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--turns", type=int, default=100, help="predictions of each model that are timed")
    parser.add_argument("--network", choices=list(MAKERS), action="append")
    options = parser.parse_args(arguments)
    for name in options.network or ("bert_base", "resnet50"):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PINNACE_CACHE_DIR"] = str(Path(folder, "cache"))
            print(f"\n## {name}\n", flush=True)
            trial = Trial(Path(folder), name)
            trial.load(options.workers, options.clients, options.seconds)
            trial.latency(options.turns)


class Trial:
    """One network in a folder, with two sets of weights and what they compute."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = MAKERS[name](folder / f"{name}.onnx")
        self.inputs = list(INPUTS[name]().values())
        self.sets = [weights_of(self.path)]
        self.sets.append({key: np.ascontiguousarray(w * np.float32(1.25)) for key, w in self.sets[0].items()})
        other = written_with(self.path, self.sets[1], folder / "other.onnx")
        self.expected = [self._by_onnxruntime(path) for path in (self.path, other)]
        other.unlink()
        (folder / "names.txt").write_text("\n".join(self.sets[0]), encoding="utf-8")
        self.config = folder / "config.ini"
        self.config.write_text('[common_context]\nvariable_weights_file="names.txt"\n', encoding="utf-8")

    def _by_onnxruntime(self, path: Path) -> np.ndarray:
        session = open_onnxruntime(str(path), 1)
        feed = {i.name: array for i, array in zip(session.get_inputs(), self.inputs, strict=True)}
        result: np.ndarray = session.run(None, feed)[0]
        return result

    def load(self, workers: int, clients: int, seconds: float) -> None:
        """Count predictions with updates and without."""
        import pinnace

        context = pinnace.Context(thread_num=1)
        context.parallel.workers_num = workers
        context.parallel.config_path = str(self.config)
        with pinnace.ModelParallelRunner() as runner:
            runner.build_from_file(str(self.path), context)
            took = timed(lambda: runner.update_weights([tensors(self.sets[1])]))
            print(f"first update, which prepares: {took:.2f} s", flush=True)
            with_, without, rest = self._counts = [Count(), Count(), Count()]
            self._now = rest
            stop = threading.Event()
            threads = [threading.Thread(target=self._client, args=(runner, stop)) for _ in range(clients)]
            for thread in threads:
                thread.start()
            updates: list[float] = []
            while without.seconds < seconds:
                self._slice(with_, runner, updates)
                self._slice(without, runner, None)
            self._now = rest
            stop.set()
            for thread in threads:
                thread.join()
        middle = statistics.median(updates)
        print(f"{len(updates)} updates in {with_.seconds:.0f} s, {middle:.2f} s each (median)")
        print(f"{clients} clients, {workers} worker(s): {with_.done} and {without.done} predictions")
        wrong, failed = (sum(getattr(c, key) for c in self._counts) for key in ("wrong", "failed"))
        print(f"outputs by set: {with_.hits}; of no set: {wrong}; failed: {failed}")
        rates = [count.done / count.seconds for count in (with_, without)]
        ratio = rates[0] / rates[1]
        print(f"**throughput {rates[0]:.2f} a second with updates, {rates[1]:.2f} without: {ratio:.3f}**")
        times = [statistics.median(count.took) * 1e3 for count in (with_, without)]
        ratio = times[1] / times[0]
        print(f"processor time of a prediction {times[0]:.1f} and {times[1]:.1f} ms: {ratio:.3f}")

    def _slice(self, count: Count, runner: Any, updates: list[float] | None) -> None:
        """Credit to `count` what ends within some seconds; without `updates` none are made."""
        self._now = count
        begin = time.perf_counter()
        while (now := time.perf_counter() - begin) < SLICE:
            if updates is not None:
                turn = len(updates) % 2
                updates.append(timed(lambda turn=turn: runner.update_weights([tensors(self.sets[turn])])))
            time.sleep(max(0.0, now + EVERY - (time.perf_counter() - begin)))
        count.seconds += time.perf_counter() - begin

    def _client(self, runner: Any, stop: threading.Event) -> None:
        while not stop.is_set():
            begin = time.thread_time()
            try:
                result = runner.predict(self.inputs)[0].get_data_to_numpy()
            except Exception as error:
                self._now.fail(error)
                continue
            took = time.thread_time() - begin
            self._now.add([np.array_equal(result, expected) for expected in self.expected], took)

    def latency(self, turns: int) -> None:
        """Time single predictions before and after an update, in turns."""
        import pinnace

        models = [pinnace.Model(), pinnace.Model()]
        for model in models:
            model.build_from_file(
                str(self.path), pinnace.ModelType.ONNX, pinnace.Context(thread_num=1), str(self.config)
            )
        models[1].update_weights([tensors(self.sets[1])])
        gc.collect()
        took: list[list[float]] = [[], []]
        for turn in range(turns + 3):
            for model, times in zip(models, took, strict=True):
                time_ = timed(lambda model=model: model.predict(self.inputs), time.thread_time)
                if turn >= 3:
                    times.append(time_)
        before, after = (statistics.median(times) * 1e3 for times in took)
        print(f"**latency {before:.2f} ms as built, {after:.2f} ms after an update: {after / before:.3f}**")


class Count:
    """What came of predictions; clients add to it at the same time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.hits = [0, 0]
        self.wrong = self.failed = 0
        self.took: list[float] = []  # processor time, seconds
        self._lock = threading.Lock()

    @property
    def done(self) -> int:
        return sum(self.hits) + self.wrong

    def add(self, equal: list[bool], took: float) -> None:
        with self._lock:
            self.took.append(took)
            for place, is_equal in enumerate(equal):
                self.hits[place] += is_equal
            self.wrong += not any(equal)

    def fail(self, error: Exception) -> None:
        with self._lock:
            self.failed += 1
        print(f"failed: {error}", flush=True)


def timed(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    begin = clock()
    call()
    return clock() - begin


def weights_of(path: Path) -> Weights:
    return {t.name: numpy_helper.to_array(t) for t in _floats(onnx.load(path))}


def written_with(path: Path, weights: Weights, other: Path) -> Path:
    """The same model with other weights."""
    model = onnx.load(path)
    for tensor in _floats(model):
        tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name], tensor.name))
    onnx.save(model, other)
    return other


def _floats(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Weights: tensors of floats that are no single numbers."""
    return (t for t in model.graph.initializer if t.data_type == TensorProto.FLOAT and len(t.dims))


def tensors(weights: Weights) -> list[Any]:
    import pinnace

    made = []
    for name, array in weights.items():
        tensor = pinnace.Tensor(array)
        tensor.name = name
        made.append(tensor)
    return made
