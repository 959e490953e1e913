"""Texts out of files, such as the names of nodes and inputs, as people see them.

A program gets names as they are; what is shown of them cannot move a cursor, begin a line or turn the
direction of what follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_LONGEST = 500
"""Characters of a name that are shown."""


def plain(text: str) -> str:
    """Return a text in one line, with escapes for what does not print."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shown(name: str) -> str:
    """Return a name in one line, cut if it is very long."""
    return plain(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}... ({len(name)} characters)")


def html_table(caption: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a table for notebooks."""
    from html import escape  # only notebooks show tables

    lines = ("".join(f"<td>{escape(plain(str(cell)))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption>{escape(plain(caption))}</caption>{body}</table>"
