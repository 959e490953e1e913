"""`python -m tests.fuzz`: run trials and print what they ended in; status 1 where there was trouble."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import onnx
import onnxruntime
from tests.fuzz.batch import Result, run
from tests.fuzz.corpus import families
from tests.fuzz.trial import outcome, trial


class Summary:
    """What is known of all trials so far; each finding is printed and its file kept."""

    def __init__(self, keep: Path | None) -> None:
        self.counts: Counter[str] = Counter()
        self.findings: list[int] = []
        self.peak, self.slowest, self.began, self.keep = 0, (0.0, -1), time.monotonic(), keep
        self.largest, self.long = (0, -1), 0

    def add(self, result: Result) -> None:
        self.counts[result.outcome] += 1
        self.peak = max(self.peak, result.peak_bytes)
        self.slowest = max(self.slowest, (result.seconds, result.number))
        self.largest = max(self.largest, (result.grown_bytes, result.number))
        self.long += result.seconds > 1
        if result.trouble:
            self.findings.append(result.number)
            print(f"--- trial {result.number}\n{result.trouble}", flush=True)
            if self.keep is not None:
                case = trial(result.number)
                suffix = {"mindir": "mindir", "lite_mindir": "mindir"}.get(case.family, case.family)
                (self.keep / f"{result.number}.{suffix}").write_bytes(case.data)
        elif sum(self.counts.values()) % 5000 == 0:
            print(f"{sum(self.counts.values())} trials, {time.monotonic() - self.began:.0f} s", flush=True)

    def show(self) -> None:
        print(
            f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}, Python {sys.version.split()[0]}"
        )
        for name, family in families().items():
            print(f"{name}: {len(family.seeds)} files to damage")
        for name, count in sorted(self.counts.items()):
            print(f"{count:8} {name}")
        seconds, number = self.slowest
        print(f"{sum(self.counts.values()):8} in all, {time.monotonic() - self.began:.0f} s")
        grown, most = self.largest
        print(f"slowest: trial {number}, {seconds:.1f} s; {self.long} took more than 1 s")
        print(f"most memory: trial {most}, {grown >> 20} MiB; largest process: {self.peak >> 20} MiB")
        print(f"{len(self.findings)} in trouble: {self.findings}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--files", type=int, default=2000, help="how many files to damage and open")
    parser.add_argument("--first", type=int, default=0, help="the number of the first trial")
    parser.add_argument(
        "--engine", action="store_true", help="build the engine each time, not for one in ten"
    )
    parser.add_argument("--keep", type=Path, help="a folder for the files that are in trouble")
    parser.add_argument("--one", type=int, help="only this trial, here, with its trace")
    arguments = parser.parse_args()
    if arguments.one is not None:
        case = trial(arguments.one, arguments.engine)
        print(case.family, case.origin, len(case.data), "bytes", "with engine" if case.with_engine else "")
        print(outcome(case.data, case.model_type, case.folder, case.with_engine))
        return 0
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    families()
    summary = Summary(arguments.keep)
    run(arguments.first, arguments.files, summary.add, arguments.engine)
    summary.show()
    return bool(summary.findings)


if __name__ == "__main__":
    sys.exit(main())
