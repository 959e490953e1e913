"""Bounds of one build, whatever its file asks for.

A few bytes of a file can ask for any amount of work: tuples of tuples, functions that call functions twice,
constants of constants. Real models stay far below these bounds; what goes beyond is one error that names the
bound, or an operation that is left for the run. docs/robustness.md has them in a table.
"""

from __future__ import annotations

from dataclasses import dataclass

NODES = 1 << 15
"""Nodes that are evaluated, calls inlined; `of_file` adds to it."""
INLINED = 1 << 13
"""Nodes of an ONNX model with its functions inlined; `of_file` adds to it. onnxruntime takes 2 s for them."""
CALLS = 128
"""Calls in each other."""
LEAVES = 1 << 12
"""Items of one tuple, those of its tuples counted; outputs of an ONNX model."""
ALL_LEAVES = 1 << 22
"""Items of all tuples that nodes give."""
NESTING = 32
"""Tuples in each other."""
MADE = 1 << 28
"""Bytes of all constants that lowerings make; more where the weights they are made of are larger."""
FOLDED = 1 << 28
"""Bytes of all results that an engine computes ahead of the run; more where the weights are larger."""
PRODUCTS = 1 << 31
"""Multiplications in what an engine computes ahead of the run; more where the weights are larger. A tenth of
a second of a core, but a hundred times as long where the numbers are too small for their type."""

_PER_PART = 16


def of_file(bound: int, parts: int) -> int:
    """A bound that grows with how much is in the file: 16 times as many as the parts that it writes down."""
    return bound + _PER_PART * parts


@dataclass
class Spent:
    """The work of one build so far."""

    nodes: int = 0
    leaves: int = 0
