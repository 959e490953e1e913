"""Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.suite.figures import OURS, best_peer, contestants_of, models_of, of_model, ratio
from benchmarks.suite.turns import Record


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, figures to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def grid(
    records: Sequence[Record],
    show: Callable[[Record], str],
    extra: str = "",
    key: str = "",
    larger: bool = False,
) -> str:
    """Models down, contestants across; at the end the ratio to the best peer where `key` names a figure."""
    names = contestants_of(records)
    rows = []
    for model in models_of(records):
        found = of_model(records, model)
        row = [model, *(show(found[name]) if name in found else "" for name in names)]
        if key:
            peer = best_peer(found.values(), key, larger)
            both = OURS in found and peer is not None
            row += [f"**{ratio(found[OURS], peer, key)}** {peer.contestant}" if both else ""]
        rows.append(row)
    return table(["model", *names, *([extra] if key else [])], rows)
