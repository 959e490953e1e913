"""Pinnace and its peers, side by side in one run.

    python -m benchmarks suite [--quick] [--models M,N] [--sections S,T] [--out FOLDER]

Every contestant is a process with one library and one model. All of them stay alive and take turns, A B A B,
so that a drift of the machine meets everybody; figures are medians over rounds, and ratios are taken round by
round. Everybody has the same networks (random weights, `benchmarks/models`), the same inputs, and the same
task: numpy arrays in, numpy arrays out. Outputs are compared with onnxruntime's.

The peers live in environments that are made on first use in the folder of `--peers`, where the models and
what converters make of them are kept too (6 GB; whoever changes `benchmarks/models` deletes them). A peer
that cannot be installed, or does not run a model, is left out, and the report says why.

FOLDER gets the report (suite.md), every figure of every round (suite.json), and a plot (suite.svg).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.models import INPUTS
from benchmarks.suite.environments import PEERS, PINNACE, LeftOut, interpreter
from benchmarks.suite.machine import describe
from benchmarks.suite.material import Entrant
from benchmarks.suite.plot import plot
from benchmarks.suite.report import report
from benchmarks.suite.sections import BATCHED, SECTIONS, Plan
from benchmarks.suite.turns import Notes, Record

MODELS = [name for name in INPUTS if name != BATCHED]


def main(arguments: list[str]) -> None:
    options = _parser().parse_args(arguments)
    machine, notes = describe(), Notes()
    entrants = [Entrant(PINNACE, Path(sys.executable)), *_peers(options, notes)]
    plan = Plan(
        entrants, options.models, options.peers / "models",
        rounds=options.rounds or (3 if options.quick else 15),
        seconds=options.seconds or (0.2 if options.quick else 0.5),
        threads=options.threads, workers=options.workers, clients=options.clients, notes=notes,
    )  # fmt: skip
    records: list[Record] = []
    for section in options.sections:
        print(f"-- {section}", file=sys.stderr, flush=True)
        for record in SECTIONS[section](plan):
            records.append(record)
            _write(options.out, machine, records, notes)  # a run that is broken off has told what it knows
    print(_write(options.out, machine, records, notes))
    _draw(records, options.out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kept = Path(tempfile.gettempdir(), "pinnace-benchmarks")
    add = parser.add_argument
    add("--quick", action="store_true", help="fewer and shorter rounds: minutes, and rough")
    add("--models", type=_some(MODELS), default=MODELS, help=", ".join(MODELS))
    add("--sections", type=_some(list(SECTIONS)), default=list(SECTIONS), help=", ".join(SECTIONS))
    add("--contestants", type=_some(list(PEERS)), default=list(PEERS), help=", ".join(PEERS))
    add("--peers", type=lambda text: Path(text).absolute(), default=kept, help="environments and models")
    add("--python", type=_pair, action="append", default=[], metavar="PEER=PATH",
        help="an interpreter that has a peer, in place of an environment of the suite")  # fmt: skip
    add("--out", type=Path, default=Path("benchmark-results"), help="folder of the results")
    add("--rounds", type=int, help="15, quick 3; throughput has half as many, building a third")
    add("--seconds", type=float, help="of a turn: 0.5, quick 0.2; throughput lasts four times as long")
    add("--threads", type=_numbers, default=[1, 2], help="of the latency: 1,2")
    add("--workers", type=_numbers, default=[2], help="of the throughput: 2, or 1,2,4")
    add("--clients", type=_numbers, default=[1, 5, 32], help="of the throughput: 1,5,32")
    return parser


def _some(known: list[str]):
    """Names with commas between, of those that are known."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(known)}")
        return names

    return parse


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _pair(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if name not in PEERS or not path:
        raise argparse.ArgumentTypeError(f"{text}: PEER=PATH, where PEER is one of {', '.join(PEERS)}")
    return name, Path(path)


def _peers(options: argparse.Namespace, notes: Notes) -> list[Entrant]:
    """The peers that were asked for, and that this machine can have."""
    given, entrants = dict(options.python), []
    for name in options.contestants:
        try:
            python = given.get(name) or interpreter(PEERS[name], options.peers / "environments")
            entrants.append(Entrant(PEERS[name], python))
        except LeftOut as reason:
            notes.add(name, reason)
    return entrants


def _write(out: Path, machine: dict[str, str], records: list[Record], notes: Notes) -> str:
    """The report, which is also written to files beside the figures."""
    out.mkdir(parents=True, exist_ok=True)
    raw = {"machine": machine, "left out": notes.lines, "records": [record.as_dict() for record in records]}
    (out / "suite.json").write_text(json.dumps(raw, indent=1), encoding="utf-8")
    text = report(machine, records, notes.lines)
    (out / "suite.md").write_text(text, encoding="utf-8")
    return text


def _draw(records: list[Record], out: Path) -> None:
    try:
        plot(records, out / "suite.svg")
    except ImportError:
        print("no plot: it needs matplotlib (pip install matplotlib)", file=sys.stderr)
