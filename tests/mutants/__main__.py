"""`python -m tests.mutants --count 100 --seed N`: change the code in one place, and see whether a test fails.

Each change runs the tests that execute its statement: a run of the whole suite with coverage finds these.
Statements that run on import, such as tables, have all tests of their module. What no test notices is
printed: a test is missing, or the change makes no difference.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from coverage import CoverageData
from tests.mutants.changes import Change, chosen

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pinnace"
FIRST = 80
"""Tests that run in a first process; most changes are noticed there."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="**/*.py", help="the modules, a pattern below src/pinnace")
    parser.add_argument("--most", type=int, default=1500, help="tests to run for one change")
    parser.add_argument("--map", type=Path, default=ROOT / ".coverage", help="of coverage; made if missing")
    arguments = parser.parse_args()
    if not arguments.map.exists():
        _make_map(arguments.map)
    tests = Tests(arguments.map, arguments.seed)
    changes = chosen(sorted(PACKAGE.glob(arguments.only)), arguments.count, arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(arguments.jobs):
            copies.put(_copied(Path(folder, str(number))))

        def one(change: Change) -> bool:
            copy = copies.get()
            try:
                noticed = _is_noticed(change, tests.of(change)[: arguments.most], copy)
            finally:
                copies.put(copy)
            print("noticed" if noticed else "SURVIVED", _shown(change), flush=True)
            return noticed

        with ThreadPoolExecutor(arguments.jobs) as threads:
            noticed = sum(threads.map(one, changes))
    print(f"{noticed} of {len(changes)} noticed, seed {arguments.seed}")
    return noticed < len(changes)


class Tests:
    """The tests of each statement."""

    def __init__(self, made: Path, seed: int) -> None:
        self._data = CoverageData(str(made))
        self._data.read()
        self._files = {name.partition("/src/")[2]: name for name in self._data.measured_files()}
        self._seed = seed

    def of(self, change: Change) -> list[str]:
        """Return the tests that execute a statement; for one that runs on import those of its module."""
        inside = change.path.relative_to(ROOT / "src")
        lines = self._data.contexts_by_lineno(self._files.get(str(inside), ""))
        found = _names(context for line in change.lines for context in lines.get(line, ()))
        found = found or _names(context for contexts in lines.values() for context in contexts)
        random.Random(self._seed).shuffle(found)
        room = f"tests/{inside.parts[1]}/"
        beside = f"test_{inside.stem}"
        return sorted(found, key=lambda name: (beside not in name, not name.startswith(room)))


def _names(contexts: Iterable[str]) -> list[str]:
    return sorted({context.partition("|")[0] for context in contexts if "::" in context})


def _is_noticed(change: Change, tests: list[str], copy: Path) -> bool:
    place = copy / change.path.relative_to(ROOT)
    place.write_text(change.apply(), encoding="utf-8")
    try:
        return not _pass(tests[:FIRST], copy) or (bool(tests[FIRST:]) and not _pass(tests[FIRST:], copy))
    finally:
        shutil.copy(change.path, place)


def _pass(tests: list[str], copy: Path) -> bool:
    """Return True if tests pass; no tests do."""
    if not tests:
        return True
    names = copy / "names.txt"
    names.write_text("\n".join(tests), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", f"@{names}"]
    try:
        run = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=1800, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if run.returncode > 1:
        print(run.stdout.decode()[-500:], run.stderr.decode()[-500:], file=sys.stderr)
    return run.returncode == 0


def _copied(folder: Path) -> Path:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    return folder


_UNCOVERED = "tests/serving/test_pool.py::test_a_signal_at_any_moment_costs_no_worker"
"""A test whose signals may come while coverage holds its own lock, and then wait for ever."""


def _make_map(file: Path) -> None:
    options = ["-n", "auto", "--cov=pinnace", "--cov-context=test", "--cov-report=", "--deselect", _UNCOVERED]
    command = [sys.executable, "-m", "pytest", *options]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"COVERAGE_FILE": str(file)}, check=False)


def _shown(change: Change) -> str:
    return str(change).replace(f"{ROOT}/", "")


if __name__ == "__main__":
    sys.exit(main())
