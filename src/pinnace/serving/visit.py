"""Detection of predictions by a signal handler or finalizer that interrupts another prediction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from pinnace.errors import ModelStateError

if TYPE_CHECKING:
    from pinnace.serving.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
_Method = Callable[Concatenate[Any, P], R]


class Visit:
    """Marks whether a thread is inside a pool. A worker's thread always is.

    The marks are plain assignments: a signal handler could raise inside a call.
    """

    __slots__ = ("handles_signals", "is_inside", "worker")

    def __init__(self) -> None:
        self.handles_signals = threading.current_thread() is threading.main_thread()
        self.is_inside = False
        self.worker: Worker | None = None  # the worker whose thread this is

    def own(self) -> Worker:
        """Return the worker of this thread. Raises ModelStateError in other threads, which would deadlock."""
        if self.worker is None:
            raise ModelStateError(
                "this prediction interrupted another one of the same model and thread, which cannot continue "
                "before it ends: predict in another thread, not in a signal handler or a finalizer"
            )
        return self.worker


class Visits(threading.local):
    """The visit of each thread to one pool."""

    def __init__(self) -> None:
        self.here = Visit()


def visits(method: _Method[P, R], *, once: bool = False) -> _Method[P, R]:
    """Mark the thread as inside the pool during a method. With `once`, nested calls raise ModelStateError."""

    @wraps(method)
    def marked(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        visit: Visit = self._visits.here
        before = visit.is_inside
        if once and before:
            visit.own()
        try:
            visit.is_inside = True
            return method(self, *args, **kwargs)
        finally:
            visit.is_inside = before

    return marked


def visits_once(method: _Method[P, R]) -> _Method[P, R]:
    """See `visits`."""
    return visits(method, once=True)
