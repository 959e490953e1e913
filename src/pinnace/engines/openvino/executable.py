"""The executable around a compiled model of OpenVINO, and its executions."""

from __future__ import annotations

import operator
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import openvino as ov

from pinnace.engines.openvino.conversion import with_known_dtype, writable
from pinnace.engines.openvino.guards import IndexLimit, counted, out_of_range, recorded
from pinnace.engines.openvino.session import FAILURES, LOST_BY_FORK, NAME
from pinnace.engines.protocol import HERE, Execution, State
from pinnace.engines.steps import Step
from pinnace.errors import EngineError
from pinnace.options.target import Target
from pinnace.types import Array, DataType, Interface

if TYPE_CHECKING:
    from pinnace.engines.names import Names

_PRECISIONS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
Held = Array | Mapping[str, Array]


_CANCELED = "Infer Request was canceled"
"""OpenVINO's text."""

_OPERATORS = {"Convolution": "Conv", "GroupConvolution": "Conv"}
"""ONNX's names of operators, to find the node of a step among several fused ones."""


class OpenvinoExecutable:
    """A compiled model whose shapes are fixed; `held` is the memory that it reads and does not own."""

    takes_device_memory = writes_free = is_light = False
    runs_in = HERE
    lost_by_fork = LOST_BY_FORK

    def __init__(
        self,
        model: ov.CompiledModel,
        interface: Interface,
        first_state: Sequence[Array],
        target: Target,
        held: Held,
    ) -> None:
        self._model: ov.CompiledModel | None = model
        self._held = held
        self._turn = threading.Lock()  # for runs on a single thread
        self._interface, self._first_state = interface, first_state
        self.inputs, self.outputs = interface.inputs, interface.outputs
        # Streams share a queue. A state per execution: as many as the user asked for.
        self.queues = target.parallel_requests > 1 and not interface.states
        self.names: Names | None = None
        self._profiled: list[_OpenvinoExecution] | None = [] if target.profile else None
        kind = model.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        self.info = {**interface.info, "engine": NAME, "precision": _PRECISIONS.get(kind, kind)}

    def execution(self, state: State | None = None) -> Execution:
        assert self._model is not None
        first = [np.array(value) for value in self._first_state] if state is None else state
        execution = _OpenvinoExecution(self._model, self._held, self._turn, self._interface, first)
        if self._profiled is not None:
            execution.steps = []
            self._profiled.append(execution)
        return execution

    def profile(self) -> list[list[Step]]:
        """Return the steps of each run so far, in sequence: OpenVINO reports only durations."""
        profiled, self._profiled = self._profiled or [], None
        runs = [run for execution in profiled for run in execution.steps or ()]
        if self.names is None or self._model is None:
            return runs
        named = _names_in_file(self._model, self.names)
        return [[replace(step, node=named.get(step.node, step.node)) for step in run] for run in runs]

    def close(self) -> None:
        self._model = None


