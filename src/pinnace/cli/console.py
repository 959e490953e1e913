"""Output of commands: results on stdout, progress and notes on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text


def plain(text: str) -> str:
    """Escape control characters in a text from a model or file, which a terminal would interpret."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def note(text: str) -> None:
    """Print a note about the result on stderr."""
    print(plain(text), file=sys.stderr)


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show a progress message on stderr while the block runs, if stderr is a terminal."""
    with Console(stderr=True).status(Text(plain(doing))):
        yield


def table(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print rows in aligned columns under a title, bold in a terminal."""
    Console(highlight=False, markup=False).print(plain(title), style="bold", soft_wrap=True)
    rows = [[plain(cell).replace("\n", "\\n") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows or [["none"]]:
        cells = (cell.ljust(width) for cell, width in zip(row, widths or [0], strict=True))
        print("  " + "  ".join(cells).rstrip())
