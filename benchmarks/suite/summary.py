"""What comes of the figures: Pinnace over the best peer of the same run, and the goals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.suite.figures import (
    OURS,
    best_peer,
    chosen,
    geometric_mean,
    middle,
    models_of,
    of_model,
    ratio,
    share_of_allowed,
)
from benchmarks.suite.tables import table
from benchmarks.suite.turns import Record

SHORT = f"{OURS} 16 bit"


def summary(records: Sequence[Record]) -> Iterator[str]:
    """A paragraph or a table for each goal that was measured."""
    for part in (_latency, _short, _throughput, _fairness, _memory, _batching):
        yield from part(records)


def _latency(records: Sequence[Record]) -> Iterator[str]:
    mine = chosen(records, "latency")
    ratios, rows = [], []
    for threads in sorted({int(record.setting["threads"]) for record in mine}):
        here = [r for r in chosen(mine, "latency", threads=threads) if r.facts["precision"] == "fp32"]
        for model in models_of(here):
            found = of_model(here, model)
            peer = best_peer(found.values(), "seconds")
            if OURS in found and peer:
                ratios.append((against := ratio(found[OURS], peer, "seconds")).middle)
                engine = found[OURS].facts.get("engine", "")
                rows.append([model, str(threads), str(against), peer.contestant, engine])
    if ratios:
        yield "Latency in fp32, Pinnace over the best peer: the median over rounds, and their range."
        yield table(["model", "threads", "ratio", "best peer", "engine in Pinnace"], rows)
        yield (
            f"Geometric mean {geometric_mean(ratios):.3f} (goal: at most 0.97), largest {max(ratios):.3f} "
            f"(goal: at most 1.05)."
        )


def _short(records: Sequence[Record]) -> Iterator[str]:
    mine = chosen(records, "latency")
    ratios, rows = [], []
    for record in (r for r in mine if r.contestant == SHORT):
        same = of_model(chosen(mine, "latency", **record.setting), record.model)
        full = [other for other in same.values() if other.facts["precision"] == "fp32"]
        if peer := best_peer(full, "seconds"):
            ratios.append((against := ratio(record, peer, "seconds")).middle)
            lost = f"{record.facts['difference']:.1e}"
            rows.append([record.model, str(record.setting["threads"]), str(against), peer.contestant, lost])
    if rows:
        yield "Latency in 16 bits over the best peer's in fp32, and the largest relative difference:"
        yield table(["model", "threads", "ratio", "best peer", "difference"], rows)
        yield f"Geometric mean {geometric_mean(ratios):.3f} (goal: at most 0.60)."
    elif mine:
        yield "Pinnace computed nothing in 16 bits: see what was left out."


def _throughput(records: Sequence[Record]) -> Iterator[str]:
    mine = chosen(records, "throughput", workers=2, clients=5)
    rows = []
    for model in models_of(mine):
        every = of_model(mine, model)
        for name in (OURS, SHORT):
            if ours := every.get(name):
                peers = {key: r for key, r in every.items() if key.endswith("16 bit") == (name == SHORT)}
                share, engine = f"{share_of_allowed(ours, 2):.2f}", ours.facts.get("engine", "")
                rate = _over(peers, name, "rate", larger=True)
                rows.append([model, ours.facts["precision"], rate, _over(peers, name, "p99"), share, engine])
    if rows:
        yield (
            "Two workers, five clients, Pinnace over the best peer of each figure (goals: predictions a "
            "second at least 1.0, p99 at most 1.1); and predictions a second over what two workers would "
            "make at the latency that one client alone has in the same process (goal: at least 0.97)."
        )
        head = [
            "model",
            "computes in",
            "predictions a second",
            "p99",
            "of what is allowed",
            "engine in Pinnace",
        ]
        yield table(head, rows)


def _over(found: dict[str, Record], ours: str, key: str, larger: bool = False) -> str:
    peer = best_peer(found.values(), key, larger)
    return f"{ratio(found[ours], peer, key)} {peer.contestant}" if peer else ""


def _fairness(records: Sequence[Record]) -> Iterator[str]:
    mine = [r for r in chosen(records, "throughput", clients=32) if r.contestant == OURS]
    if mine:
        worst = max(middle(record, "slowest over fastest") for record in mine)
        yield (
            f"With 32 clients the slowest client's mean latency is at most {worst:.2f} times the fastest's "
            f"(goal: 1.3)."
        )


def _memory(records: Sequence[Record]) -> Iterator[str]:
    mine = chosen(records, "memory", workers=4)
    pairs = [
        (model, middle(found[OURS], "proportional") / middle(found["mindspore_lite"], "proportional"))
        for model in models_of(mine)
        if {OURS, "mindspore_lite"} <= (found := of_model(mine, model)).keys()
    ]
    if pairs:
        each = ", ".join(f"{model} {value:.2f}" for model, value in pairs)
        yield f"Memory with four workers over mindspore_lite's (goal: at most 0.6): {each}."


def _batching(records: Sequence[Record]) -> Iterator[str]:
    mine = {record.contestant: record for record in chosen(records, "batching")}
    batched = [record for name, record in mine.items() if name != OURS]
    if OURS in mine and batched:
        best = max(batched, key=lambda record: middle(record, "rate"))
        gain = ratio(best, mine[OURS], "rate")
        yield f"Dynamic batching, {best.contestant}: {gain} times the throughput (goal: at least 1.15)."
