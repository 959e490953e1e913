"""Compiled models of OpenVINO, and the executable around one."""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import openvino as ov
import openvino._pyopenvino as _beneath

from pinnace.engines.openvino.guards import IndexLimit, counted, limits, out_of_range
from pinnace.engines.openvino.reading import known, writable
from pinnace.engines.protocol import Execution, State, failures
from pinnace.engines.steps import Step
from pinnace.errors import EngineError
from pinnace.machine.cores import bound, usable_core_count
from pinnace.options.target import Target
from pinnace.types import Array, DataType, Interface

if TYPE_CHECKING:
    from pinnace.engines.names import Names

NAME = f"openvino {ov.__version__.partition('-')[0]}"
_FAILURES = failures(_beneath)
_PRECISIONS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
Held = Array | Mapping[str, Array]


_forked = False


def _note_fork() -> None:
    global _forked
    _forked = core.cache_info().currsize > 0


os.register_at_fork(after_in_child=_note_fork)


@cache
def core() -> ov.Core:
    """One for the process: threads and kernels belong to it."""
    return ov.Core()


def check_threads() -> None:
    """Raise EngineError in a child whose parent has used OpenVINO: its threads are not there after a fork."""
    if _forked:
        raise EngineError(
            "openvino: this process was forked from one that has used openvino, and lacks its threads; "
            "fork before openvino is used, or start processes by spawn, or use provider onnxruntime"
        )


