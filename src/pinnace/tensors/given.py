"""Arrays of other libraries, as inputs of a prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from pinnace.deferred import import_onnx_ir
from pinnace.errors import ArgumentTypeError
from pinnace.options.arguments import check_type
from pinnace.types import Array

_INTERFACES = ("__dlpack__", "__array__", "__array_interface__")


class SupportsArray(Protocol):
    """A tensor or array: of Pinnace, numpy, PyTorch, MindSpore, JAX, or any library that numpy can read."""

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        """Return the data as a numpy array."""


Given = Sequence[SupportsArray] | Mapping[str, SupportsArray] | SupportsArray
"""Inputs of a prediction, in the order of the model's or by their names; or the only one."""


def is_array(value: object) -> bool:
    """Return True for a tensor or array, also of another library."""
    return not isinstance(value, type) and any(hasattr(value, name) for name in _INTERFACES)


def check_inputs(inputs: object) -> None:
    """Raise `ArgumentTypeError` unless `inputs` is a tensor or array, or a list, tuple or dict of them."""
    if is_array(inputs):
        return
    if isinstance(inputs, Mapping):
        inputs = tuple(inputs.values())
    elif not isinstance(inputs, tuple):
        inputs = check_type("inputs", inputs, list)
    for place, value in enumerate(inputs):
        if not is_array(value):
            raise ArgumentTypeError(f"inputs element must be Tensor, but got {type(value)} at index {place}.")


def to_numpy(value: Any, what: str) -> Array:
    """Return the data of an array, shared by DLPack if it is in host memory and numpy has its type.

    Raises `ArgumentTypeError`, which begins with `what`, if numpy cannot read it.
    """
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.from_dlpack(value)
    except (AttributeError, TypeError, ValueError, RuntimeError, BufferError):
        pass  # no DLPack, memory of a device, a gradient, or a type that numpy lacks
    try:
        return np.asarray(value)
    except Exception as error:  # whatever the other library raises
        with suppress(Exception):
            return _of_torch(value)
        why = str(error).partition("\n")[0]  # MindSpore adds a stack
        raise ArgumentTypeError(f"{what}: numpy cannot read a {type(value)}: {why}") from None


def _of_torch(value: Any) -> Array:
    """Return the data of a PyTorch tensor that has a gradient, is on a device, or is of bfloat16.

    Raises whatever comes for other objects.
    """
    import_onnx_ir()
    from onnx_ir.tensor_adapters import TorchTensor

    return TorchTensor(value.detach()).numpy()
