"""The engine and precision of a model whose context leaves the engine open."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pinnace import engines
from pinnace.building.cached import Contents
from pinnace.building.recipe import Recipe
from pinnace.engines.choice import Choice, by_default
from pinnace.options.table import FIRST, MEMORY
from pinnace.options.target import Target

if TYPE_CHECKING:
    from pinnace.cache.store import Store


def is_open(target: Target) -> bool:
    """Return True if the model decides which engine runs it, or with how many threads."""
    on_cpu = target.device == "cpu" and not (target.simulates or target.shared_workspace)
    return on_cpu and (target.fewer_threads or len(_providers(target)) > 1)


def _providers(target: Target) -> list[str]:
    """Return the engines among which the model decides."""
    if target.provider:
        return [target.provider]
    return ["onnxruntime"] if target.prefer == MEMORY else list(engines.installed())


def with_choice(recipe: Recipe, choice: Choice) -> Recipe:
    """Return the recipe for the chosen engine."""
    target = replace(recipe.target, precision=choice.precision, threads=choice.threads, form=choice.form)
    return replace(recipe, engine=engines.named(choice.provider), target=target)


class Chooser:
    """Chooses for a model with these `contents`, and remembers the choice beside the kept model."""

    def __init__(self, contents: Contents, store: Store | None) -> None:
        self._contents, self._store = contents, store
        self._made_for: tuple[str, ...] = ()
        self._new: list[Choice] = []

    def chosen(self, recipe: Recipe) -> tuple[Recipe, str]:
        """Return a recipe with the engine, precision and threads that suit its model, and why.

        The graph is read and kept for the build, unless the choice is remembered. Raises as `Recipe.graph`
        does.
        """
        self._made_for = _made_for(recipe)
        remembered = self._remembered()
        self._new = [] if remembered else _candidates(recipe)
        choice = Choice(**remembered) if remembered else self._new[0]
        return with_choice(recipe, choice), choice.why

    def remember(self) -> None:
        """Store a new choice, if the cache can be written; to be called when the model is in it."""
        if self._new and self._store is not None:
            from pinnace.cache import chosen

            with suppress(OSError):
                chosen.remember(self._store, self._contents.file, self._made_for, self._new[0]._asdict())
        self._new = []

    def hand_over(self, recipe: Recipe) -> dict[str, Any]:
        """Return what another process needs to choose by measurement and to remember; forget it here.

        Nothing is chosen if the engine failed, and another one runs the model.
        """
        candidates, self._new = self._new, []
        if candidates and not recipe.engine.name.startswith(candidates[0].provider):
            candidates = []
        elif recipe.target.prefer == FIRST:
            candidates = candidates[:1]
        return {"made_for": self._made_for, "candidates": candidates}

    def _remembered(self) -> dict[str, Any] | None:
        if self._store is None or self._contents.is_new:
            return None
        from pinnace.cache import chosen

        return chosen.find(self._store, self._contents.file, self._made_for)


def _made_for(recipe: Recipe) -> tuple[str, ...]:
    """Return all of a recipe that the choice depends on."""
    target = recipe.target
    return (
        *(target.provider, target.prefer, target.precision, str(target.fewer_threads)),
        *(str(target.threads), str(target.parallel_requests), target.input_shape),
        *(target.output_type, repr(recipe.shapes), repr(sorted(recipe.plan.items()))),
    )


def _candidates(recipe: Recipe) -> list[Choice]:
    """Return the choice by rule, then the choice for the other engine, if that may be faster."""
    graph = recipe.graph(recipe.variable)
    recipe.held.append(graph)
    from pinnace.engines.rule import candidates
    from pinnace.lowering.graph import has_collectives

    target = recipe.target
    if has_collectives(graph.model):
        provider = target.provider or by_default(target)
        return [Choice(provider, target.precision, target.threads, "by rule: one rank's part of a model")]
    # New values of weights would not be rounded, and a plan says itself what is.
    may_round = not (recipe.variable or recipe.plan)
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
