"""Shapes of inputs and sizes of their free dimensions, as configurations write them.

MindSpore Lite's page "Dynamic Shape Configuration" tells how `input_shape` and `dynamic_dims` are written,
that of CANN's ATC how `ge.dynamicDims`, `dynamic_batch_size` and `dynamic_image_size` are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

Shape = tuple[int, ...]
Sizes = tuple[tuple[range, ...], ...]
"""Sizes of the free dimensions: one of these, each with a range for every dimension."""

_MOST, _MOST_ELEMENTS = 1 << 31, 1 << 48


def named_shapes(text: str) -> dict[str, Shape]:
    """Shapes by the names of inputs, of "x:[-1,3];y:[1,8]"; brackets may be left out. Raises ValueError."""
    found: dict[str, Shape] = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        match = re.fullmatch(r"(.+):\s*(\[?)\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*(\]?)", part, re.ASCII)
        if not match or bool(match[2]) != bool(match[4]):
            raise ValueError(f"{part!r} is not NAME:[DIM,DIM,...]")
        shape = tuple(int(dim) for dim in match[3].split(","))
        if not all(dim == -1 or 0 < dim < _MOST for dim in shape):
            raise ValueError(f"{part!r}: a dimension is -1 or a positive number of 31 bits")
        if abs(math.prod(shape)) > _MOST_ELEMENTS:
            raise ValueError(f"{part!r}: no memory holds so much")
        if match[1].strip() in found:
            raise ValueError(f"{match[1].strip()!r} is there twice")
        found[match[1].strip()] = shape
    return found


def sizes(text: str) -> Sizes:
    """Sizes that the free dimensions of all inputs may have together, of "1~4,32;8,64". Raises ValueError."""
    parts = [part for part in text.split(";") if part.strip()]
    found = tuple(tuple(between(size) for size in part.split(",")) for part in parts)
    if len({len(one) for one in found}) != 1:
        raise ValueError(f"{text!r} must have sizes, as many in each part")
    return found


def between(text: str) -> range:
    """The sizes of "8" or "1~8". Raises ValueError."""
    match = re.fullmatch(r"\s*(\d{1,9})(?:\s*~\s*(\d{1,9}))?\s*", text, re.ASCII)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not 0 < low <= high:
        raise ValueError(f"{text.strip()!r} is neither a size nor LEAST~LARGEST")
    return range(low, high + 1)


def flattened(text: str) -> str:
    """Text for `sizes`, of `dynamic_dims`: "[1~4],[8];[32],[64]" with as many brackets for each input.

    Inputs without free dimensions have none, or empty ones. Text without brackets stays. Raises ValueError.
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
        raise ValueError(f"{text!r} must have as many pairs of brackets for each input")
    return ";".join(",".join(together) for together in zip(*inputs, strict=True))


def parted(found: Sizes, counts: Sequence[int]) -> list[Sizes]:
    """The sizes of each of some inputs, with so many free dimensions. Raises ValueError."""
    have, want = len(found[0]), sum(counts)
    if have != want:
        raise ValueError(f"there are sizes for {have} free dimensions, and the model's inputs have {want}")
    ends = [sum(counts[: place + 1]) for place in range(len(counts))]
    return [tuple(one[end - n : end] for one in found) for end, n in zip(ends, counts, strict=True)]


def allowed(found: Sizes, free: Sequence[int]) -> bool:
    """Return whether the free dimensions may be these."""
    return any(all(size in within for size, within in zip(free, one, strict=True)) for one in found)


def written(found: Sizes) -> str:
    """Sizes in the words of `dynamic_dims`."""
    return ",".join(
        f"[{','.join(str(r[0]) if len(r) == 1 else f'{r[0]}~{r[-1]}' for r in one)}]" for one in found
    )
