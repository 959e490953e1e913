"""What is measured."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.suite.environments import LeftOut
from benchmarks.suite.material import Entrant, Material
from benchmarks.suite.talk import Failed
from benchmarks.suite.turns import Field, Notes, Record

SHORT = "16 bit"
BATCHED = "bert_free"
"""The model whose first dimension is free."""


@dataclass
class Plan:
    """What to run, with whom, and for how long."""

    entrants: list[Entrant]
    models: list[str]
    folder: Path
    rounds: int
    seconds: float
    threads: list[int]
    workers: list[int]
    clients: list[int]
    notes: Notes = field(default_factory=Notes)

    def materials(self) -> Iterator[Material]:
        """The models in turn."""
        for name in self.models:
            print(f"{name} ...", file=sys.stderr, flush=True)
            yield Material(name, self.folder)

    @property
    def pools(self) -> list[Entrant]:
        """Those that serve many clients."""
        return [entrant for entrant in self.entrants if entrant.peer.pools]


def latency(plan: Plan) -> Iterator[Record]:
    """One caller, one prediction after the other."""
    for material in plan.materials():
        for threads in plan.threads:
            with Field(
                material, plan.entrants + _shorts(plan.entrants), plan.notes, threads=threads
            ) as contestants:
                setting = {"threads": threads}
                yield from contestants.measure(
                    "latency", setting, plan.rounds, "latency", seconds=plan.seconds
                )


def _shorts(entrants: list[Entrant]) -> list[Entrant]:
    """The same in 16 bits, of those that can."""
    able = ("pinnace", "openvino")
    return [replace(one, precision=SHORT) for one in entrants if one.peer.name in able]


def throughput(plan: Plan) -> Iterator[Record]:
    """Many clients over a pool of workers of one thread each."""
    entrants = plan.pools + _shorts(plan.pools)
    for material in plan.materials():
        for workers in plan.workers:
            with Field(material, entrants, plan.notes, workers=workers) as contestants:
                for clients in plan.clients:
                    setting = {"workers": workers, "clients": clients}
                    asked = {"clients": clients, "seconds": 4 * plan.seconds}
                    yield from contestants.measure(
                        "throughput", setting, max(3, plan.rounds // 2), "throughput", **asked
                    )


def build(plan: Plan) -> Iterator[Record]:
    """From a path to a model that can predict: with an empty cache, and again with what that one left."""
    for material in plan.materials():
        found: dict[tuple[str, str], list[dict[str, float]]] = {}
        for _ in range(max(3, plan.rounds // 3)):
            for entrant in plan.entrants:
                try:
                    for state, answer in zip(("cold", "warm"), _builds(material, entrant), strict=True):
                        found.setdefault((state, entrant.name), []).append(answer)
                except LeftOut as reason:
                    plan.notes.add(f"{entrant.name}, {material.name}", reason)
        for (state, name), answers in found.items():
            yield Record("build", material.name, {"cache": state}, name, answers)


def _builds(material: Material, entrant: Entrant) -> Iterator[dict[str, float]]:
    """Two processes that build with the same cache, which is empty before."""
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(2):
            with material.opened(entrant, cache=cache) as (_, answer):
                yield answer


def memory(plan: Plan) -> Iterator[Record]:
    """Of a process with a pool of workers of one thread, all of which have predicted."""
    for material in plan.materials():
        for workers in (1, 4):
            for entrant in plan.pools:
                try:
                    with material.opened(entrant, workers=workers):
                        pass  # who keeps what was compiled has it now
                    with material.opened(entrant, workers=workers) as (contestant, facts):
                        answer = contestant.ask("memory", clients=workers)
                except (LeftOut, Failed) as reason:
                    plan.notes.add(f"{entrant.name}, {material.name}", reason)
                    continue
                setting = {"workers": workers}
                yield Record("memory", material.name, setting, entrant.name, [answer], facts)


def batching(plan: Plan) -> Iterator[Record]:
    """Predictions that wait together computed together, or one by one: BERT, 2 workers, 32 clients."""
    ours = [entrant for entrant in plan.entrants if entrant.is_ours]
    batches = [replace(e, options=(("max_batch_size", size),)) for e in ours for size in ("4", "8")]
    material = Material(BATCHED, plan.folder)
    with Field(material, ours + batches, plan.notes, workers=2) as contestants:
        setting = {"workers": 2, "clients": 32}
        asked = {"clients": 32, "seconds": 8 * plan.seconds}
        yield from contestants.measure("batching", setting, max(3, plan.rounds // 2), "throughput", **asked)


SECTIONS: dict[str, Callable[[Plan], Iterator[Record]]] = {
    section.__name__: section for section in (latency, throughput, build, memory, batching)
}
