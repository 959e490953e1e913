"""`python -m tests.random_graphs`: run cases and print what came of them; status 1 where one failed."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
from tests.random_graphs import files, runner
from tests.random_graphs.dress import Case
from tests.random_graphs.generate import case
from tests.random_graphs.judge import Turn, Verdict, judge
from tests.random_graphs.oracle import run
from tests.random_graphs.shrink import shrunk

BAD = ("different", "refused", "crashed", "hung")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random_graphs", description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("onnxruntime", "openvino"), default="onnxruntime")
    parser.add_argument(
        "--form", choices=("onnx", "mindir", "ms"), default="onnx", help="what is converted first"
    )
    parser.add_argument("--quantized", action="store_true", help="quantized models alone")
    parser.add_argument("--rules", choices=("on", "off", "both"), default="on")
    parser.add_argument("--keep", type=Path, help="a folder for what failed, shrunk")
    parser.add_argument("--verbose", action="store_true", help="say why cases do not count")
    arguments = parser.parse_args()
    failed = 0
    for rules in {"on": (True,), "off": (False,), "both": (True, False)}[arguments.rules]:
        failed += _run(arguments, rules)
    return bool(failed)


def _run(arguments: argparse.Namespace, rules: bool) -> int:
    counts: Counter[str] = Counter()
    began = time.monotonic()

    numbers = range(arguments.first, arguments.first + arguments.count)
    with tempfile.TemporaryDirectory() as cache:
        first = Turn(arguments.engine, rules, cache, form=arguments.form)
        for turn, number, verdict in runner.both_turns(numbers, partial(_case, arguments), first):
            counts[verdict.kind] += 1
            counts[f"ran on {verdict.engine}"] += bool(verdict.engine)
            where = f"case {number}{', from the cache' * turn.loads}"
            if verdict.kind == "uncounted" and arguments.verbose:
                print(f"--- {where}: {verdict.text[:300]}", flush=True)
            if verdict.kind in BAD:
                print(f"--- {where}: {verdict.kind}: {verdict.text}", flush=True)
                if arguments.keep is not None:
                    _keep(arguments, number, turn, verdict)
    print(f"seed {arguments.seed}, {arguments.form}, {arguments.engine}, rules {'on' if rules else 'off'}:")
    for name, count in sorted(counts.items()):
        print(f"{count:8} {name}")
    print(f"{sum(counts[k] for k in ('same', *BAD)):8} counted, {time.monotonic() - began:.0f} s")
    return sum(counts[kind] for kind in BAD)


def _expected(case: Case) -> dict[str, np.ndarray]:
    return dict(zip((o.name for o in case.model.graph.output), run(case.model, case.feed), strict=True))


def _case(arguments: argparse.Namespace, number: int) -> Case:
    # What OpenVINO makes of NaN and of large integers docs/engines.md says; MindSpore's operators differ there, too.
    tame = arguments.engine == "openvino" or arguments.form != "onnx"
    return case(arguments.seed, number, tame, arguments.quantized)


def _keep(arguments: argparse.Namespace, number: int, turn: Turn, verdict: Verdict) -> None:
    whole = _case(arguments, number)

    def trial(smaller: Case, rules: bool = turn.rules) -> Verdict:
        with tempfile.TemporaryDirectory() as cache:
            asked = Turn(turn.engine, rules, cache, form=turn.form)
            found = runner.alone(partial(judge, smaller, asked))
            return runner.alone(partial(judge, smaller, asked._replace(loads=True))) if turn.loads else found

    small, verdict = shrunk(whole, verdict, trial)
    without = trial(small, rules=False)
    arguments.keep.mkdir(parents=True, exist_ok=True)
    files.write(arguments.keep / f"{arguments.engine}_{arguments.seed}_{number}", small, _expected(small))
    print(files.described(small))
    print(f"    {verdict.kind}: {verdict.text}\n    without rules: {without.kind}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
