"""Random calls of MindSpore's functions: what MindSpore computes, and what Pinnace does on each engine.

    python -m tests.random_calls --count 5000 --seed 1 --oracle PYTHON

PYTHON, or the environment variable PINNACE_ORACLE, is an interpreter with MindSpore 2.10. What fails is computed
again by itself, made smaller, and printed as a line of `tools/goldens_random.py`; the same seed gives the same
calls. The status is 1 where something failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.random_calls.cases import Case
from tests.random_calls.growing import Grower, request
from tests.random_calls.shrink import shrunk, tidy
from tests.random_calls.worker import Ended, Worker

_BATCH = 40
"""Cases that are exported together: most of an export's time does not depend on how many there are."""


class Run:
    """One run; `passed` counts cases by engine, `refused` those that MindSpore does not export."""

    def __init__(self, options: argparse.Namespace, folder: Path, stack: ExitStack) -> None:
        self._options, self._folder = options, folder
        command = [options.oracle, "-m", "tests.random_calls.oracle", str(folder)]
        self._oracle = stack.enter_context(Worker(command, folder / "oracle.log", requests=8000))
        self._engines = {
            name: stack.enter_context(
                Worker(
                    [sys.executable, "-m", "tests.random_calls.ours", str(folder), name],
                    folder / f"{name}.log",
                    requests=2000,
                )
            )
            for name in options.engines.split(",")
        }
        found = self._oracle.ask({"do": "catalogue"})["functions"]
        chosen = [f for f in found if re.search(options.only, f["name"])]
        self._grower = Grower(chosen, self._oracle, options.seed)
        self.passed: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.failed: list[str] = []
        self._seen: set[tuple[str, str]] = set()

    def all(self) -> None:
        """Run until enough cases were compared."""
        number, done, began = self._options.first, 0, time.monotonic()
        while done < self._options.count:
            batch: dict[str, Case] = {}
            while len(batch) < min(_BATCH, self._options.count - done):
                case = self._grower.case(number)
                if case is not None:
                    batch[f"random_{self._options.seed}_{number}"] = case
                number += 1
            made = self._exported(batch)
            for name in made:
                self._compare(name, batch[name])
            done += len(made)
            print(
                f"{done} cases, {len(self.failed)} failed, {time.monotonic() - began:.0f} s",
                file=sys.stderr,
                flush=True,
            )

    def _exported(self, batch: dict[str, Case], count: bool = True) -> list[str]:
        """The names of the cases whose files are there; what MindSpore refuses, where it does not say, is found by halves."""
        asked = {"do": "export", "cases": [request(case, name) for name, case in batch.items()]}
        try:
            answer = self._oracle.ask(asked)
        except Ended as error:
            answer = {"refused": str(error)}
        if "refused" not in answer:
            return list(batch)
        if not count:
            return []
        names = list(batch)
        culprits = [names[i] for i in answer.get("culprits", ())] or names[: len(names) == 1]
        for name in culprits:
            self.refused[batch[name].steps[-1].call] += 1
            self._grower.unexported(batch[name])
        if culprits:
            left = {n: batch[n] for n in names if n not in culprits}
            return self._exported(left) if left else []
        half = len(names) // 2
        parts = ({n: batch[n] for n in part} for part in (names[:half], names[half:]))
        return [name for part in parts for name in self._exported(part)]

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
        for suffix in (".mindir", ".npz", ".moved.npz"):
            (self._folder / f"{name}{suffix}").unlink(missing_ok=True)

    def _wrong(self, engine: str, name: str) -> str:
        try:
            return self._engines[engine].ask({"name": name})["wrong"]
        except Ended as error:
            return f"crashed: {error}"

    def _confirmed(self, engine: str, name: str, case: Case) -> str:
        """What is wrong with a case that MindSpore exports and compiles by itself."""
        try:
            made = self._oracle.ask({"do": "make", **request(case, name)})
        except Ended:
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
            made = self._exported({name: smaller}, count=False)
            return bool(made) and self._wrong(engine, name).startswith(kind)

        small = tidy(case)
        small = shrunk(small, fails, self._options.tries) if fails(small) else case
        wrong = self._confirmed(engine, name, small) or wrong
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


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.random_calls", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many cases to compare")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument(
        "--tries", type=int, default=30, help="how often to try to make a failing case smaller"
    )
    parser.add_argument("--only", default="", help="a regular expression: functions that are called")
    parser.add_argument("--engines", default="onnxruntime,openvino")
    parser.add_argument("--keep", type=Path, help="a folder for the files of what failed")
    parser.add_argument("--oracle", default=os.environ.get("PINNACE_ORACLE"), help="a Python with MindSpore")
    options = parser.parse_args()
    if not options.oracle or shutil.which(options.oracle) is None:
        parser.error("an interpreter with MindSpore 2.10 is needed: --oracle PYTHON, or PINNACE_ORACLE")
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
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
