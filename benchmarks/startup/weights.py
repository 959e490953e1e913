"""What the compile cache saves: time to build, memory of processes, workers and models; and what kills do.

    python -m benchmarks weights [--models FOLDER] [--rounds 5] [--kills 100] [SECTION ...]

FOLDER holds model files of well-known stems (bert_base, resnet50), which
`tools/with_mindspore/make_benchmark_models.py` makes; without it the ONNX files of `benchmarks.models` are
written. Sections: building, processes, workers, group, sharing, kills. The cache is an empty folder of its
own. One thread each. Memory is in MB: "private" is what one process alone has (USS), "proportional" counts
a page that n mappings have 1/n times (PSS).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.models import INPUTS, MAKERS

MEGA = 1 << 20


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks weights", description=__doc__)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--models", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kills", type=int, default=100)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PINNACE_CACHE_DIR"] = str(Path(folder, "cache"))
        made = Path(folder, "models")
        made.mkdir()
        files = sorted((options.models or made).iterdir()) if options.models else written(made)
        models = [f for f in files if f.suffix in (".onnx", ".mindir", ".ms") and f.stem in INPUTS]
        for section in options.sections:
            print(f"\n## {section}\n", flush=True)
            for line in SECTIONS[section](models, options):
                print(line, flush=True)


def written(folder: Path) -> list[Path]:
    return [MAKERS[name](folder / f"{name}.onnx") for name in ("bert_base", "resnet50")]


# -- a process with one model ----------------------------------------------------------------------------


def memory() -> dict[str, float]:
    """Of this process, in MB."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        kb = {line.split(":")[0]: int(line.split()[1]) for line in file if "kB" in line}
    private = kb["Private_Clean"] + kb["Private_Dirty"]
    return {"private": private / 1024, "proportional": kb["Pss"] / 1024, "resident": kb["Rss"] / 1024}


def inputs_of(path: Path, ports: list[Any]) -> list[np.ndarray]:
    """A prediction's inputs: the well-known ones, and ones where the file asks for more."""
    first, *_ = INPUTS[path.stem]().values()
    return [first.astype(p.dtype.to_numpy()) if i == 0 else np.ones(first.shape, p.dtype.to_numpy())
            for i, p in enumerate(ports)]  # fmt: skip


def context(workers: int = 1) -> Any:
    import pinnace

    made = pinnace.Context()
    made.target = ["cpu"]
    made.cpu.thread_num = 1
    made.parallel.workers_num = workers
    return made


def opened(path: Path, config: dict[str, str] | None = None) -> Any:
    import pinnace

    kinds = {".ms": pinnace.ModelType.MINDIR_LITE, ".onnx": pinnace.ModelType.ONNX}
    kind = kinds.get(path.suffix, pinnace.ModelType.MINDIR)
    model = pinnace.Model()
    model.build_from_file(str(path), kind, context(), config_dict=config)
    return model


def partner(what: str, path: Path) -> None:
    """Lend weights ("master") to the processes that a line of the standard input names, or borrow ("slave").

    Says its number, then the handle or the reason of a refusal, then what memory it has.
    """
    import pinnace
    import pinnace.cache.handover
    import pinnace.engines.onnxruntime.engine

    before = memory()
    print(pinnace.Model().get_model_info("current_pid"), flush=True)
    value = sys.stdin.readline().strip()
    key = "pids" if what == "master" else "shared_mem_handle"
    try:
        model = opened(path, {key: value})
    except pinnace.errors.PinnaceError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        return
    handle = model.get_model_info("shareable_weight_mem_handle") if what == "master" else ""
    model.predict(inputs_of(path, model.get_inputs()))
    print(json.dumps({"handle": handle}), flush=True)
    if sys.stdin.readline():
        now = memory()
        print(json.dumps({key: now[key] - before[key] for key in now}), flush=True)
        sys.stdin.read()


