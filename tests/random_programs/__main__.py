"""`python -m tests.random_programs`: run programs, and print those that differ or are refused.

The status is 1 where one differs. Refused are programs of too many nodes, see docs/robustness.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
from tests.random_programs.generate import COUNTS, program

from pinnace import Model, ModelType
from pinnace.errors import PinnaceError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random_programs", description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--oracle", default=os.environ.get("PINNACE_ORACLE"), help="a Python with MindSpore")
    arguments = parser.parse_args()
    if not arguments.oracle:
        parser.error("an interpreter with MindSpore 2.10 is needed: --oracle PYTHON, or PINNACE_ORACLE")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(PINNACE_CACHE_DIR=f"{folder}/cache", PINNACE_CACHE_KEEP="before")
        numbers = range(arguments.first, arguments.first + arguments.count)
        _ask(arguments.oracle, Path(folder), arguments.seed, list(numbers))
        for number in numbers:
            kind = _judged(Path(folder), number)
            counts[kind.partition(":")[0]] += 1
            if kind not in ("same", "not counted"):
                print(f"--- program {number}: {kind}\n{program(arguments.seed, number)}", flush=True)
    print(f"seed {arguments.seed}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return int(counts["differs"] > 0)


def _ask(oracle: str, folder: Path, seed: int, numbers: list[int]) -> None:
    """Let MindSpore compute all programs; after one that ends its process another goes on."""
    while numbers:
        command = [oracle, "-m", "tests.random_programs.oracle", str(folder), str(seed), *map(str, numbers)]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
        )
        said = [int(line) for line in done.stdout.split() if line.isdecimal()]
        if not done.returncode or not said:
            return
        numbers = numbers[numbers.index(said[-1]) + 1 :]


def _judged(folder: Path, number: int) -> str:
    """Return "same", "not counted", or what is wrong."""
    try:
        golden = np.load(folder / f"{number}.npz")
    except FileNotFoundError:
        return "not counted"
    for way in ("built", "loaded"):  # the second time from the cache
        model = Model()
        try:
            model.build_from_file(str(folder / f"{number}.mindir"), ModelType.MINDIR)
            for call in range(len(COUNTS)):
                given = [golden[f"x{call}_{place}"] for place in range(len(model.get_inputs()))]
                results = [y.get_data_to_numpy() for y in model.predict(given)]
                wanted = [golden[f"y{call}_{place}"] for place in range(3)]
                # Rounding grows in loops; what is lost or read at another time is off by more.
                if not all(map(partial(np.allclose, rtol=1e-3, atol=1e-3), results, wanted)):
                    return f"differs: in call {call}, {way}: {results} and not {wanted}"
        except PinnaceError as error:
            return f"refused: {error}"
    return "same"


if __name__ == "__main__":
    sys.exit(main())
