"""Records do what dataclasses do."""

import dataclasses
from dataclasses import field
from typing import Any

import pytest

from pinnace import records


def classes(dataclass: Any) -> tuple[Any, Any]:
    @dataclass(frozen=True)
    class Plain:
        name: str
        count: int = 3
        items: list[int] = field(default_factory=list)
        last: str = field(default="", kw_only=True)
        unseen: int = field(default=0, compare=False)

    @dataclass()
    class Heir(Plain):
        more: int = 1

        def __post_init__(self) -> None:
            self.more += 1

    return Plain, Heir


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("a",), {}),
        (("a", 4, [5], 6), {"last": "z"}),
        ((), {"name": "a", "items": [1]}),
    ],
)
def test_instances_are_those_of_dataclasses(place, args, named):
    theirs = classes(lambda frozen=False: dataclasses.dataclass())[place](*args, **named)
    kind = classes(records.dataclass)[place]
    one = kind(*args, **named)
    assert vars(one) == vars(theirs)
    assert repr(one) == repr(theirs)
    assert one == kind(*args, **named)
    assert dataclasses.replace(one, count=7) != one
    assert one.items is not kind("b").items


@pytest.mark.parametrize(
    ("args", "named"), [((), {}), (("a",), {"unknown": 1}), (("a", 1, [], 0, 0, 0, 0), {})]
)
def test_wrong_arguments_are_refused(args, named):
    for kind in classes(records.dataclass):
        with pytest.raises(TypeError, match="__init__"):
            kind(*args, **named)


def test_slots():
    @records.dataclass(slots=True, eq=False)
    class Small:
        name: str
        size: int = 1

    small = Small("a")
    assert (small.name, small.size) == ("a", 1)
    assert not hasattr(small, "__dict__")
