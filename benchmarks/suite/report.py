"""Records as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.suite.figures import chosen, middle, share_of_allowed
from benchmarks.suite.summary import summary
from benchmarks.suite.tables import grid, table
from benchmarks.suite.turns import Record


def report(machine: Mapping[str, str], records: Sequence[Record], notes: Sequence[str]) -> str:
    """Everything: the machine, a table a section, who was left out, and what comes of it."""
    parts = ["# Pinnace beside its peers", _machine(machine, records), "## Summary", *summary(records)]
    for title, write in _SECTIONS.items():
        if tables := list(write(records)):
            parts += [f"## {title}", *tables]
    if notes:
        parts += ["## Left out", "\n".join(f"* {note}" for note in notes)]
    return "\n\n".join(parts) + "\n"


def _machine(machine: Mapping[str, str], records: Sequence[Record]) -> str:
    versions = {
        record.contestant.split()[0]: record.facts["version"]
        for record in records
        if "version" in record.facts
    }
    return table(["what", "is"], [[key, value] for key, value in {**machine, **versions}.items()])


def _figure(key: str, scale: float = 1) -> Callable[[Record], str]:
    return lambda record: _readable(middle(record, key) * scale)


def _readable(value: float) -> str:
    """Three digits, more where they stand before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _latency(records: Sequence[Record]) -> Iterator[str]:
    mine = chosen(records, "latency")
    for threads in sorted({int(record.setting["threads"]) for record in mine}):
        here = chosen(mine, "latency", threads=threads)
        full = [record for record in here if record.facts["precision"] == "fp32"]
        yield f"{threads} thread(s), fp32, milliseconds of a prediction:"
        yield grid(full, _figure("seconds", 1e3), "Pinnace over the best peer", "seconds")
        short = [record for record in here if record not in full]
        if short:
            yield f"{threads} thread(s), 16 bit, milliseconds of a prediction, and the format:"
            yield grid(short, lambda r: f"{_figure('seconds', 1e3)(r)} {r.facts['precision']}")
    if mine:
        yield "Largest difference to onnxruntime's outputs, over the largest value of the output:"
        once = [record for record in mine if record.setting == mine[0].setting]
        yield grid(once, lambda record: f"{record.facts['difference']:.0e}")


def _throughput(records: Sequence[Record]) -> Iterator[str]:
    mine = chosen(records, "throughput")
    if mine:
        yield (
            "Workers have one thread each. First predictions a second, then four figures: p50 and p99 in "
            "milliseconds; the slowest client's mean over the fastest's; and predictions a second over what "
            "the workers would make at the latency that one client alone has in the same process."
        )
    for setting in {str(record.setting): record.setting for record in mine}.values():
        here = chosen(mine, "throughput", **setting)
        workers = int(setting["workers"])
        yield f"{workers} worker(s), {setting['clients']} client(s):"
        full = [record for record in here if record.facts["precision"] == "fp32"]
        yield grid(full, _figure("rate"), "Pinnace over the best peer", "rate", larger=True)
        short = [record for record in here if record not in full]
        if short:
            yield grid(short, lambda r: f"{_figure('rate')(r)} {r.facts['precision']}")
        yield grid(here, lambda record, workers=workers: _distribution(record, workers))


def _distribution(record: Record, workers: int) -> str:
    p50, p99 = (_figure(key, 1e3)(record) for key in ("p50", "p99"))
    spread, share = middle(record, "slowest over fastest"), share_of_allowed(record, workers)
    return f"{p50}, {p99}; {spread:.2f}; {share:.2f}"


def _build(records: Sequence[Record]) -> Iterator[str]:
    for state, title in (("cold", "Nothing in the cache"), ("warm", "Built before")):
        if mine := chosen(records, "build", cache=state):
            yield f"{title}, seconds from a path to a model; in brackets the import of the library before:"
            yield grid(mine, lambda record: f"{middle(record, 'build'):.3f} ({middle(record, 'import'):.2f})")


def _memory(records: Sequence[Record]) -> Iterator[str]:
    for workers in (1, 4):
        if mine := chosen(records, "memory", workers=workers):
            yield f"{workers} worker(s), MB of a process, proportional (resident):"
            yield grid(mine, _both_kinds, "Pinnace over the best peer", "proportional")


def _both_kinds(record: Record) -> str:
    return f"{middle(record, 'proportional'):.0f} ({middle(record, 'resident'):.0f})"


def _batching(records: Sequence[Record]) -> Iterator[str]:
    if mine := chosen(records, "batching"):
        yield "Predictions a second, p50 and p99 in milliseconds, of 32 clients over 2 workers:"
        yield grid(mine, lambda record: f"{middle(record, 'rate'):.2f}; {_distribution(record, 2)}")


_SECTIONS: Mapping[str, Callable[[Sequence[Record]], Iterator[str]]] = {
    "Latency": _latency,
    "Throughput": _throughput,
    "Time to build": _build,
    "Memory": _memory,
    "Dynamic batching": _batching,
}
