"""The hook by which objects begin anew in a forked child."""

from __future__ import annotations

import ctypes
import os
from typing import Protocol, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class Renewable(Protocol):
    """An object with threads, locks or sockets of its process."""

    def renew(self) -> None:
        """Be usable in a forked child, or give up there what belongs to the parent."""


_engines: WeakSet[object] = WeakSet()
_renewable: WeakSet[Renewable] = WeakSet()


def never_freed_by_forks(made: T) -> T:
    """Return an object of an engine, which children forked from now on never free.

    Only the parent has the threads that it waits for when it is freed, so a child keeps it until it ends.
    """
    _engines.add(made)
    return made


def renewed_by_forks(made: Renewable) -> None:
    """Call `renew` of an object in children that are forked from now on."""
    _renewable.add(made)


def _after_fork() -> None:
    for made in list(_engines):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # also beyond the end of the interpreter
    _engines.clear()
    for one in list(_renewable):
        one.renew()


os.register_at_fork(after_in_child=_after_fork)
