"""The engine and precision of a model whose context leaves the engine open, and the reasons for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinnace import engines
from pinnace.building.spec import Spec, Stages, is_onnxruntime, lowered
from pinnace.engines.choice import Choice, by_default
from pinnace.log import INFO, Log
from pinnace.options.table import FIRST, MEMORY
from pinnace.options.target import Target

if TYPE_CHECKING:
    from pinnace.cache.tuning import Tuning
    from pinnace.engines.protocol import Engine

_log = Log("pinnace.build")


def is_open(target: Target) -> bool:
    """Return True if the model decides which engine runs it, or with how many threads."""
    on_cpu = target.device == "cpu" and not (target.simulates or target.shared_workspace)
    return on_cpu and (target.fewer_threads or len(_providers(target)) > 1)


def _providers(target: Target) -> list[str]:
    if target.provider:
        return [target.provider]
    return ["onnxruntime"] if target.prefer == MEMORY else list(engines.installed())


def with_choice(spec: Spec, choice: Choice) -> Spec:
    target = spec.target._replace(precision=choice.precision, threads=choice.threads, form=choice.form)
    return spec._replace(engine=engines.named(choice.provider), target=target, is_open=False)


def choices_for(spec: Spec, stages: Stages) -> tuple[Sequence[Choice], bool]:
    """Return the choice for an open spec, then that for the other engine, which may be faster.

    The second result is True if they are new; a choice that the cache remembers is alone. The graph by which
    they were made is left in `stages`. Raises as `lowered` does.
    """
    remembered = spec.cache.engine_choice(choice_key(spec))
    if remembered:
        return [Choice(**remembered)], False
    return candidates(spec, stages), True


def choice_key(spec: Spec) -> tuple[str, ...]:
    """Return all of an open spec that the choice depends on."""
    target = spec.target
    return (
        *(target.provider, target.prefer, target.precision, str(target.fewer_threads)),
        *(str(target.threads), str(target.parallel_requests), target.input_shape),
        *(target.output_type, repr(spec.shapes), repr(sorted(spec.plan.items()))),
    )


def candidates(spec: Spec, stages: Stages) -> Sequence[Choice]:
    """Return the choice by rule, then the choice for the other engine, if that may be faster."""
    stages.graph = graph = lowered(spec, stages)
    from pinnace.engines.rule import candidates
    from pinnace.lowering.graph import has_collectives

    target = spec.target
    if has_collectives(graph.model):
        provider = target.provider or by_default(target)
        return [Choice(provider, target.precision, target.threads, "by rule: one rank's part of a model")]
    # New values of weights would not be rounded, and a plan says itself what is.
    may_round = not (spec.variable or spec.plan)
    found = candidates(graph.model.graph, target, _providers(target), may_round)
    if found[0].provider == "openvino" and not target.provider:
        from pinnace.engines.openvino.supported import unsupported

        names = ", ".join(one.name for one in unsupported(graph.model))
        if names:
            return [found[1]._replace(why=f"by rule: openvino lacks {names}")]
    if not any(one.form for one in found):
        return found
    from pinnace.quantization.scheme import QuantizationScheme

    return [one._replace(form=QuantizationScheme(one.form).text) if one.form else one for one in found]


def to_measure(spec: Spec, choices: Sequence[Choice]) -> Sequence[Choice]:
    """Return the choices that are measured when the model is kept, or only remembered if there is one.

    There are none if the first engine failed, and another one runs the model (`spec.engine`).
    """
    if not choices or not spec.engine.name.startswith(choices[0].provider):
        return ()
    return choices[:1] if spec.target.prefer == FIRST else choices


def why(target: Target, tuning: Tuning | None) -> str:
    """Return the reason for the engine of a target, "" if the model decides."""
    if target.device != "cpu":
        return f"the target is {target.device}"
    if target.provider:
        return "measured by pinnace tune" if tuning else "context.cpu.provider"
    if target.prefer == MEMORY:
        return "prefer = memory"
    return "" if is_open(target) else "the only engine"


def with_tuned_provider(target: Target, tuning: Tuning | None) -> Target:
    """Set the engine that was measured as the fastest, if the target leaves it open."""
    if tuning is None or target.provider or target.device != "cpu":
        return target
    best = tuning.best("", target.precision, target.threads, target.parallel_requests)
    if best is None:
        return target
    message = f"{tuning.model} was tuned: the fastest is {best}, at {best.latency:.3f} ms"
    _log.event(INFO, "tuned", message, model=tuning.model, engine=best.provider, milliseconds=best.latency)
    return target._replace(provider=best.provider)


def no_sixteen_bits(engine: Engine) -> str:
    from pinnace.machine.processor import sixteen_bit_type

    kind = sixteen_bit_type()
    if kind is None:
        return "this CPU computes in no 16-bit type"
    return f"{engine.name} does not use the {kind} of this CPU, as openvino does"


def why_not_shared(spec: Spec) -> str:
    """Return why models and processes cannot share weights with a spec's engine; "" if they can."""
    if spec.target.device != "cpu":
        return f"no engine can share weights of models on {spec.target.device} devices"
    if is_onnxruntime(spec.engine):
        return ""
    return (
        f"{spec.engine.name} packs a copy of the weights for each model; onnxruntime shares them "
        f"(context.cpu.provider, or [common_context] prefer = memory)"
    )
