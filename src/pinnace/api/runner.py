"""Parallel predictions over one compiled model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING

from pinnace.api.base_model import BaseModel
from pinnace.building.opening import open_model
from pinnace.building.planning import to_target
from pinnace.errors import ArgumentTypeError, ConfigError, ModelFormatError, warn
from pinnace.machine.cores import usable_core_count
from pinnace.options.arguments import check_type, path
from pinnace.options.context import (
    Context,
    Parallel,
    device_numbers,
    file_of_rank,
    files_of_ranks,
    given_context,
    main_device,
)
from pinnace.options.effects import with_settings
from pinnace.options.settings import Settings
from pinnace.options.table import BUFFER, CHOSEN, RUNNER
from pinnace.serving.batching import Batching
from pinnace.types import Buffer

if TYPE_CHECKING:
    from pinnace.serving.replicas import ReplicaWorkerPool

__all__ = ["ModelParallelRunner", "RunnerConfig"]


class RunnerConfig(Parallel):
    """The configuration of `ModelParallelRunner.init`, as in mindspore_lite 1.8 and 1.9."""

    context: Context

    def __init__(
        self,
        context: Context | None = None,
        workers_num: int | None = None,
        config_info: Mapping[str, Mapping[str, str]] | None = None,
        config_path: str | os.PathLike[str] = "",
    ) -> None:
        """Set a context and the options of `Context.parallel`; None means the default."""
        super().__init__()
        vars(self).update(context=given_context(context))
        if workers_num is not None:
            self.workers_num = workers_num
        if config_info is not None:
            self.config_info = config_info
        if config_path is not None:
            self.config_path = config_path

    def __str__(self) -> str:
        cpu = self.context.cpu
        return (
            f"workers num: {self.workers_num},\n"
            f"config info: {self.config_info},\n"
            f"context: thread num: {cpu.thread_num}, bind mode: {cpu.thread_affinity_mode}."
        )


class ModelParallelRunner(BaseModel):
    """WorkerPool over one compiled model, for the threads of a server.

    Any number of threads may call `predict`; as many predictions as there are workers run in parallel, the
    others wait and are served in order of arrival. All workers share one executable and its weights; each has
    its own state if the model keeps one. Use the runner in a `with` statement, or call `close`, which waits
    for running predictions and fails the waiting ones.

    Options of the section `[runner]` in `context.parallel.config_info` or `config_path`: `max_queue` limits
    the predictions that may wait; further ones raise `QueueFullError`; the default 0 is no limit.
    `max_batch_size` above 1 batches waiting predictions up to this number of rows, for a model whose inputs
    and outputs have a free first dimension. `max_queue_delay_us` is the time in microseconds that the first
    of them waits for others; 0 batches only those that wait anyway.

    `context.parallel.device_ids = [0, 1]` uses several devices of the context's target: each device has an
    executable and as many workers, and one queue serves all.

    `context.parallel.cluster = "ray"` or `address` runs the workers on a Ray cluster, each in a process of
    its own; there only the number of `device_ids` counts.

    With `isolate = true` each worker is a process of its own. If one ends, because the engine crashed or the
    kernel needed its memory, its prediction raises `DeviceUnavailableError`, and the process is restarted.

    With `ranks = 2` the model is what `pinnace shard -n 2` wrote, and its path that of rank 0's file: each
    rank is a process, and all compute each prediction. If one fails or ends, all are started again.

    `context.parallel.workers_num` is the number of workers of each device. If it is 0, it is the number with
    the best throughput that `pinnace tune` measured for the model on this machine, otherwise the number of
    usable cores divided by `context.cpu.thread_num`, or by 1 if that is 0 too. (The documentation of
    MindSpore Lite only says that 0 adjusts to the machine; mindspore_lite 2.0.0 was observed to do this.)
    """

    def __init__(
        self, model: str | os.PathLike[str] | Buffer | None = None, context: Context | None = None
    ) -> None:
        """Make a runner. If `model` is the path or the bytes of a model file, build it.

        Raises as `build_from_file` does.
        """
        super().__init__()
        if isinstance(model, Buffer):
            self.build_from_buffer(model, context)
        elif model is not None:
            self.build_from_file(model, context)

    def build_from_file(self, model_path: str | os.PathLike[str], context: Context | None = None) -> None:
        """Load and compile the model file at `model_path`; its format is detected from its content.

        `context` None is the CPU. Options come from `context.parallel.config_path` and from
        `context.parallel.config_info`, which takes precedence. A previous model of the runner is closed.
        Raises as `Model.build_from_file` does.
        """
        model_path = path("model_path", model_path)
        # As in mindspore_lite, a missing file is reported before a wrong context.
        model_path = self._found(model_path, context if isinstance(context, Context) else None)
        context = given_context(context)
        self._build(model_path, context, context.parallel)
        self._model_path = model_path

    def build_from_buffer(self, model: Buffer, context: Context | None = None) -> None:
        """Compile a model from the bytes of its file; see `Model.build_from_buffer`."""
        if not isinstance(model, Buffer):
            raise ArgumentTypeError(f"model must be bytes, but got {type(model)}.")
        context = given_context(context)
        self._build(model, context, context.parallel)
        self._model_path = ""

    def init(
        self, model_path: str | os.PathLike[str] | Buffer, runner_config: RunnerConfig | None = None
    ) -> None:
        """Build from a path or from bytes, as in mindspore_lite 1.8 and 1.9."""
        if runner_config is not None:
            check_type("runner_config", runner_config, RunnerConfig)
        config = runner_config or RunnerConfig()
        unused, default = config.context.parallel, Parallel()
        names = [name.removeprefix("_") for name in vars(unused)]
        lost = [name for name in names if getattr(unused, name) != getattr(default, name)]
        if lost:
            listed = ", ".join(f"context.parallel.{name}" for name in lost)
            warn(f"these options have no effect: {listed} (the RunnerConfig has its own)")
        if not isinstance(model_path, Buffer):
            model_path = self._found(path("model_path", model_path), config.context)
        self._build(model_path, config.context, config)
        self._model_path = model_path if isinstance(model_path, str) else ""

    def _found(self, model_path: str, context: Context | None) -> str:
        model_path = file_of_rank(model_path, context)
        if not os.path.exists(model_path):
            raise ModelFormatError(
                f"ModelParallelRunner's build from file failed, model_path does not exist! ({model_path})"
            )
        return model_path

    def _build(self, model: str | Buffer, context: Context, parallel: Parallel) -> None:
        settings = Settings.load(parallel.config_path, parallel.sections, "config_info")
        facts = (
            RUNNER,
            "" if isinstance(model, str) else BUFFER,
            CHOSEN if parallel.device_ids or parallel.cluster else "",
        )
        context = copy(context)
        vars(context).update(parallel=parallel)
        context = with_settings(context, settings, *filter(None, facts))
        limit, rows = settings.number("runner", "max_queue"), settings.number("runner", "max_batch_size")
        delay = settings.number("runner", "max_queue_delay_us") * 1000
        batching = Batching(rows, delay) if rows > 1 else None
        if delay and not batching:
            warn("[runner] max_queue_delay_us has no effect without max_batch_size, which lets requests join")
        if parallel.cluster:
            from pinnace.serving import ray as cluster

            actors = cluster.workers(model, context, parallel, settings, limit, batching)
            self._run_elsewhere(actors, actors.replicas.devices)
            return
        ranks = settings.number("runner", "ranks")
        if ranks:
            self._run_in_ranks(model, ranks, context, settings, limit, batching)
            return
        target_of = partial(partial, to_target, context, parallel.workers_num)
        spec, *others = (
            open_model(model, None, target_of(device_id=number), settings, settings.keep)
            for number in device_numbers(context, parallel.device_ids)
        )
        if settings.get("runner", "isolate") == "true":
            if not isinstance(model, str):
                raise ConfigError("[runner] isolate: a process opens the file of a model: give its path")
            from pinnace.serving.processes import workers as isolated

            targets = [one.target for one in (spec, *others)]
            processes = isolated(model, targets, settings, limit, batching)
            self._run_elsewhere(processes, [target.place for target in targets])
            return
        target, workers = spec.target, spec.target.parallel_requests
        here = workers * (1 + len(others))
        if target.device == "cpu" and here * target.threads > usable_core_count():
            warn(
                f"{here} workers x {target.threads} threads are more than the {usable_core_count()} cores "
                f"that this process may use: predictions will wait for each other"
            )
        self._start(spec, workers, limit, batching, others)

    def _run_in_ranks(
        self,
        model: str | Buffer,
        ranks: int,
        context: Context,
        settings: Settings,
        limit: int,
        batching: Batching | None,
    ) -> None:
        parallel = context.parallel
        refused = {
            "a model in memory": not isinstance(model, str),
            "devices other than the CPU": main_device(context) != "cpu",
            "workers_num, as ranks run one request at a time": parallel.workers_num > 1,
            "isolate, as ranks are processes": settings.get("runner", "isolate") == "true",
        }
        for what, given in refused.items():
            if given:
                raise ConfigError(f"[runner] ranks: not with {what}")
        from pinnace.serving.ranks import workers as ranked

        files = files_of_ranks(str(model), ranks)
        target = open_model(files[0], None, partial(to_target, context, ranks), settings).target
        self._run_elsewhere(ranked(files, target, settings, limit, batching), [f"{ranks} ranks"])

    def _run_elsewhere(self, workers: ReplicaWorkerPool, devices: Sequence[str]) -> None:
        self._run_on(workers, ", ".join(devices), facts={"memory": workers.replicas.memory})
