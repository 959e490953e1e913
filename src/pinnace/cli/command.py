"""The class of commands: their help."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand


class Command(TyperCommand):
    """A command whose help and usage have the names of arguments, and not their types in Python."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for one in self.params:
            if isinstance(one, TyperArgument):
                names = [one.metavar or str(one.name).upper()]
                vars(one).update(display_type_rich=_no_type, get_usage_pieces=lambda _, names=names: names)


def _no_type(ctx: object) -> None:
    """Return the type of an argument for its help: none."""
