"""Models on the machines of a Ray cluster.

`membership` joins and leaves clusters; `nodes` computes an actor's resources and how many actors fit;
`models` copies a model's files to each node once; `actor` runs on the nodes; `fleet` starts the actors of one
model; `doors` puts an application of HTTP on Ray Serve. Only this package imports Ray, and only on use.
"""

from __future__ import annotations

from importlib import import_module

from pinnace.errors import ConfigError, DeviceUnavailableError
from pinnace.options.context import Context, Parallel
from pinnace.options.setting import given
from pinnace.options.settings import Settings
from pinnace.serving.batching import Batching
from pinnace.serving.replicas import ReplicaSet, ReplicaWorkerPool
from pinnace.types import Buffer

_AHEAD = 2
"""Parts on their way to one actor: one is computed while the next is sent."""


def replicas(path: str, context: Context, settings: Settings, devices: int) -> ReplicaSet:
    """Return `devices` actors of a cluster, for parts of requests; 0 means as many as fit.

    Raises as `fleet.start` does, and `ConfigError` for options that a cluster does not support.
    """
    _check(context, settings)
    from pinnace.serving.ray.fleet import start

    return start(path, context, context.parallel, settings, context.cpu.thread_num, 1, devices, _AHEAD)


def workers(
    model: str | Buffer,
    context: Context,
    parallel: Parallel,
    settings: Settings,
    limit: int,
    batching: Batching | None,
) -> ReplicaWorkerPool:
    """Return cluster workers, `parallel.workers_num` for each of its `device_ids`. Raises as `replicas`."""
    _check(context, settings)
    from pinnace.serving.ray.fleet import start

    each, devices = parallel.workers_num, len(parallel.device_ids)
    wanted = each * max(1, devices) if each else devices
    threads = context.cpu.thread_num or int(not wanted)
    actors = start(model, context, parallel, settings, threads, max(1, each), wanted, 1)
    return ReplicaWorkerPool(actors, limit, batching)


def _check(context: Context, settings: Settings) -> None:
    """Raise unless Ray is there, and `ConfigError` for options that apply to one process or machine only."""
    cpu = context.cpu
    asked = {
        "ranks (rank_id, group_size, group_info_file, rank_table_file)": context.gpu.group_size > 1
        or context.ascend.rank_id
        or context.group_info_file
        or settings.get("ascend_context", "rank_table_file"),
        "thread_affinity_mode and thread_affinity_core_list": cpu.thread_affinity_mode
        or cpu.thread_affinity_core_list,
        "weights lent to processes (pids, shared_mem_handle)": settings.get(
            "ascend_context", "shareable_weight_pid_list"
        )
        or settings.get("ascend_context", "shareable_weight_mem_handle"),
        "weights to update (variable_weights_file)": settings.variable_weights,
        "sizes of free dimensions (dynamic_dims)": given(context.gpu, "dynamic_dims")
        or given(context.ascend, "dynamic_dims"),
    }
    for what, wanted in asked.items():
        if wanted:
            raise ConfigError(
                f"context.parallel.cluster: {what} are not supported on a cluster; leave them out, or leave "
                f"context.parallel.cluster and address out"
            )
    require("")


def require(part: str) -> None:
    """Raise DeviceUnavailableError unless Ray is installed, with a part of it such as "serve"."""
    try:
        import_module(f"ray.{part}".rstrip("."))
    except ImportError as error:
        package = f"ray[{part}]" if part else "ray"
        raise DeviceUnavailableError(
            f"clusters need the package ray: pip install '{package}>=2.60' ({error})"
        ) from None
