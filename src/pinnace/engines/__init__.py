"""Engines: what runs a graph. How one is chosen."""

from __future__ import annotations

from pinnace.compiler.graph import Compilable
from pinnace.engines import onnxruntime
from pinnace.engines.protocol import Executable
from pinnace.errors import ArgumentValueError, DeviceUnavailableError
from pinnace.target import Target

_PROVIDERS = ("", "onnxruntime")
_MISSING = {
    "gpu": "an NVIDIA GPU with its driver, and onnxruntime with CUDA in place of onnxruntime",
    "ascend": "an Ascend device with CANN, and onnxruntime with the CANN provider in place of onnxruntime",
}


def build(graph: Compilable, target: Target) -> Executable:
    """Build a graph for a target. Raises DeviceUnavailableError or EngineError."""
    if target.device != "cpu":
        raise DeviceUnavailableError(
            f"{graph.name}: target {target.device!r} cannot run here: it needs {_MISSING[target.device]}, "
            'and this version of Pinnace runs on the processor only; use context.target = ["cpu"]'
        )
    if target.provider not in _PROVIDERS:
        raise ArgumentValueError(
            f"cpu provider {target.provider!r} is not known; choose from {', '.join(map(repr, _PROVIDERS))}"
        )
    return onnxruntime.OnnxruntimeExecutable(graph, target)
