"""From a context to the target of a build: device, threads, cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pinnace.errors import ArgumentValueError, ConfigError, warn
from pinnace.machine.cgroup import most_threads
from pinnace.machine.cores import allowed_cores, cores_by_speed, usable_core_count, workers_first
from pinnace.machine.simulation import Simulated, simulated
from pinnace.options.context import Context, main_device
from pinnace.options.devices import CPU, FP16, FP32, DeviceOptions
from pinnace.options.setting import given
from pinnace.options.target import Target

if TYPE_CHECKING:
    from pinnace.cache.tuning import Tuning

_HALF = (
    *(FP16, "enforce_fp16", "preferred_optimal"),
    *("force_fp16", "allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16"),
)
"""Precision modes of devices that prefer 16 bits, including CANN's names."""

_SIMULATED_PROVIDERS = {"gpu": ("", "cuda", "tensorrt"), "ascend": ("", "acl", "ge")}
_THREADS_A_CORE = 5


def to_target(
    context: Context, requests: int = 1, tuning: Tuning | None = None, device_id: int | None = None
) -> Target:
    """Return the target: the first device of the context, for `requests` at the same time.

    `device_id` overrides that of the context. A simulated device becomes the cores that simulate it.

    Numbers of threads and requests that are 0 are the fastest ones of `tuning`, or else as many as the usable
    cores allow, of which a build may use fewer. A form with fewer bits is one of `tuning`, unless the context
    sets fp32. Raises `ConfigError` if options contradict each other or the machine, `DeviceUnavailableError`
    for a device id beyond the simulated devices.
    """
    kind = main_device(context)
    options: DeviceOptions = getattr(context, kind)
    cpu = context.cpu
    _check_operators(cpu)
    number = getattr(options, "device_id", 0) if device_id is None else device_id
    fields = _fields(context, kind, options)
    device = simulated(kind, number)
    if device is not None:
        return _simulating(device, options, cpu, requests)._replace(**fields)
    cores = usable_core_count()
    threads, places = _numbers(cpu, requests, cores)
    target = Target(
        device=kind,
        device_id=number,
        provider=options.provider,
        precision=options.precision_mode or FP32,
        form=given(cpu, "form") or "",
        threads=threads,
        inter_op_threads=_operators(cpu, cores),
        parallel_requests=places,
        **fields,
    )
    if kind == "cpu" and tuning is not None:
        target = _tuned(target, tuning, cpu, requests)
    bound = _cores(cpu, target.threads, target.parallel_requests)
    chosen = cpu.thread_num or cpu.inter_op_parallel_num or bound or tuning
    return target._replace(cores=bound, fewer_threads=kind == "cpu" and target.threads > 1 and not chosen)


def _tuned(target: Target, tuning: Tuning, cpu: CPU, requests: int) -> Target:
    """Return a target with the numbers and the form of a tuning, where the context leaves them open."""
    may_round = given(cpu, "precision_mode") != FP32
    provider, precision = cpu.provider, target.precision
    threads, places = target.threads, target.parallel_requests
    # A tuning decides if it compared the default numbers with others, for one operator at a time.
    if not cpu.inter_op_parallel_num and tuning.compares(threads, places):
        best = tuning.best(provider, precision, cpu.thread_num, requests, may_round)
        threads, places = (best.threads, best.workers) if best else (threads, places)
    target = target._replace(threads=threads, parallel_requests=places)
    if not may_round or given(cpu, "form") is not None:
        return target
    best = tuning.best(provider, precision, threads, places, may_round)
    if best is None or not best.form:
        return target
    return target._replace(provider=best.provider, precision=best.precision, form=best.form)


def _check_operators(cpu: CPU) -> None:
    if 0 < cpu.thread_num < cpu.inter_op_parallel_num:
        raise ConfigError(
            f"inter_op_parallel_num ({cpu.inter_op_parallel_num}) must not be greater than "
            f"thread_num ({cpu.thread_num})"
        )


def _fields(context: Context, kind: str, options: DeviceOptions) -> dict[str, Any]:
    """Return the fields of a target that its options alone decide."""
    # options of configuration files only
    names = ("input_shape", "dynamic_dims", "dynamic_dims_option", "output_type")
    return {
        "rank": None if kind == "gpu" else given(context.ascend, "rank_id"),
        "ranks": None if kind == "gpu" else given(context.ascend, "group_size"),
        "groups": context.group_info_file,
        **{name: given(options, name) or "" for name in names},
    }


def _simulating(device: Simulated, options: DeviceOptions, cpu: CPU, requests: int) -> Target:
    """Return the target of a simulated device; its providers and precisions become those of the CPU."""
    if options.provider not in _SIMULATED_PROVIDERS[device.kind]:
        names = ", ".join(map(repr, _SIMULATED_PROVIDERS[device.kind]))
        raise ArgumentValueError(
            f"{device.kind} provider {options.provider!r} is not known; choose from {names}"
        )
    threads, places = _numbers(cpu, requests, len(device.cores))
    whole = set(device.cores) == set(allowed_cores())  # binding would move callers to one of them
    half = options.precision_mode in _HALF
    return Target(
        precision=FP16 if half else FP32,
        threads=threads,
        inter_op_threads=_operators(cpu, len(device.cores)),
        cores=() if whole else device.cores,
        parallel_requests=places,
        simulates=str(device),
        device_id=device.id,
    )


def _numbers(cpu: CPU, requests: int, cores: int) -> tuple[int, int]:
    """Return threads per request and number of requests; if left open, as many as the cores allow."""
    threads = _sensible("thread_num", cpu.thread_num, cores)
    if requests > cores:
        most, why = most_threads()
        if requests > most:
            raise ConfigError(f"workers_num {requests}: a worker is a thread, and at most {most} fit: {why}")
    requests = requests or max(1, cores // (threads or 1))
    return threads or max(1, _operators(cpu, cores), cores // requests), requests


def _operators(cpu: CPU, cores: int) -> int:
    return _sensible("inter_op_parallel_num", cpu.inter_op_parallel_num, cores)


def _sensible(name: str, threads: int, cores: int) -> int:
    """Limit a number of threads as mindspore_lite 2.0.0 does, with a warning."""
    most = _THREADS_A_CORE * cores
    if threads > most:
        warn(
            f"{name} {threads} is more than {_THREADS_A_CORE} times the {cores} cores that this process may "
            f"use: {most} are used"
        )
    return min(threads, most)


def _cores(cpu: CPU, threads: int, workers: int) -> tuple[int, ...]:
    """Return the cores to bind to: the given list, or as many of the ranked cores as there are threads.

    The first ones are for the workers, one each, the others for further threads.
    """
    if cpu.thread_affinity_core_list:
        return _checked_cores(cpu.thread_affinity_core_list)
    if cpu.thread_affinity_mode:
        ranked = cores_by_speed(fastest_first=cpu.thread_affinity_mode == 1)
        return workers_first(ranked[: threads * workers], workers)
    return ()


def _checked_cores(cores: list[int]) -> tuple[int, ...]:
    allowed = allowed_cores()
    absent = [core for core in cores if core not in allowed]
    if absent:
        raise ConfigError(
            f"thread_affinity_core_list {cores}: this process cannot run on {absent}, only on {list(allowed)}"
        )
    if len(set(cores)) < len(cores):
        raise ConfigError(f"thread_affinity_core_list {cores} names a core twice")
    return tuple(cores)
