"""Joining a communicator with one rank's part of a model, and options that only ranks have."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from pinnace.building.recipe import Recipe
from pinnace.errors import warn
from pinnace.options.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pinnace.distributed.steps import RankPart
    from pinnace.engines.protocol import Executable


def is_whole(made: Executable | RankPart) -> TypeGuard[Executable]:
    """Return True for a model that runs by itself. The class `RankPart` takes a while to import."""
    return hasattr(made, "execution")


def joined(part: RankPart, recipe: Recipe, settings: Settings, files: Sequence[str]) -> Executable:
    """Return the executable of a part together with the other ranks; `files` are those that the model refers
    to.
    """
    from pinnace.distributed.executable import join
    from pinnace.distributed.files import fingerprint

    return join(part, recipe.target, settings, fingerprint(recipe.source, files))


def warn_of_ranks(recipe: Recipe, settings: Settings) -> None:
    """Warn of rank options of a model that runs alone."""
    target, get = recipe.target, settings.get
    on_gpu = target.device == "gpu" or target.simulates.startswith("gpu")  # the launcher sets its rank
    asked = {
        "[ascend_context] rank_table_file": get("ascend_context", "rank_table_file"),
        "[distributed] timeout": get("distributed", "timeout"),
        "context.group_info_file": target.groups,
        "context.ascend.rank_id": target.rank and not on_gpu,
        "context.ascend.group_size": (target.ranks or 1) > 1 and not on_gpu,
    }
    names = [name for name, given in asked.items() if given]
    if names and not recipe.shapes:
        warn(f"these options have no effect: {', '.join(names)} ({recipe.source.name} has no collectives)")
