"""Inputs of a prediction: tensors and arrays of any library, their checks, and the arrays that run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from pinnace.deferred import import_onnx_ir
from pinnace.errors import ArgumentTypeError, DataMismatchError
from pinnace.options.arguments import check_type
from pinnace.shapes import Shape, is_free, takes
from pinnace.tensors import gears
from pinnace.tensors.device_memory import DeviceArray, DeviceMemory
from pinnace.tensors.tensor import Tensor
from pinnace.types import Array, DataType, Port

# Predictions can take microseconds: these are tuples because `list | tuple` creates an object on each call,
# and hot loops count because `enumerate` takes 0.1 us to start, and `zip(..., strict=True)` 0.3 us.
_LISTS = (list, tuple)
_LARGE = 1 << 31  # no array in memory has such a dimension, and engines compute with sizes in 32 bits


_INTERFACES = ("__dlpack__", "__array__", "__array_interface__")


class SupportsArray(Protocol):
    """A tensor or array: of Pinnace, numpy, PyTorch, MindSpore, JAX, or any library that numpy can read."""

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        """Return the data as a numpy array."""


Inputs = Sequence[SupportsArray] | Mapping[str, SupportsArray] | SupportsArray
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


class ModelDevice(NamedTuple):
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
        self, ports: Sequence[Port], shapes: Sequence[Shape], refusal: str, device: ModelDevice | None = None
    ) -> None:
        self.ports, self.shapes, self._device = tuple(ports), tuple(shapes), device or ModelDevice()
        self._refusal = refusal
        self._expected: list[tuple[DataType, np.dtype[Any], Shape | None]] = [
            (port.dtype, port.dtype.to_numpy(), None)  # the shape that `_array` has taken last
            for port in ports
        ]
        self._count = len(self._expected)
        self._device_memory: DeviceMemory | None = None  # the model's, once a request had data there
        self._in_gear: list[Shape] | None = None  # the shapes that were checked last; None needs no check
        if any(port.sizes for port in ports) and any(map(is_free, shapes)):
            self._in_gear = []
        self._checks = [(at, _CHECKS[port.dtype]) for at, port in enumerate(ports) if port.dtype in _CHECKS]

    def tensors(self, warned: set[str]) -> list[Tensor]:
        return [
            Tensor.of_port(port, shape, warned) for port, shape in zip(self.ports, self.shapes, strict=True)
        ]

    def arrays(self, inputs: Inputs) -> list[Array]:
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
                if array is None and self._device_memory is not None:
                    array = cast("Array | None", value.memory_of(kind, shape, self._device_memory))
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
        for place, check in self._checks:
            check(arrays[place], self.ports[place])
        return arrays

    def _check_gear(self, shapes: list[Shape]) -> None:
        if shapes != self._in_gear:
            gears.check(self.ports, shapes)
            self._in_gear = shapes

    def _in_order(self, inputs: Inputs) -> Sequence[SupportsArray]:
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
        what = f"input {port.name!r}"
        tensor = value if isinstance(value, Tensor) else Tensor(to_numpy(value, what))
        if tensor.dtype is not port.dtype:
            remedy = "" if port.dtype is DataType.STRING else f": x.astype({_spelled(port.dtype)})"
            raise mismatch(f"{what} must be {port.dtype}, but got {tensor.dtype}{remedy}")
        if not tensor.has_data:
            raise _without_data(tensor, port)
        if tensor.on_device:
            array = self._device.data_of(tensor, what)
            if self._device.binds:
                self._device_memory = tensor._device_memory
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


def _check_bytes(array: Array | DeviceArray, port: Port) -> None:
    """Raise `DataMismatchError` unless the bytes of a BOOL are 0 and 1.

    Engines take that for granted: Compress adds other bytes up to the size of its result, and leaves the rest
    of that memory as others left it.
    """
    data = array if isinstance(array, np.ndarray) else array.read()
    if data.size and data.view(np.uint8).max() > 1:
        raise mismatch(
            f"input {port.name!r} has a byte of BOOL that is neither 0 nor 1: x.view(np.uint8) != 0 has them"
        )


def _check_texts(array: Array | DeviceArray, port: Port) -> None:
    """Raise `DataMismatchError` unless all elements are text: onnxruntime takes the `str()` of others."""
    texts = cast("Array", array).ravel().tolist()
    try:
        "".join(texts).encode()
    except TypeError:
        wrong = next(text for text in texts if not isinstance(text, str))
        remedy = ": decode them" if isinstance(wrong, bytes) else ""
        raise mismatch(
            f"input {port.name!r} has elements that are {type(wrong).__name__}, not text{remedy}"
        ) from None
    except UnicodeEncodeError:
        raise mismatch(
            f"input {port.name!r} has half a surrogate pair in a text, which is no character"
        ) from None


_CHECKS = {DataType.BOOL: _check_bytes, DataType.STRING: _check_texts}


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
