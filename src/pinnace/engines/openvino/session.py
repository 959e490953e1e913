"""OpenVINO's core and compiled models."""

from __future__ import annotations

import os
from functools import cache

import openvino as ov

from pinnace.engines.forks import never_freed_by_forks
from pinnace.engines.openvino.conversion import FAILURES as FAILURES
from pinnace.errors import EngineError
from pinnace.machine.cores import bound
from pinnace.options.target import Target

NAME = f"openvino {ov.__version__.partition('-')[0]}"

LOST_BY_FORK = (
    "openvino: this process was forked from one that has used openvino, and lacks its threads; fork before "
    "openvino is used, start processes by spawn, or use provider onnxruntime"
)

_forked = False


def _note_fork() -> None:
    global _forked
    _forked = core.cache_info().currsize > 0


os.register_at_fork(after_in_child=_note_fork)


@cache
def core() -> ov.Core:
    """Return the core of this process, which owns threads and kernels."""
    return never_freed_by_forks(ov.Core())


def properties(target: Target) -> dict[str, int | str]:
    """Return OpenVINO's properties for a target. A stream runs one request, on threads of its own."""
    streams = target.parallel_requests
    return {
        "INFERENCE_NUM_THREADS": target.threads_of_request * streams,
        "NUM_STREAMS": streams,
        "INFERENCE_PRECISION_HINT": sixteen_bit() if target.precision == "preferred_fp16" else "f32",
        "ENABLE_CPU_PINNING": False,
        "PERF_COUNT": target.profile,
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,  # inputs are not rounded where weights have 8 bits
    }


def sixteen_bit() -> str:
    """Return the 16-bit type in which this CPU computes; "f32" if there is none."""
    capabilities = core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return next((kind.lower() for kind in ("BF16", "FP16") if kind in capabilities), "f32")


def narrows(target: Target) -> bool:
    return target.precision == "preferred_fp16" and sixteen_bit() == "bf16"


def compiled(model: ov.Model | ov.Tensor, target: Target) -> ov.CompiledModel:
    """Compile a model or load an exported one, with threads on the target's cores.

    Raises EngineError in a forked child whose parent has used OpenVINO, as it lacks the threads.
    """
    if _forked:
        raise EngineError(LOST_BY_FORK)
    make = core().compile_model if isinstance(model, ov.Model) else core().import_model
    with bound(target.cores):  # threads inherit the cores of the one that starts them
        return never_freed_by_forks(make(model, "CPU", properties(target)))
