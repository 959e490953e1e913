"""`pinnace quickstart`: a demonstration of concurrent inference with the bundled model."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinnace.cli.options import AsJson

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pinnace import ModelParallelRunner

MODEL = "efficientnet_lite0.mindir"
PICTURES = ("chelsea.png", "coffee.png")
SIZE = (224, 224)


@dataclass(frozen=True)
class FinishedTask:
    client: int
    task: int
    picture: str
    seconds: float
    probabilities: npt.NDArray[np.float32]


def quickstart(
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Workers that share the model.")] = 3,
    clients: Annotated[int, typer.Option(min=1, metavar="N", help="Concurrent clients.")] = 5,
    tasks: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests per client, one after the other.")
    ] = 2,
    threads: Annotated[int, typer.Option(min=1, metavar="N", help="Threads of each worker.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Let clients classify two photographs.

    Several clients send requests at the same time; the model is EfficientNet-Lite0.
    """
    from pinnace.cli.console import note, progress

    pictures = {name: prepared(name) for name in PICTURES}
    note(f"{MODEL}; workers x threads: {workers} x {threads}; clients: {clients}; tasks: {tasks} each")
    with progress(f"Opening {MODEL}"):
        total, done = _demonstrate(pictures, workers, clients, tasks, threads)
    labels = _labels()
    alone = None
    if workers > 1:
        with progress("The same with 1 worker"):
            alone, _ = _demonstrate(pictures, 1, clients, tasks, threads)
    if as_json:
        tasks_done = [asdict(one) | {"probabilities": _best(one, labels)} for one in done]
        print(json.dumps({"tasks": tasks_done, "seconds": total, "seconds_of_1_worker": alone}, indent=2))
        return
    for one in done:
        _show(one, labels)
    print(f"total run time: {total:.4f} s")
    if alone is not None:
        print(f"1 worker: {alone:.4f} s, {workers} workers: {total:.4f} s, {alone / total:.2f} times as fast")


def data(name: str) -> Path:
    return Path(str(files("pinnace") / "data" / name))


def prepared(name: str) -> npt.NDArray[np.float32]:
    """Return a picture after the preprocessing of EfficientNet-Lite: its central 7/8, (pixel - 127) / 128.

    Source: the preprocessing of EfficientNet-Lite's authors, which keeps 224 / (224 + 32) of the shorter side
    and resizes that with a bicubic filter.
    """
    from pinnace.images import load

    return load(data(name), SIZE, crop=224 / 256, scale=1.0, mean=127.0, std=128.0)


def _demonstrate(
    pictures: dict[str, npt.NDArray[np.float32]], workers: int, clients: int, tasks: int, threads: int
) -> tuple[float, list[FinishedTask]]:
    """Return the seconds from first request to last answer, and the tasks in order of completion."""
    from pinnace.bench.throughput import served
    from pinnace.bench.timing import RunLimit
    from pinnace.cli.opening import context_for, open_model

    with open_model(data(MODEL), context_for(threads, workers=workers)) as runner:
        _predict(runner, pictures[PICTURES[0]])  # warm up
        done: list[FinishedTask] = []
        started = time.perf_counter()
        served(
            [partial(_ask, runner, pictures, done, client, count()) for client in range(clients)],
            RunLimit(0.0, tasks),
        )
        return time.perf_counter() - started, done


def _ask(
    runner: ModelParallelRunner,
    pictures: dict[str, npt.NDArray[np.float32]],
    done: list[FinishedTask],
    client: int,
    tasks: Iterator[int],
) -> None:
    """Run the next of a client's `tasks`; each client starts with another picture."""
    task = next(tasks)
    name = PICTURES[(client + task) % len(PICTURES)]
    started = time.perf_counter()
    probabilities = _predict(runner, pictures[name])
    done.append(FinishedTask(client, task + 1, name, time.perf_counter() - started, probabilities))


def _predict(runner: ModelParallelRunner, picture: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    inputs = runner.get_inputs()
    inputs[0].set_data_from_numpy(picture)
    return runner.predict(inputs)[0].get_data_to_numpy().flatten()


def _labels() -> list[str]:
    """Return the first name of each of the 1000 classes, by index."""
    from pinnace.ranking import read

    return [name.partition(",")[0] for name in read(data("imagenet_labels.json"))]


def _show(done: FinishedTask, labels: Sequence[str]) -> None:
    from pinnace.cli.console import fold

    task = f"parallel id: {done.client} | task index: {done.task}"
    print(fold(f"{task} | run once time: {done.seconds:.4f} s | {done.picture}"))
    best = (f"{one['label']} ({one['index']}) {one['value']:.4f}" for one in _best(done, labels))
    print(fold("  " + ", ".join(best)))


def _best(done: FinishedTask, labels: Sequence[str]) -> list[dict[str, Any]]:
    from pinnace.ranking import labels as ranked

    return [asdict(one) for one in ranked(done.probabilities, labels)[0]]
