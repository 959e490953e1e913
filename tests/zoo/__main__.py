"""Run the zoo: for each network MindSpore and Pinnace in turn, then the page of what came of it."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.zoo import environment, page
from tests.zoo.catalog import ENTRIES, Entry
from tests.zoo.talk import Answer, Failed, Side

from pinnace.cache.store import OFF

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "pinnace-zoo"


def main() -> None:
    options = _options()
    work: Path = options.work.absolute()
    (work / "results").mkdir(parents=True, exist_ok=True)
    python = environment.oracle(work, options.oracle)
    chosen = [e for e in ENTRIES.values() if _matches(e.name, options.patterns)]
    for entry in chosen:
        result = run(entry, work, python, options)
        (work / "results" / f"{entry.name}.json").write_text(json.dumps(result, indent=1))
        print(page.row(entry, result), flush=True)
    results = {p.stem: json.loads(p.read_text()) for p in (work / "results").glob("*.json")}
    if options.page:
        written = options.page.read_text("utf-8") if options.page.exists() else ""
        others = "".join(written.partition("\n## Random calls")[1:])  # sections on other suites stay
        options.page.write_text(page.page(results) + others, encoding="utf-8")
    print(page.summary(results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="networks to run, such as 'resnet*'; all without")
    parser.add_argument("--oracle", help="a Python with MindSpore and mindcv; without, one is made")
    parser.add_argument("--mindyolo", type=Path, help="a checkout of mindyolo; without, one is made")
    parser.add_argument("--work", type=Path, default=CACHE, help="where files are made and found again")
    parser.add_argument("--page", type=Path, help="the page to write of all results in --work")
    parser.add_argument(
        "--rounds", type=int, default=5, help="how often the sides take turns for their times"
    )
    parser.add_argument("--seconds", type=float, default=600, help="what a side may take for a step")
    return parser.parse_args()


def _matches(name: str, patterns: list[str]) -> bool:
    return not patterns or any(fnmatch.fnmatch(name, p) for p in patterns)


def run(entry: Entry, work: Path, python: str, options: argparse.Namespace) -> Answer:
    """What came of one network: counts, errors, times in seconds; or what went wrong, and on which side."""
    models = work / "models"
    models.mkdir(exist_ok=True)
    file, goldens = models / f"{entry.name}.mindir", models / f"{entry.name}.npz"
    command = [python, "-m", "tests.zoo.oracle", entry.name, str(models)]
    if entry.source.startswith("mindyolo"):
        command.append(str(environment.mindyolo(work, options.mindyolo)))
    with ExitStack() as stack:
        oracle = stack.enter_context(_side(command, models / f"{entry.name}.oracle.log"))
        try:
            result: Answer = {"oracle": oracle.next(options.seconds)}
        except Failed as failure:
            return {"oracle": {"failed": str(failure)}}
        if "failed" in result["oracle"]:
            return result
        sides = {"oracle": oracle}
        cache = stack.enter_context(tempfile.TemporaryDirectory())
        onnx = file.with_suffix(".onnx")
        # The third is another process, which loads from the compile cache what the second has written.
        ways = ("ours", file, OFF), ("written", file, cache), ("loaded", file, cache), ("onnx", onnx, OFF)
        for name, path, used in ways:
            if not path.exists():
                continue
            mine = [sys.executable, "-m", "tests.zoo.ours", str(path), str(goldens)]
            log = models / f"{entry.name}.{name}.log"
            sides[name] = stack.enter_context(_side(mine, log, used))
            try:
                result[name] = sides[name].next(options.seconds)
            except Failed as failure:
                result[name] = {"failed": f"{failure}: {_last_line(models / f'{entry.name}.{name}.log')}"}
            if "error" not in result[name] or used != OFF:
                del sides[name]
        result["seconds"] = in_turn(sides, options.rounds, options.seconds)
        return result


def in_turn(sides: dict[str, Side], rounds: int, seconds: float) -> dict[str, float]:
    """Median time of each side, which take turns, so that a drift of the machine meets all."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name, side in sides.items():
            taken = side.ask(seconds)["seconds"]
            if turn:  # the first is thrown away
                times[name].append(taken)
    return {name: statistics.median(taken) for name, taken in times.items()}


def _side(command: list[str], log: Path, cache: str = OFF) -> Side:
    """A side on one core, the same for all sides, with one thread."""
    core = str(max(os.sched_getaffinity(0)))
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    settings = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOG_v": "3"}
    settings |= {"PINNACE_CACHE_DIR": cache, "PINNACE_CACHE_KEEP": "before"}
    return Side(["taskset", "--cpu-list", core, *command], log, os.environ | settings)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


if __name__ == "__main__":
    main()
