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


HALVED = "weights16"
"""The form (`pinnace.quantising`) in which OpenVINO holds the weights of products in float16."""

_HALVED = {"vector": 0.65, "product": 1.5}
"""Time with such weights over OpenVINO's in fp32, of products with few rows and with many: measured with AVX2
and AVX-512, from 4 to 500 MB of weights (0.3 to 0.68 and 0.7 to 1.5)."""

_ROUNDER = 1.05
"""Time over that with such weights up to which they are better than bfloat16 everywhere: a step of GPT-2 errs
by 0.0006 in place of 0.013."""


class EngineChoice(NamedTuple):
    """Engine, precision and form for a model, and why; the form is "" for the model as it is."""

    provider: str
    precision: str
    why: str
    form: str = ""


def chosen(
    graph: ir.Graph, target: Target, precisions: Sequence[str], profile: MachineProfile, halves: bool = False
) -> EngineChoice | None:
    """Return the fastest engine and precision for the threads of a target; None if the profile has none.

    With `halves` OpenVINO may hold weights in float16. onnxruntime computes in fp32 only. Profiles have no
    speed of integers: for convolutions of these OpenVINO takes 0.3 to 0.6 of onnxruntime's time where sums of
    bytes do not overflow, and is no choice elsewhere.
    """
    work = works(graph)
    threads = target.threads or max(1, usable_core_count() // target.parallel_requests)
    lean = profile.seconds(work, "onnxruntime", FP32, threads)
    if lean is None:
        return None
    ways = {("onnxruntime", FP32, ""): lean}
    for precision in precisions:
        seconds = profile.seconds(work, "openvino", precision, threads)
        if seconds is not None:
            ways["openvino", precision, ""] = seconds
    if halves and ("openvino", FP32, "") in ways and any(one.kind == "vector" for one in work):
        narrow = [one._replace(amount=one.amount * _HALVED.get(one.kind, 1)) for one in work]
        ways["openvino", FP32, HALVED] = profile.seconds(narrow, "openvino", FP32, threads) or lean
    if len(ways) > 1 and _convolves_bytes(graph):
        if not sums_of_bytes_overflow():
            return EngineChoice("openvino", precisions[0], "its convolutions of integers are faster")
        return EngineChoice("onnxruntime", FP32, "its sums of integers are exact on this CPU")
    provider, precision, form = min(ways, key=lambda way: ways[way] * _handicap(*way))
    expected = ", ".join(f"{_name(*way)} {seconds * 1e3:.3g} ms" for way, seconds in ways.items())
    return EngineChoice(provider, precision, f"expected ({profile.origin}): {expected}", form)


def _convolves_bytes(graph: ir.Graph) -> bool:
    """Return True if a convolution reads nothing but quantised tensors."""
    convolutions = (node for node in graph if node.op_type == "Conv")
    read = ([None if x is None else x.producer() for x in node.inputs[:2]] for node in convolutions)
    return any(all(n is not None and n.op_type == "DequantizeLinear" for n in nodes) for nodes in read)


def _handicap(provider: str, precision: str, form: str) -> float:
    """Return what the time of a way is multiplied by when ways are compared."""
    if provider == "onnxruntime":
        return 1.0
    return (_ROUNDER if precision == HALF else 1.0) / WORTH


def _name(provider: str, precision: str, form: str) -> str:
    bits = " in 16 bits" if precision == HALF else ""
    return provider + (" with weights of 16 bits" if form == HALVED else bits)
