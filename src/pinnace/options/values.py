"""Checks of the values of options."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pinnace import shapes
from pinnace.errors import ConfigError


class Words(NamedTuple):
    """An option with a fixed set of values."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(f"`{word}`" if word else '`""`' for word in self.words)

    def read(self, place: str, value: str) -> str:
        if value not in self.words:
            choices = ", ".join(word or '""' for word in sorted(self.words))
            raise ConfigError(f"{place} must be one of {choices}, but got {value!r}")
        return value


class Number(NamedTuple):
    """A non-negative number, below 2^`bits`: 31 for those of `Context`, 63 for sizes of memory."""

    bits: int = 31

    def __str__(self) -> str:
        return "number"

    def read(self, place: str, value: str) -> int:
        if not value.isdecimal():
            raise ConfigError(f"{place} must be a non-negative number, but got {value!r}")
        if len(value) > self.bits or int(value) >> self.bits:  # Python refuses thousands of digits
            raise ConfigError(f"{place} must be less than 2^{self.bits}, but got {value[:80]}")
        return int(value)


class TextFormat(NamedTuple):
    """Text like `example`; `normalized` converts it for `pinnace.shapes`, or raises ValueError."""

    example: str
    normalized: Callable[[str], str]

    def __str__(self) -> str:
        return f"`{self.example}`"

    def read(self, place: str, value: str) -> str:
        """Convert the text; "" if there is none. Raises `ConfigError` for another form."""
        try:
            return self.normalized(value) if value else ""
        except ValueError as error:
            raise ConfigError(f"{place}={value!r}: {error}") from None


def _checked(text: str, parse: Callable[[str], object]) -> str:
    parse(text)
    return text


NAMED_SHAPES = TextFormat("x:[-1,3,224];y:[1,8]", lambda text: _checked(text, shapes.named_shapes))
RANGES = TextFormat("[1~4],[8]", lambda text: _checked(shapes.flattened(text), shapes.sizes))
DIMS = TextFormat("64,64;96,96", lambda text: _checked(text, shapes.sizes))
BATCHES = TextFormat("1,2,4", lambda text: _checked(text.replace(",", ";"), shapes.sizes))
