"""The primitive table with all its rows: the families, and the functions that look them up.

Models of MindSpore import it when they are lowered; ONNX models need none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module

from pinnace.ops import signatures
from pinnace.ops.lite.shared import NAMES
from pinnace.ops.table import TABLE, Primitive
from pinnace.program import Dialect


def _modules(room: str, names: str) -> tuple[str, ...]:
    return tuple(f"pinnace.ops.{room}.{name}" for name in names.split())


_COMMON = {
    Dialect.MINDSPORE: _modules(
        "mindspore", "activation arithmetic array conv linalg math norm parts pool reduce structure"
    ),
    Dialect.LITE: _modules("lite", "array math nn"),
}
"""The modules whose rows are enough for most networks; all others take 10 ms to import."""

_FAMILIES = (
    *_modules(
        "mindspore",
        """
        activation adaptive arithmetic array attention bessel boxes collective constants conv counts
        cumulative detection diagonal exchange experts factor filling image index linalg loss math
        matrix_diagonal norm order padding parts patches pool quantized recurrent reduce resize
        scalar segments signal slicing solve special state structure text unique views
        """,
    ),
    *_modules("lite", "array detect image math nn quant recurrent sparse speech"),
    *_modules("ascend", "custom delta"),
)
"""The modules that enter rows; the last one looks for rows of the others."""

_SHARED = frozenset(NAMES.split())


def _enter(modules: Iterable[str]) -> None:
    for module in modules:
        import_module(module)


def find(dialect: Dialect, name: str) -> Primitive | None:
    """The row for a primitive, or None where Pinnace does not know it.

    MindSpore Lite's converter leaves MindSpore's primitives in a file that it has none of its own for.
    """
    for modules in (_COMMON[dialect], _FAMILIES):
        row = TABLE.get((dialect, name)) or _shared(dialect, name)
        if row is not None:
            return row
        _enter(modules)
    row = TABLE.get((dialect, name))
    if row is None and dialect is Dialect.LITE and signatures.find(dialect, name) is None:
        row = TABLE.get((Dialect.MINDSPORE, name))
    return row


def _shared(dialect: Dialect, name: str) -> Primitive | None:
    """The row for a primitive of MindSpore Lite that means what MindSpore's does."""
    if dialect is Dialect.MINDSPORE or name not in _SHARED:
        return None
    plain = find(Dialect.MINDSPORE, name)
    assert plain is not None
    row = TABLE[dialect, name] = replace(plain, dialect=dialect)
    return row


def rows() -> Iterator[Primitive]:
    """All rows, in order of name."""
    _enter(_FAMILIES)
    for name in _SHARED:
        find(Dialect.LITE, name)
    return iter(sorted(TABLE.values(), key=lambda row: (row.name, row.dialect.value)))
