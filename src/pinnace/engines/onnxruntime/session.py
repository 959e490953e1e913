"""Sessions of onnxruntime, and the executable around one."""

from __future__ import annotations

import ctypes
import math
import operator
import os
import platform
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as _state

from pinnace.engines.onnxruntime import providers, starting
from pinnace.engines.onnxruntime.memory import BFLOAT16, ONNX_BFLOAT16, OrtArray
from pinnace.engines.onnxruntime.profiling import Notes
from pinnace.engines.protocol import Execution, State, failures
from pinnace.engines.steps import Step
from pinnace.errors import EngineError
from pinnace.machine.processor import sixteen_bit_types
from pinnace.options.target import Target
from pinnace.types import Array, DataType, Interface, Port

NAME = f"onnxruntime {ort.__version__}"
NO_OPTIMIZATION = ort.GraphOptimizationLevel.ORT_DISABLE_ALL

_value_of = _state.OrtValue.ortvalue_from_numpy
_HOST = ort.OrtDevice.make("cpu", 0)._get_c_device()
_BFLOAT16_PRODUCTS = "mlas.enable_gemm_fastmath_arm64_bfloat16"
"""Products of matrices in bfloat16, with sums in float32, on Arm: all that onnxruntime has in 16 bits for
models in float32."""

_PLAIN = ort.RunOptions()
"""Without any, onnxruntime makes some for each run, which takes a microsecond."""

_TINY = 2048
"""Bytes up to which to copy an array is faster than to bind it, and does not depend on where it lies."""

_FAILURES = failures(_state)

_FATAL = 4  # log severity: what goes wrong is raised, not printed as well


class OnnxruntimeExecutable:
    """A session over weights that stay where they lie; `held` are those that it does not own."""

    def __init__(
        self,
        session: ort.InferenceSession,
        interface: Interface,
        first_state: Sequence[Array],
        held: Sequence[object],
        target: Target,
        notes: Notes | None = None,
    ) -> None:
        self._session, self._held, self._notes = session, held, notes
        self._interface, self.inputs, self.outputs = interface, interface.inputs, interface.outputs
        self._first_state = first_state
        precision = _precision(session) if target.device == "cpu" else providers.precision(target)
        self.info = {**interface.info, "engine": NAME, "precision": precision}
        ports = (*interface.inputs, *interface.outputs)
        kinds = {*(p.dtype for p in ports), *(DataType.from_numpy(value.dtype) for value in first_state)}
        fixed = all(min(p.shape, default=0) >= 0 for p in ports)
        if (target.device != "cpu" or target.simulates) and DataType.STRING not in kinds:
            self._kind: type[_OrtExecution] = _DeviceExecution
        elif DataType.BFLOAT16 in kinds:
            self._kind = _ValueExecution
        elif fixed and DataType.STRING not in kinds and not interface.states:
            tiny = all(_size(port) <= _TINY for port in ports)
            self._kind = _CopyingExecution if tiny else _BoundExecution
        else:
            self._kind = _OrtExecution
        self.takes_device_memory = self._kind is _DeviceExecution

    def execution(self, state: State | None = None) -> Execution:
        """A place to run; places have nothing in common but the session."""
        first = [np.array(value) for value in self._first_state] if state is None else state
        return self._kind(self._session, self._interface, first)

    def profile(self) -> list[list[Step]]:
        """The steps of each run so far, where they are noted."""
        return self._notes.runs(self._session) if self._notes else []

    def close(self) -> None:
        """Free the session."""
        del self._session, self._held
        if self._notes:
            self._notes.close()


