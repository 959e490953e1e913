"""The engine and precision of a model whose context leaves the engine open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pinnace import engines
from pinnace.building.cached import Contents
from pinnace.building.recipe import Recipe
from pinnace.machine.processor import sixteen_bit_type
from pinnace.options.table import LATENCY
from pinnace.options.target import Target

if TYPE_CHECKING:
    from pinnace.cache.store import Store
    from pinnace.engines.speed.choice import EngineChoice

FP32, HALF = "enforce_fp32", "preferred_fp16"


def is_open(target: Target) -> bool:
    """Return True if the model decides which engine runs it, or with how many threads."""
    on_cpu = target.device == "cpu" and not (target.simulates or target.shared_workspace)
    return on_cpu and (target.fewer_threads or len(_providers(target)) > 1)


def _providers(target: Target) -> list[str]:
    """Return the engines among which the model decides."""
    if target.provider:
        return [target.provider]
    return list(engines.installed()) if target.prefer == LATENCY else ["onnxruntime"]


class Chooser:
    """Chooses for a model with these `contents`, and remembers the choice beside the kept model."""

    def __init__(self, contents: Contents, store: Store | None) -> None:
        self._contents, self._store = contents, store
        self._new: tuple[tuple[str, ...], dict[str, Any]] | None = None

    def chosen(self, recipe: Recipe) -> tuple[Recipe, str]:
        """Return a recipe with the engine, precision and threads that suit its model, and why.

        The graph is read and kept for the build, unless the choice is remembered. Raises as `Recipe.graph`
        does.
        """
        made_for = _made_for(recipe)
        choice = self._remembered(made_for)
        if choice is None:
            choice = _chosen(recipe, self._store)._asdict()
            self._new = made_for, choice
        engine = engines.named(choice["provider"])
        target = replace(
            recipe.target,
            precision=choice["precision"],
            threads=choice["threads"],
            form=choice.get("form", ""),
        )
        return replace(recipe, engine=engine, target=target), choice["why"]

    def remember(self) -> None:
        """Store a new choice, if the cache can be written; to be called when the model is in it."""
        from pinnace.cache import profiles

        if self._new is not None and self._store is not None:
            with suppress(OSError):
                profiles.remember(self._store, self._contents.file, *self._new)
            self._new = None

    def _remembered(self, made_for: tuple[str, ...]) -> dict[str, Any] | None:
        from pinnace.cache import profiles

        if self._store is None or self._contents.is_new:
            return None
        return profiles.chosen(self._store, self._contents.file, made_for)


def _made_for(recipe: Recipe) -> tuple[str, ...]:
    """Return all of a recipe that the choice depends on."""
    target = recipe.target
    return (
        *(target.provider, target.prefer, target.precision, str(target.fewer_threads)),
        *(str(target.threads), str(target.parallel_requests), target.input_shape),
        *(target.output_type, repr(recipe.shapes), repr(sorted(recipe.plan.items()))),
    )


def _chosen(recipe: Recipe, store: Store | None) -> EngineChoice:
    graph = recipe.graph(recipe.variable)
    recipe.held.append(graph)
    from pinnace.cache.profiles import profile
    from pinnace.compiler.graph import has_collectives
    from pinnace.engines.rule import by_rule
    from pinnace.engines.speed.choice import EngineChoice, chosen

    target, given = recipe.target, bool(recipe.target.provider)
    default = EngineChoice(
        by_rule(target), target.precision, target.threads, "by rule: no figures for this CPU"
    )
    default = default._replace(provider=target.provider or default.provider, why="" if given else default.why)
    if has_collectives(graph.model):
        return default._replace(why="by rule: one rank's part of a model")
    ways = list(_ways(recipe))
    choice = chosen(graph.model.graph, target, ways, profile(store)) or default
    if given or not (choice.form or any(precision == HALF for _, precision, _ in ways)):
        choice = choice._replace(precision=target.precision)  # the build says so, if 16 bits are preferred
    if choice.provider == "openvino" and not given:
        from pinnace.engines.openvino.supported import unsupported

        names = ", ".join(one.name for one in unsupported(graph.model))
        if names:
            why = f"openvino lacks {names}; {choice.why}"
            return choice._replace(provider="onnxruntime", why=why, form="")
    if not choice.form:
        return choice
    from pinnace.quantising.form import Form

    return choice._replace(form=Form(choice.form).text)


def _ways(recipe: Recipe) -> Iterator[tuple[str, str, str]]:
    """Yield the engines, precisions and forms among which the model decides."""
    from pinnace.engines.speed.choice import HALVED

    target, providers = recipe.target, _providers(recipe.target)
    if "onnxruntime" in providers:
        yield "onnxruntime", FP32, ""
    if "openvino" not in providers:
        return
    halves = target.precision == HALF
    if halves and sixteen_bit_type():
        yield "openvino", HALF, ""
    if not (target.provider and halves and sixteen_bit_type()):
        yield "openvino", FP32, ""
    # New values of weights would not be rounded, and a plan says itself what is.
    if halves and not (target.provider or recipe.variable or recipe.plan):
        yield "openvino", FP32, HALVED
