"""Objects of engines in a forked child.

Only the parent has the threads that they wait for when they are freed, so a child keeps them until it ends.
"""

from __future__ import annotations

import ctypes
import os
from typing import TypeVar
from weakref import WeakSet

T = TypeVar("T")
_made: WeakSet[object] = WeakSet()


def never_freed_by_forks(made: T) -> T:
    """Return an object of an engine, which children forked from now on never free."""
    _made.add(made)
    return made


def _after_fork() -> None:
    for made in list(_made):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # also beyond the end of the interpreter
    _made.clear()


os.register_at_fork(after_in_child=_after_fork)