class _OrtExecution:
    """Runs of a model of any shapes.

    Calls go to the session beneath `InferenceSession`: what that one checks, the API has checked before.
    """

    def __init__(self, session: ort.InferenceSession, interface: Interface, state: State) -> None:
        self.state = state
        self._session = session._sess
        self._names = [p.name for p in interface.inputs] + [name for name, _ in interface.states]
        self._fetch = [p.name for p in interface.outputs] + [name for _, name in interface.states]

    def run(self, arrays: Sequence[Array], outputs: Sequence[Array] | None = None) -> list[Array]:
        """Compute the outputs; `EngineError` where onnxruntime fails."""
        try:
            results = self._compute(dict(zip(self._names, (*arrays, *self.state), strict=True)))
        except _FAILURES as error:
            raise EngineError(f"onnxruntime: {error}") from None
        if self.state:
            count = len(results) - len(self.state)
            results, self.state = results[:count], results[count:]
        return results if outputs is None else _copied(results, outputs)

    def _compute(self, feed: dict[str, Array]) -> list[Array]:
        results: list[Array] = self._session.run(self._fetch, feed, _PLAIN)
        return results


class _ValueExecution(_OrtExecution):
    """Runs with bfloat16, which onnxruntime's arrays do not know; its values do."""

    def _compute(self, feed: dict[str, Array]) -> list[Array]:
        values = {name: _as_value(array)._ortvalue for name, array in feed.items()}
        results = self._session.run_with_ort_values(values, self._fetch, _PLAIN)
        return [_as_array(ort.OrtValue(value)) for value in results]


class _FixedExecution(_OrtExecution):
    """Runs of a model of fixed shapes, whose inputs and outputs can be bound."""

    def __init__(self, session: ort.InferenceSession, interface: Interface, state: State) -> None:
        super().__init__(session, interface, state)
        self._binding = session.io_binding()._iobinding
        self._results = [(p.name, p.shape, p.dtype.to_numpy()) for p in interface.outputs]
        self._misdeclared = False

    def _run_unbound(self, arrays: Sequence[Array], outputs: Sequence[Array] | None) -> list[Array]:
        """What a run does that has failed, and all after it.

        A file may declare other shapes than its results have; what else is wrong is said here again.
        """
        results = super().run(arrays, outputs)
        self._misdeclared = True
        return results


class _BoundExecution(_FixedExecution):
    """Writes the results where the caller gets them.

    What was bound by the run before, the same arrays again, is not bound anew: that takes a microsecond
    each. The arrays are held until others take their place.
    """

    def __init__(self, session: ort.InferenceSession, interface: Interface, state: State) -> None:
        super().__init__(session, interface, state)
        self._read: list[Array | None] = [None] * len(self._names)
        self._written: list[Array] = []

    def run(self, arrays: Sequence[Array], outputs: Sequence[Array] | None = None) -> list[Array]:
        """Compute the outputs; `EngineError` where onnxruntime fails."""
        if self._misdeclared:
            return self._run_unbound(arrays, outputs)
        read, binding = self._read, self._binding
        try:
            for place, array in enumerate(arrays):
                if array is not read[place]:
                    read[place] = None  # where this is interrupted it is bound anew
                    binding.bind_input(self._names[place], array)
                    read[place] = array
            results = self._new_results() if outputs is None else self._given(outputs)
            self._session.run_with_iobinding(binding, _PLAIN)
        except _FAILURES:
            return self._run_unbound(arrays, outputs)
        return results

    def _new_results(self) -> list[Array]:
        results, self._written = [], []
        for name, shape, dtype in self._results:
            array = np.empty(shape, dtype)
            self._binding.bind_ortvalue_output(name, _value_of(array, _HOST))
            results.append(array)
        return results

    def _given(self, outputs: Sequence[Array]) -> list[Array]:
        if len(self._written) != len(outputs) or any(map(operator.is_not, outputs, self._written)):
            self._written = []
            for name, array in zip(self._fetch, outputs, strict=True):
                self._binding.bind_ortvalue_output(name, _value_of(array, _HOST))
            self._written = list(outputs)
        return self._written


