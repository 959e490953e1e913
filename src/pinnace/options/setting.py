"""Declaration of context options: name in errors, check, default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pinnace.errors import did_you_mean, warn


class Options:
    """Base of groups of options, which warns of assignments to options that do not exist."""

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and not hasattr(self, name):
            hint = did_you_mean(name, (option for option in dir(self) if not option.startswith("_")))
            warn(f"{type(self).__name__} has no option {name!r}, it has no effect{hint}")
        super().__setattr__(name, value)


class _Setting(property):
    _name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"


def setting(label: str, checked: Callable[[str, object], object], default: object, doc: str) -> Any:
    """Return a property that stores `checked(label, value)`; lists are copied when read.

    `label` is the option's name in errors, where "{kind}" stands for the group's kind of device. `default`
    may be a function of the group.
    """

    def get(group: Options) -> object:
        value = vars(group).get(made._name) or (default(group) if callable(default) else default)
        return list(value) if isinstance(value, list) else value

    def set_(group: Options, value: object) -> None:
        vars(group)[made._name] = checked(label.format(kind=getattr(group, "kind", "")), value)

    made = _Setting(get, set_)
    made.__doc__ = doc  # before Python 3.13 a subclass loses the argument `doc`
    return made


def given(group: Options, name: str) -> Any:
    """Return the value that an option was set to; None if it was not set."""
    return vars(group).get(f"_{name}")
