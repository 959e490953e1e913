"""Dataclasses that take a hundredth of the time to define.

`dataclasses.dataclass(frozen=True)` compiles six functions for a class, 0.6 ms with Python 3.11, and a
process that opens a model defines 60 such classes, of which it uses half. Here a class is looked at for its
first instance, only `__init__` is compiled then, and classes share the rest. Type checkers see the original,
and refuse to assign to fields of frozen classes; at run time nothing does.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        *, frozen: bool = False, eq: bool = True, repr: bool = True, **others: bool
    ) -> Callable[[type], type]:
        """See `dataclasses.dataclass`."""

        def define(cls: type) -> type:
            shared: dict[str, object] = {"__repr__": _text} if repr else {}
            if eq:
                shared |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
            for name, method in shared.items():
                if name not in cls.__dict__:
                    setattr(cls, name, method)
            cls.__doc__ = cls.__doc__ or cls.__name__  # dataclasses would make one, in 1 ms
            made: Any = cls
            if others:  # slots need another class
                made = dataclasses.dataclass(cls, init=False, eq=False, repr=False, **others)
            else:
                made.__dataclass_fields__ = _Unmade(cls)

            def first(self: object, *args: object, **kwargs: object) -> None:
                made.__init__ = _initialiser(made)
                made.__init__(self, *args, **kwargs)

            made.__init__ = first
            return made

        return define


class _Unmade:
    """Stands for the fields of a class until somebody asks for them."""

    _lock = threading.RLock()

    def __init__(self, owner: type) -> None:
        self._owner = owner

    def __get__(self, record: object, cls: type) -> Any:
        with self._lock:
            if self._owner.__dict__["__dataclass_fields__"] is self:
                dataclasses.dataclass(self._owner, init=False, eq=False, repr=False)
        return cls.__dataclass_fields__  # type: ignore[attr-defined]


def _initialiser(cls: type) -> Callable[..., None]:
    """Compile `__init__` as dataclasses does, which takes three times as long."""
    scope: dict[str, Any] = {"made_": object()}
    parameters, lines = ["self"], ["pass"]
    for field in sorted(dataclasses.fields(cls), key=lambda field: field.kw_only is True):
        name, value = field.name, field.name
        parameters += ["*"] if field.kw_only and "*" not in parameters else []
        if field.default_factory is not dataclasses.MISSING:
            scope[f"made_{name}"], default = field.default_factory, "=made_"
            value = f"made_{name}() if {name} is made_ else {name}"
        elif field.default is not dataclasses.MISSING:
            scope[f"made_{name}"], default = field.default, f"=made_{name}"
        else:
            default = ""
        parameters.append(name + default)
        lines.append(f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n {'; '.join(lines)}", scope)
    made: Callable[..., None] = scope["__init__"]
    return made


def _values(record: Any) -> tuple[object, ...]:
    return tuple(getattr(record, field.name) for field in dataclasses.fields(record) if field.compare)


def _equal(self: object, other: object) -> object:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: object) -> int:
    return hash(_values(self))


def _text(self: Any) -> str:
    fields = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self))
    return f"{type(self).__qualname__}({fields})"
