"""Checks of arguments, with the messages of mindspore_lite."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pinnace.errors import ArgumentTypeError, ArgumentValueError


def check_type(name: str, value: object, kind: type) -> None:
    """Raise `ArgumentTypeError` unless `value` is a `kind`."""
    if not isinstance(value, kind):
        raise ArgumentTypeError(f"{name} must be {kind.__name__}, but got {type(value)}.")


def path(name: str, value: object) -> str:
    """Return a path as text. Raises `ArgumentTypeError` unless it is a str or an os.PathLike."""
    if not isinstance(value, str | os.PathLike):
        raise ArgumentTypeError(f"{name} must be str, but got {type(value)}.")
    return os.fsdecode(value)


def check_list(name: str, value: object, kind: type, *others: type) -> None:
    """Raise `ArgumentTypeError`, which names `kind`, unless `value` is a list of these kinds."""
    check_type(name, value, list)
    check_elements(name, value, kind, *others)


def check_elements(name: str, values: Any, kind: type, *others: type) -> None:
    """Raise `ArgumentTypeError`, which names `kind`, unless every element is a `kind` or one of `others`."""
    for index, element in enumerate(values):
        if not isinstance(element, (kind, *others)):
            raise ArgumentTypeError(
                f"{name} element must be {kind.__name__}, but got {type(element)} at index {index}."
            )


def count(name: str, value: Any, prefix: str = "") -> int:
    """Return `value` if it is a non-negative int of 32 bits, else raise; `prefix` starts the message."""
    check_type(name, value, int)
    if value < 0:
        raise ArgumentValueError(f"{prefix}{name} must be a non-negative int.")
    check_32_bits(name, value)
    return int(value)


def text(name: str, value: Any) -> str:
    """Return `value` if it is a string, else raise `ArgumentTypeError`."""
    check_type(name, value, str)
    return str(value)


def list_of(kind: type[int]) -> Callable[[str, Any], list[int]]:
    """Return a check that copies a list of 32-bit ints, or raises `ArgumentTypeError`."""

    def checked(name: str, value: Any) -> list[int]:
        check_list(name, value, kind)
        check_32_bits(f"{name} element", *value)
        return list(map(kind, value))

    return checked


def check_32_bits(name: str, *values: object) -> None:
    """Raise `ArgumentTypeError` for ints beyond 32 bits."""
    for value in values:
        if not -1 << 31 <= value < 1 << 31:  # type: ignore[operator]
            raise ArgumentTypeError(f"{name} must be an int of 32 bits, but got {value}.")


def check_sections(name: str, value: object) -> None:
    """Raise `ArgumentTypeError` unless `value` is a dict {str: {str: str}}."""
    check_type(name, value, dict)
    for section, options in value.items():  # type: ignore[attr-defined]
        check_type(f"{name}_key", section, str)
        check_type(f"{name}_value", options, dict)
        for key, option in options.items():
            check_type(f"{name}_value_key", key, str)
            check_type(f"{name}_value_value", option, str)
