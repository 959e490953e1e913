"""onnxruntime on the processor."""

from __future__ import annotations

import ctypes
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as _state

from pinnace.compiler.graph import Compilable
from pinnace.compiler.passes import rewrite
from pinnace.engines.divisors import check_divisors
from pinnace.engines.protocol import Array, State
from pinnace.errors import EngineError, UnsupportedModelError, UnsupportedPrimitive
from pinnace.target import Target
from pinnace.types import DataType, Port
from pinnace.weights.source import SMALL

_BFLOAT16 = DataType.BFLOAT16.to_numpy()
_SLOW_OPTIMIZERS = ["SkipLayerNormFusion"]
"""Optimizers of onnxruntime that make a model slower: its sum and LayerNormalization in one (seen in 1.31)
takes 5 times as long as the two by themselves."""

_FATAL = 4  # log severity: what goes wrong is raised, not printed as well
_FOLDED = 1 << 26
"""Bytes that a result computed ahead of the run may have; more where the weights are larger.

Without a bound a file of some hundred bytes makes the engine fill the memory while it is built.
"""


class OnnxruntimeExecutable:
    """A session over weights that stay in their file."""

    def __init__(self, graph: Compilable, target: Target) -> None:
        self._inputs, self._outputs = graph.inputs, graph.outputs
        self._names = [p.name for p in graph.inputs] + [i.name or "" for i, _ in graph.states]
        self._first_state = [i.const_value.numpy() for i, _ in graph.states if i.const_value is not None]
        self._fetch = [p.name for p in graph.outputs] + [o for _, o in graph.states]
        self._cores = frozenset(target.cores[: max(target.parallel_requests, 1)])
        self._info = {**graph.info, "engine": f"onnxruntime {ort.__version__}", "precision": "float32"}
        self._session, self._held = _session(graph, target)
        dtypes = [p.dtype.to_numpy() for p in (*graph.inputs, *graph.outputs)]
        dtypes += [value.dtype for value in self._first_state]
        self._compute = self._session.run if _BFLOAT16 not in dtypes else self._run_with_values

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


def _as_value(array: Array) -> ort.OrtValue:
    if array.dtype != _BFLOAT16:
        return ort.OrtValue.ortvalue_from_numpy(array)
    bits = array.view(np.uint16)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, ir.DataType.BFLOAT16.value)


def _as_array(value: ort.OrtValue) -> Array:
    if value.data_type() != "tensor(bfloat16)":
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    memory = (ctypes.c_uint16 * math.prod(shape)).from_address(value.data_ptr())
    return np.array(np.frombuffer(memory, _BFLOAT16).reshape(shape))


def _session(graph: Compilable, target: Target) -> tuple[ort.InferenceSession, list[Array]]:
    options = _options(target)
    if graph.folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", graph.folder)
    check_divisors(graph.model, graph.name)
    if graph.lowered:
        rewrite(graph.model)
    room = str(max(_FOLDED, _weight_bytes(graph.model)))
    options.add_session_config_entry("optimization.constant_folding_max_output_size_in_bytes", room)
    held = _hand_over(graph.model, options)
    try:
        wrong = _wrong_optimizers(graph.model) + (_SLOW_OPTIMIZERS if graph.lowered else [])
        data = _encoded(graph.model)
        session = ort.InferenceSession(
            data,
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=wrong,
            enable_fallback=0,  # it prints the error, and does the same once more
        )
        return session, held
    except Exception as error:
        missing = lacking(graph.model)
        if missing:
            raise UnsupportedModelError(graph.name, missing) from None
        raise EngineError(f"{graph.name}: onnxruntime cannot build it: {error}") from None


def _wrong_optimizers(model: ir.Model) -> list[str]:
    """Optimizers of onnxruntime that would change the results of this model.

    Pad_Fusion (seen in 1.31) makes the zeros of a Pad before a MaxPool the pool's own padding, which never
    wins the maximum: wrong wherever all values of a window are negative.
    """
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        before = node.inputs[0].producer() if node.op_type == "MaxPool" and node.inputs[0] else None
        if before is not None and before.op_type == "Pad":
            return ["Pad_Fusion"]
    return []


def lacking(model: ir.Model) -> list[UnsupportedPrimitive]:
    """The operators of a model that onnxruntime has no kernel for, most used first."""
    count: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    own = {(f.domain, f.name) for f in model.functions.values()}
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        operator = (node.domain, node.op_type)
        if operator not in own and operator not in _kernels() and not _is_function(*operator):
            count[operator] += 1
            first.setdefault(operator, node.name or "")
    return [
        UnsupportedPrimitive(
            name, n, first[domain, name], f"onnxruntime has no {domain or 'ONNX'} kernel for it"
        )
        for (domain, name), n in count.most_common()
    ]


@cache
def _kernels() -> frozenset[tuple[str, str]]:
    # Constants become initializers before kernels are looked for.
    return frozenset((k.domain, k.op_name) for k in _state.get_all_opkernel_def()) | {("", "Constant")}


def _is_function(domain: str, name: str) -> bool:
    """Whether ONNX defines an operator by others, so that no kernel is needed."""
    if not onnx.defs.has(name, domain=domain):
        return False
    # The stubs of onnx lack these two.
    schema: Any = onnx.defs.get_schema(name, domain=domain)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _encoded(model: ir.Model) -> bytes:
    """The model as bytes, without the types of intermediate values: the engine infers them by itself."""
    computed = (output for node in model.graph for output in node.outputs)
    for value in (*computed, *model.graph.initializers.values()):
        if not value.is_graph_output() and not value.is_graph_input():
            value.type = value.shape = None
    return ir.serde.serialize_model(model).SerializeToString()


def _options(target: Target) -> ort.SessionOptions:
    """Threads: those of one session serve all its requests, and every request brings its caller's."""
    threads = target.threads or max(1, len(os.sched_getaffinity(0)) // target.parallel_requests)
    pool = target.parallel_requests * (threads - 1) + 1
    options = ort.SessionOptions()
    options.log_severity_level = _FATAL
    options.intra_op_num_threads = pool
    if target.inter_op_threads > 1:
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = target.inter_op_threads
    if target.parallel_requests > 1:
        # A thread that spins for work takes the core from the other requests' threads.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if target.cores and pool > 1:
        # One entry for each thread but the caller's; processors are counted from 1 here.
        rest = target.cores[target.parallel_requests :] or target.cores
        bound = [str(rest[i % len(rest)] + 1) for i in range(pool - 1)]
        options.add_session_config_entry("session.intra_op_thread_affinities", ";".join(bound))
    return options


def _weight_bytes(model: ir.Model) -> int:
    return sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)


def _hand_over(model: ir.Model, options: ort.SessionOptions) -> list[Array]:
    """Give large weights that lie in memory to the session as they are; returns what it refers to."""
    names, values, held = [], [], []
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or isinstance(tensor, ir.ExternalTensor) or tensor.nbytes <= SMALL:
            continue
        array = np.ascontiguousarray(tensor.numpy())
        held.append(array)
        names.append(name)
        values.append(ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, tensor.dtype.value))
        # Only a place holder: the session takes the value above.
        value.const_value = ir.ExternalTensor(
            "memory", 0, tensor.nbytes, tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=name
        )
    if names:
        options.add_external_initializers(names, values)
    return held


@contextmanager
def _bound(cores: frozenset[int]) -> Iterator[None]:
    """Bind the calling thread to `cores` for a while."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
