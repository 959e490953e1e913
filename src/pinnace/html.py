"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pinnace.escaping import plain


def table(caption: str, rows: Iterable[Sequence[object]]) -> str:
    from html import escape  # only notebooks show tables

    lines = ("".join(f"<td>{escape(plain(str(cell)))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption>{escape(plain(caption))}</caption>{body}</table>"
