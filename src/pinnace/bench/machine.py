"""Measurement of a machine's profile: the time of samples on each engine, by precision and threads."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np

from pinnace.bench.rewritten import gains
from pinnace.bench.samples import Sample, samples
from pinnace.bench.timing import Call, collector_off
from pinnace.compiler.graph import compilable
from pinnace.engines import installed, named
from pinnace.engines.speed.profile import PICO, MachineProfile, Row, built_in, rate
from pinnace.engines.speed.work import NodeWork, works
from pinnace.errors import PinnaceError
from pinnace.machine.cores import usable_core_count
from pinnace.machine.processor import sixteen_bit_type
from pinnace.options.target import Target

Way = tuple[str, str, int]
"""Engine, precision, and number of threads."""

_TURNS, _TURN = 2, 0.008  # seconds

_ROWS = ("erf", "product", "vector")
"""Classes of work that take long beside a call, and have no layouts that the ends of a chain change."""

_FACTORS = Path(__file__).with_name("factors.json")

_Found = dict[Way, dict[str, list[Row]]]


def ways() -> list[Way]:
    """Return the ways to measure: engines and precisions on one thread and on all usable cores."""
    precisions = [("onnxruntime", "enforce_fp32")]
    if "openvino" in installed():
        precisions += [("openvino", "enforce_fp32")]
        precisions += [("openvino", "preferred_fp16")] if sixteen_bit_type() else []
    threads = sorted({1, usable_core_count()})
    return [(*precision, count) for count in threads for precision in precisions]


def measure(
    ways: Sequence[Way], watch: Callable[[str], None], brief: bool = False, rules: bool = True
) -> MachineProfile:
    """Measure all samples in each way, and what `rules` gain.

    A `brief` profile has the first sample of each class of work, and the rules of the table. `watch` receives
    the class of work or the rule that is next.
    """
    found: _Found = {way: {} for way in ways}
    known: set[str] = set()
    with collector_off():
        for sample in samples():
            if brief and sample.kind in known:
                continue
            known.add(sample.kind)
            watch(sample.kind)
            work, times = _difference(sample.whole() if brief or sample.kind in _ROWS else sample, ways)
            for way, seconds in times.items():
                _note(found[way], sample, work, seconds / PICO)
        threads = sorted({way[2] for way in ways})
        gained = built_in().rules if brief or not rules else gains(threads, chain, watch)
    rates = {way: _in_networks(way, one) for way, one in found.items()}
    return MachineProfile("measured on this machine", rates, gained)


def _in_networks(way: Way, rates: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return rates as they are within networks, where caches hold the data of other nodes."""
    own = factors().get(factors_name(way), {})
    return {kind: [(size, one * own.get(kind, 1.0)) for size, one in rows] for kind, rows in rates.items()}


@cache
def factors() -> dict[str, dict[str, float]]:
    """Read the time of a class of work within networks over that of its sample, by `factors_name`.

    They are those of 27 networks on a Xeon with AMX; `python -m benchmarks prediction --fit` makes such
    factors from networks, and shows the errors.
    """
    found: dict[str, dict[str, float]] = json.loads(_FACTORS.read_text(encoding="utf-8"))
    return found


def factors_name(way: Way) -> str:
    """Return the name of a way's factors: engine, precision, and "1" or "n" threads."""
    return f"{way[0]} {way[1]} {1 if way[2] == 1 else 'n'}"


def _difference(sample: Sample, ways: Sequence[Way]) -> tuple[list[NodeWork], dict[Way, float]]:
    """Return the work and the seconds of the parts that the longer chain of a sample has more."""
    first, work = _times(sample, 1, ways), works(sample.model(1).graph)
    if not sample.times:
        return work, first
    more = _times(sample, 1 + sample.times, list(first))
    rest = works(sample.model(1 + sample.times).graph)[len(work) :]
    return rest, {way: seconds - first[way] for way, seconds in more.items()}


def _note(rates: dict[str, list[Row]], sample: Sample, work: Sequence[NodeWork], time: float) -> None:
    """Add what the time of a sample, in picoseconds, says of its class of work."""
    if sample.kind in ("call", "node"):
        rates[sample.kind] = [((), max(time / (len(work) if sample.times else 1), 1.0))]
        return
    own = [one for one in work if one.kind == sample.kind]
    known = sum(rate(rates, one.kind, one.size) * one.amount for one in work if one.kind != sample.kind)
    known += rate(rates, "node") * len(work) + (0 if sample.times else rate(rates, "call"))
    left = max(time - known, abs(time) / 100)  # noise must not become negative
    rates.setdefault(sample.kind, []).append((own[0].size, left / sum(one.amount for one in own)))


def _times(sample: Sample, count: int, ways: Sequence[Way]) -> dict[Way, float]:
    """Return the seconds of a chain; without the ways in which an engine lacks an operator.

    One way is open at a time, because threads of another engine would spin for a while.
    """
    found = {}
    for way in ways:
        engine, precision, threads = way
        target = Target(provider=engine, precision=precision, threads=threads)
        with suppress(PinnaceError):
            found[way] = chain(sample, count, target)
    return found


def chain(sample: Sample, count: int, target: Target) -> float:
    """Return the seconds of a chain of a sample. Raises as `Engine.build` does."""
    x = np.random.default_rng(0).random(sample.shape, np.float32)
    executable = named(target.provider).build(compilable(sample.model(count), sample.kind, None), target)
    execution = executable.execution()
    try:
        return min(_turn(lambda: execution.run([x])) for _ in range(_TURNS))
    finally:
        executable.close()


def _turn(call: Call) -> float:
    """Return the median seconds of a call, after one that does not count."""
    call()
    times: list[float] = []
    end = time.perf_counter() + _TURN
    while time.perf_counter() < end or not times:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times)
