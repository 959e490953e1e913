"""Checks of arguments, with the messages of mindspore_lite.

They return the value, and raise `ArgumentTypeError` or `ArgumentValueError` if it cannot be used.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from pinnace.errors import ArgumentTypeError, ArgumentValueError

T = TypeVar("T")


def check_type(name: str, value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise ArgumentTypeError(f"{name} must be {kind.__name__}, but got {type(value)}.")
    return value


def path(name: str, value: object) -> str:
    if not isinstance(value, str | os.PathLike):
        raise ArgumentTypeError(f"{name} must be str, but got {type(value)}.")
    return os.fsdecode(value)


def check_list(name: str, value: object, kind: type[T]) -> list[T]:
    values = check_type(name, value, list)
    check_elements(name, values, kind)
    return values


def check_sequence(name: str, value: object) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ArgumentTypeError(f"{name} must be list, but got {type(value)}.")
    return value


def check_elements(name: str, values: Iterable[object], kind: type, *others: type) -> None:
    """Check that every element is a `kind`, which the message names, or one of `others`."""
    for index, element in enumerate(values):
        if not isinstance(element, (kind, *others)):
            raise ArgumentTypeError(
                f"{name} element must be {kind.__name__}, but got {type(element)} at index {index}."
            )


def count(name: str, value: object, prefix: str = "") -> int:
    """Check a non-negative int of 32 bits; `prefix` starts the message."""
    number = check_type(name, value, int)
    if number < 0:
        raise ArgumentValueError(f"{prefix}{name} must be a non-negative int.")
    check_32_bits(name, number)
    return int(number)


def check_timeout(timeout: object) -> None:
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise ArgumentTypeError(f"timeout must be float or None, but got {type(timeout)}.")
    if not 0 <= timeout <= threading.TIMEOUT_MAX:
        most = f"{threading.TIMEOUT_MAX:.0f}"
        raise ArgumentValueError(f"timeout must be a number of seconds from 0 to {most}, not {timeout}")


def text(name: str, value: object) -> str:
    return str(check_type(name, value, str))


def one_of(*modes: str) -> Callable[[str, object], str]:

    def check(name: str, value: object) -> str:
        mode = text(name, value)
        if mode not in modes:
            choices = ", ".join(filter(None, modes))
            raise ArgumentValueError(f"{name} must be in [{choices}], but got {mode}.")
        return mode

    return check


def ints(name: str, value: object) -> list[int]:
    numbers = check_list(name, value, int)
    check_32_bits(f"{name} element", *numbers)
    return list(map(int, numbers))


def check_32_bits(name: str, *values: int) -> None:
    for value in values:
        if not -1 << 31 <= value < 1 << 31:
            raise ArgumentTypeError(f"{name} must be an int of 32 bits, but got {value}.")


def check_sections(name: str, value: object) -> None:
    """Check that `value` is a dict {str: {str: str}}."""
    for section, options in check_type(name, value, dict).items():
        check_type(f"{name}_key", section, str)
        check_type(f"{name}_value", options, dict)
        for key, option in options.items():
            check_type(f"{name}_value_key", key, str)
            check_type(f"{name}_value_value", option, str)