def child(what: str, path: Path, count: int) -> None:
    """Do one thing, say figures as a line of JSON, and wait to be let go."""
    import onnxruntime

    import pinnace
    import pinnace.cache.store
    import pinnace.engines.onnxruntime.engine

    before = memory()
    start = time.perf_counter()
    held: list[Any] = []
    if what == "onnxruntime":
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        held.append(onnxruntime.InferenceSession(str(path), options))
        built = time.perf_counter() - start
        x = inputs_of(path, [])
        held[0].run(None, INPUTS[path.stem]())
    elif what == "runner":
        runner = pinnace.ModelParallelRunner()
        runner.build_from_file(str(path), context(count))
        built = time.perf_counter() - start
        runner.predict(inputs_of(path, runner.get_inputs()))
        held.append(runner)
    else:
        built = 0.0
        for other in [path, *sys.argv[4:]]:
            model = opened(Path(other))
            built += time.perf_counter() - start
            x = inputs_of(path, model.get_inputs())
            model.predict(x)
            held.append(model)
    after = memory()
    print(json.dumps({"build": built, **{key: after[key] - before[key] for key in after}}), flush=True)
    if sys.stdin.readline():
        now = memory()
        print(json.dumps({key: now[key] - before[key] for key in now}), flush=True)
        sys.stdin.read()  # what it shares is shared as long as it lives


@contextmanager
def process(what: str, path: Path, count: int = 1, *more: Path) -> Iterator[Any]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.startup.weights",
        what,
        str(path),
        str(count),
        *map(str, more),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.stdin.close()


def once(what: str, path: Path, count: int = 1, *more: Path) -> dict[str, float]:
    with process(what, path, count, *more) as running:
        return json.loads(running.stdout.readline())


def forget() -> None:
    from pinnace.cache.store import Store
    from pinnace.options.settings import Settings

    Store.of(Settings()).clear()


# -- sections --------------------------------------------------------------------------------------------


def building(models: list[Path], options: argparse.Namespace) -> Iterator[str]:
    """First and second build, beside plain onnxruntime (of the ONNX file of the same stem) and no cache."""
    yield "| model | onnxruntime, s | first, s | second, s | second / first | second / onnxruntime |"
    yield "| --- " * 6 + "|"
    for path in models:
        onnx = path.with_suffix(".onnx")
        rounds = []
        for turn in range(options.rounds + 1):
            forget()
            plain = once("onnxruntime", onnx)["build"] if onnx.exists() else float("nan")
            figures = (plain, once("model", path)["build"], once("model", path)["build"])
            if turn:
                rounds.append(figures)
        columns = [statistics.median(column) for column in zip(*rounds, strict=True)]
        ratios = [(c / b, c / a) for a, b, c in rounds]
        spread = (
            f"{statistics.median(r):.3f} ({min(r):.3f} to {max(r):.3f})" for r in zip(*ratios, strict=True)
        )
        yield "| " + " | ".join([path.name, *(f"{c:.3f}" for c in columns), *spread]) + " |"


def processes(models: list[Path], options: argparse.Namespace) -> Iterator[str]:
    """Private memory of several processes with the same model, after a prediction each."""
    yield "| model | weights, MB | processes | private of each, MB | of the weights | onnxruntime alone, MB |"
    yield "| --- " * 6 + "|"
    for path in models:
        once("model", path)
        onnx = path.with_suffix(".onnx")
        plain = once("onnxruntime", onnx)["private"] if onnx.exists() else float("nan")
        weights = path.stat().st_size / MEGA
        for count in (2, 3, 8):
            running = [process("model", path) for _ in range(count)]
            sides = [p.__enter__() for p in running]
            for side in sides:
                side.stdout.readline()
            private = []
            for side in sides:
                side.stdin.write("\n")
                side.stdin.flush()
                private.append(json.loads(side.stdout.readline())["private"])
            for p in running:
                p.__exit__(None, None, None)
            worst = max(private)
            yield (
                f"| {path.name} | {weights:.0f} | {count} | {min(private):.0f} to {worst:.0f} "
                f"| {worst / weights:.2f} | {plain:.0f} |"
            )


def workers(models: list[Path], options: argparse.Namespace) -> Iterator[str]:
    """Memory of a runner with eight workers beside one, after one prediction."""
    yield "| model | one worker, MB | eight, MB | ratio |"
    yield "| --- " * 4 + "|"
    os.environ["PYTHONWARNINGS"] = "ignore"  # of more workers than cores
    for path in models:
        one, eight = (once("runner", path, n)["resident"] for n in (1, 8))
        yield f"| {path.name} | {one:.0f} | {eight:.0f} | {eight / one:.3f} |"


