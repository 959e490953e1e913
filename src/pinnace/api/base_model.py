"""The methods that all public models share."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pinnace.api.built import OF_FILES, BuiltModel, refusal
from pinnace.api.owner import EngineOwner
from pinnace.building.build import build
from pinnace.building.weights import WeightUpdate
from pinnace.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DataMismatchError,
    EngineError,
    ModelStateError,
    NotSupportedError,
    UnsupportedModelError,
)
from pinnace.machine.memory import private_memory, return_free_memory
from pinnace.options import arguments
from pinnace.options.arguments import check_timeout, check_type
from pinnace.serving.base_pool import WorkerGroup
from pinnace.serving.pool import WorkerPool
from pinnace.tensors.gears import limited
from pinnace.tensors.inputs import Inputs, check_inputs
from pinnace.tensors.resizing import check_resize, resized, shapes_to_build
from pinnace.tensors.tensor import Outputs, Tensor, TensorMeta, tensors_of
from pinnace.types import Port

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pinnace.building.spec import Spec
    from pinnace.cache.handover import Offer
    from pinnace.engines.protocol import Executable
    from pinnace.engines.steps import Profile
    from pinnace.serving.batching import Batching
    from pinnace.serving.stats import Stats
    from pinnace.serving.thread_pool import ThreadPool
    from pinnace.tensors.summary import Summary


def _none_by_default(method: Callable[[Any, Any], str]) -> Callable[[Any, Any], str]:
    """Pass None for an argument that was left out, so that the type error names it like a wrong type."""

    @wraps(method)
    def called(self: Any, key: Any = None) -> str:
        return method(self, key)

    return called


class BaseModel(EngineOwner):
    """Inputs, outputs and predictions over workers, which `_start` creates."""

    built: type[BuiltModel] = BuiltModel
    _threads: ThreadPool | None = None
    """Threads that serve the queue together with those of other models; None if it has its own."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: a signal handler may close the model that it interrupts
        self._updating = threading.RLock()
        self._live: BuiltModel | None = None
        self._handed: WeakKeyDictionary[Tensor, int] = WeakKeyDictionary()  # and the input's number
        self._closed = False
        self._model_path = ""

    def __str__(self) -> str:
        live = self._live
        simulated = live is not None and "simulated" in live.devices
        note = f",\ndevice: {live.devices}" if live is not None and simulated else ""
        return f"model_path: {self._model_path}{note}."

    def _summary(self) -> Summary:
        from pinnace.tensors.summary import Summary  # programs show no models

        live = self._live
        if live is None:
            return Summary(type(self).__name__, ["closed" if self._closed else "not built"])
        facts = [os.path.basename(self._model_path), *live.shown_facts()]
        ports = zip(live.inputs.ports, live.inputs.shapes, strict=True)
        inputs = [port._replace(shape=shape) for port, shape in ports]
        return Summary(type(self).__name__, facts, inputs, live.outputs.ports)

    def close(self) -> None:
        """Wait for running predictions, fail the waiting ones, and free the model.

        Afterwards everything but `get_model_info("current_pid")` raises `ModelStateError`.
        """
        with self._lock:
            self._closed = True
            live, self._live = self._live, None
        if live:
            live.close()
            del live  # the last reference to the engine's memory
            return_free_memory()

    @property
    def is_built(self) -> bool:
        """True if there is a model to predict with."""
        return self._live is not None

    def get_inputs(self) -> list[Tensor]:
        """Return new tensors for the inputs, in order and without data; a free dimension is -1.

        `resize` changes their shapes too.
        """
        with self._lock:
            live = self._built()
            tensors = live.inputs.tensors(live.warned)
            for place, tensor in enumerate(tensors):
                self._handed[tensor] = place
        return tensors

    def get_outputs(self) -> list[TensorMeta]:
        """Return what is known of the outputs, in order.

        Dimensions that depend on the input are -1 until `resize` has fixed all inputs; one prediction with
        zeros then determines them.
        """
        live = self._built()
        return live.outputs.metas(live.output_shapes())

    @_none_by_default
    def get_model_info(self, key: str) -> str:
        """Return a fact about the model. If it has none of this name, warn with all names, and return "".

        "current_pid" is the id of this process. "shareable_weight_mem_handle" is a number below 2^63 under
        which other processes can map the weights; `ModelStateError` unless these were named when the model
        was built (`config_dict={"pids": "12, 34"}`). "device" is the device, such as "gpu:1", with a note if
        it is simulated; several are separated by ", ". "engine", "precision", "threads" and "workers" are
        those in use, "form" is what `pinnace tune --max-error` found, "why" the reason for the engine and for
        the "rules" that rewrote the model; "file" and "model_type" are of the build; "tuned" is "yes" or
        "no"; "cache" is "loaded" from the compile cache, "written" to it, "to be written" after the build,
        "not kept", or "off"; "build" is the time of each stage; "failure" is why no process is left.
        "memory" is "private P, files F" in bytes: P is by how much this process's own memory grew in the
        build; F is the size of the model's files, whose weights processes share if they are mapped.
        What predictions take is not in it. "input_shape" and "dynamic_dims" are those of the configuration,
        or for which the file was converted, and "user_info" is the file's user info as JSON; they are "" if
        there is none, and before the build. Others are items of the user info.
        """
        check_type("key", key, str)
        if key == "current_pid":
            return str(os.getpid())
        if key in OF_FILES and not self.is_built:
            return ""
        if key == "shareable_weight_mem_handle":
            return self._built().handle()
        if key == "device":
            return self._built().devices
        return self._built().fact(key)

    def update_weights(self, weights: list[list[Tensor]]) -> None:
        """Exchange weights, atomically and for all workers.

        Predictions that are running finish with the old weights; those that begin after this returns use the
        new ones. The option `variable_weights_file` of `[ascend_context]` or `[common_context]` must have
        named the weights when the model was built: a file with one name per line, as in the model file.
        Tensors are matched by name; if none has a name, by order, and then there must be as many as lines.
        All inner lists count as one. The data is copied. Raises `ArgumentTypeError` for anything but lists of
        lists of tensors, `ArgumentValueError` for a name that is not in the file, `DataMismatchError` for a
        wrong dtype or shape, `ModelStateError` if no weights were named or the model is not built,
        `EngineError` if the engine fails. After an error the weights are unchanged.
        """
        _check_weights(weights)
        with self._updating:
            live = self._built("update weight failed! ")
            update = live.updates("update_weights")
            update.update([t for group in weights for t in group], live.workers.exchange)

    def apply_lora(self, path: str | os.PathLike[str], scale: float = 1.0) -> None:
        """Merge the LoRA adapter in the `safetensors` file at `path` into the weights.

        Adds `scale` times the adapter's change, on top of adapters applied before. The rules of
        `update_weights` hold, but any weight can change and none has to be named ahead.
        `pinnace.weights.lora` lists the supported key names. Raises `ImportError` without the package
        safetensors, `ModelFormatError` for a missing or damaged file, `ArgumentValueError` for a key that
        matches no weight or several and for a scale that is not finite, `DataMismatchError` for wrong shapes,
        `ModelStateError` if the model is not built.
        """
        adapter = Path(arguments.path("path", path)).absolute()
        if isinstance(scale, bool) or not isinstance(scale, int | float):
            raise ArgumentTypeError(f"scale must be float, but got {type(scale)}.")
        if not abs(scale) <= sys.float_info.max:
            raise ArgumentValueError("scale must be a finite number that a float can hold")
        with self._updating:
            live = self._built()
            live.updates("apply_lora").apply(adapter, float(scale), live.workers.exchange)

    def remove_lora(self, path: str | os.PathLike[str] | None = None) -> None:
        """Remove the adapter of this file, or all adapters if `path` is None.

        Weights without adapters are then bit for bit those of the model file or of `update_weights`. Raises
        `ArgumentValueError` if the adapter was not applied.
        """
        adapter = None if path is None else Path(arguments.path("path", path)).absolute()
        with self._updating:
            live = self._built()
            live.updates("remove_lora").remove(adapter, live.workers.exchange)

    def predict(
        self,
        inputs: Inputs,
        outputs: list[Any] | None = None,
        timeout: float | None = None,
    ) -> Outputs:
        """Compute the outputs.

        `inputs` are tensors, arrays or scalars of numpy, or arrays of other libraries (PyTorch, MindSpore,
        JAX; read by DLPack or `__array__`, without a copy where that is possible), in the order of
        `get_inputs`, or in a dict by name; a single input needs no list. The result is a list that also
        gives a tensor by name: `outputs["logits"]`.

        `outputs` may be a list to fill. An empty list gets the new tensors. In a list of the right length,
        tensors receive the data, in place if they have a writable array of this dtype and size; if all have
        arrays of the model's fixed shapes, the engine writes there without a copy.

        Tensors on the model's device (`Tensor(..., device="gpu:0")`) are read and written there, as inputs
        and as outputs; other outputs are returned in host memory.

        `timeout` is in seconds, including the wait for a worker. Raises `ArgumentTypeError` for other types,
        `DataMismatchError` if number, dtype, shape or device of the inputs are not the model's, `EngineError`
        if the engine fails, `ModelStateError` if the model is not built or closed, `QueueFullError` if
        `[runner] max_queue` predictions already wait, `PredictTimeoutError`.
        """
        live = self._live or self._built("predict failed! ", inputs)
        if outputs is not None and outputs.__class__ is not list:
            check_type("outputs", outputs, list)
        arrays = live.inputs.arrays(inputs)
        into = None if outputs is None else live.outputs.bind(outputs, arrays)
        if timeout is not None:
            check_timeout(timeout)
            into = None  # a prediction that timed out may run a little longer: it must not write there
        results = live.workers.run(arrays, into, timeout)
        if outputs is None:
            return tensors_of(results, live.outputs.kinds)
        return live.outputs.fill(outputs, results, into)

    def submit(self, inputs: Inputs, timeout: float | None = None, priority: int = 0) -> Future[Outputs]:
        """Queue a prediction and return at once; those of smaller `priority` leave the queue first.

        The future returns or raises what `predict` would, also after `timeout` seconds; `cancel` removes the
        prediction from the queue, or stops it if it runs. The data of the inputs must not change until it is
        done. Raises as `predict` does for wrong inputs, and `QueueFullError`.
        """
        live = self._live or self._built("predict failed! ", inputs)
        check_timeout(timeout)
        check_type("priority", priority, int)
        return live.submit(live.inputs.arrays(inputs), timeout, priority)

    async def apredict(self, inputs: Inputs, timeout: float | None = None) -> Outputs:
        """Predict from a coroutine, without blocking the event loop.

        What takes less than 50 us is computed in the event loop. Cancelling the task removes the prediction
        from the queue, or stops it if it runs. Raises as `predict` does.
        """
        import asyncio  # who awaits has imported it; others need not wait for it

        live = self._live or self._built("predict failed! ", inputs)
        check_timeout(timeout)
        arrays = live.inputs.arrays(inputs)
        if (results := live.workers.run_brief(arrays)) is not None:
            await asyncio.sleep(0)  # other tasks run, too
            return tensors_of(results, live.outputs.kinds)
        return await asyncio.wrap_future(live.submit(arrays, timeout))

    def stats(self) -> Stats:
        """Return counts and latencies of the predictions since the model was built.

        Raises `ModelStateError` if it is not built.
        """
        return self._built().workers.stats()

    def profile(self, inputs: Inputs, runs: int = 20, warm_up: int = 3) -> Profile:
        """Measure how long each node of the model file takes, in `runs` predictions after `warm_up` others.

        This builds the model once more, with the weights of its file. The result is a list of
        `OperatorTime`, longest first; its `by_operator()` sums them by operator. Raises as `predict` does,
        `ArgumentTypeError` and `ArgumentValueError` for wrong numbers of predictions, and `NotSupportedError`
        on a cluster.
        """
        arguments.count("runs", runs)
        arguments.count("warm_up", warm_up)
        live = self._live or self._built("predict failed! ", inputs)
        if live.update is None:
            raise NotSupportedError("profile: not supported on a cluster; profile the model on this machine")
        return live.update.profile(live.inputs.arrays(inputs), runs, warm_up)

    def resize(self, inputs: Sequence[Tensor], dims: Sequence[Sequence[int]]) -> None:
        """Change the shapes of the inputs: `dims[i]` is the new shape of input i.

        `inputs` are those of `get_inputs`; all tensors that it returned get the new shapes. Data with the
        same number of elements is kept, other data must be set again. -1 is allowed where the model file has
        a free dimension, and fixing a free dimension takes no time. Shapes beyond those of the file build the
        model again, through the compile cache, with the current weights and states, while predictions
        continue. Running predictions finish with the old shapes; waiting ones with the old shapes raise
        `DataMismatchError`.

        Raises `ArgumentTypeError` for anything but lists of tensors and of ints, `ArgumentValueError` if
        their lengths differ, `DataMismatchError` for impossible shapes and, naming the cause, for shapes that
        the file does not work with, `NotSupportedError` for one rank's part of a model and on a cluster.
        After an error nothing has changed.
        """
        check_resize(inputs, dims)
        with self._updating:
            live = self._built("resize failed! ")
            shapes = resized(live.declared, dims)
            built = shapes_to_build(live.declared, shapes)

            def install(*executables: Executable) -> None:
                with self._lock:
                    if self._live is not live:
                        raise ModelStateError("the model was closed or built again while it was resized")
                    if executables:
                        live.workers.exchange(*executables)
                    self._live = live.reshaped(shapes, built)
                    for tensor, place in list(self._handed.items()):
                        tensor.shape = list(shapes[place])

            if built == live.built:
                install()
                return
            update = live.updates("resize")
            try:
                update.reshape(built, install)
            except (UnsupportedModelError, EngineError) as error:
                raise DataMismatchError(refusal(live, shapes, error)) from None
            update.keep_later(self._run_kept)

    def _start(
        self,
        spec: Spec,
        count: int = 1,
        limit: int = 0,
        batching: Batching | None = None,
        others: Sequence[Spec] = (),
    ) -> None:
        """Build the model, on the devices of `others` too, and close the previous one."""
        before = private_memory()
        built, *elsewhere = map(build, (spec, *others))
        posts = [
            WorkerGroup(one.executable, one.spec.target.parallel_requests, one.spec.target.cores)
            for one in elsewhere
        ]
        target, executable = built.spec.target, built.executable
        # A thread that waits for a device, or for requests that may join a batch, serves nobody else.
        waits = target.device != "cpu" or (batching is not None and batching.delay > 0)
        threads = None if waits else self._threads
        workers = WorkerPool(executable, count, target.cores, limit, batching, posts, threads=threads)
        devices = ", ".join(one.target.place for one in (spec, *others))
        inputs = limited(executable.inputs, *target.gears)
        update = WeightUpdate(built, *elsewhere)
        memory = f"private {max(0, private_memory() - before)}, files {spec.source.size}"
        shapes = {"input_shape": target.input_shape, "dynamic_dims": target.dynamic_dims}
        facts = {**built.facts, "memory": memory, **{key: text for key, text in shapes.items() if text}}
        self._run_on(workers, devices, update, built.offer, inputs, facts)
        update.keep_later(self._run_kept)

    def _run_kept(self) -> None:
        """Run the model from the compile cache from now on, if it is there."""
        with self._updating:
            live = self._live
            if live is not None and live.update is not None:
                live.update.use_kept(live.workers.exchange)

    def _run_on(
        self,
        workers: WorkerPool,
        devices: str,
        update: WeightUpdate | None = None,
        offer: Offer | None = None,
        inputs: tuple[Port, ...] = (),
        facts: Mapping[str, str] | None = None,
    ) -> None:
        """Use these workers from now on, and close the previous ones; `inputs` are ports with limits."""
        live = self.built(workers, offer, update, devices, inputs or workers.executable.inputs, facts)
        with self._lock:
            old, self._live = self._live, live
            self._closed = False
            self._handed = WeakKeyDictionary()
        if old:
            old.close()

    def _built(self, failed: str = "", *given: object) -> BuiltModel:
        """Return the model; raise the error if there is none, but that of wrong inputs first."""
        live = self._live
        if live is None:
            for inputs in given:
                check_inputs(inputs)
            unbuilt = "the model is not built: call build_from_file first"
            raise ModelStateError(failed + ("the model is closed" if self._closed else unbuilt))
        return live


def _check_weights(weights: Any) -> None:
    for index, group in enumerate(check_type("weights", weights, list)):
        for place, tensor in enumerate(check_type("weight", group, list)):
            if not isinstance(tensor, Tensor):
                raise ArgumentTypeError(
                    f"weights element must be Tensor, but got {type(tensor)} at index {index}{place}."
                )
