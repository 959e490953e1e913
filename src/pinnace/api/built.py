"""A built model: all that predictions need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pinnace.engines.protocol import refusal_of
from pinnace.errors import EngineError, ModelStateError, NotSupportedError, UnsupportedModelError, warn
from pinnace.serving.pool import WorkerPool
from pinnace.shapes import Shape, is_free
from pinnace.tensors.inputs import InputPorts, ModelDevice
from pinnace.tensors.outputs import OutputPorts
from pinnace.tensors.tensor import Outputs, tensors_of
from pinnace.types import Array, Port

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pinnace.building.weights import WeightUpdate
    from pinnace.cache.handover import Offer


_ALWAYS = ("current_pid", "device", "shareable_weight_mem_handle", "workers")
OF_FILES = ("input_shape", "dynamic_dims", "user_info")
"""Facts of a file and its configuration, which mindspore_lite gives as "" of a model that is not built."""
SOMETIMES = ("failure", "form", "rules", "why", *OF_FILES)
"""Facts that not every model has."""


class BuiltModel:
    """A built model: workers, shared weights, updates of weights, and the current shapes of the inputs."""

    def __init__(
        self,
        workers: WorkerPool,
        offer: Offer | None,
        update: WeightUpdate | None,
        devices: str,
        inputs: tuple[Port, ...],
        facts: Mapping[str, str] | None = None,
        shapes: tuple[Shape, ...] = (),
    ) -> None:
        self.workers = workers
        self.devices = devices
        self._facts = facts or {}
        self.offer = offer
        self.update = update
        self.declared = inputs  # as in the file
        self.built: tuple[Shape, ...] = ()  # the shapes that it is built for, () for those of the file
        self.warned: set[str] = set()
        device = ModelDevice(devices, workers.executable.takes_device_memory)
        shapes = shapes or tuple(port.shape for port in inputs)
        self.inputs = InputPorts(inputs, shapes, refusal_of(e.info for e in workers.executables), device)
        self.outputs = OutputPorts(workers.executable.outputs, device, workers.executable.writes_free)
        self._output_shapes: list[Shape] | None = None

    def reshaped(self, shapes: tuple[Shape, ...], built: tuple[Shape, ...]) -> BuiltModel:
        """Return the same model with other shapes, for which its executables are built already."""
        ports = zip(self.declared, built, strict=True)
        inputs = tuple(port._replace(shape=shape) for port, shape in ports) if built else self.declared
        live = type(self)(self.workers, self.offer, self.update, self.devices, inputs, self._facts, shapes)
        live.declared, live.built, live.warned = self.declared, built, self.warned
        live.outputs.warned = self.outputs.warned
        return live

    def submit(self, arrays: list[Array], timeout: float | None, priority: int = 0) -> Future[Outputs]:
        """Queue a prediction. See `BaseModel.submit`."""
        kinds = self.outputs.kinds
        return self.workers.submit(arrays, lambda results: tensors_of(results, kinds), timeout, priority)

    def fact(self, key: str) -> str:
        """Return a fact about the build, the engine or the file. Warns and returns "" if there is none."""
        if key == "workers":
            return str(self.workers.stats().workers)
        info = self.workers.executable.info
        if key in info or key in self._facts or key in SOMETIMES:
            return self._facts.get(key) or info.get(key, "")
        return no_fact(key, *info, *self._facts, *_ALWAYS)

    def shown_facts(self) -> list[str]:
        """Return the facts that `repr` shows: device, engine, precision and workers, "" where usual."""
        workers = self.workers.stats().workers
        device = "" if self.devices == "cpu:0" else self.devices
        several = f"{workers} workers" if workers > 1 else ""
        return [device, *map(self.fact, ("engine", "precision")), several]

    def updates(self, called: str) -> WeightUpdate:
        """Return what changes weights and shapes. Raises NotSupportedError if other processes run it."""
        if self.update is None:
            raise NotSupportedError(
                f"{called}: weights and shapes of a model on a cluster or in isolated processes cannot "
                f"change; build the runner again from another file"
            )
        return self.update

    def close(self) -> None:
        """Stop sharing the weights, and close the workers."""
        if self.offer is not None:
            self.offer.close()
        self.workers.close()

    def handle(self) -> str:
        """Return the number under which other processes map the weights."""
        if self.offer is None:
            raise ModelStateError(
                "shareable_weight_mem_handle: when you build the model, name the processes that may use its "
                'weights: config_dict={"pids": "12, 34"}, or shareable_weight_pid_list of [ascend_context]'
            )
        return str(self.offer.handle)

    def output_shapes(self) -> list[Shape]:
        """Shapes of the outputs, with free dimensions where the inputs leave them free."""
        if self._output_shapes is None:
            declared = [port.shape for port in self.outputs.ports]
            is_known = not any(map(is_free, declared)) or any(map(is_free, self.inputs.shapes))
            self._output_shapes = declared if is_known else self._observed() or declared
        return self._output_shapes

    def _observed(self) -> list[Shape] | None:
        """Return the output shapes of a prediction with zeros; None if zeros are no valid input."""
        try:
            zeros = [
                np.zeros(shape, port.dtype.to_numpy())
                for shape, port in zip(self.inputs.shapes, self.inputs.ports, strict=True)
            ]
        except (ValueError, MemoryError):  # not enough memory
            return None
        results = self.workers.try_out(zeros)
        return None if results is None else [array.shape for array in results]


def no_fact(key: str, *known: str) -> str:
    """Warn that a model has no fact `key`, with all that it has, and return ""."""
    warn(f"get_model_info: there is no key {key!r}; the keys are {', '.join(sorted(set(known)))}")
    return ""


def refusal(live: BuiltModel, shapes: Sequence[Shape], error: UnsupportedModelError | EngineError) -> str:
    """Return the message for shapes that a model cannot take."""
    named = zip(live.declared, shapes, strict=True)
    wanted = ", ".join(f"{port.name!r} {port.dims()} -> {list(shape)}" for port, shape in named)
    why = str(error)
    if isinstance(error, UnsupportedModelError):
        why = "; ".join(f"node {p.first_node!r} ({p.name}): {p.reason}" for p in error.primitives)
    return f"resize failed! The model cannot take inputs of these shapes ({wanted}): {why}"
