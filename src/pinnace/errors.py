"""What can go wrong, one class a kind.

Every class derives from `PinnaceError` and from the built-in class that mindspore_lite raises in the
same place, so that both `except PinnaceError` and an old script's `except RuntimeError` catch it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class PinnaceError(Exception):
    """Base of all errors that Pinnace raises on purpose."""


class ArgumentTypeError(PinnaceError, TypeError):
    """An argument has the wrong Python type."""


class ArgumentValueError(PinnaceError, ValueError):
    """An argument has the right type and a value that cannot be used."""


class ModelFormatError(PinnaceError, RuntimeError):
    """A model file is missing, damaged or not what it is said to be; the message names file and place."""


class ModelStateError(PinnaceError, RuntimeError):
    """A method was called at the wrong time: predict before build, use after close, and the like."""


class DeviceUnavailableError(PinnaceError, RuntimeError):
    """The device or engine that was asked for is not on this machine; the message names what is missing."""


class EngineError(PinnaceError, RuntimeError):
    """An engine refused a model or failed while running it."""


class UnsupportedPrimitive(NamedTuple):
    """A primitive that a model uses and Pinnace cannot run."""

    name: str
    count: int
    first_node: str
    reason: str


class UnsupportedModelError(PinnaceError, RuntimeError):
    """A model uses primitives that Pinnace cannot run: all of them, with counts and first nodes."""

    def __init__(self, model: str, primitives: Sequence[UnsupportedPrimitive]) -> None:
        self.primitives = tuple(primitives)
        lines = [
            f"  {p.name} x{p.count}, first at node {p.first_node!r}: {p.reason}" for p in self.primitives
        ]
        super().__init__(f"{model} uses {len(lines)} unsupported primitive(s):\n" + "\n".join(lines))
