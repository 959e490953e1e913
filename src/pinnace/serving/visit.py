"""The handler of a signal, or a finalizer, that comes in between the lines of a prediction and predicts."""

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


class Visit(threading.local):
    """Marks of a thread that is inside of a pool, each thread's its own; a worker's thread always is.

    They are set by no call: the handler of a signal could raise before the next line.
    """

    def __init__(self) -> None:
        self.is_inside = False
        self.worker: Worker | None = None  # whose thread it is

    def own(self) -> Worker:
        """The worker whose thread this is. Another one that is inside would wait for itself."""
        if self.worker is None:
            raise ModelStateError(
                "this prediction has interrupted another one of the same model and thread, which cannot go "
                "on before it ends: predict in a thread, not in the handler of a signal or a finalizer"
            )
        return self.worker


def visits(method: _Method[P, R], *, once: bool = False) -> _Method[P, R]:
    """Mark in its `_visit` that a thread is inside of a method; ModelStateError where it is `once` only."""

    @wraps(method)
    def marked(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        visit: Visit = self._visit
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
