"""`python -m tests.requests`: send fuzzed requests, print what came of them; 1 where some is in trouble."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter

from tests.requests import batch
from tests.requests.models import prepare, subject
from tests.requests.trial import Progress, Tally, described, tried

_PER_MODEL, _PER_NETWORK = 256, 16
_NETWORK = 50_000  # bytes of a file
ALL_FRESH = "glibc.malloc.tcache_count=0"
"""malloc marks no memory that it takes from these caches."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.requests", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="how many requests the engine has to get")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--cases", type=int, default=1 << 30, help="how many cases at the most")
    parser.add_argument("--engine", choices=("onnxruntime", "openvino"), default="onnxruntime")
    parser.add_argument("--one", type=int, help="only this case, in this process")
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(_one(arguments, arguments.one, lambda *sent: print(sent[0], described(sent[1]), flush=True)))
        return 0
    prepare()
    return _run(arguments)


def _one(arguments: argparse.Namespace, number: int, progress: Progress) -> Tally:
    found = subject(arguments.seed, number, fixed=arguments.engine == "openvino")  # it gets no others
    count = _PER_NETWORK if len(found.model) > _NETWORK else _PER_MODEL
    return tried(found, arguments.engine, count, [arguments.seed, number], progress)


def _run(arguments: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    began, bad = time.monotonic(), 0
    numbers = range(arguments.first, arguments.first + arguments.cases)
    for number, tally in batch.run(numbers, lambda number, progress: _one(arguments, number, progress)):
        counts[f"models: {tally.engine}"] += 1
        counts["requests answered"] += tally.answered
        counts["requests refused"] += tally.refused
        bad += len(tally.findings)
        for text in tally.findings[:3]:
            print(f"--- case {number}: {text}", flush=True)
        if counts["requests answered"] + counts["requests refused"] >= arguments.count:
            break
    print(f"seed {arguments.seed}, {arguments.engine}, {time.monotonic() - began:.0f} s:")
    for name, count in sorted(counts.items()):
        print(f"{count:9} {name}")
    print(f"{bad:9} in trouble")
    return bool(bad)


if __name__ == "__main__":
    if os.environ.get("GLIBC_TUNABLES") != ALL_FRESH:  # malloc reads it when a process starts
        os.environ["GLIBC_TUNABLES"] = ALL_FRESH
        os.execv(sys.executable, [sys.executable, "-m", "tests.requests", *sys.argv[1:]])
    sys.exit(main())
