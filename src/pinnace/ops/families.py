"""The primitive table with all its rows: the families, and the functions that look them up.

Models of MindSpore import it when they are lowered; ONNX models need none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from pinnace.ops import signatures
from pinnace.ops.table import TABLE, Primitive
from pinnace.program import Dialect

_FAMILIES = """
    activation adaptive arithmetic array attention boxes collective constants conv counts cumulative
    detection diagonal exchange experts factor filling image index linalg lite_array lite_detect
    lite_image lite_math lite_nn lite_quant lite_recurrent lite_sparse lite_speech loss math
    matrix_diagonal norm order padding parts patches pool quantised recurrent reduce resize scalar
    segments signal slicing solve special state structure text unique views
    lite_shared
"""
"""The modules that enter rows; the last one names rows of the others."""

for _family in _FAMILIES.split():
    import_module(f"pinnace.ops.{_family}")


def find(dialect: Dialect, name: str) -> Primitive | None:
    """The row for a primitive, or None where Pinnace does not know it.

    MindSpore Lite's converter leaves MindSpore's primitives in a file that it has none of its own for.
    """
    row = TABLE.get((dialect, name))
    if row is None and dialect is Dialect.LITE and signatures.find(dialect, name) is None:
        row = TABLE.get((Dialect.MINDSPORE, name))
    return row


def rows() -> Iterator[Primitive]:
    """All rows, in order of name."""
    return iter(sorted(TABLE.values(), key=lambda row: (row.name, row.dialect.value)))
