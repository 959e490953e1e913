"""Which engine a model gets, and the reasons that are told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pinnace.building.choosing import is_open
from pinnace.log import INFO, Log
from pinnace.options.table import MEMORY
from pinnace.options.target import Target

if TYPE_CHECKING:
    from pinnace.cache.choices import Tuning
    from pinnace.engines.protocol import Engine

_log = Log("pinnace.build")


def is_onnxruntime(engine: Engine) -> bool:
    """Return True for onnxruntime, with any provider."""
    return engine.name.startswith("onnxruntime")


def no_sixteen_bits(engine: Engine) -> str:
    """Return why an engine computes in float32 although 16 bits are preferred."""
    from pinnace.machine.processor import sixteen_bit_type

    kind = sixteen_bit_type()
    if kind is None:
        return "this CPU computes in no 16-bit type"
    return f"{engine.name} does not use the {kind} of this CPU, as openvino does"


def why(target: Target, tuning: Tuning | None) -> str:
    """Return the reason for the engine of a target, "" if the model decides."""
    if target.device != "cpu":
        return f"the target is {target.device}"
    if target.provider:
        return "measured by pinnace tune" if tuning else "context.cpu.provider"
    if target.prefer == MEMORY:
        return "prefer = memory"
    return "" if is_open(target) else "the only engine"


def with_provider(target: Target, tuning: Tuning | None) -> Target:
    """Set the engine that was measured as the fastest, if the target leaves it open."""
    if tuning is None or target.provider or target.device != "cpu":
        return target
    best = tuning.best("", target.precision, target.threads, target.parallel_requests)
    if best is None:
        return target
    message = f"{tuning.model} was tuned: the fastest is {best}, at {best.latency:.3f} ms"
    _log.event(INFO, "tuned", message, model=tuning.model, engine=best.provider, milliseconds=best.latency)
    return replace(target, provider=best.provider)


def why_not_shared(engine: Engine, target: Target) -> str:
    """Return why models and processes cannot share weights with an engine; "" if they can."""
    if target.device != "cpu":
        return f"no engine can share weights of models on {target.device} devices"
    if is_onnxruntime(engine):
        return ""
    return (
        f"{engine.name} packs a copy of the weights for each model; onnxruntime shares them "
        f"(context.cpu.provider, or [common_context] prefer = memory)"
    )
