"""Output of commands: results on stdout, progress and notes on stderr."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from pinnace import escaping
from pinnace.log import INFO, Log
from pinnace.options import log_format

_log = Log("pinnace.cli")
_FIGURE = re.compile(r"-?[\d.,]+(e[-+]\d+)?( ?%| [kMG]i?B)?|inf|nan|")
"""A cell that is aligned to the right."""
_GAP = 2
_LEAST = 20
"""Width that output has in a narrower terminal, too."""
_NARROWEST = 24
"""Width below which the text of a last column goes into a line of its own."""


def plain(text: str) -> str:
    """Escape control characters in a text from a model or file, which a terminal would interpret."""
    return "\n".join(map(escaping.plain, text.split("\n")))


def fold(text: str, width: int = 0) -> str:
    """Break lines that are longer than `width`, by default that of stdout, between words.

    What follows has the indentation of the line.
    """
    folded = textwrap.TextWrapper(width or _columns(), break_on_hyphens=False, break_long_words=False)
    lines = []
    for line in text.splitlines():
        folded.subsequent_indent = line[: len(line) - len(line.lstrip())]
        lines.append(folded.fill(line))
    return "\n".join(lines)


def note(text: str, event: str = "note", level: int = INFO, before: str = "", **fields: object) -> None:
    """Print a note, a warning or an error on stderr, with `before` before it; in a log of JSON it is an event
    with fields.
    """
    if log_format.is_json():
        _log.event(level, event, text, **fields)
        return
    width = Console(stderr=True).width if sys.stderr.isatty() else sys.maxsize
    print(fold(plain(before + text), width), file=sys.stderr)


@contextmanager
def progress(doing: str, **fields: object) -> Iterator[None]:
    """Show a progress message on stderr while the block runs; log it, with fields, if stderr is no
    terminal.
    """
    console = Console(stderr=True)
    if log_format.is_json() or not console.is_terminal:
        _log.event(INFO, "progress", doing, **fields)
        yield
        return
    with console.status(Text(plain(doing))):
        yield


def table(title: str, rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> None:
    """Print rows in aligned columns under a title, bold in a terminal.

    Columns of numbers are aligned to the right. If a terminal or COLUMNS is too narrow, a last column of text
    is folded, or goes into lines of its own; if the others do not fit, rows stand beside each other.
    """
    Console().print(Text(escaping.plain(title)), style="bold", soft_wrap=True)
    if not rows:
        head, rows = (), [["none"]]
    grid = [[escaping.plain(cell) for cell in row] for row in (head, *rows) if row]
    columns = zip(*grid[bool(head) :], strict=True)
    figures = [all(map(_FIGURE.fullmatch, column)) for column in columns]
    room = _columns() - _GAP
    *widths, last = _widths(grid)
    if head and sum(widths) + last * figures[-1] > room:
        _beside(grid, room)
    else:
        _print(grid, room, figures)


def _beside(grid: Sequence[Sequence[str]], room: int) -> None:
    """Print the rows of a table beside each other, as many as there is room for."""
    head, *rows = grid
    side = max(map(len, head)) + _GAP
    together = max(1, (room - side) // max(len(cell) + _GAP for row in rows for cell in row))
    for start in range(0, len(rows), together):
        if start:
            print()
        block = rows[start : start + together]
        _print([*zip(head, *block, strict=True)], room, [False, *([together > 1] * len(block))])


def _columns() -> int:
    """Return the width of the output; it is not limited in files and pipes, unless COLUMNS is set."""
    return max(_LEAST, Console().width) if sys.stdout.isatty() or "COLUMNS" in os.environ else sys.maxsize


def _widths(grid: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) + _GAP for column in zip(*grid, strict=True)]


def _print(grid: Sequence[Sequence[str]], room: int, right: Sequence[bool]) -> None:
    widths = _widths(grid)
    for row in grid:
        left = sum(widths[:-1])
        *cells, last = (
            cell.rjust(width - _GAP) if figures else cell
            for cell, width, figures in zip(row, widths, right, strict=True)
        )
        start = "".join(set_cell_size(cell, width) for cell, width in zip(cells, widths, strict=False))
        if cell_len(last) > room - left and room - left < _NARROWEST:
            print(f"  {start}".rstrip())
            start, left = " " * _GAP, _GAP
        for line in textwrap.wrap(last, max(1, room - left), break_on_hyphens=False) or [""]:
            print(f"  {start}{line}".rstrip())
            start = " " * left
