"""The primitive table with all its rows: the families, and the functions that look them up.

Models of MindSpore import it when they are lowered; ONNX models need none of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pinnace.ops import activation as activation
from pinnace.ops import adaptive as adaptive
from pinnace.ops import arithmetic as arithmetic
from pinnace.ops import array as array
from pinnace.ops import attention as attention
from pinnace.ops import boxes as boxes
from pinnace.ops import collective as collective
from pinnace.ops import constants as constants
from pinnace.ops import conv as conv
from pinnace.ops import counts as counts
from pinnace.ops import cumulative as cumulative
from pinnace.ops import detection as detection
from pinnace.ops import diagonal as diagonal
from pinnace.ops import exchange as exchange
from pinnace.ops import experts as experts
from pinnace.ops import factor as factor
from pinnace.ops import filling as filling
from pinnace.ops import image as image
from pinnace.ops import index as index
from pinnace.ops import linalg as linalg
from pinnace.ops import lite_array as lite_array
from pinnace.ops import lite_detect as lite_detect
from pinnace.ops import lite_image as lite_image
from pinnace.ops import lite_math as lite_math
from pinnace.ops import lite_nn as lite_nn
from pinnace.ops import lite_quant as lite_quant
from pinnace.ops import lite_recurrent as lite_recurrent
from pinnace.ops import lite_sparse as lite_sparse
from pinnace.ops import lite_speech as lite_speech
from pinnace.ops import loss as loss
from pinnace.ops import math as math
from pinnace.ops import matrix_diagonal as matrix_diagonal
from pinnace.ops import norm as norm
from pinnace.ops import order as order
from pinnace.ops import padding as padding
from pinnace.ops import parts as parts
from pinnace.ops import patches as patches
from pinnace.ops import pool as pool
from pinnace.ops import quantised as quantised
from pinnace.ops import recurrent as recurrent
from pinnace.ops import reduce as reduce
from pinnace.ops import resize as resize
from pinnace.ops import scalar as scalar
from pinnace.ops import segments as segments
from pinnace.ops import signal as signal
from pinnace.ops import signatures
from pinnace.ops import slicing as slicing
from pinnace.ops import solve as solve
from pinnace.ops import special as special
from pinnace.ops import state as state
from pinnace.ops import structure as structure
from pinnace.ops import text as text
from pinnace.ops import unique as unique
from pinnace.ops import views as views

from pinnace.ops import lite_shared as lite_shared  # isort: skip  (the rows that it names)
from pinnace.ops.table import TABLE, Primitive
from pinnace.program import Dialect


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
