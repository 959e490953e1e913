"""Sessions of onnxruntime, and the executable around one."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import numpy as np
import onnxruntime as ort

from pinnace.engines.protocol import Array, State
from pinnace.errors import EngineError
from pinnace.target import Target
from pinnace.types import DataType, Interface, Port

NAME = f"onnxruntime {ort.__version__}"
NO_OPTIMIZATION = ort.GraphOptimizationLevel.ORT_DISABLE_ALL

_BFLOAT16 = DataType.BFLOAT16.to_numpy()
_ONNX_BFLOAT16 = 16  # in onnx.TensorProto.DataType
_FATAL = 4  # log severity: what goes wrong is raised, not printed as well


class OnnxruntimeExecutable:
    """A session over weights that stay where they lie; `held` are those that it does not own."""

    def __init__(
        self,
        session: ort.InferenceSession,
        interface: Interface,
        first_state: Sequence[Array],
        target: Target,
        held: Sequence[object],
    ) -> None:
        self._session, self._held = session, held
        self._inputs, self._outputs = interface.inputs, interface.outputs
        self._names = [p.name for p in interface.inputs] + [name for name, _ in interface.states]
        self._fetch = [p.name for p in interface.outputs] + [name for _, name in interface.states]
        self._first_state = first_state
        self._cores = frozenset(target.cores[: max(target.parallel_requests, 1)])
        self._info = {**interface.info, "engine": NAME, "precision": "float32"}
        dtypes = [p.dtype.to_numpy() for p in (*interface.inputs, *interface.outputs)]
        dtypes += [value.dtype for value in first_state]
        self._compute = session.run if _BFLOAT16 not in dtypes else self._run_with_values

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What `run` takes, in order."""
        return self._inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """What `run` gives, in order."""
        return self._outputs

    @property
    def info(self) -> Mapping[str, str]:
        """User info of the file, and the engine's name and version."""
        return self._info

    def new_state(self) -> State:
        """The first values of what the model keeps between predictions."""
        return [np.array(value) for value in self._first_state]

    def run(self, arrays: Sequence[Array], state: State) -> list[Array]:
        """Compute the outputs; `EngineError` where onnxruntime fails."""
        feed = dict(zip(self._names, (*arrays, *state), strict=True))
        try:
            if self._cores:
                with _bound(self._cores):
                    results = self._compute(self._fetch, feed)
            else:
                results = self._compute(self._fetch, feed)
        except Exception as error:
            raise EngineError(f"onnxruntime: {error}") from None
        if state:
            count = len(self._outputs)
            state[:] = results[count:]
            return results[:count]
        return results

    def _run_with_values(self, fetch: list[str], feed: dict[str, Array]) -> list[Array]:
        # onnxruntime's arrays know no bfloat16, its values do.
        values = {name: _as_value(array) for name, array in feed.items()}
        return [_as_array(value) for value in self._session.run_with_ort_values(fetch, values)]

    def close(self) -> None:
        """Free the session."""
        del self._session, self._held, self._compute


def options(target: Target, folder: str | None = None) -> ort.SessionOptions:
    """Options of a session whose external weights lie in `folder`.

    The threads of one session serve all its requests, and every request brings its caller's.
    """
    threads = target.threads or max(1, len(os.sched_getaffinity(0)) // target.parallel_requests)
    pool = target.parallel_requests * (threads - 1) + 1
    chosen = ort.SessionOptions()
    # Processors without VNNI add pairs of products in 16 bits: with weights of all 8 bits sums are cut off.
    chosen.add_session_config_entry("session.x64quantprecision", "1")
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
    model: bytes, chosen: ort.SessionOptions, disabled_optimizers: Sequence[str] = ()
) -> ort.InferenceSession:
    """A session on the processor."""
    return ort.InferenceSession(
        model,
        chosen,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=disabled_optimizers,
        enable_fallback=0,  # it prints the error, and does the same once more
    )


def _as_value(array: Array) -> ort.OrtValue:
    if array.dtype != _BFLOAT16:
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), _ONNX_BFLOAT16)


def _as_array(value: ort.OrtValue) -> Array:
    if value.data_type() != "tensor(bfloat16)":
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    memory = (ctypes.c_uint16 * math.prod(shape)).from_address(value.data_ptr())
    return np.array(np.frombuffer(memory, _BFLOAT16).reshape(shape))


@contextmanager
def _bound(cores: frozenset[int]) -> Iterator[None]:
    """Bind the calling thread to `cores` for a while."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
