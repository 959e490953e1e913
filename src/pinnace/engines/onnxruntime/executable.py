"""The executable around a session of onnxruntime, and its executions."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast
from weakref import ReferenceType, ref

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as _state

from pinnace.engines.onnxruntime import device_errors, providers, session
from pinnace.engines.onnxruntime.device_memory import FAILURES, ONNX_BFLOAT16, OrtArray
from pinnace.engines.protocol import HERE, Execution, State
from pinnace.errors import EngineError
from pinnace.options.target import Target
from pinnace.shapes import is_free
from pinnace.tensors.results import Results
from pinnace.types import Array, DataType, Interface, Port

if TYPE_CHECKING:
    from pinnace.engines.onnxruntime.profiling import SessionProfile
    from pinnace.engines.steps import Step

_value_of = _state.OrtValue.ortvalue_from_numpy
_HOST = ort.OrtDevice.make("cpu", 0)._get_c_device()

_LOST_BY_FORK = (
    "this process was forked and lacks the threads of inter_op_parallel_num: build the model here, or start "
    "the process by spawn"
)

_copy = np.array

_TINY = 2048
"""Bytes up to which copying an array is faster than binding it."""


class OnnxruntimeExecutable:
    """A session over mapped weights; `held` keeps the objects alive that it does not own."""

    queues = False

    runs_in = HERE

    def __init__(
        self,
        started: ort.InferenceSession,
        interface: Interface,
        first_state: Sequence[Array],
        held: Sequence[object],
        target: Target,
        profile: SessionProfile | None = None,
    ) -> None:
        self._session, self._held, self._profile = started, held, profile
        self._interface, self._first_state = interface, first_state
        self.lost_by_fork = _LOST_BY_FORK if target.inter_op_threads > 1 else ""
        self.inputs, self.outputs = interface.inputs, interface.outputs
        precision = session.precision(started) if target.device == "cpu" else providers.precision(target)
        self.info = {**interface.info, "engine": session.NAME, "precision": precision}
        ports = (*interface.inputs, *interface.outputs)
        kinds = {*(p.dtype for p in ports), *(DataType.from_numpy(value.dtype) for value in first_state)}
        if (target.device != "cpu" or target.simulates) and DataType.STRING not in kinds:
            self._kind: type[_OrtExecution] = _DeviceExecution
        elif DataType.BFLOAT16 in kinds:
            self._kind = _ValueExecution
        elif DataType.STRING in kinds or interface.states:
            self._kind = _OrtExecution
        elif any(is_free(p.shape) for p in ports):
            self._kind = _FreeExecution
        else:
            tiny = all(_size(port) <= _TINY for port in ports)
            self._kind = _CopyingExecution if tiny else _BoundExecution
        self.writes_free = self._kind is _FreeExecution
        self.takes_device_memory = self._kind is _DeviceExecution
        self.is_light = not (self.takes_device_memory or interface.states)

    def execution(self, state: State | None = None) -> Execution:
        first = [np.array(value) for value in self._first_state] if state is None else state
        return self._kind(self._session, self._interface, first)

    def profile(self) -> list[list[Step]]:
        return self._profile.runs(self._session) if self._profile else []

    def close(self) -> None:
        del self._session, self._held
        if self._profile:
            self._profile.close()


class _OrtExecution:
    """Runs of a model with any shapes.

    Calls go directly to the session inside `InferenceSession`, whose checks the API has done before.
    """

    def __init__(self, session: ort.InferenceSession, interface: Interface, state: State) -> None:
        self.state = state
        self._options = ort.RunOptions()  # to create them for each run takes a microsecond
        self._session = session._sess
        self._names = [p.name for p in interface.inputs] + [name for name, _ in interface.states]
        self._fetch = [p.name for p in interface.outputs] + [name for _, name in interface.states]

    def run(self, arrays: Sequence[Array], outputs: list[Array] | None = None) -> list[Array]:
        try:
            results = self._compute(dict(zip(self._names, (*arrays, *self.state), strict=True)))
        except FAILURES as error:
            raise EngineError(f"onnxruntime: {session.message_of(error)}") from None
        if self.state:
            count = len(results) - len(self.state)
            results, self.state = results[:count], results[count:]
        return results if outputs is None else _copied(results, outputs)

    def stop(self, for_good: bool = False) -> None:
        """See `Execution`: onnxruntime looks at this before each node."""
        self._options.terminate = True

    def _compute(self, feed: dict[str, Array]) -> list[Array]:
        results: list[Array] = self._session.run(self._fetch, feed, self._options)
        return results


class _ValueExecution(_OrtExecution):
    """Runs with bfloat16, which onnxruntime supports in `OrtValue`s but not in arrays."""

    def _compute(self, feed: dict[str, Array]) -> list[Array]:
        values = {name: _as_value(array)._ortvalue for name, array in feed.items()}
        results = self._session.run_with_ort_values(values, self._fetch, self._options)
        return [_as_array(ort.OrtValue(value)) for value in results]


class _BindingExecution(_OrtExecution):
    """Runs whose inputs and outputs are bound."""

    def __init__(self, session: ort.InferenceSession, interface: Interface, state: State) -> None:
        super().__init__(session, interface, state)
        self._binding = session.io_binding()._iobinding
        self._misdeclared = False

    def _run_unbound(self, arrays: Sequence[Array], outputs: list[Array] | None) -> list[Array]:
        """Repeat a failed run without binding; if it succeeds, no later run binds.

        A file may declare other shapes than its results have. Other errors are raised again.
        """
        results = super().run(arrays, outputs)
        self._misdeclared = True
        return results


class _FreeExecution(_BindingExecution):
    """Runs of a model with free shapes, whose results are written to arrays that a caller gives.

    If their shapes are others, onnxruntime says so.
    """

    def run(self, arrays: Sequence[Array], outputs: list[Array] | None = None) -> list[Array]:
        if outputs is None or self._misdeclared:
            return super().run(arrays)
        binding = self._binding
        try:
            for name, array in zip(self._names, arrays, strict=True):
                binding.bind_input(name, array)
            for name, array in zip(self._fetch, outputs, strict=True):
                binding.bind_ortvalue_output(name, _value_of(array, _HOST))
            self._session.run_with_iobinding(binding, self._options)
        except FAILURES:
            return self._run_unbound(arrays, None)
        finally:
            binding.clear_binding_inputs()
            binding.clear_binding_outputs()
        return outputs


class _BoundExecution(_BindingExecution):
    """Runs of a model with fixed shapes, which bind the caller's arrays.

    Arrays that the previous run bound are not bound again, which would take a microsecond each. They are held
    until others replace them.
    """

    def __init__(self, session: ort.InferenceSession, interface: Interface, state: State) -> None:
        super().__init__(session, interface, state)
        self._read: list[Array | None] = [None] * len(self._names)
        self._written: list[Array] = []
        self._memory = Results([(p.shape, p.dtype.to_numpy()) for p in interface.outputs])

    def run(self, arrays: Sequence[Array], outputs: list[Array] | None = None) -> list[Array]:
        if self._misdeclared:
            return self._run_unbound(arrays, outputs)
        read, binding = self._read, self._binding
        try:
            for place, array in enumerate(arrays):
                if array is not read[place]:
                    read[place] = None  # if this is interrupted, it is bound again
                    binding.bind_input(self._names[place], array)
                    read[place] = array
            results = self._new_results() if outputs is None else self._given(outputs)
            self._session.run_with_iobinding(binding, self._options)
        except FAILURES:
            return self._run_unbound(arrays, outputs)
        return results

    def _new_results(self) -> list[Array]:
        results, self._written = self._memory.new(), []
        for place, name in enumerate(self._fetch):
            self._binding.bind_ortvalue_output(name, _value_of(results[place], _HOST))
        return results

    def _given(self, outputs: list[Array]) -> list[Array]:
        if len(self._written) != len(outputs) or any(map(operator.is_not, outputs, self._written)):
            self._written = []
            for name, array in zip(self._fetch, outputs, strict=True):
                self._binding.bind_ortvalue_output(name, _value_of(array, _HOST))
            self._written = list(outputs)
        return outputs


class _CopyingExecution(_BindingExecution):
    """Copies tiny inputs and outputs to and from bound arrays, which takes a fifth of binding them."""

    def __init__(self, session: ort.InferenceSession, interface: Interface, state: State) -> None:
        super().__init__(session, interface, state)
        read = [np.zeros(p.shape, p.dtype.to_numpy()) for p in interface.inputs]
        self._read = [(array, array.shape, array.dtype) for array in read]
        self._written = [np.zeros(p.shape, p.dtype.to_numpy()) for p in interface.outputs]
        for name, array in zip(self._names, read, strict=True):
            self._binding.bind_input(name, array)
        for name, array in zip(self._fetch, self._written, strict=True):
            self._binding.bind_ortvalue_output(name, _value_of(array, _HOST))

    def run(self, arrays: Sequence[Array], outputs: list[Array] | None = None) -> list[Array]:
        if self._misdeclared:
            return self._run_unbound(arrays, outputs)
        try:
            place = 0
            for read, shape, dtype in self._read:
                array = arrays[place]
                place += 1  # noqa: SIM113 (`enumerate` takes longer)
                if array.shape != shape or array.dtype != dtype:
                    return self._run_unbound(arrays, outputs)  # numpy would broadcast or convert it
                read[...] = array
            self._session.run_with_iobinding(self._binding, self._options)
        except FAILURES:
            return self._run_unbound(arrays, outputs)
        if outputs is None:
            results = []
            for written in self._written:  # a comprehension would take longer
                results.append(_copy(written))
            return results
        place = 0
        for output in outputs:
            output[...] = self._written[place]
            place += 1  # noqa: SIM113
        return outputs


class _DeviceExecution(_OrtExecution):
    """Runs on a device, with arrays in its memory or the host's.

    Device memory alone stays bound by address, which keeps nothing alive; two bindings serve buffers that
    take turns. Otherwise everything is bound again for each run: onnxruntime copies arrays in host memory
    when they are bound, and they may have changed since.
    """

    def __init__(self, session: ort.InferenceSession, interface: Interface, state: State) -> None:
        super().__init__(session, interface, state)
        self._whole, self._binding = session, session.io_binding()
        self._bound: list[tuple[ort.IOBinding, list[ReferenceType[OrtArray]]]] = []

    def run(self, arrays: Sequence[Array], outputs: list[Any] | None = None) -> list[Array]:
        there = None if self.state or outputs is None else _all_there((*arrays, *outputs))
        try:
            if there is None:
                return self._run_anywhere(arrays, outputs)
            binding = self._binding_of(there)
            self._session.run_with_iobinding(binding._iobinding, self._options)
            binding.synchronize_outputs()
        except FAILURES as error:
            self._bound = []
            raise EngineError(f"onnxruntime: {device_errors.with_hint(session.message_of(error))}") from None
        return cast("list[Array]", outputs)

    def _binding_of(self, given: Sequence[OrtArray]) -> ort.IOBinding:
        for binding, before in self._bound:
            if all(one() is array for one, array in zip(before, given, strict=True)):
                return binding
        new = self._whole.io_binding()
        for name, array in zip(self._names, given, strict=False):
            array.bind_input(new, name)
        for name, array in zip(self._fetch, given[len(self._names) :], strict=True):
            array.bind_output(new, name)
        self._bound = [(new, [ref(array) for array in given]), *self._bound[:1]]
        return new

    def _run_anywhere(self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None) -> list[Array]:
        count = len(self._fetch) - len(self.state)
        into = [*([None] * count if outputs is None else outputs), *([None] * len(self.state))]
        binding = self._binding
        try:
            for name, array in zip(self._names, (*arrays, *self.state), strict=True):
                _bind_input(binding, name, array)
            for name, given in zip(self._fetch, into, strict=True):
                _bind_output(binding, name, given)
            self._session.run_with_iobinding(binding._iobinding, self._options)
            binding.synchronize_outputs()
            values = zip(binding.get_outputs(), into, strict=True)
            results = [_as_array(value) if given is None else given for value, given in values]
        finally:
            binding.clear_binding_inputs()
            binding.clear_binding_outputs()
        results, self.state = results[:count], results[count:]
        return results


def _all_there(given: Sequence[object]) -> list[OrtArray] | None:
    """Return these if they are all in device memory that keeps its address, else None."""
    there = [one for one in given if isinstance(one, OrtArray) and one.stays]
    return there if len(there) == len(given) else None


def _size(port: Port) -> int:
    """Return the bytes of an input or output with a fixed shape."""
    return math.prod(port.shape) * port.dtype.to_numpy().itemsize


def _bind_input(binding: ort.IOBinding, name: str, array: Array | OrtArray) -> None:
    if isinstance(array, OrtArray):
        array.bind_input(binding, name)
    else:
        binding.bind_ortvalue_input(name, _as_value(array))


def _bind_output(binding: ort.IOBinding, name: str, array: Array | OrtArray | None) -> None:
    if isinstance(array, OrtArray):
        array.bind_output(binding, name)
    elif array is None:
        binding.bind_output(name)  # onnxruntime allocates host memory
    else:
        binding.bind_ortvalue_output(name, _as_value(array))


def _copied(results: Sequence[Array], outputs: list[Array]) -> list[Array]:
    for result, output in zip(results, outputs, strict=True):
        if result.shape != output.shape:
            raise EngineError(
                f"onnxruntime: an output has the shape {list(result.shape)}, not "
                f"{list(output.shape)} as the model declares: call predict without output arrays"
            )
        np.copyto(output, result)
    return outputs


def _as_value(array: Array) -> ort.OrtValue:
    if array.dtype.name != "bfloat16":
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), ONNX_BFLOAT16)


def _as_array(value: ort.OrtValue) -> Array:
    if value.data_type() != "tensor(bfloat16)":
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    memory = (ctypes.c_uint16 * math.prod(shape)).from_address(value.data_ptr())
    return np.array(np.frombuffer(memory, DataType.BFLOAT16.to_numpy()).reshape(shape))
