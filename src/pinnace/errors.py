"""Error classes, one for each kind of error.

Every class derives from `PinnaceError` and from the built-in class that mindspore_lite raises in the same
case, so that both `except PinnaceError` and an old script's `except RuntimeError` catch it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from pinnace.escaping import plain, shown


class PinnaceError(Exception):
    """Base of all errors that Pinnace raises on purpose.

    The message is in one line, whatever the names in it are, unless the class has lines of its own.
    """

    _lines = False

    def __str__(self) -> str:
        text = super().__str__()
        return "\n".join(map(plain, text.split("\n"))) if self._lines else plain(text)


class PinnaceWarning(UserWarning):
    """Something works, but maybe not as the caller expects."""


_NOT_CALLERS = ("pinnace", "contextlib", "functools", "importlib")
"""Packages that a warning does not point at: Pinnace, and what stands between its functions."""
_withheld: ContextVar[list[str] | None] = ContextVar("withheld", default=None)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings of the block instead of issuing them."""
    messages: list[str] = []
    before = _withheld.set(messages)
    try:
        yield messages
    finally:
        _withheld.reset(before)


def warn(message: str) -> None:
    """Warn with a `PinnaceWarning` that points at the line outside of Pinnace that called in."""
    message, messages = plain(message), _withheld.get()
    if messages is not None:
        messages.append(message)
        return
    frame = sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_CALLERS:
        frame = frame.f_back
    module, registry = frame.f_globals.get("__name__"), frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(
        message, PinnaceWarning, frame.f_code.co_filename, frame.f_lineno, module, registry=registry
    )


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a message that suggests the most similar of these names, "" if none is similar."""
    import difflib  # for typing errors only

    lower = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), lower, n=1)
    return f"; did you mean {lower[near[0]]!r}?" if near else ""


class ArgumentTypeError(PinnaceError, TypeError):
    """An argument has the wrong Python type."""


class ArgumentValueError(PinnaceError, ValueError):
    """An argument has the right type, but a value that cannot be used."""


class ModelFormatError(PinnaceError, RuntimeError):
    """A model file is missing, damaged or of another format; the message names file and place."""


class ModelStateError(PinnaceError, RuntimeError):
    """A method was called at the wrong time: predict before build, use after close, and the like."""


class DataMismatchError(PinnaceError, RuntimeError):
    """Data does not match the dtype, size or shape of its tensor or input."""


class ConfigError(PinnaceError, RuntimeError):
    """A configuration (file, dict or context) cannot be used; the message names file and line, or the key."""


class FileWriteError(PinnaceError, OSError):
    """A file cannot be written; the message names it and the reason. What was there before is unchanged."""


class NotSupportedError(PinnaceError, NotImplementedError):
    """A feature of mindspore_lite that Pinnace does not have yet; the message names an alternative."""


class DeviceUnavailableError(PinnaceError, RuntimeError):
    """The requested device or engine is missing on this machine; the message names what is missing."""


class QueueFullError(PinnaceError, RuntimeError):
    """The queue of predictions is full: try again later, or ask another server."""


class PredictTimeoutError(PinnaceError, TimeoutError):
    """A prediction exceeded its timeout."""


class EngineError(PinnaceError, RuntimeError):
    """An engine rejected a model or failed while running it."""


class DistributedError(PinnaceError, RuntimeError):
    """Ranks of one model have lost each other, or do not match; the message names them."""


class UnsupportedPrimitive(NamedTuple):
    """A primitive of a model that Pinnace cannot run."""

    name: str
    count: int  # type: ignore[assignment]  # hides a method of tuples
    first_node: str
    reason: str

    @classmethod
    def counted(cls, found: Iterable[tuple[str, str, str]]) -> list[UnsupportedPrimitive]:
        """Count unsupported primitives, given as name, reason and node of each use; most used first."""
        nodes: dict[tuple[str, str], list[str]] = {}
        for name, reason, node in found:
            nodes.setdefault((name, reason), []).append(node)
        rows = [cls(name, len(uses), uses[0], reason) for (name, reason), uses in nodes.items()]
        return sorted(rows, key=lambda row: -row.count)


class UnsupportedModelError(PinnaceError, RuntimeError):
    """A model uses unsupported primitives; the error lists all of them, with counts and first nodes."""

    _lines = True
    _what = "uses {} unsupported primitive(s)"
    _remedy = "Change these in the model, and export it again."

    def __init__(self, model: str, primitives: Sequence[UnsupportedPrimitive]) -> None:
        self.model, self.primitives = model, tuple(primitives)
        lines = [
            f"  {shown(p.name)} x{p.count}, first at node {shown(repr(p.first_node))}: {plain(p.reason)}"
            for p in self.primitives
        ]
        first = f"{plain(model)} {self._what.format(len(lines))}:"
        last = self._remedy
        if all(p.reason.endswith("by shapes of the inputs") for p in primitives):
            last = "Give the inputs fixed shapes (--shape, --inputShape, Converter.input_shape)."
        super().__init__("\n".join((first, *lines, last)))

    def __reduce__(self) -> tuple[type[UnsupportedModelError], tuple[str, Sequence[UnsupportedPrimitive]]]:
        return type(self), (self.model, self.primitives)  # allows sending it to another process


class UnfitShapesError(UnsupportedModelError):
    """A model does not take the shapes of its inputs; the error names the primitive."""

    _what = "does not take the shapes of its inputs"
    _remedy = "Give other shapes, or change the model, and export it again."


class LackingKernelsError(UnsupportedModelError):
    """An engine lacks operators of a model; another engine may have them."""
