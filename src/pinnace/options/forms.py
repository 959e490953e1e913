"""Forms that the values of options have."""

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
            known = ", ".join(word or '""' for word in sorted(self.words))
            raise ConfigError(f"{place} must be one of {known}, but got {value!r}")
        return value


class Number(NamedTuple):
    """A non-negative number, below 2^`bits`: 31 for those of `Context`, 63 for sizes of memory."""

    bits: int = 31

    def __str__(self) -> str:
        return "number"

    def read(self, place: str, value: str) -> int:
        if not value.isdecimal():
            raise ConfigError(f"{place} must be a non-negative number, but got {value!r}")
        if int(value) >> self.bits:
            raise ConfigError(f"{place} must be less than 2^{self.bits}, but got {value}")
        return int(value)


class TextFormat(NamedTuple):
    """Text like `example`; `put` converts it for `pinnace.shapes`, or raises ValueError."""

    example: str
    put: Callable[[str], str]

    def __str__(self) -> str:
        return f"`{self.example}`"

    def read(self, place: str, value: str) -> str:
        """Convert the text; "" if there is none. Raises `ConfigError` for another form."""
        try:
            return self.put(value) if value else ""
        except ValueError as error:
            raise ConfigError(f"{place}={value!r}: {error}") from None


def _shapes(text: str) -> str:
    shapes.named_shapes(text)
    return text


def _sizes(text: str) -> str:
    shapes.sizes(text)
    return text


def _brackets(text: str) -> str:
    return _sizes(shapes.flattened(text))


def _batches(text: str) -> str:
    return _sizes(text.replace(",", ";"))


NAMED_SHAPES = TextFormat("x:[-1,3,224];y:[1,8]", _shapes)
RANGES = TextFormat("[1~4],[8]", _brackets)
DIMS = TextFormat("64,64;96,96", _sizes)
BATCHES = TextFormat("1,2,4", _batches)
