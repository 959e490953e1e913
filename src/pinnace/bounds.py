"""Limits of one build.

A few bytes of a file can require any amount of work: tuples of tuples, functions that call functions twice,
constants of constants. Real models stay far below these limits; beyond them a build raises an error that
names the limit, or leaves an operation for the run. docs/robustness.md lists them.
"""

from __future__ import annotations

NODES = 1 << 15
"""Evaluated nodes, with calls inlined; `of_file` adds to it."""
INLINED = 1 << 13
"""Nodes of an ONNX model with its functions inlined; `of_file` adds to it. onnxruntime takes 2 s for them."""
CALLS = 128
"""Nested calls."""
LEAVES = 1 << 12
"""Items of one tuple, including those of nested tuples; outputs of an ONNX model, inputs of its nodes."""
ALL_LEAVES = 1 << 22
"""Items of all tuples that nodes return."""
NESTING = 32
"""Nested tuples."""
MADE = 1 << 28
"""Bytes of all constants that lowerings create; more if the weights that they are made of are larger."""
FOLDED = 1 << 28
"""Bytes of all results that an engine computes ahead of the run; more if the weights are larger."""
PRODUCTS = 1 << 31
"""Multiplications that an engine does ahead of the run; more if the weights are larger. They take a tenth of
a second of a core, but a hundred times as long with denormal numbers.
"""

_PER_PART = 16


def of_file(bound: int, parts: int) -> int:
    """Return a limit that grows with the size of the file: by 16 for each part that it contains."""
    return bound + _PER_PART * parts
