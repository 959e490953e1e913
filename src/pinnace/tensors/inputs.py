"""Inputs of a model: the checks of what a prediction is given, and its arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from pinnace.errors import ArgumentTypeError, DataMismatchError
from pinnace.shapes import Shape, is_free, takes
from pinnace.tensors import gears
from pinnace.tensors.given import Given, SupportsArray, check_inputs, is_array, to_numpy
from pinnace.tensors.memory import DeviceMemory
from pinnace.tensors.tensor import Tensor
from pinnace.types import Array, DataType, Port

# Predictions can take microseconds: these are tuples because `list | tuple` creates an object on each call,
# and hot loops count because `enumerate` takes 0.1 us to start, and `zip(..., strict=True)` 0.3 us.
_LISTS = (list, tuple)
_LARGE = 1 << 31  # no array in memory has such a dimension, and engines compute with sizes in 32 bits


class Host(NamedTuple):
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
            raise mismatch(
                f"{what} is a tensor on {tensor.device}, but the model runs on {self.devices}: pass a "
                f"tensor of that device, or one in host memory"
            )
        # Callers pass arrays on to an executable and use only their shape: device memory has one too.
        return cast("Array", tensor.device_array()) if self.binds else tensor.get_data_to_numpy()


def _device(described: str) -> str:
    """Remove the description of simulation, which can differ in threads, from device names."""
    return re.sub(r" \(.*?\)", "", described)


class InputPorts:
    """The inputs of a model, with the shapes that they have now.

    `refusal` is the reason why no input may have a dimension of 0, "" if it may.
    """

    def __init__(
        self, ports: Sequence[Port], shapes: Sequence[Shape], refusal: str, host: Host | None = None
    ) -> None:
        self.ports, self.shapes, self._host = tuple(ports), tuple(shapes), host or Host()
        self._refusal = refusal
        self._expected: list[tuple[DataType, np.dtype[Any], Shape | None]] = [
            (port.dtype, port.dtype.to_numpy(), None)  # the shape that `_array` has taken last
            for port in ports
        ]
        self._count = len(self._expected)
        self._place: DeviceMemory | None = None  # the model's, once a request had data there
        self._in_gear: list[Shape] | None = None  # the shapes that were checked last; None needs no check
        if any(port.sizes for port in ports) and any(map(is_free, shapes)):
            self._in_gear = []

    def tensors(self, warned: set[str]) -> list[Tensor]:
        """Return new tensors without data; `warned` is that of `Tensor.of_port`."""
        return [
            Tensor.of_port(port, shape, warned) for port, shape in zip(self.ports, self.shapes, strict=True)
        ]

    def arrays(self, inputs: Given) -> list[Array]:
        """Return the data of a prediction's inputs as arrays for an executable.

        Raises `ArgumentTypeError` unless `inputs` is a list or dict of tensors or arrays, `DataMismatchError`
        if they do not fit.
        """
        if inputs.__class__ is not list or len(inputs) != self._count:
            inputs = self._in_order(inputs)
        arrays, place = [], 0
        for kind, dtype, shape in self._expected:
            value = inputs[place]
            if value.__class__ is Tensor:
                array = value.array_of(kind, shape)
                if array is None and self._place is not None:
                    array = cast("Array | None", value.memory_of(kind, shape, self._place))
            elif value.__class__ is np.ndarray and value.dtype is dtype and value.shape == shape:
                array = value if value.flags.c_contiguous else None
            else:
                array = None
            if array is None:
                check_inputs(inputs)
                array = self._array(value, self.ports[place], self.shapes[place])
                self._expected[place] = kind, dtype, array.shape  # others take longer
            arrays.append(array)
            place += 1  # noqa: SIM113
        if self._in_gear is not None:
            self._check_gear([array.shape for array in arrays])
        return arrays

    def _check_gear(self, shapes: list[Shape]) -> None:
        if shapes != self._in_gear:
            gears.check(self.ports, shapes)
            self._in_gear = shapes

    def _in_order(self, inputs: Given) -> Sequence[SupportsArray]:
        """Return the inputs of a dict in the model's order, or the only one. Raises `DataMismatchError`."""
        if isinstance(inputs, _LISTS) and len(inputs) == self._count:
            return inputs
        check_inputs(inputs)
        names = [port.name for port in self.ports]
        listed = f"the model has {len(names)} inputs ({', '.join(names)})"
        if is_array(inputs):
            if self._count != 1:
                raise ArgumentTypeError(f"inputs must be list, but got {type(inputs)}: {listed}")
            return [cast("SupportsArray", inputs)]
        inputs = cast("Sequence[SupportsArray] | Mapping[str, SupportsArray]", inputs)
        if not isinstance(inputs, Mapping):
            raise mismatch(f"{listed}, but got {len(inputs)}")
        if set(inputs) != set(names):
            raise mismatch(f"{listed}, but got {', '.join(map(str, inputs)) or 'none'}")
        return [inputs[name] for name in names]

    def _array(self, value: SupportsArray, port: Port, shape: Shape) -> Array:
        """Return the data of an input that needs checks or conversion."""
        what = f"input {port.name!r}"
        tensor = value if isinstance(value, Tensor) else Tensor(to_numpy(value, what))
        if tensor.dtype is not port.dtype:
            remedy = "" if port.dtype is DataType.STRING else f": x.astype({_spelled(port.dtype)})"
            raise mismatch(f"{what} must be {port.dtype}, but got {tensor.dtype}{remedy}")
        if not tensor.has_data:
            raise _without_data(tensor, port)
        if tensor.on_device:
            array = self._host.data_of(tensor, what)
            if self._host.binds:
                self._place = tensor._place
        else:
            array = tensor.get_data_to_numpy()
        array = array if array.shape == shape else _as_shape(array, port, shape)
        if 0 in array.shape:
            self._check_elements(what, array.shape)
        return array

    def _check_elements(self, what: str, shape: Shape) -> None:
        """Raise `DataMismatchError` if the model does not take an input of this shape without elements."""
        refusal = self._refusal or ("other dimensions must fit in 31 bits" if max(shape) >= _LARGE else "")
        if refusal:
            raise mismatch(
                f"{what} has the shape {list(shape)}, without elements, and {refusal}: make no request where "
                f"there is nothing to compute"
            )


