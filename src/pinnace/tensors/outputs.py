"""Outputs of a model: where a prediction writes its results, and the tensors that they become."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from pinnace.errors import ArgumentValueError, DataMismatchError, warn
from pinnace.options.arguments import check_elements
from pinnace.shapes import Shape, is_free, takes
from pinnace.tensors.inputs import ModelDevice, mismatch
from pinnace.tensors.storage import Kind
from pinnace.tensors.tensor import Outputs, Tensor, TensorMeta, arrays_in, tensors_of
from pinnace.types import Array, Port

Places = list[Any]
"""For each output the array or device memory that its results are written to, None for new memory."""


class OutputPorts:
    def __init__(self, ports: Sequence[Port], device: ModelDevice | None = None, free: bool = False) -> None:
        """With `free`, results of free shapes are written to arrays too: see `Executable.writes_free`."""
        self.ports, self._device, self._free = tuple(ports), device or ModelDevice(), free
        self.kinds = [Kind.of_port(port) for port in ports]
        # Lists that were looked at before, two of them: buffers may take turns.
        self._proven: tuple[tuple[list[Array], list[Array]], ...] = ()
        self._bound: tuple[list[ReferenceType[Any]], ...] = ()
        self.warned: set[str] = set()
        """Outputs for which a warning about a tensor of another shape was issued."""

    def metas(self, shapes: Sequence[Shape]) -> list[TensorMeta]:
        return [_meta(port, shape) for port, shape in zip(self.ports, shapes, strict=True)]

    def bind(self, outputs: list[Any], arrays: list[Array]) -> Places | None:
        """Return the memory of `outputs` that an executable can write while it reads `arrays`; None if none.

        These are the arrays of all outputs, or the memory of those on the model's device. The results of
        other outputs are copied afterwards. Raises `ArgumentTypeError` or `ArgumentValueError` for a list
        that cannot be filled, `DataMismatchError` for a tensor on a device that has not the device, dtype or
        number of elements of its result. Warns of one of another shape, as mindspore_lite does.
        """
        found = arrays_in(outputs, self.kinds)
        if found is None:
            self._check(outputs)
            return self._on_device(outputs, arrays)
        both = [*found, *arrays]
        for known, before in self._proven:
            if _same(both, before) and _are_writable(found):  # not any more, perhaps
                return known
        if not _fits(found, arrays, self.ports, self._free):
            return None
        self._proven = (found, both), *self._proven[:1]
        return found

    def _check(self, outputs: list[Any]) -> None:
        check_elements("outputs", outputs, Tensor, TensorMeta)
        count = len(self.ports)
        if outputs and len(outputs) != count:
            raise ArgumentValueError(
                f"outputs must be empty or hold one Tensor for each of the model's {count} outputs, "
                f"but got {len(outputs)}."
            )

    def _on_device(self, outputs: list[Any], arrays: Sequence[Array]) -> Places | None:
        """Return the memory of outputs on the model's device, unless an input or another output shares it."""
        there = [getattr(value, "_device_array", None) for value in outputs]
        both = [*there, *arrays]
        for before in self._bound:
            if _same(both, [one() for one in before]):
                return there
        found: Places = [None] * len(outputs)
        for place, value in enumerate(outputs):
            if isinstance(value, Tensor) and value.on_device:
                port = self.ports[place]
                shape = _shape_of_result(value, port)
                data: Any = self._device.data_of(value, f"output {port.name!r}")
                if shape != data.shape:
                    self._warn_of_shape(value, port)
                    data = None if shape is None else data.reshape(shape)
                if data is not None and self._device.binds:
                    found[place] = None if any(data.shares(o) for o in (*arrays, *found)) else data
        if found and all(
            data is not None and data is memory for data, memory in zip(found, there, strict=True)
        ):
            self._bound = [ref(one) for one in both], *self._bound[:1]
        return found if any(data is not None for data in found) else None

    def _warn_of_shape(self, tensor: Tensor, port: Port) -> None:
        """Warn, once for each output, of a tensor on a device that has another shape than its result."""
        if port.name not in self.warned:
            self.warned.add(port.name)
            warn(
                f"output {port.name!r} has shape {port.dims()}, and the tensor on {tensor.device} that "
                f"receives it {tensor.shape}: its elements are written in memory order, and it keeps its own"
            )

    def fill(self, outputs: list[Any], results: Sequence[Array], into: Places | None) -> Outputs:
        """Put the results into the list that `bind` gave `into` for. Returns them as tensors."""
        if not outputs:
            outputs.extend(tensors_of(results, self.kinds))
            return Outputs(outputs)
        if results is into:  # the engine wrote into all of them
            return Outputs(outputs)
        tensors = Outputs()
        for place, given in enumerate(outputs):
            tensor = given
            if into is None or results[place] is not into[place]:
                (tensor,) = tensors_of(results[place : place + 1], self.kinds[place : place + 1])
                if isinstance(given, Tensor):
                    _copy_into(given, tensor, self.ports[place])
                else:
                    outputs[place] = tensor  # a TensorMeta cannot hold data
            tensors.append(tensor)
        return tensors