class _OpenvinoExecution:
    """Runs of one request, without `InferRequest.infer`, which takes 50 microseconds of Python.

    Arrays that the previous run bound are not bound again; they are held until others replace them.
    """

    def __init__(
        self, model: ov.CompiledModel, held: Held, turn: threading.Lock, interface: Interface, state: State
    ) -> None:
        self.state = state
        self.steps: list[list[Step]] | None = None
        self._stopped = False
        self._results = [(p.shape, p.dtype.to_numpy()) for p in interface.outputs]
        self._model, self._held = model, held  # a request does not keep them alive
        self._request = self._model.create_infer_request()
        self._inner: Any = super(ov.InferRequest, self._request)
        # With one thread in all, `infer` drops errors, leaves results as they were, and crashes later.
        self._is_asynchronous = self._model.get_property("INFERENCE_NUM_THREADS") == 1
        self._turn = turn if self._is_asynchronous else nullcontext()
        bounds = recorded(self._model)
        self._limits = [
            (place, port.name, bounds.get(port.name, IndexLimit()))
            for place, port in enumerate(interface.inputs)
            if port.dtype is DataType.INT64 or port.name in bounds
        ]
        self._gathers = counted(self._model)
        self._counts = np.zeros(len(self._gathers), np.int32)
        if self._gathers:
            counts = ov.Tensor(self._counts, shared_memory=True)
            self._request.set_output_tensor(len(self._model.outputs) - 1, counts)
        outputs = self._model.outputs[: len(interface.outputs) + len(interface.states)]
        self._fixed = not interface.states and all(
            output.partial_shape.is_static and tuple(output.shape) == port.shape and 0 not in port.shape
            for output, port in zip(outputs, interface.outputs, strict=True)
        )
        names = [p.name for p in interface.inputs] + [name for name, _ in interface.states]
        places = {name: place for place, port in enumerate(self._model.inputs) for name in port.get_names()}
        self._places = [places.get(name) for name in names]  # OpenVINO drops unused inputs
        self._read: list[Array | None] = [None] * len(names)
        self._written: list[Array] = []

    def run(self, arrays: Sequence[Array], outputs: list[Array] | None = None) -> list[Array]:
        """Compute the outputs. Raises `EngineError` if OpenVINO fails, or its result differs from ONNX's."""
        for place, name, limit in self._limits:
            limit.check(name, arrays[place])
        try:
            results = self._computed(arrays, outputs)
        except FAILURES as error:
            raise EngineError(f"openvino: {' '.join(str(error).split())}") from None
        if self._gathers and self._counts.any():
            raise out_of_range(self._gathers[self._counts.argmax()])
        if self.steps is not None:
            self.steps.append(_steps(self._request))
        if self.state:
            count = len(self._results)
            results, self.state = results[:count], results[count:]
        if outputs is not None and not self._fixed:
            for result, output in zip(results, outputs, strict=True):
                np.copyto(output, result)
            return outputs
        return results if outputs is None else outputs

    def stop(self, for_good: bool = False) -> None:
        """See `Execution`: OpenVINO looks at this before each node of the graph, but not within a loop."""
        self._stopped = True
        self._request.cancel()

    def _computed(self, arrays: Sequence[Array], outputs: list[Array] | None) -> list[Array]:
        for index, array in enumerate((*arrays, *self.state)):
            place = self._places[index]
            if array is not self._read[index] and place is not None:
                self._read[index] = None  # if this is interrupted, it is bound again
                self._request.set_input_tensor(place, ov.Tensor(writable(array), shared_memory=True))
                self._read[index] = array
        if self._fixed:
            self._write(outputs or [np.empty(*kind) for kind in self._results])
        with self._turn:
            self._infer()
        return self._written if self._fixed else self._copied()

    def _infer(self) -> None:
        if self._stopped:
            raise EngineError(_CANCELED)
        if self._is_asynchronous:
            try:
                self._inner.start_async({}, None)
            finally:  # it also runs if a signal handler has raised
                self._inner.wait()
        else:
            self._inner.infer({}, share_outputs=True, decode_strings=False)

    def _write(self, outputs: Sequence[Array]) -> None:
        if len(self._written) != len(outputs) or any(map(operator.is_not, outputs, self._written)):
            self._written = []
            for place, array in enumerate(outputs):
                self._request.set_output_tensor(place, ov.Tensor(with_known_dtype(array), shared_memory=True))
            self._written = list(outputs)

    def _copied(self) -> list[Array]:
        count = len(self._results) + len(self.state)
        return [np.array(self._request.get_output_tensor(place).data) for place in range(count)]


def _names_in_file(model: ov.CompiledModel, names: Names) -> dict[str, str]:
    """Return the file's names of OpenVINO's nodes: for each, the first of its original nodes that has one."""
    found = {}
    for node in model.get_runtime_model().get_ops():
        info, name = node.get_rt_info(), node.get_friendly_name()
        originals = (
            info["originalLayersNames"].astype(str).split(",") if "originalLayersNames" in info else []
        )
        operator = _OPERATORS.get(info["layerType"].astype(str), "") if "layerType" in info else ""
        found[name] = next((n for o in originals if (n := names.of(o, operator)) != o), names.of(name))
    return found


def name_parts(model: ov.Model) -> None:
    """Name the parts into which OpenVINO's reader splits a node after it; only the last part has its name."""
    for node in reversed(model.get_ordered_ops()):
        readers = [reader.get_node() for output in node.outputs() for reader in output.get_target_inputs()]
        whole = readers[0].get_friendly_name() if readers else ""
        if whole and whole != readers[0].get_name() and node.get_friendly_name() == node.get_name():
            node.set_friendly_name(f"{whole}/{node.get_name()}")


def _steps(request: ov.InferRequest) -> list[Step]:
    steps, now = [], 0.0
    for node in request.get_profiling_info():
        duration = node.real_time.total_seconds() * 1e6
        if duration:
            steps.append(Step(node.node_name, node.node_type, now, duration))
            now += duration
    return steps
