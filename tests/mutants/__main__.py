"""`python -m tests.mutants --count 100 --seed N`: change the code in one place, and see whether a test fails.

Each change runs the tests that execute its statement: a run of the whole suite first, with coverage of the
changed modules, finds these.
Statements that run on import, such as tables, have all tests of their module; modules that only processes
run, which coverage does not see, have the tests that name or start the module. Modules whose packages are
not installed are left out. What no test notices is printed: a test is missing, or the change makes no
difference.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from compileall import compile_dir
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import SimpleQueue

from coverage import CoverageData
from tests.mutants.changes import Change, chosen

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pinnace"
FIRST = 80
"""Tests that run in a first process; most changes are noticed there."""
_LONG = 10
"""Lines of a statement, such as a table, whose words say nothing about one of its rows."""
_NEEDS = {
    "serving/ray/*.py": ("ray", "starts clusters of Ray"),
    "distributed/nccl.py": ("torch", "communicates between GPUs"),
    "distributed/mpi.py": ("mpi4py", "communicates through MPI"),
    "converter/frontends/with_tf2onnx.py": ("tf2onnx", "opens files of TensorFlow"),
    "converter/frontends/with_torch.py": ("torch", "opens files of PyTorch"),
}
"""Modules whose tests are skipped without a package, the package, and what it is for."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="**/*.py", help="the modules, a pattern below src/pinnace")
    parser.add_argument("--most", type=int, default=4000, help="tests to run for one change")
    parser.add_argument("--tests", nargs="*", default=[], help="the tests to take, all by default")
    arguments = parser.parse_args()
    changes = chosen(_modules(arguments.only), arguments.count, arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        tests = Tests(_made_map(Path(folder), changes, arguments.tests), arguments.seed)
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


def _modules(pattern: str) -> list[Path]:
    """Return the modules that can run on this machine."""
    left_out: set[Path] = set()
    for modules, (package, purpose) in _NEEDS.items():
        if find_spec(package) is None:
            print(f"left out: {modules}, which {purpose}: {package} is not installed")
            left_out.update(PACKAGE.glob(modules))
    return sorted({*PACKAGE.glob(pattern)} - left_out)


class Tests:
    """The tests of each statement."""

    def __init__(self, made: Path, seed: int) -> None:
        self._data = CoverageData(str(made))
        self._data.read()
        self._files = {name.partition("/src/")[2]: name for name in self._data.measured_files()}
        self._seed = seed

    def of(self, change: Change) -> list[str]:
        """Return the tests that execute a statement; for one that runs on import those of its module.

        Tables are read by other modules too: tests whose names say a word of the statement join these.
        """
        lines, words = self._lines(change.path), set[str]()
        # Whichever test came first imports a module, and runs what the module runs then.
        importing = set(_names(lines.get(min(lines, default=0), ())))
        found = _names(context for line in change.lines for context in lines.get(line, ()))
        if importing.issuperset(found):
            words = _words(change)
            found = _names(context for contexts in lines.values() for context in contexts)
            found = sorted({*found, *self._that_say(words)}) or self._that_name(change.path)
        random.Random(self._seed).shuffle(found)
        inside = change.path.relative_to(PACKAGE)
        room, beside = f"tests/{inside.parts[0]}/", f"test_{inside.stem}"

        def order(name: str) -> tuple[bool, ...]:
            says_it = any(word in name.lower() for word in words)
            return beside not in name, not says_it, not name.startswith(room)

        return sorted(found, key=order)

    def _that_say(self, words: set[str]) -> list[str]:
        every = _names(self._data.measured_contexts())
        return [name for name in every if any(word in name.lower() for word in words)]

    def _lines(self, module: Path) -> dict[int, list[str]]:
        return self._data.contexts_by_lineno(self._files.get(str(module.relative_to(ROOT / "src")), ""))

    def _that_name(self, module: Path) -> list[str]:
        """Return the files of tests that name a module, and the tests that execute a line which does."""
        room, stem = module.relative_to(PACKAGE).parts[0], module.stem
        named = re.compile(rf"\b{room}\b.*\b{stem}\b|(?<!\.)\b{stem}\b(?=[.(])|from \.{stem}\b")
        found = {name for name, text in self._texts.items() if named.search(text)}
        for path in PACKAGE.rglob("*.py"):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if path != module and named.search(line):
                    found.update(_names(self._lines(path).get(number, ())))
        return sorted(found) or [f"tests/{room}"]

    @cached_property
    def _texts(self) -> dict[str, str]:
        files = (ROOT / "tests").rglob("test_*.py")
        return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}


def _names(contexts: Iterable[str]) -> list[str]:
    return sorted({context.rpartition("|")[0] for context in contexts if "::" in context})


def _words(change: Change) -> set[str]:
    """Return the words of a statement, which tests of a row of a table often have in their names."""
    lines = change.path.read_text(encoding="utf-8").splitlines()[change.lines[0] - 1 : change.lines[-1]]
    text = "\n".join(lines) if len(lines) < _LONG else change.text
    return {word.lower() for word in re.findall(r"[A-Za-z]{4,}", text)}


def _is_noticed(change: Change, tests: list[str], copy: Path) -> bool:
    """Return True if a test fails with the change that passes without it."""
    place = copy / change.path.relative_to(ROOT)
    for part in (tests[:FIRST], tests[FIRST:]):
        while part:
            place.write_text(change.apply(), encoding="utf-8")
            try:
                failed = _first_failure(part, copy)
            finally:
                shutil.copy(change.path, place)
            if failed is None:
                break
            again = _first_failure([failed] if failed in part else part, copy)
            if again is None or failed not in (*part, again):
                return True
            if failed not in part:  # nor do the tests end without the change
                break
            part = [test for test in part if test != failed]
    return False


def _first_failure(tests: list[str], copy: Path) -> str | None:
    """Return the first test that fails; a text that is no test's name if pytest does not end."""
    names = copy / "names.txt"
    names.write_text("\n".join(tests), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-m", "pytest", "-x", "-rfE", "-p", "no:cacheprovider", f"@{names}"]
    try:
        run = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=600, check=False, text=True
        )
    except subprocess.TimeoutExpired:
        return "no end"
    if run.returncode > 1:
        print(run.stdout[-500:], run.stderr[-500:], file=sys.stderr)
    if run.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", run.stdout, re.MULTILINE)
    return found[1] if found else "no test"


def _copied(folder: Path) -> Path:
    """Copy the project, compiled in such a way that a change is seen whatever its time."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    compile_dir(folder / "src", quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    return folder


def _made_map(folder: Path, changes: Iterable[Change], tests: list[str]) -> Path:
    """Run tests with coverage of the changed modules, and return the file with what each executed.

    Other modules are not traced, which would take three times as long.
    """
    config, made = folder / "coveragerc", folder / "coverage"
    included = "\n    ".join(sorted({str(change.path) for change in changes}))
    config.write_text(f"[run]\ninclude =\n    {included}\n", encoding="utf-8")
    options = ["-n", "auto", "--cov", f"--cov-config={config}", "--cov-context=test", "--cov-report="]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"COVERAGE_FILE": str(made)}, check=False)
    return made


def _shown(change: Change) -> str:
    return str(change).replace(f"{ROOT}/", "")


if __name__ == "__main__":
    sys.exit(main())
