"""The fastest way to run a graph, as the profile of the machine expects it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import onnx_ir as ir

from pinnace.engines.speed.profile import MachineProfile
from pinnace.engines.speed.work import works
from pinnace.machine.cores import usable_core_count
from pinnace.machine.processor import sums_of_bytes_overflow
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

    onnxruntime computes in fp32 only. Profiles have no speed of integers: for convolutions of these OpenVINO
    takes 0.3 to 0.6 of onnxruntime's time where sums of bytes do not overflow, and is no choice elsewhere.
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
    if len(ways) > 1 and _convolves_bytes(graph):
        if not sums_of_bytes_overflow():
            return EngineChoice("openvino", precisions[0], "its convolutions of integers are faster")
        return EngineChoice("onnxruntime", FP32, "its sums of integers are exact on this CPU")
    best = min(ways, key=lambda way: ways[way] * (1 if way[0] == "onnxruntime" else 1 / WORTH))
    expected = ", ".join(f"{_name(*way)} {seconds * 1e3:.3g} ms" for way, seconds in ways.items())
    return EngineChoice(*best, f"expected ({profile.origin}): {expected}")


def _convolves_bytes(graph: ir.Graph) -> bool:
    """Return True if a convolution reads nothing but quantised tensors."""
    convolutions = (node for node in graph if node.op_type == "Conv")
    read = ([None if x is None else x.producer() for x in node.inputs[:2]] for node in convolutions)
    return any(all(n is not None and n.op_type == "DequantizeLinear" for n in nodes) for nodes in read)


def _name(provider: str, precision: str) -> str:
    return provider + (" in 16 bits" if precision == HALF else "")