def properties(target: Target) -> dict[str, Any]:
    """What OpenVINO is told of a target. A stream is a request that runs; all have threads of their own."""
    streams = target.parallel_requests
    threads = target.threads or max(1, usable_core_count() // streams)
    return {
        "INFERENCE_NUM_THREADS": threads * streams,
        "NUM_STREAMS": streams,
        "INFERENCE_PRECISION_HINT": sixteen_bit() if target.precision == "preferred_fp16" else "f32",
        "ENABLE_CPU_PINNING": False,
        "PERF_COUNT": target.profile,
    }


def sixteen_bit() -> str:
    """The 16-bit type that this processor computes in, "f32" where there is none."""
    capabilities = core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return next((kind.lower() for kind in ("BF16", "FP16") if kind in capabilities), "f32")


def compiled(model: ov.Model | ov.Tensor, target: Target) -> ov.CompiledModel:
    """Compile a model, or load what was compiled, in threads on the target's processors."""
    check_threads()
    make = core().compile_model if isinstance(model, ov.Model) else core().import_model
    with bound(target.cores):  # threads have the processors of the one that starts them
        return make(model, "CPU", properties(target))


class _Renewable:
    """A compiled model that is made anew after a run that failed.

    OpenVINO's nodes keep the shapes that such a run gave them, and take them for those of a later one.
    `held` is the memory that it reads and does not own: weights, or what it was exported to and loaded from.
    """

    def __init__(self, model: ov.CompiledModel, target: Target, held: Held) -> None:
        self.now = model, held
        self.turn = threading.Lock()  # of the runs that one thread computes
        self.failed: ov.CompiledModel | None = None
        self._target, self._lock = target, threading.Lock()

    def stands(self, model: ov.CompiledModel) -> bool:
        return model is self.now[0] and model is not self.failed

    def renew(self, failed: ov.CompiledModel) -> None:
        if failed is self.now[0]:
            self.failed = failed  # at once: what others run on it meanwhile is not to be believed
        with self._lock:
            model, held = self.now
            if model is failed:
                if not isinstance(held, np.ndarray):  # what was loaded cannot be exported again
                    held = np.frombuffer(failed.export_model().getvalue(), np.uint8)
                self.now = compiled(ov.Tensor(writable(held), shared_memory=True), self._target), held
                self.failed = None


_OPERATORS = {"Convolution": "Conv", "GroupConvolution": "Conv"}
"""ONNX's names of operators, where they tell which of several nodes a step was made of."""


class OpenvinoExecutable:
    """A compiled model; `held` is the memory that it reads and does not own."""

    takes_device_memory = False

    def __init__(
        self,
        model: ov.CompiledModel,
        interface: Interface,
        first_state: Sequence[Array],
        target: Target,
        held: Held,
    ) -> None:
        self._model: _Renewable | None = _Renewable(model, target, held)
        self._interface, self._first_state = interface, first_state
        self.inputs, self.outputs = interface.inputs, interface.outputs
        self.names: Names | None = None
        self._profiled: list[ov.InferRequest] | None = [] if target.profile else None
        kind = model.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        self.info = {**interface.info, "engine": NAME, "precision": _PRECISIONS.get(kind, kind)}

    def execution(self, state: State | None = None) -> Execution:
        """A place to run: a request of OpenVINO's, with tensors of its own."""
        assert self._model is not None
        first = [np.array(value) for value in self._first_state] if state is None else state
        made = _OpenvinoExecution(self._model, self._interface, first)
        if self._profiled is not None:
            made.steps = []
            self._profiled.append(made)
        return made

    def profile(self) -> list[list[Step]]:
        """The steps of each run so far, one after the other: OpenVINO tells durations only."""
        profiled, self._profiled = self._profiled or [], None
        if self.names is None or self._model is None:
            return [run for execution in profiled for run in execution.steps or ()]
        named = _in_the_file(self._model.now[0], self.names)
        return [
            [replace(step, node=named.get(step.node, step.node)) for step in run]
            for execution in profiled
            for run in execution.steps or ()
        ]

    def close(self) -> None:
        """Free the model."""
        self._model = None


class _OpenvinoExecution:
    """Runs of one request. Calls go beneath `InferRequest.infer`, which takes 50 microseconds of Python.

    Arrays that were bound by the run before are not bound anew; they are held until others take their place.
    """

    def __init__(self, renewable: _Renewable, interface: Interface, state: State) -> None:
        self.state = state
        self.steps: list[list[Step]] | None = None
        self._renewable, self._interface = renewable, interface
        self._results = [(p.shape, p.dtype.to_numpy()) for p in interface.outputs]
        self._bind()

    def _bind(self) -> None:
        """Take the model as it is now, and nothing of what was bound."""
        interface = self._interface
        self._model, self._held = self._renewable.now  # a request reads them, and does not keep them
        self._request = self._model.create_infer_request()
        self._beneath: Any = super(ov.InferRequest, self._request)
        # With one thread in all `infer` drops errors, leaves results as they were, and crashes later.
        self._hands_over = self._model.get_property("INFERENCE_NUM_THREADS") == 1
        self._turn = self._renewable.turn if self._hands_over else nullcontext()
        bounds = limits(self._model)
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
            made.partial_shape.is_static and tuple(made.shape) == said.shape and 0 not in said.shape
            for made, said in zip(outputs, interface.outputs, strict=True)
        )
        names = [p.name for p in interface.inputs] + [name for name, _ in interface.states]
        there = {name: place for place, port in enumerate(self._model.inputs) for name in port.get_names()}
        self._places = [there.get(name) for name in names]  # it drops inputs that nothing reads
        self._read: list[Array | None] = [None] * len(names)
        self._written: list[Array] = []

    def run(self, arrays: Sequence[Array], outputs: Sequence[Array] | None = None) -> list[Array]:
        """Compute the outputs; `EngineError` where OpenVINO fails, or computes what ONNX does not mean."""
        check_threads()
        for place, name, limit in self._limits:
            limit.check(name, arrays[place])
        try:
            results = self._computed(arrays, outputs)
        except _FAILURES as error:
            raise EngineError(f"openvino: {' '.join(str(error).split())}") from None
        self._check_indices()
        self._check_empty(arrays, results)
        if self.steps is not None:
            self.steps.append(_steps(self._request))
        if self.state:
            count = len(self._results)
            results, self.state = results[:count], results[count:]
        if outputs is not None and not self._fixed:
            for result, output in zip(results, outputs, strict=True):
                np.copyto(output, result)
            return list(outputs)
        return results

    def _computed(self, arrays: Sequence[Array], outputs: Sequence[Array] | None) -> list[Array]:
        """The results, in states as well, of a run beside which none failed."""
        while True:
            if not self._renewable.stands(self._model):
                self._renewable.renew(self._model)
                self._bind()
            for index, array in enumerate((*arrays, *self.state)):
                place = self._places[index]
                if array is not self._read[index] and place is not None:
                    self._read[index] = None  # where this is interrupted it is bound anew
                    tensor = ov.Tensor(writable(array), shared_memory=True)
                    self._request.set_input_tensor(place, tensor)
                    self._read[index] = array
            if self._fixed:
                self._write(outputs or [np.empty(*kind) for kind in self._results])
            with self._turn:
                try:
                    self._infer()
                except _FAILURES:
                    if self._renewable.stands(self._model):
                        self._renewable.renew(self._model)
                        raise
            if self._renewable.stands(self._model):
                return self._written if self._fixed else self._copied()

    def _check_indices(self) -> None:
        if self._gathers and self._counts.any():
            raise out_of_range(self._gathers[self._counts.argmax()])

    def _check_empty(self, arrays: Sequence[Array], results: Sequence[Array]) -> None:
        for port, array in zip(self._interface.inputs, arrays, strict=True):
            if not array.size and any(result.size for result in results):
                raise EngineError(
                    f"openvino: input {port.name!r} of shape {list(array.shape)} is empty, and openvino "
                    f"leaves results of nothing undefined; use provider onnxruntime"
                )

    def _infer(self) -> None:
        if self._hands_over:
            try:
                self._beneath.start_async({}, None)
            finally:  # where the handler of a signal has raised it runs all the same
                self._beneath.wait()
        else:
            self._beneath.infer({}, share_outputs=True, decode_strings=False)

    def _write(self, outputs: Sequence[Array]) -> None:
        """Let the results go into these arrays."""
        if len(self._written) != len(outputs) or any(map(operator.is_not, outputs, self._written)):
            self._written = []
            for place, array in enumerate(outputs):
                self._request.set_output_tensor(place, ov.Tensor(known(array), shared_memory=True))
            self._written = list(outputs)

    def _copied(self) -> list[Array]:
        count = len(self._results) + len(self.state)
        return [np.array(self._request.get_output_tensor(place).data) for place in range(count)]


def _in_the_file(model: ov.CompiledModel, names: Names) -> dict[str, str]:
    """The names of what OpenVINO runs: of the first of the nodes that each was made of, which it lists."""
    found = {}
    for node in model.get_runtime_model().get_ops():
        said, called = node.get_rt_info(), node.get_friendly_name()
        made_of = said["originalLayersNames"].astype(str).split(",") if "originalLayersNames" in said else []
        operator = _OPERATORS.get(said["layerType"].astype(str), "") if "layerType" in said else ""
        found[called] = next((n for o in made_of if (n := names.of(o, operator)) != o), names.of(called))
    return found


def name_parts(model: ov.Model) -> None:
    """Name what OpenVINO's reader made of one node after that node; the last of the parts has its name."""
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
