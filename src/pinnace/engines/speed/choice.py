"""The fastest way to run a graph, as the profile of the machine expects it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import onnx_ir as ir

from pinnace.engines.speed.profile import MachineProfile
from pinnace.engines.speed.work import CONVOLUTIONS, NodeWork, works
from pinnace.machine.cores import usable_core_count
from pinnace.machine.processor import features, sums_of_bytes_overflow
from pinnace.options.target import Target

FP32, HALF = "enforce_fp32", "preferred_fp16"

WORTH = 0.94
"""Time over onnxruntime's below which OpenVINO is chosen: it builds more slowly, and packs weights into
memory of each process. With 0.9 choices for 27 networks cost 1.5 % over the better engine, with this 0.7."""

_WORTH_IN_POOLS = 0.97
"""The same for several requests at a time, which share the memory."""

_BETWEEN, _BETWEEN_AT_MOST = 0.6e-3, 0.1
"""Seconds, and the part of a request's time, that a pool's worker waits for Python between two requests on
onnxruntime; OpenVINO's queue has the next one. Two workers with MobileNetV2 take 0.88 of onnxruntime's time
there, where one takes 1.03, ResNet-50 1.05 and 1.03."""

MORE_THREADS = 0.95
"""Time over that of one thread below which more are used: they take the cores from others."""

HALVED = "weights16"
"""The form (`pinnace.quantising`) in which OpenVINO holds the weights of products in float16."""

_HALVED = {"vector": 0.65, "product": 1.5}
"""Time with such weights over OpenVINO's in fp32, of products with few rows and with many: measured with AVX2
and AVX-512, from 4 to 500 MB of weights (0.3 to 0.68 and 0.7 to 1.5)."""

_ROUNDER = 1.05
"""Time over that with such weights up to which they are better than bfloat16 everywhere: a step of GPT-2 errs
by 0.0006 in place of 0.013."""


Way = tuple[str, str, str]
"""Engine, precision and form."""


class EngineChoice(NamedTuple):
    """Engine, precision, number of threads and form for a model, and why.

    The form is "" for the model as it is.
    """

    provider: str
    precision: str
    threads: int
    why: str
    form: str = ""


def chosen(
    graph: ir.Graph, target: Target, ways: Sequence[Way], profile: MachineProfile
) -> EngineChoice | None:
    """Return the fastest of some ways; None if the profile has none.

    One thread competes with the target's if that may have fewer; models with free dimensions get all, as
    requests may be large. onnxruntime computes in fp32 only. Profiles have no speed of integers: for
    convolutions of these OpenVINO takes 0.4 to 0.95 of its time where sums of bytes do not overflow, and
    is no choice elsewhere; for products of many rows 0.66 with AMX, 0.9 to 1.4 without.
    """
    work = works(graph)
    threads = target.threads or max(1, usable_core_count() // target.parallel_requests)
    counts = sorted({threads, 1} if target.fewer_threads and _is_fixed(graph) else {threads})
    times = {
        (way, count): seconds
        for way in ways
        for count in counts
        if (seconds := _seconds(work, way, count, profile)) is not None
    }
    if not times:
        return None
    if len({engine for (engine, *_), _ in times}) > 1 and _in_bytes(work):
        exact = sums_of_bytes_overflow()
        engine, precision, _ = next(way for way in ways if way[0] == ("onnxruntime" if exact else "openvino"))
        why = "its sums of integers are exact on this CPU" if exact else "its kernels for integers are faster"
        return EngineChoice(engine, precision, threads, why)
    pool = target.parallel_requests > 1
    best = min(times, key=lambda one: _cost(times[one], one[0], one[1], pool))
    (engine, precision, form), count = best
    expected = ", ".join(
        _name(*way) + (f" on {n} thread(s)" if counts[1:] else "") + f" {seconds * 1e3:.3g} ms"
        for (way, n), seconds in times.items()
    )
    return EngineChoice(engine, precision, count, f"expected ({profile.origin}): {expected}", form)


def _seconds(work: Sequence[NodeWork], way: Way, threads: int, profile: MachineProfile) -> float | None:
    """Return the expected time of a way; None if nothing is known of it, or its form changes nothing."""
    engine, precision, form = way
    if form == HALVED:
        if all(one.kind != "vector" for one in work):
            return None
        work = [one._replace(amount=one.amount * _HALVED.get(one.kind, 1)) for one in work]
    return profile.seconds(work, engine, precision, threads)


def _is_fixed(graph: ir.Graph) -> bool:
    return all(isinstance(size, int) for value in graph.inputs for size in value.shape or (None,))


def _in_bytes(work: Sequence[NodeWork]) -> bool:
    """Return True if most convolutions, or with AMX most products of many rows, are of integers."""
    kinds = CONVOLUTIONS | ({"product"} if "amx_int8" in features() else set())
    whole = [one.integers for one in work if one.kind in kinds]
    return sum(whole) > len(whole) / 2


def _cost(seconds: float, way: Way, threads: int, pool: bool) -> float:
    """Return the time by which ways are compared, with handicaps for memory, cores and rounding."""
    provider, precision, _ = way
    if threads > 1:
        seconds /= MORE_THREADS
    if provider == "onnxruntime":
        return seconds + (min(_BETWEEN, _BETWEEN_AT_MOST * seconds) if pool else 0.0)
    return seconds * (_ROUNDER if precision == HALF else 1.0) / (_WORTH_IN_POOLS if pool else WORTH)


def _name(provider: str, precision: str, form: str) -> str:
    bits = " in 16 bits" if precision == HALF else ""
    return provider + (" with weights of 16 bits" if form == HALVED else bits)