def group(models: list[Path], options: argparse.Namespace) -> Iterator[str]:
    """Two models with the same weights in one process: an ONNX file, and the same with one node more."""
    import onnx

    yield "| model | memory | one, MB | two, MB | ratio |"
    yield "| --- " * 5 + "|"
    for path in models:
        if path.suffix != ".onnx":
            continue
        with tempfile.TemporaryDirectory() as folder:
            proto = onnx.load(path)
            old = proto.graph.output[0].name
            proto.graph.node.append(onnx.helper.make_node("Neg", [old], ["negative"]))
            proto.graph.output[0].name = "negative"
            other = Path(folder, path.name)
            onnx.save(proto, other)
            del proto
            once("model", other)
            one, two = once("model", path), once("model", path, 1, other)
        for kind in ("proportional", "resident"):
            ratio = two[kind] / one[kind]
            yield f"| {path.name} | {kind} | {one[kind]:.0f} | {two[kind]:.0f} | {ratio:.2f} |"


class Lending:
    """A master and its slaves, which live until the block ends."""

    def __init__(self, path: Path, slaves: int) -> None:
        self._stack = ExitStack()
        self.master = self._stack.enter_context(process("master", path))
        self.slaves = [self._stack.enter_context(process("slave", path)) for _ in range(slaves)]
        self.pids = [side.stdout.readline().strip() for side in self.slaves]
        self.master.stdout.readline()

    def __enter__(self) -> Lending:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def lend(self) -> str:
        """Build the master, and let the slaves borrow; gives the handle."""
        handle = json.loads(say(self.master, ",".join(self.pids)))["handle"]
        for side in self.slaves:
            side.stdin.write(f"{handle}\n")
            side.stdin.flush()
        for side in self.slaves:
            if "refused" in (answer := json.loads(side.stdout.readline())):
                raise ValueError(answer["refused"])
        return handle


def say(side: Any, line: str) -> str:
    side.stdin.write(f"{line}\n")
    side.stdin.flush()
    return side.stdout.readline()


def sharing(models: list[Path], options: argparse.Namespace) -> Iterator[str]:
    """A master and two slaves by handle, and a process that is not on the list."""
    yield "| model | weights, MB | private: master, MB | slaves, MB | of the weights |"
    yield "| --- " * 5 + "|"
    refusals = set()
    for path in models:
        once("model", path)
        with Lending(path, 2) as lending, process("slave", path) as stranger:
            stranger.stdout.readline()
            handle = lending.lend()
            refusals.add(json.loads(say(stranger, handle))["refused"].partition(": ")[2])
            sides = [lending.master, *lending.slaves]
            master, *slaves = (json.loads(say(side, ""))["private"] for side in sides)
        weights = path.stat().st_size / MEGA
        worst = max(slaves)
        yield (
            f"| {path.name} | {weights:.0f} | {master:.0f} | {min(slaves):.0f} to {worst:.0f} "
            f"| {worst / weights:.2f} |"
        )
    yield ""
    yield from (f"An unlisted process: {refusal}" for refusal in sorted(refusals))
    yield ""
    path = models[-1]
    chance = random.Random(0)
    failed = 0
    for _ in range(options.kills):
        with Lending(path, 1) as lending:
            lending.master.stdin.write(",".join(lending.pids) + "\n")
            lending.master.stdin.flush()
            time.sleep(chance.uniform(0, 0.15))
            chance.choice([lending.master, *lending.slaves]).kill()
        try:
            with Lending(path, 1) as lending:
                lending.lend()
        except ValueError:
            failed += 1
    left = Path("/proc/net/unix").read_text(encoding="ascii").count("@pinnace-")
    left += len(list((Path(os.environ["PINNACE_CACHE_DIR"]) / "new").iterdir()))
    yield f"{options.kills} masters or slaves of {path.name} killed: {failed} times the next pair failed,"
    yield f"{left} sockets, files or folders were left behind."


def kills(models: list[Path], options: argparse.Namespace) -> Iterator[str]:
    """Builders that are killed at random moments, each followed by a build that must work."""
    path = models[-1]
    cache = Path(os.environ["PINNACE_CACHE_DIR"])
    chance = random.Random(0)
    forget()
    start = time.perf_counter()
    once("model", path)
    whole = time.perf_counter() - start
    failed = left = 0
    for _ in range(options.kills):
        forget()
        with process("model", path) as running:
            time.sleep(chance.uniform(0, whole))
            running.kill()
        try:
            once("model", path)
        except ValueError:
            failed += 1
        left += len(list((cache / "new").iterdir()))
    yield f"{options.kills} builders of {path.name} killed within {whole:.1f} s:"
    yield f"{failed} builds after failed, {left} files or folders were left behind."


SECTIONS = {f.__name__: f for f in (building, processes, workers, group, sharing, kills)}

if __name__ == "__main__":
    if sys.argv[1] in ("master", "slave"):
        partner(sys.argv[1], Path(sys.argv[2]))
    else:
        child(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