def _as_shape(array: Array, port: Port, shape: Shape) -> Array:
    if takes(shape, array.shape):
        return array
    if len(array.shape) == 1 and array.size == math.prod(shape) and not is_free(shape):
        return array.reshape(shape)  # flat data, in row-major order
    what = f"input {port.name!r} must have shape {port.dims(shape)}, but got {list(array.shape)}"
    raise mismatch(f"{what}{_remedy(shape, array.shape)}")


_ORDERS = ((0, 3, 1, 2), (0, 2, 3, 1))  # channels from last to first, and back


def _remedy(wanted: Shape, given: Shape) -> str:
    """Return what makes an array of a shape fit, "" if nothing is known to."""
    if takes(wanted, (1, *given)):
        return ": x[np.newaxis]"
    if len(given) != len(wanted):
        return ""
    for order in _ORDERS:
        if len(given) == 4 and takes(wanted, tuple(given[axis] for axis in order)):
            return f": x.transpose{order}"
    return f"; model.resize(model.get_inputs(), [...]) changes shapes: {list(given)} for this input"


def _spelled(dtype: DataType) -> str:
    name = dtype.to_numpy().name
    return f"ml_dtypes.{name}" if name == "bfloat16" else f"np.{name}"


def _without_data(tensor: Tensor, port: Port) -> DataMismatchError:
    if is_free(tuple(tensor.shape)):
        return mismatch(
            f"input {port.name!r} has free dimensions {tensor.shape} and no data: resize the model, or set "
            f"tensor.shape, then set the data"
        )
    return mismatch(
        f"input {port.name!r} has no data: set_data_from_numpy sets it, get_data_to_numpy makes it zeros"
    )


def mismatch(what: str) -> DataMismatchError:
    """Return the error of a prediction that cannot begin; mindspore_lite has only the first words."""
    return DataMismatchError(f"predict failed! {what}")