def _meta(port: Port, shape: Shape) -> TensorMeta:
    tensor = Tensor.of_port(port, shape)
    result = TensorMeta()
    result.name, result.dtype, result.shape, result.format = port.name, port.dtype, list(shape), port.format
    result.element_num, result.data_size = tensor.element_num, tensor.data_size
    return result


def _same(arrays: Sequence[Any], others: Sequence[Any]) -> bool:
    if len(arrays) != len(others):
        return False
    for place, array in enumerate(arrays):  # noqa: SIM110 (`all` takes three times as long)
        if array is not others[place]:
            return False
    return True


def _fits(outputs: Sequence[Array], inputs: Sequence[Array], ports: Sequence[Port], free: bool) -> bool:
    """Return True if results can be written to the outputs, which must not share memory."""
    return _are_writable(outputs) and not any(
        not (output.shape == port.shape or (free and takes(port.shape, output.shape)))
        or output.dtype == object
        or any(np.may_share_memory(output, other) for other in (*inputs, *outputs[:place]))
        for place, (output, port) in enumerate(zip(outputs, ports, strict=True))
    )


def _are_writable(arrays: Sequence[Array]) -> bool:
    for array in arrays:  # noqa: SIM110 (as above)
        if not array.flags.writeable:
            return False
    return True


def _shape_of_result(tensor: Tensor, port: Port) -> Shape | None:
    """Return the shape of the result that a tensor on a device receives; None if only the run tells it.

    Raises `DataMismatchError` if the tensor cannot receive it.
    """
    have, want = tuple(tensor.shape), port.shape
    if tensor.dtype is port.dtype and not is_free(have):
        if takes(want, have):
            return have
        known, size = math.prod(d for d in want if d >= 0), math.prod(have)
        free = sum(d < 0 for d in want)
        if known == size if not free else known and size % known == 0:
            return None if free > 1 else tuple(size // known if d < 0 else d for d in want)
    raise _no_place(tensor, port, port.dims())


def _no_place(tensor: Tensor, port: Port, shape: object) -> DataMismatchError:
    return mismatch(
        f"output {port.name!r} has {port.dtype} and shape {shape}, but the tensor on {tensor.device} that "
        f"shall receive it has {tensor.dtype} and {tensor.shape}"
    )


def _copy_into(given: Tensor, result: Tensor, port: Port) -> None:
    array = result.get_data_to_numpy()
    if given.on_device:
        if given.element_num != array.size:
            raise _no_place(given, port, list(array.shape))
        given.set_data_from_numpy(array)
        return
    in_place = given.has_data and given.get_data_to_numpy().flags.writeable
    if in_place and given.dtype is result.dtype and given.data_size == array.nbytes:
        given.shape = result.shape
        np.copyto(given.get_data_to_numpy(), array)
        return
    given.dtype, given.shape = result.dtype, result.shape
    given.set_data_from_numpy(array)
