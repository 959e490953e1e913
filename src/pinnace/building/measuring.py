"""Measurement of a model on both engines, by the helper that keeps it.

The engines take turns on made-up inputs. What counts is the processor's time of one thread: the helper runs
when nobody else wants the cores. Medians of ratios differ by 2 % from run to run on a busy machine, ratios of
the least times by 6 %.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from statistics import median

import numpy as np

from pinnace.building.build import is_whole
from pinnace.building.choosing import with_choice
from pinnace.building.spec import Spec, Stages, built_in_memory
from pinnace.engines.choice import Choice
from pinnace.errors import PinnaceError
from pinnace.quantization.accuracy import deviation
from pinnace.types import Array, Port

WORTH = 0.95
"""Time over onnxruntime's below which OpenVINO is kept: it packs weights into memory of each process."""

_BETWEEN, _BETWEEN_AT_MOST = 0.6, 0.1
"""Milliseconds, and the part of a request's time, that a pool's worker waits for Python between two requests
on onnxruntime; OpenVINO's queue has the next one. Two workers with MobileNetV2 take 0.88 of onnxruntime's
time there, where one takes 1.03, ResNet-50 1.05 and 1.03."""

_SECONDS, _LEAST, _MOST = 3.0, 3, 200
"""Time of all turns of an engine, and their number."""

_ALIKE = 0.2
"""Relative error of OpenVINO's results up to which it may be kept. Networks in fp32 have 2e-6, in 16 bits up
to 0.03, MobileNetV2 in 8 bits 0.05; what OpenVINO computes wrongly has mostly more."""

DIFFERENT = "openvino's results differ from onnxruntime's"

_TURN = 5.0
"""Milliseconds of a turn; at least one prediction."""


def measured(spec: Spec, candidates: Sequence[Choice], in_pool: bool) -> Choice:
    """Return the candidate that a measurement speaks for; the first one, with the reason, if one fails.

    OpenVINO must have onnxruntime's results.
    """
    by_engine = {one.provider: one for one in candidates}
    try:
        with ExitStack() as stack:
            calls = {name: call(with_choice(spec, one), stack) for name, one in by_engine.items()}
            error = deviation(calls["openvino"](), calls["onnxruntime"]())
            if error > _ALIKE:
                why = f"{DIFFERENT} by {error:.2g} of their length"
                return by_engine["onnxruntime"]._replace(why=f"measured when it was kept: {why}")
            times = in_turns(calls, _SECONDS, _MOST)
    except (PinnaceError, MemoryError) as error:
        first = candidates[0]
        return first._replace(why=f"{first.why}; not measured: {str(error).partition(chr(10))[0]}")
    waits = min(_BETWEEN / median(times["onnxruntime"]), _BETWEEN_AT_MOST) if in_pool else 0.0
    faster = "openvino" if ratio(times) < WORTH * (1 + waits) else "onnxruntime"
    figures = ", ".join(f"{name} {median(turns):.3g} ms" for name, turns in sorted(times.items()))
    return by_engine[faster]._replace(why=f"measured when it was kept, on one thread: {figures}")


def call(spec: Spec, stack: ExitStack) -> Callable[[], list[Array]]:
    """Return a function that predicts on made-up inputs, until `stack` closes."""
    executable = built_in_memory(spec, Stages())
    assert is_whole(executable)  # one rank's part has one candidate
    stack.callback(executable.close)
    inputs = [_made_up(port) for port in executable.inputs]
    execution = executable.execution()
    return lambda: execution.run(inputs)


def _made_up(port: Port) -> Array:
    """Return random numbers for floats; ones for integers, which may be indices or a mask."""
    kind = port.dtype.to_numpy()
    if np.dtype(kind).kind == "f":
        return np.random.default_rng(0).random(port.shape, np.float32).astype(kind)
    return np.ones(port.shape, kind)


def in_turns(calls: Mapping[str, Callable[[], object]], seconds: float, most: int) -> dict[str, list[float]]:
    """Return the milliseconds of each call in each turn, of at most so many in so many `seconds` each."""
    for run in calls.values():
        run()
    counts = {name: max(1, int(_TURN / max(_taken(run, 1), 1e-3))) for name, run in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    spent = 0.0
    for turn in range(most):
        if turn >= _LEAST and spent > seconds * 1e3 * len(calls):
            break
        for name, run in calls.items():
            times[name].append(_taken(run, counts[name]))
            spent += times[name][-1] * counts[name]
    return times


def _taken(run: Callable[[], object], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        run()
    return (time.process_time() - start) * 1e3 / count


def ratio(times: Mapping[str, Sequence[float]]) -> float:
    """Return OpenVINO's time over onnxruntime's: the median over turns."""
    return median(b / a for a, b in zip(times["onnxruntime"], times["openvino"], strict=True))
