"""The fastest way to run a graph, as the profile of the machine expects it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import onnx_ir as ir

from pinnace.engines.speed.profile import MachineProfile
from pinnace.engines.speed.work import works
from pinnace.machine.cores import usable_core_count
from pinnace.options.target import Target

FP32, HALF = "enforce_fp32", "preferred_fp16"

WORTH = 0.9
"""Time over onnxruntime's below which OpenVINO is chosen: it builds more slowly, and packs weights into
memory of each process."""


class EngineChoice(NamedTuple):
    """Engine and precision for a model, and why."""

    provider: str
    precision: str
    why: str


def chosen(
    graph: ir.Graph, target: Target, precisions: Sequence[str], profile: MachineProfile
) -> EngineChoice | None:
    """Return the fastest engine and precision for the threads of a target; None if the profile has none.

    onnxruntime computes in fp32 only.
    """
    work = works(graph)
    threads = target.threads or max(1, usable_core_count() // target.parallel_requests)
    lean = profile.seconds(work, "onnxruntime", FP32, threads)
    if lean is None:
        return None
    ways = {("onnxruntime", FP32): lean}
    for precision in precisions:
        seconds = profile.seconds(work, "openvino", precision, threads)
        if seconds is not None:
            ways["openvino", precision] = seconds
    best = min(ways, key=lambda way: ways[way] * (1 if way[0] == "onnxruntime" else 1 / WORTH))
    expected = ", ".join(f"{_name(*way)} {seconds * 1e3:.3g} ms" for way, seconds in ways.items())
    return EngineChoice(*best, f"expected ({profile.origin}): {expected}")


def _name(provider: str, precision: str) -> str:
    return provider + (" in 16 bits" if precision == HALF else "")
