"""Descriptions of the server and its models, as JSON of the protocol.

Over gRPC the same values fill messages of the same field names.
"""

from __future__ import annotations

from typing import Any

from pinnace import __version__
from pinnace.server.models import OpenModel
from pinnace.server.repository import Entry, Repository
from pinnace.server.tensors import NAMES
from pinnace.shapes import layout_of
from pinnace.types import Port

PLATFORM = "pinnace"
EXTENSIONS = [
    "binary_tensor_data", "model_configuration", "model_repository", "model_repository(unload_dependents)",
    "statistics", "parameters", "system_shared_memory", "classification",
]  # fmt: skip


def server(repository: Repository) -> dict[str, Any]:
    """Return the server's metadata."""
    return {"name": repository.server_name, "version": __version__, "extensions": EXTENSIONS}


def model(entry: Entry, opened: OpenModel) -> dict[str, Any]:
    """Return a model's metadata."""
    return {
        "name": entry.name,
        "versions": sorted(entry.open, key=int),
        "platform": PLATFORM,
        "inputs": [_tensor(tensor) for tensor in opened.inputs],
        "outputs": [_tensor(tensor) for tensor in opened.outputs],
    }


def _tensor(tensor: Port) -> dict[str, Any]:
    return {"name": tensor.name, "datatype": NAMES[tensor.dtype], "shape": list(tensor.shape)}


def config(opened: OpenModel) -> dict[str, Any]:
    """Return a model's configuration.

    Where requests are batched, `dims` lack the dimension of the batch, as in Triton's configurations.
    """
    settings = opened.settings
    batched = settings.max_batch_size > 1
    config: dict[str, Any] = {
        "name": opened.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "max_batch_size": settings.max_batch_size if batched else 0,
        "input": [
            _configured(tensor, batched) | {"format": f"FORMAT_{layout_of(tensor.shape) or 'NONE'}"}
            for tensor in opened.inputs
        ],
        "output": [_configured(tensor, batched) for tensor in opened.outputs],
        "instance_group": [{"name": opened.name, "count": opened.workers}],
    }
    if batched:
        config["dynamic_batching"] = {"max_queue_delay_microseconds": settings.max_queue_delay_us}
    return config


def _configured(tensor: Port, batched: bool) -> dict[str, Any]:
    name = NAMES[tensor.dtype]
    return {
        "name": tensor.name,
        "data_type": f"TYPE_{'STRING' if name == 'BYTES' else name}",
        "dims": list(tensor.shape[batched:]),
    }


def statistics(opened: OpenModel) -> dict[str, Any]:
    """Return the counts of a version; times are sums in nanoseconds.

    What Triton counts apart, `compute_infer` includes: the fields are there for its clients.
    """
    counts, stats = opened.counts, opened.runner.stats()
    included = {"count": counts.served, "ns": 0}
    return {
        "name": opened.name,
        "version": opened.version,
        "last_inference": int(counts.last * 1000),
        "inference_count": counts.served,
        "execution_count": max(0, counts.served - stats.batched + stats.batches),
        "inference_stats": {
            "success": {"count": counts.served, "ns": counts.queue_ns + counts.compute_ns},
            "fail": {"count": counts.failures, "ns": counts.failed_ns},
            "queue": {"count": counts.served, "ns": counts.queue_ns},
            "compute_input": included,
            "compute_infer": {"count": counts.served, "ns": counts.compute_ns},
            "compute_output": included,
        },
        "batch_stats": [],
    }


def all_statistics(repository: Repository) -> list[dict[str, Any]]:
    """Return the counts of all open versions."""
    return [statistics(one) for entry in repository.entries for one in entry.open.values()]


def index(repository: Repository, ready: bool = False) -> list[dict[str, str]]:
    """Return the models of the repository; only those that can answer if `ready`."""
    models = []
    for entry in repository.entries:
        versions = sorted(entry.open, key=int) or [""]
        models += [
            {"name": entry.name, "version": version, "state": entry.state, "reason": entry.reason}
            for version in versions
            if not ready or entry.state == "READY"
        ]
    return models


def status(repository: Repository) -> dict[str, Any]:
    """Return what the page shows of each version, and of models that are not open; latencies are in ms."""
    models = list[dict[str, Any]]()
    for entry in repository.entries:
        one = {"name": entry.name, "version": "", "state": entry.state, "reason": entry.reason}
        models += [one | _live(opened) for opened in entry.open.values()] or [one]
    return {"version": __version__, "models": models}


def _live(opened: OpenModel) -> dict[str, Any]:
    stats = opened.runner.stats()
    live = {name: getattr(stats, name) for name in ("p50", "p99", "queued", "busy", "workers")}
    counts = {"served": opened.counts.served, "failed": opened.counts.failures}
    return live | counts | {"version": opened.version, "memory": opened.memory}
