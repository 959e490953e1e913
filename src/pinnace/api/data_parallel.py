"""One model on several devices, each computing a part of the batch."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from pinnace.api.built import SOMETIMES, no_fact
from pinnace.api.owner import EngineOwner
from pinnace.building.planning import to_target
from pinnace.engines.devices import devices_of
from pinnace.engines.protocol import refusal_of
from pinnace.errors import (
    ArgumentValueError,
    ConfigError,
    DeviceUnavailableError,
    ModelFormatError,
)
from pinnace.options.arguments import check_list, check_timeout, check_type, path
from pinnace.options.context import Context, given_context, main_device
from pinnace.options.effects import with_settings
from pinnace.options.settings import Settings
from pinnace.options.table import CHOSEN, PARALLEL, SPLIT
from pinnace.options.target import Target
from pinnace.serving import ray as cluster
from pinnace.serving.processes import SLOTS, processes
from pinnace.serving.replicas import PartWorker, ReplicaSet, ReplicaWorkerPool
from pinnace.serving.splitting import SharedCounts, SplitPlan, SplitRequest, freed
from pinnace.serving.stats import Stats, latency
from pinnace.tensors.inputs import InputPorts, Inputs
from pinnace.tensors.outputs import OutputPorts
from pinnace.tensors.summary import Summary
from pinnace.tensors.tensor import Outputs, Tensor, TensorMeta

__all__ = ["DataParallel"]


class DataParallel(EngineOwner):
    """A model copied to several devices, one process each, among which the batch of a request is split.

    Inputs with a batch are split along `axis`, evenly, with the remaining rows on the first devices; results
    are joined in order. A model with a fixed batch of `b` computes `b` rows on a device, and takes any
    multiple of `b`. Data passes through shared memory, and the next request is copied while one is computed.
    Any number of threads may call `predict` and `submit`.

    If the process of a device dies, its parts are computed once more by the others, or by itself after its
    restart; if that fails too, the request fails with the cause. A model that keeps state between predictions
    keeps one on each device.

    With `context.parallel.cluster` or `address` the devices are those of a Ray cluster, one actor each,
    placed by Ray; then only the number of `device_ids` counts.

    Use it in a `with` statement, or call `close`.
    """

    ports: type[InputPorts] = InputPorts
    worker: type[PartWorker] = PartWorker

    def __init__(
        self,
        model_path: str | os.PathLike[str],
        context: Context | None = None,
        device_ids: list[int] | None = None,
        axis: int = 0,
        split: Sequence[str] | None = None,
        config_path: str | os.PathLike[str] = "",
        config_dict: Mapping[str, object] | None = None,
    ) -> None:
        """Build the model of a file on every device.

        `device_ids` are devices of the first kind in `context.target`, by default all that are usable;
        `context` None is the CPU. `split` names the inputs to split; by default these are the inputs whose
        dimension at `axis` equals, in the model and in the data, that of the first input that has one; the
        other inputs are sent to all devices. Options and errors are those of `Model.build_from_file`; errors
        name the device.
        """
        model_path, config_path = path("model_path", model_path), path("config_path", config_path)
        context = given_context(context)
        _check(device_ids, axis)
        if not os.path.exists(model_path):
            raise ModelFormatError(f"DataParallel failed, model_path does not exist! ({model_path})")
        settings = Settings.load(config_path, config_dict, "config_dict")
        chosen = (CHOSEN,) if device_ids is not None or context.parallel.cluster else ()
        context = with_settings(context, settings, PARALLEL, SPLIT, *chosen)
        self._model_path = model_path
        self._axis = axis
        self._warned: set[str] = set()
        self._counts = SharedCounts()
        self._replicas = _replicas(os.path.abspath(model_path), context, device_ids, settings)
        self._workers = ReplicaWorkerPool(self._replicas, worker=self.worker)
        self._finalizer = weakref.finalize(self, self._workers.close)
        try:
            inputs, outputs = self._replicas.inputs, self._replicas.outputs
            self._plan = SplitPlan.of(inputs, outputs, axis, split)
            refusal = refusal_of([self._replicas.info])
            self._inputs = self.ports(inputs, self._plan.shapes, refusal)
            self._outputs = OutputPorts(outputs)
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        return f"model_path: {self._model_path},\ndevices: {', '.join(self.devices)}."

    def _summary(self) -> Summary:
        facts = [os.path.basename(self._model_path), *self.devices, self._replicas.info.get("engine", "")]
        return Summary(type(self).__name__, facts, self._inputs.ports, self._outputs.ports)

    @property
    def devices(self) -> list[str]:
        """Names of the devices."""
        return self._replicas.devices

    def close(self) -> None:
        """Wait for running predictions, fail the waiting ones, and end the processes."""
        self._finalizer()

    def get_inputs(self) -> list[Tensor]:
        """Return new tensors for the inputs, in order and without data; free dimensions, like the batch, are
        -1.
        """
        return self._inputs.tensors(self._warned)

    def get_outputs(self) -> list[TensorMeta]:
        """Return what is known of the outputs, in order; free dimensions, like the batch, are -1."""
        return self._outputs.metas(
            [
                freed(port.shape, self._axis) if joined else port.shape
                for port, joined in zip(self._outputs.ports, self._plan.joined, strict=True)
            ]
        )

    def get_model_info(self, key: str) -> str:
        """Return a fact about the model, as `Model.get_model_info` does; "device" names all devices."""
        check_type("key", key, str)
        if key == "current_pid":
            return str(os.getpid())
        if key == "device":
            return ", ".join(self.devices)
        info = self._replicas.info
        if key in info or key in SOMETIMES:
            return info.get(key, "")
        return no_fact(key, *info, "current_pid", "device")

    def predict(self, inputs: Inputs, timeout: float | None = None) -> Outputs:
        """Compute the outputs for inputs as `Model.predict` accepts them.

        `timeout` is in seconds. Raises `DataMismatchError` if number, dtypes or shapes are not the model's or
        the batch cannot be split, `DeviceUnavailableError` if processes died over the request, `EngineError`
        if an engine fails, `ModelStateError` if closed, `PredictTimeoutError`.
        """
        check_timeout(timeout)
        request = self._submit(inputs)
        try:
            return request.result(timeout)
        except TimeoutError:  # it may be the prediction's own
            request.expire(timeout)
            return request.result()
        except BaseException:  # it may be a signal handler's
            request.cancel()
            raise

    def submit(self, inputs: Inputs, timeout: float | None = None) -> Future[Outputs]:
        """Queue a prediction and return at once.

        The future returns or raises what `predict` would, also after `timeout` seconds; `cancel` stops the
        parts that run. The data of the inputs must not change until it is done.
        """
        check_timeout(timeout)
        request = self._submit(inputs)
        request.expire_after(timeout)
        return request

    def _submit(self, inputs: Inputs) -> SplitRequest:
        arrays = self._inputs.arrays(inputs)
        request = SplitRequest(
            self._plan, arrays, len(self.devices), self._outputs, self._counts, self._workers
        )
        try:
            for part in request.parts:
                self._workers.enqueue(part)
        except BaseException:  # closed meanwhile
            request.cancel()
            raise
        return request

    def stats(self) -> DeviceStats:
        """Return counts and latencies of predictions, and counts of restarts."""
        replicas, counts, queue = self._replicas, self._counts, self._workers.stats()
        return DeviceStats(
            workers=len(replicas),
            busy=replicas.busy,
            queued=queue.queued,
            served=counts.served,
            failed=counts.failed,
            refused=0,
            withdrawn=counts.withdrawn,
            batches=0,
            batched=0,
            latency=latency([counts]),
            seconds=queue.seconds,
            restarts=replicas.restarts,
            retried=replicas.retried,
        )

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes; on a cluster, each on its node."""
        return self._replicas.pids


