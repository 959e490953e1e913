"""The primitive table with all its rows: the families, and the functions that look them up.

Models of MindSpore import it when they are lowered; ONNX models need none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

from pinnace.ops import signatures
from pinnace.ops.lite_shared import NAMES
from pinnace.ops.table import TABLE, Primitive
from pinnace.program import Dialect

_COMMON = {
    Dialect.MINDSPORE: "activation arithmetic array conv linalg math norm parts pool reduce structure",
    Dialect.LITE: "lite_array lite_math lite_nn",
}
"""The modules whose rows are enough for most networks; all others take 10 ms to import."""

_FAMILIES = """
    activation adaptive arithmetic array attention bessel boxes collective constants conv counts
    cumulative custom custom_delta detection diagonal exchange experts factor filling image index linalg
    lite_array lite_detect lite_image lite_math lite_nn lite_quant lite_recurrent lite_sparse
    lite_speech loss math matrix_diagonal norm order padding parts patches pool
    quantized recurrent reduce resize scalar
    segments signal slicing solve special state structure text unique views
"""
"""The modules that enter rows; the last one looks for rows of the others."""

_SHARED = frozenset(NAMES.split())


def _enter(names: str) -> None:
    for name in names.split():
        import_module(f"pinnace.ops.{name}")


def find(dialect: Dialect, name: str) -> Primitive | None:
    """The row for a primitive, or None where Pinnace does not know it.

    MindSpore Lite's converter leaves MindSpore's primitives in a file that it has none of its own for.
    """
    for names in (_COMMON[dialect], _FAMILIES):
        row = TABLE.get((dialect, name)) or _shared(dialect, name)
        if row is not None:
            return row
        _enter(names)
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
