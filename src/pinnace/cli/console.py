"""What commands print with: results on stdout, and what is going on on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

WIDE = 1_000
"""Columns of a pipe: lines that a program reads must not be folded."""


def stdout() -> Console:
    """Where results go: as wide as the terminal, never folded in a pipe, and nothing in a text is markup."""
    width = None if sys.stdout.isatty() else WIDE
    return Console(width=width, highlight=False, markup=False, emoji=False)


def note(text: str) -> None:
    """Say on stderr what the user should know of how a result came about."""
    print(text, file=sys.stderr)


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show on stderr, while the block runs, what is being done; nothing where stderr is no terminal."""
    with Console(stderr=True).status(doing):
        yield


def table(title: str | None, rows: Iterable[Sequence[str]]) -> None:
    """Print rows in aligned columns, under a title."""
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        grid.add_row(*row)
    console = stdout()
    if title:
        console.print(f"\n{title}", style="bold")
    console.print(grid)
