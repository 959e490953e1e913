"""Input shapes and sizes of free dimensions, as written in configurations.

MindSpore Lite's page "Dynamic Shape Configuration" defines the syntax of `input_shape` and `dynamic_dims`,
that of CANN's ATC defines `ge.dynamicDims`, `dynamic_batch_size` and `dynamic_image_size`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

from pinnace.escaping import shown

Shape = tuple[int, ...]
Sizes = tuple[tuple[range, ...], ...]
"""Alternatives for the free dimensions; each has a range for every dimension."""

_MOST, _MOST_ELEMENTS = 1 << 31, 1 << 48


def is_free(shape: Shape) -> bool:
    """Return True if a dimension of `shape` is free."""
    return min(shape, default=0) < 0


def named(shape: Shape, names: Sequence[str]) -> str:
    """Return a shape as text, with free dimensions by name where they have one: "[batch, 3]"."""
    labels = names if len(names) == len(shape) else ("",) * len(shape)
    dims = (shown(n) if size == -1 and n else str(size) for size, n in zip(shape, labels, strict=True))
    return f"[{', '.join(dims)}]"


def takes(want: Shape, have: Shape) -> bool:
    """Return True if a port of shape `want` takes data of shape `have`."""
    if want == (-2,):
        return True
    return len(have) == len(want) and all(w in (-1, h) for w, h in zip(want, have, strict=True))


def named_shapes(text: str) -> dict[str, Shape]:
    """Parse shapes by input name from "x:[-1,3];y:[1,8]"; brackets are optional. Raises ValueError."""
    found: dict[str, Shape] = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        match = re.fullmatch(r"(.+):\s*(\[?)\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*(\]?)", part, re.ASCII)
        if not match or bool(match[2]) != bool(match[4]):
            raise ValueError(f"{part!r} is not NAME:[DIM,DIM,...]")
        shape = tuple(int(dim) for dim in match[3].split(","))
        if not all(dim == -1 or 0 < dim < _MOST for dim in shape):
            raise ValueError(f"{part!r}: a dimension is -1 or a positive number of 31 bits")
        if abs(math.prod(shape)) > _MOST_ELEMENTS:
            raise ValueError(f"{part!r}: it exceeds any memory")
        if match[1].strip() in found:
            raise ValueError(f"{match[1].strip()!r} is given twice")
        found[match[1].strip()] = shape
    return found


def sizes(text: str) -> Sizes:
    """Parse alternatives for the free dimensions of all inputs together from "1~4,32;8,64". Raises
    ValueError.
    """
    parts = [part for part in text.split(";") if part.strip()]
    found = tuple(tuple(between(size) for size in part.split(",")) for part in parts)
    if len({len(one) for one in found}) != 1:
        raise ValueError(f"{text!r} must have the same number of sizes in each part")
    return found


def between(text: str) -> range:
    """Parse the sizes of "8" or "1~8". Raises ValueError."""
    match = re.fullmatch(r"\s*(\d{1,9})(?:\s*~\s*(\d{1,9}))?\s*", text, re.ASCII)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not 0 < low <= high:
        raise ValueError(f"{text.strip()!r} is neither a size nor LEAST~LARGEST")
    return range(low, high + 1)


def flattened(text: str) -> str:
    """Convert the syntax of `dynamic_dims`, "[1~4],[8];[32],[64]", to that of `sizes`.

    All inputs have the same number of brackets; those without free dimensions have none, or empty ones. Text
    without brackets is returned as it is. Raises ValueError.
    """
    if not re.search(r"[][]", text):
        return text
    inputs = []
    for part in text.split(";"):
        brackets = re.findall(r"\[([^][]*)\]", part)
        if re.sub(r"\[[^][]*\]", "", part).strip(", ") or not brackets:
            raise ValueError(f"{part.strip()!r} is not [SIZE,SIZE,...],[...]")
        if any(map(str.strip, brackets)):
            inputs.append(brackets)
    if len({len(brackets) for brackets in inputs}) != 1:
        raise ValueError(f"{text!r} must have the same number of brackets for each input")
    return ";".join(",".join(together) for together in zip(*inputs, strict=True))


def parted(found: Sizes, counts: Sequence[int]) -> list[Sizes]:
    """Split the sizes among inputs with these numbers of free dimensions. Raises ValueError."""
    have, want = len(found[0]), sum(counts)
    if have != want:
        raise ValueError(f"there are sizes for {have} free dimensions, and the model's inputs have {want}")
    ends = [sum(counts[: place + 1]) for place in range(len(counts))]
    return [tuple(one[end - n : end] for one in found) for end, n in zip(ends, counts, strict=True)]


def agrees(free: Sequence[int], within: Sequence[range]) -> bool:
    """Return True if free dimensions may have these sizes; -1 is any."""
    return all(size == -1 or size in limit for size, limit in zip(free, within, strict=True))


def allowed(found: Sizes, free: Sequence[int]) -> bool:
    """Return True if the free dimensions may have these sizes."""
    return any(agrees(free, one) for one in found)


def alternatives(text: str) -> Sizes:
    """Parse what `written` made."""
    return sizes(flattened(text)) if text else ()


def written(found: Sizes) -> str:
    """Format sizes in the syntax of `dynamic_dims`."""
    return ",".join(
        f"[{','.join(str(r[0]) if len(r) == 1 else f'{r[0]}~{r[-1]}' for r in one)}]" for one in found
    )


def layout_of(picture: Sequence[int]) -> Literal["NCHW", "NHWC"] | None:
    """Return where a picture has its channels, by the dimension that can only be these, if it is one."""
    first, last = (len(picture) == 4 and picture[axis] in (1, 3) for axis in (1, 3))
    return None if first == last else "NCHW" if first else "NHWC"
