"""Messages help users of a wheel, which has no manual, and whose extras pip cannot find by a name."""

from __future__ import annotations

import ast
from pathlib import Path

import pinnace

SOURCES = Path(pinnace.__file__).parent


def texts(tree):
    """The strings of a module that are no docstrings."""
    described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield node


def test_messages_name_nothing_that_only_a_clone_has():
    found = [
        f"{path.relative_to(SOURCES)}:{text.lineno}: {text.value}"
        for path in sorted(SOURCES.rglob("*.py"))
        for text in texts(ast.parse(path.read_text("utf-8")))
        if "docs/" in text.value or "pinnace[" in text.value
    ]
    assert found == []