class _CopyingExecution(_FixedExecution):
    """Copies tiny inputs and outputs to and from what stays bound: that takes a fifth of binding them."""

    def __init__(self, session: ort.InferenceSession, interface: Interface, state: State) -> None:
        super().__init__(session, interface, state)
        self._read = [np.zeros(p.shape, p.dtype.to_numpy()) for p in interface.inputs]
        self._written = [np.zeros(shape, dtype) for _, shape, dtype in self._results]
        for name, array in zip(self._names, self._read, strict=True):
            self._binding.bind_input(name, array)
        for name, array in zip(self._fetch, self._written, strict=True):
            self._binding.bind_ortvalue_output(name, _value_of(array, _HOST))

    def run(self, arrays: Sequence[Array], outputs: Sequence[Array] | None = None) -> list[Array]:
        """Compute the outputs; `EngineError` where onnxruntime fails."""
        if self._misdeclared:
            return self._run_unbound(arrays, outputs)
        try:
            for place, array in enumerate(arrays):
                read = self._read[place]
                if array.shape != read.shape or array.dtype != read.dtype:
                    return self._run_unbound(arrays, outputs)  # numpy would stretch or convert it
                read[...] = array
            self._session.run_with_iobinding(self._binding, _PLAIN)
        except _FAILURES:
            return self._run_unbound(arrays, outputs)
        if outputs is None:
            return [written.copy() for written in self._written]
        for place, output in enumerate(outputs):
            output[...] = self._written[place]
        return list(outputs)


class _DeviceExecution(_OrtExecution):
    """Runs on a device, from and into its memory, where that is given, or the host's.

    Everything is bound anew for each run: onnxruntime copies what lies in host memory when it is bound, and
    it may have changed since. Nothing stays bound, so that memory can be freed between runs.
    """

    def __init__(self, session: ort.InferenceSession, interface: Interface, state: State) -> None:
        super().__init__(session, interface, state)
        self._binding = session.io_binding()

    def run(self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None = None) -> list[Array]:
        """Compute the outputs; `EngineError` where onnxruntime fails."""
        count = len(self._fetch) - len(self.state)
        into = [*([None] * count if outputs is None else outputs), *([None] * len(self.state))]
        binding = self._binding
        try:
            for name, array in zip(self._names, (*arrays, *self.state), strict=True):
                _bind_input(binding, name, array)
            for name, given in zip(self._fetch, into, strict=True):
                _bind_output(binding, name, given)
            self._session.run_with_iobinding(binding._iobinding, _PLAIN)
            binding.synchronize_outputs()
            values = zip(binding.get_outputs(), into, strict=True)
            results = [_as_array(value) if given is None else given for value, given in values]
        except _FAILURES as error:
            raise EngineError(f"onnxruntime: {starting.with_hint(str(error))}") from None
        finally:
            binding.clear_binding_inputs()
            binding.clear_binding_outputs()
        results, self.state = results[:count], results[count:]
        return results


def _size(port: Port) -> int:
    """Bytes of an input or output of fixed shape."""
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
        binding.bind_output(name)  # memory of the host, which onnxruntime allocates
    else:
        binding.bind_ortvalue_output(name, _as_value(array))