@dataclass(frozen=True, repr=False)
class DeviceStats(Stats):
    """`Stats` of device processes, whose queue holds parts of requests.

    `restarts` processes replaced dead ones; `retried` parts were computed again.
    """

    restarts: int
    retried: int


def _check(device_ids: list[int] | None, axis: int) -> None:
    if device_ids is not None:
        check_list("device_ids", device_ids, int)
    check_type("axis", axis, int)
    if axis < 0:
        raise ArgumentValueError(f"axis must be a non-negative int, but got {axis}.")


def _replicas(path: str, context: Context, device_ids: list[int] | None, settings: Settings) -> ReplicaSet:
    if context.parallel.cluster:
        _check_numbers(device_ids)
        return cluster.replicas(path, context, settings, len(device_ids or ()))
    return ReplicaSet(processes(path, _targets(context, device_ids), settings), SLOTS)


def _check_numbers(device_ids: list[int] | None) -> None:
    if device_ids is not None and (not device_ids or len(set(device_ids)) < len(device_ids)):
        raise ConfigError(f"device_ids {device_ids} must name at least one device, and none twice")


def _targets(context: Context, device_ids: list[int] | None) -> list[Target]:
    kind = main_device(context)
    if device_ids is None:
        found = devices_of(kind)
        device_ids = [device.id for device in found if device.usable]
        if not device_ids:
            why = "; ".join(map(str, found)) or f'there are none; PINNACE_SIMULATE="{kind}:2" simulates two'
            raise DeviceUnavailableError(f"no device of the kind {kind!r} can be used: {why}")
    _check_numbers(device_ids)
    if kind == "cpu" and device_ids != [0]:
        raise DeviceUnavailableError(
            f"device_ids {device_ids}: the CPU is one device, 0; "
            f'PINNACE_SIMULATE="ascend:2" and context.target = ["ascend"] simulate two on its cores'
        )
    return [to_target(context, 1, device_id=number) for number in device_ids]
