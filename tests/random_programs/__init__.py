"""Random programs of MindSpore: branches, loops and writes, called several times in sequence.

    python -m tests.random_programs --count 40 --seed 1 --oracle PYTHON

Program N of a seed is a Cell of assignments, in-place writes, two Parameters that it keeps from call to
call, and nested `if` and `while` with `break`, `continue` and `return` (`generate`). MindSpore runs it,
exports it, and runs the file (`oracle`). Pinnace must give the same for each call, built from the file and
loaded from its compile cache.
"""
