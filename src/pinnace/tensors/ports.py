"""Checks and conversions between tensors and the inputs and outputs of a model."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from pinnace.errors import ArgumentValueError, DataMismatchError
from pinnace.options.arguments import check_elements, check_list, check_type
from pinnace.shapes import Shape, allowed, written
from pinnace.tensors.tensor import Tensor, TensorMeta
from pinnace.types import Array, Port

# Predictions can take microseconds: these are tuples because `list | tuple` creates an object on each call,
# and hot loops use `enumerate` because `zip(..., strict=True)` takes 0.3 us to start.
_LISTS = (list, tuple)


def is_free(shape: Shape) -> bool:
    """Return True if a dimension of `shape` is free."""
    return min(shape, default=0) < 0


def meta(port: Port, shape: Shape) -> TensorMeta:
    """Describe an output of `shape`."""
    tensor = Tensor.of_port(port, shape)
    result = TensorMeta()
    result.name, result.dtype, result.shape, result.format = port.name, port.dtype, list(shape), port.format
    result.element_num, result.data_size = tensor.element_num, tensor.data_size
    return result


def check_inputs(inputs: object) -> None:
    """Raise `ArgumentTypeError` unless `inputs` is a list of tensors or arrays."""
    if not isinstance(inputs, tuple):
        check_type("inputs", inputs, list)
    check_elements("inputs", inputs, Tensor, np.ndarray)


def check_outputs(outputs: Any, ports: Sequence[Port]) -> None:
    """Raise unless `outputs` is a list that `fill` can fill."""
    check_list("outputs", outputs, Tensor, TensorMeta)
    if outputs and len(outputs) != len(ports):
        raise ArgumentValueError(
            f"outputs must be empty or hold one Tensor for each of the model's {len(ports)} outputs, "
            f"but got {len(outputs)}."
        )


@dataclass(frozen=True)
class Host:
    """The device of a model, as seen by tensors in device memory.

    `devices` is that of `get_model_info("device")`, "" for a model that accepts tensors of any device and
    copies them to the host. With `binds`, tensors of its own device are used in place.
    """

    devices: str = ""
    binds: bool = False

    def data_of(self, tensor: Tensor, what: str) -> Array:
        """Return the data of a tensor on a device: its memory if it can be used, else a copy.

        Raises `DataMismatchError` if its device is not the model's; `what` names the tensor in the message.
        """
        if self.devices and _device(tensor.device) != _device(self.devices):
            raise _mismatch(
                f"{what} is a tensor on {tensor.device}, and the model runs on {self.devices}: give it one "
                f"of that device, or one without a device"
            )
        # Callers pass arrays on to an executable and use only their shape: device memory has one too.
        return cast("Array", tensor.device_array()) if self.binds else tensor.get_data_to_numpy()


def _device(described: str) -> str:
    """Remove the description of simulation, which can differ in threads, from device names."""
    return re.sub(r" \(.*?\)", "", described)


Expected = tuple[Port, Shape, np.dtype[np.generic], Host]
"""An input, its current shape, the dtype of its arrays, and its host."""


def expected(ports: Sequence[Port], shapes: Sequence[Shape], host: Host | None = None) -> list[Expected]:
    """Return the input descriptions for `arrays_of`."""
    host = host or Host()
    return [(port, shape, port.dtype.to_numpy(), host) for port, shape in zip(ports, shapes, strict=True)]


def arrays_of(inputs: Sequence[Tensor | Array], expected: Sequence[Expected]) -> list[Array]:
    """Return the data of the inputs as arrays for an executable.

    Raises `ArgumentTypeError` unless `inputs` is a list of tensors or arrays, `DataMismatchError` if they do
    not fit.
    """
    if not isinstance(inputs, _LISTS) or len(inputs) != len(expected):
        check_inputs(inputs)
        names = ", ".join(port.name for port, *_ in expected)
        raise _mismatch(f"the model has {len(expected)} inputs ({names}), but got {len(inputs)}")
    arrays = []
    for place, (port, shape, dtype, host) in enumerate(expected):
        value = inputs[place]
        if value.__class__ is Tensor:
            array = value.array_of(port.dtype, shape)
        elif value.__class__ is np.ndarray and value.dtype is dtype and value.shape == shape:
            array = value if value.flags.c_contiguous else None
        else:
            array = None
        if array is None:
            check_inputs(inputs)
            array = _array(value, port, shape, host)
        arrays.append(array)
    return arrays


def _array(value: Tensor | Array, port: Port, shape: Shape, host: Host) -> Array:
    """Return the data of an input that needs checks or conversion."""
    tensor = value if isinstance(value, Tensor) else Tensor(value)
    if tensor.dtype is not port.dtype:
        raise _mismatch(f"input {port.name!r} must be {port.dtype}, but got {tensor.dtype}")
    if not tensor.has_data:
        raise _without_data(tensor, port)
    array = host.data_of(tensor, f"input {port.name!r}") if tensor.on_device else tensor.get_data_to_numpy()
    return array if array.shape == shape else _as_shape(array, port, shape)


def _as_shape(array: Array, port: Port, shape: Shape) -> Array:
    have = array.shape
    if shape == (-2,):
        return array
    if port.sizes:
        check_sizes(port, have)
    if len(have) == len(shape) and all(w in (-1, h) for w, h in zip(shape, have, strict=True)):
        return array
    if len(have) == 1 and array.size == math.prod(shape) and not is_free(shape):
        return array.reshape(shape)  # flat data, in row-major order
    raise _mismatch(f"input {port.name!r} must have shape {list(shape)}, but got {list(have)}")


def _without_data(tensor: Tensor, port: Port) -> DataMismatchError:
    if is_free(tuple(tensor.shape)):
        return _mismatch(
            f"input {port.name!r} has free dimensions {tensor.shape} and no data: resize the model, or set "
            f"tensor.shape, then set the data"
        )
    return _mismatch(
        f"input {port.name!r} has no data: set_data_from_numpy sets it, get_data_to_numpy makes it zeros"
    )


def _mismatch(what: str) -> DataMismatchError:
    """Return the error of a prediction that cannot begin; mindspore_lite has only the first words."""
    return DataMismatchError(f"predict failed! {what}")


def fits(outputs: Sequence[Array], inputs: Sequence[Array], ports: Sequence[Port]) -> bool:
    """Return True if results can be written to the outputs, which must not share memory."""
    return not any(
        output.shape != port.shape
        or not output.flags.writeable
        or output.dtype == object
        or any(np.may_share_memory(output, other) for other in (*inputs, *outputs[:place]))
        for place, (output, port) in enumerate(zip(outputs, ports, strict=True))
    )


def into_devices(
    outputs: Sequence[Any], arrays: Sequence[Array], ports: Sequence[Port], host: Host
) -> list[Any] | None:
    """Return the memory of outputs that are on the model's device, None for others; None if there is none.

    Memory of an input or of another output is excluded: results are copied there afterwards. Raises
    `DataMismatchError` if device, dtype or shape are not those of the results.
    """
    if not any(isinstance(value, Tensor) and value.on_device for value in outputs):
        return None
    found: list[Any] = []
    for value, port in zip(outputs, ports, strict=True):
        if not isinstance(value, Tensor) or not value.on_device:
            found.append(None)
            continue
        _check_output(value, port)
        data: Any = host.data_of(value, f"output {port.name!r}")
        taken = not host.binds or any(data.shares(other) for other in (*arrays, *found))
        found.append(None if taken else data)
    return found if any(data is not None for data in found) else None


def _check_output(tensor: Tensor, port: Port) -> None:
    have, want = tuple(tensor.shape), port.shape
    fits = want == (-2,) or (
        len(have) == len(want) and all(w in (-1, h) for w, h in zip(want, have, strict=True))
    )
    if tensor.dtype is not port.dtype or is_free(have) or not fits:
        raise _mismatch(
            f"output {port.name!r} has {port.dtype} and shape {list(want)}: the tensor on {tensor.device} "
            f"that is to hold it has {tensor.dtype} and {list(have)}"
        )


def fill(outputs: list[Any], results: list[Tensor]) -> None:
    """Put `results` into a list of outputs that `check_outputs` has accepted."""
    if not outputs:
        outputs.extend(results)
        return
    for index, (given, result) in enumerate(zip(outputs, results, strict=True)):
        if isinstance(given, Tensor):
            if given is not result:
                _copy_into(given, result)
        else:
            outputs[index] = result  # a TensorMeta cannot hold data


def _copy_into(given: Tensor, result: Tensor) -> None:
    array = result.get_data_to_numpy()
    in_place = given.has_data and not given.on_device and given.get_data_to_numpy().flags.writeable
    if in_place and given.dtype is result.dtype and given.data_size == array.nbytes:
        given.shape = result.shape
        np.copyto(given.get_data_to_numpy(), array)
        return
    given.dtype, given.shape = result.dtype, result.shape
    given.set_data_from_numpy(array)


def check_sizes(port: Port, shape: Sequence[int]) -> None:
    """Raise `DataMismatchError` unless `dynamic_dims` allows the sizes of the free dimensions in `shape`."""
    if len(shape) != len(port.shape):
        return
    free = [size for size, declared in zip(shape, port.shape, strict=True) if declared == -1]
    if not allowed(port.sizes, free):
        raise DataMismatchError(
            f"input {port.name!r} has the shape {list(port.shape)}, and dynamic_dims allows "
            f"{written(port.sizes)} for its free dimensions, but got {free}"
        )
