"""Random calls of MindSpore's functions: what MindSpore computes, and what Pinnace does on each engine.

    python -m tests.random_calls --count 5000 --seed 1 --oracle PYTHON

PYTHON, or the environment variable PINNACE_ORACLE, is an interpreter with MindSpore 2.10. What fails is computed
again by itself, made smaller, and printed as a line of `tools/with_mindspore/goldens_random.py`. A seed and a number give the same
case again, whatever else is excluded or was run before. The status is 1 where something failed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from tests.random_calls.cases import Case
from tests.random_calls.growing import Grower, request
from tests.random_calls.shrink import shrunk, tidy
from tests.random_calls.worker import Worker
from tests.zoo.talk import Failed

_SAID = 40
"""After how many cases a run says how far it is."""


class Run:
    """One run; `passed` counts cases by engine, `refused` those that MindSpore does not export."""

    def __init__(self, options: argparse.Namespace, folder: Path, stack: ExitStack) -> None:
        self._options, self._folder = options, folder
        command = [options.oracle, "-m", "tests.random_calls.oracle", str(folder)]
        self._oracle = stack.enter_context(Worker(command, folder / "oracle.log", requests=8000))
        self._engines = {
            name: [
                stack.enter_context(
                    Worker(
                        [sys.executable, "-m", "tests.random_calls.ours", str(folder), name],
                        folder / f"{name}.log",
                        requests=2000,
                    )
                )
                for _ in ("compiles", "loads what was compiled")
            ]
            for name in options.engines.split(",")
        }
        found = self._oracle.ask({"do": "catalog"})["functions"]
        self._grower = Grower(found, self._oracle, options.seed, options.only)
        self.passed: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.failed: list[str] = []
        self._seen: set[tuple[str, str]] = set()

    def all(self) -> None:
        """Run until enough cases were compared, or those that were asked for."""
        numbers = iter(self._options.numbers)
        done, began = 0, time.monotonic()
        while done < self._options.count and (number := next(numbers, None)) is not None:
            case, name = self._grower.case(number), f"random_{self._options.seed}_{number}"
            if case is None:
                continue
            if not self._exported(case, name):
                self.refused[case.steps[-1].call] += 1
                self._grower.unexported(case)
                continue
            self._compare(name, case)
            done += 1
            if done % _SAID == 0:
                took = time.monotonic() - began
                print(f"{done} cases, {len(self.failed)} failed, {took:.0f} s", file=sys.stderr, flush=True)

    def _exported(self, case: Case, name: str) -> bool:
        """Whether MindSpore exports a case, whose files are there then."""
        try:
            return "refused" not in self._oracle.ask({"do": "export", **request(case, name)})
        except Failed:
            return False

    def _compare(self, name: str, case: Case) -> None:
        failed = False
        for engine in self._engines:
            wrong = self._wrong(engine, name)
            if wrong:
                wrong = self._confirmed(engine, name, case)
            self.passed[engine] += not wrong
            if wrong and not failed:  # on the other engine it mostly is the same
                failed = True
                self._fail(engine, name, case, wrong)
        for file in self._folder.glob(f"{name}.*"):
            if self._options.record:
                shutil.copy(file, self._options.record)
            file.unlink()

    def _wrong(self, engine: str, name: str) -> str:
        try:
            for kept, worker in enumerate(self._engines[engine]):
                wrong = worker.ask({"name": name, "kept": bool(kept)})["wrong"]
                if wrong:
                    return f"{wrong}{', from the compile cache' * kept}"
            return ""
        except Failed as error:
            return f"crashed: {error}"

    def _confirmed(self, engine: str, name: str, case: Case) -> str:
        """What is wrong with a case that a new process of MindSpore exports and compiles by itself."""
        self._oracle.end()  # MindSpore's results may depend on what a process computed before
        try:
            made = self._oracle.ask({"do": "make", **request(case, name)})
        except Failed:
            return ""
        return "" if "refused" in made else self._wrong(engine, name)

    def _fail(self, engine: str, name: str, case: Case, wrong: str) -> None:
        """Report a case, made smaller; one whose cause seems to be known is only counted."""
        self.failed.append(name)
        kind = wrong.partition(":")[0]
        if any((kind, step.call) in self._seen for step in case.steps):
            print(f"# {engine}: {wrong[:120]}: {name}, which calls what failed before", flush=True)
            return

        def fails(smaller: Case) -> bool:
            return self._exported(smaller, name) and self._wrong(engine, name).startswith(kind)

        small = tidy(case)
        small = shrunk(small, fails, self._options.tries) if fails(small) else case
        confirmed = self._confirmed(engine, name, small)
        if not confirmed:  # it fails only where it is not compiled
            small, confirmed = case, self._confirmed(engine, name, case)
        wrong = confirmed or wrong
        self._seen.update((kind, step.call) for step in small.steps[-1:])
        print(f"# {engine}: {wrong}\n{small.golden(name)}\n", flush=True)
        if self._options.keep:
            for suffix in (".mindir", ".npz"):
                shutil.copy(self._folder / f"{name}{suffix}", self._options.keep)

    def show(self) -> None:
        """Say what came of all."""
        called = sum(1 for n in self._grower.worked.values() if n)
        print(f"{called} functions called; MindSpore did not export {sum(self.refused.values())} cases")
        print("passed: " + ", ".join(f"{n} on {engine}" for engine, n in self.passed.items()))
        print(f"failed: {len(self.failed)}")


def _numbers(text: str) -> Iterable[int]:
    return itertools.count(int(text[:-1])) if text.endswith("-") else map(int, text.split(","))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.random_calls", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many cases to compare")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--numbers",
        type=_numbers,
        default="0-",
        help="the numbers of the cases: N,N,... for those of random_SEED_N alone, N- for those from N on",
    )
    parser.add_argument(
        "--tries", type=int, default=30, help="how often to try to make a failing case smaller"
    )
    parser.add_argument("--only", default="", help="a regular expression: functions that are called")
    parser.add_argument("--engines", default="onnxruntime,openvino")
    parser.add_argument("--keep", type=Path, help="a folder for the files of what failed")
    parser.add_argument(
        "--record",
        type=Path,
        help="a folder for the files of all cases: tests.random_calls.files runs them again",
    )
    parser.add_argument("--oracle", default=os.environ.get("PINNACE_ORACLE"), help="a Python with MindSpore")
    options = parser.parse_args()
    if not options.oracle or shutil.which(options.oracle) is None:
        parser.error("an interpreter with MindSpore 2.10 is needed: --oracle PYTHON, or PINNACE_ORACLE")
    for folder in filter(None, (options.keep, options.record)):
        folder.mkdir(parents=True, exist_ok=True)
    return options


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        run = Run(options, Path(folder), stack)
        run.all()
        run.show()
        return bool(run.failed)


if __name__ == "__main__":
    sys.exit(main())