def _copied(results: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
    for result, output in zip(results, outputs, strict=True):
        if result.shape != output.shape:
            raise EngineError(
                f"onnxruntime: an output has the shape {list(result.shape)}, and not "
                f"{list(output.shape)} as the model declares: leave out the arrays to write into"
            )
        np.copyto(output, result)
    return list(outputs)


def options(target: Target, folder: str | None = None) -> ort.SessionOptions:
    """Options of a session whose external weights lie in `folder`.

    The threads of one session serve all its requests, and every request brings its caller's.
    """
    threads = target.threads or max(1, len(os.sched_getaffinity(0)) // target.parallel_requests)
    pool = target.parallel_requests * (threads - 1) + 1
    chosen = ort.SessionOptions()
    # Processors without VNNI add pairs of products in 16 bits: with weights of all 8 bits sums are cut off.
    chosen.add_session_config_entry("session.x64quantprecision", "1")
    if target.precision == "preferred_fp16" and _has_bfloat16_products():
        chosen.add_session_config_entry(_BFLOAT16_PRODUCTS, "1")
    chosen.log_severity_level = _FATAL
    chosen.intra_op_num_threads = pool
    if target.inter_op_threads > 1:
        chosen.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        chosen.inter_op_num_threads = target.inter_op_threads
    if target.parallel_requests > 1:
        # A thread that spins for work takes the core from the other requests' threads.
        chosen.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if target.cores and pool > 1:
        # One entry for each thread but the caller's; processors are counted from 1 here.
        rest = target.cores[target.parallel_requests :] or target.cores
        bound = [str(rest[i % len(rest)] + 1) for i in range(pool - 1)]
        chosen.add_session_config_entry("session.intra_op_thread_affinities", ";".join(bound))
    if target.shared_workspace:
        _make_workspace()
        chosen.add_session_config_entry("session.use_env_allocators", "1")
    if folder is not None:
        chosen.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    return chosen


def _has_bfloat16_products() -> bool:
    return platform.machine() == "aarch64" and "bfloat16" in sixteen_bit_types()


def _precision(session: ort.InferenceSession) -> str:
    """What a session computes float32 in."""
    try:
        session.get_session_options().get_session_config_entry(_BFLOAT16_PRODUCTS)
    except RuntimeError:  # it was not set
        return "float32"
    return "bfloat16"


@cache
def _make_workspace() -> None:
    """An arena of the whole process: what one session gave back, the next one takes."""
    kind = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(kind, None)


Weights = Mapping[str, tuple[Array, int]]
"""Weights in memory by their names, each with the number of its ONNX element type."""


def hand_over(weights: Weights, chosen: ort.SessionOptions) -> list[object]:
    """Give a session that optimises weights that lie in memory: it copies them. Returns what it refers to."""
    values = _as_values(weights)
    if values:
        chosen.add_external_initializers(list(weights), values)
    return [values]


def lend(weights: Weights, chosen: ort.SessionOptions) -> list[object]:
    """Let a session that does not optimise use weights where they lie; returns what must live as long.

    A session that optimises would compute with the place holders in the model.
    """
    values = _as_values(weights)
    for name, value in zip(weights, values, strict=True):
        chosen.add_initializer(name, value)
    return [values, [array for array, _ in weights.values()]]


def _as_values(weights: Weights) -> list[ort.OrtValue]:
    return [
        ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ascontiguousarray(array), kind)
        for array, kind in weights.values()
    ]


def start(
    model: bytes,
    chosen: ort.SessionOptions,
    disabled_optimizers: Sequence[str] = (),
    chain: providers.Chain = providers.ON_CPU,
) -> ort.InferenceSession:
    """A session on the processor, or on the providers of `chain`.

    Raises `DeviceUnavailableError` where the first of them cannot start, as where a library that it needs is
    missing.
    """
    first = chain[0][0]
    if first in (providers.CUDA, providers.TENSORRT):
        starting.preload()
    try:
        started = ort.InferenceSession(
            model,
            chosen,
            providers=chain,
            disabled_optimizers=disabled_optimizers,
            enable_fallback=0,  # it prints the error, and does the same once more
        )
    except Exception as error:
        if first == providers.CPU:
            raise
        raise starting.explained(error, first) from None
    if first not in started.get_providers():
        raise starting.left_out(first)
    return started


def _as_value(array: Array) -> ort.OrtValue:
    if array.dtype != BFLOAT16:
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), ONNX_BFLOAT16)


def _as_array(value: ort.OrtValue) -> Array:
    if value.data_type() != "tensor(bfloat16)":
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    memory = (ctypes.c_uint16 * math.prod(shape)).from_address(value.data_ptr())
    return np.array(np.frombuffer(memory, BFLOAT16).reshape(shape))
