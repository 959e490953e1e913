"""The profile of a machine: what each class of work costs on each engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from pinnace.bench.samples import Sample, samples
from pinnace.compiler.graph import compilable
from pinnace.engines import named
from pinnace.engines.costs import rate
from pinnace.engines.work import Work, works
from pinnace.errors import PinnaceError
from pinnace.options.target import Target

_TURN, _TURNS = 0.008, 3

Way = tuple[str, str, int]

def measure(ways, watch=None):
    found = {way: {} for way in ways}
    for sample in samples():
        first = _times(sample, 1, ways)
        if sample.times:
            more = _times(sample, 1 + sample.times, first)
            work = works(sample.model(1 + sample.times).graph)[len(works(sample.model(1).graph)):]
            times = {way: more[way] - first[way] for way in more}
        else:
            work, times = works(sample.model(1).graph), first
        for way, seconds in times.items():
            _note(found[way], sample, work, seconds)
        if watch: watch(sample, work, times)
    return found


def _note(rates, sample, work, seconds) -> None:
    """Add what the time of a sample says of the class of work that is measured by it."""
    if sample.name == "call":
        rates["call"] = [((), seconds)]
        return
    if sample.name == "node":
        rates["node"] = [((), max(seconds, 1e-7) / len(work))]
        return
    left = seconds - (0 if sample.times else rate(rates, "call")) - rate(rates, "node") * len(work)
    left -= sum(rate(rates, one.kind, one.size) * one.amount for one in work if one.kind != sample.name)
    own = [one for one in work if one.kind == sample.name]
    amount = sum(one.amount for one in own)
    rates.setdefault(sample.name, []).append((own[0].size, max(left, seconds / 100, 1e-9) / amount))


def _times(sample: Sample, count: int, ways):
    x = np.random.default_rng(0).random(sample.shape, np.float32)
    found = {}
    for way in ways:
        engine, precision, threads = way
        target = Target(provider=engine, precision=precision, threads=threads)
        try:
            executable = named(engine).build(compilable(sample.model(count), sample.name, None), target)
        except PinnaceError:
            continue
        run = executable.execution().run
        found[way] = min(_turn(lambda: run([x])) for _ in range(_TURNS))
        executable.close()
    return found


def _turn(run) -> float:
    run()
    times = []
    end = time.perf_counter() + _TURN
    while time.perf_counter() < end or not times:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return median(times)
