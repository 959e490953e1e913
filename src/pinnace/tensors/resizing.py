"""Changes of input shapes by `resize`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pinnace.errors import ArgumentTypeError, ArgumentValueError, DataMismatchError
from pinnace.options.arguments import check_elements, check_sequence
from pinnace.shapes import Shape
from pinnace.tensors import gears
from pinnace.tensors.tensor import Tensor
from pinnace.types import Port

_MOST_ELEMENTS = 1 << 48  # more than any memory holds


def check_resize(inputs: object, dims: object) -> None:
    """Raise unless `inputs` is a list of tensors and `dims` a list of as many lists of ints."""
    tensors, shapes = check_sequence("inputs", inputs), check_sequence("dims", dims)
    check_elements("inputs", tensors, Tensor)
    check_elements("dims", shapes, list, tuple)
    for index, shape in enumerate(shapes):
        for place, dim in enumerate(shape):
            if not isinstance(dim, int):
                raise ArgumentTypeError(
                    f"dims element's element must be int, but got {type(dim)} at {index}th dims element's "
                    f"{place}th element."
                )
    if len(tensors) != len(shapes):
        raise ArgumentValueError(
            f"inputs' size does not match dims' size, but got inputs: {len(tensors)} and dims: {len(shapes)}."
        )


def resized(ports: Sequence[Port], dims: Sequence[Sequence[int]]) -> tuple[Shape, ...]:
    """Return the shapes of the inputs after `resize`. Raises `DataMismatchError` for impossible shapes.

    `ports` are the inputs as in the model file.
    """
    if len(dims) != len(ports):
        raise DataMismatchError(f"resize failed! The model has {len(ports)} inputs, but got {len(dims)}")
    wanted = tuple(_resized(port, shape) for port, shape in zip(ports, dims, strict=True))
    if any(port.sizes for port in ports):
        gears.check(ports, wanted)
    return wanted


def _resized(port: Port, shape: Sequence[int]) -> Shape:
    want = tuple(map(int, shape))
    if want == port.shape:
        return want
    wrong = f"resize failed! Input {port.name!r} has shape {port.dims()} and cannot get {list(shape)}"
    if len(want) != len(port.shape) and port.shape != (-2,):
        raise DataMismatchError(
            f"{wrong}: it has {len(port.shape)} dimensions, and axes in the file refer to these"
        )
    for place, dim in enumerate(want):
        free = port.shape != (-2,) and port.shape[place] == -1
        if dim < 1 and not (free and dim == -1):
            raise DataMismatchError(f"{wrong}: dimension {place} must be positive{', or -1' if free else ''}")
    if math.prod(want) >= _MOST_ELEMENTS:
        raise DataMismatchError(f"{wrong}: it exceeds any memory")
    return want


def shapes_to_build(ports: Sequence[Port], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    """Return the shapes to build a model for that accepts `shapes`; dimensions that are free in the file stay
    free.

    () means the shapes of the file.
    """
    built = tuple(_built(port.shape, shape) for port, shape in zip(ports, shapes, strict=True))
    return () if all(shape == port.shape for port, shape in zip(ports, built, strict=True)) else built


def _built(declared: Shape, shape: Shape) -> Shape:
    if declared == (-2,):
        return declared
    return tuple(-1 if have == -1 else want for have, want in zip(declared, shape, strict=True))
