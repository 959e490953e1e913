"""Where and how models run, as the user says it, and its translation into a `Target`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pinnace.arguments import check_32_bits, check_count, check_list, check_sections, check_type
from pinnace.cores import allowed_cores, cores_by_speed, spread, usable_core_count
from pinnace.errors import ArgumentValueError, ConfigError, warn
from pinnace.options import ASCEND_PRECISION
from pinnace.simulation import Simulated, simulated
from pinnace.target import Target

if TYPE_CHECKING:
    from pinnace.cache.choices import Tuning

__all__ = ["Context"]

_FP16, _FP32 = "preferred_fp16", "enforce_fp32"
_HALF = (
    *(_FP16, "enforce_fp16", "preferred_optimal"),
    *("force_fp16", "allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16"),
)
"""Precision modes of devices that prefer 16 bits, CANN's words among them."""

_SIMULATED_PROVIDERS = {"gpu": ("", "cuda", "tensorrt"), "ascend": ("", "acl", "ge")}
_THREADS_A_CORE = 5
_AFFINITY = {0: "none", 1: "fastest cores first", 2: "slowest cores first"}


class Options:
    """Base of the groups of options: speaks up where an option is set that does not exist."""

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and not hasattr(self, name):
            known = [option for option in dir(self) if not option.startswith("_")]
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            warn(f"{type(self).__name__} has no option {name!r}, it has no effect{hint}")
        super().__setattr__(name, value)


class Device(Options):
    """What the kinds of device have in common."""

    _kind: Literal["cpu", "gpu", "ascend"]
    _title: str
    _modes: tuple[str, ...] = (_FP32, _FP16)
    _default = _FP32

    def __init__(self) -> None:
        self._precision_mode = ""  # as nobody has set it: an option of a configuration may
        self._provider = ""

    @property
    def precision_mode(self) -> str:
        """The precision to compute in: "enforce_fp32" or "preferred_fp16"; more words, and "", on Ascend."""
        return self._precision_mode or self._default

    @precision_mode.setter
    def precision_mode(self, mode: str) -> None:
        name = f"{self._kind}_precision_mode"
        check_type(name, mode, str)
        if mode not in self._modes:
            known = ", ".join(filter(None, self._modes))
            raise ArgumentValueError(f"{name} must be in [{known}], but got {mode}.")
        self._precision_mode = mode

    @property
    def provider(self) -> str:
        """Name of the engine to run on; "" leaves the choice to Pinnace."""
        return self._provider

    @provider.setter
    def provider(self, provider: str) -> None:
        check_type(f"{self._kind}_provider", provider, str)
        self._provider = provider

    @property
    def enable_fp16(self) -> bool:
        """Whether `precision_mode` is "preferred_fp16": the name of mindspore_lite 1.8 and 1.9."""
        return self._precision_mode == _FP16

    @enable_fp16.setter
    def enable_fp16(self, enable: bool) -> None:
        check_type("enable_fp16", enable, bool)
        self._precision_mode = _FP16 if enable else ""


class CPU(Device):
    """The processor: threads, cores, precision."""

    _kind = "cpu"
    _title = "kCPU"

    def __init__(self) -> None:
        super().__init__()
        self._thread_num = 0
        self._inter_op_parallel_num = 0
        self._thread_affinity_mode = 0
        self._thread_affinity_core_list: list[int] = []

    def __str__(self) -> str:
        return (
            f"device_type: DeviceType.{self._title},\n"
            f"precision_mode: {self.precision_mode},\n"
            f"thread_num: {self.thread_num},\n"
            f"inter_op_parallel_num: {self.inter_op_parallel_num},\n"
            f"thread_affinity_mode: {self.thread_affinity_mode},\n"
            f"thread_affinity_core_list: {self.thread_affinity_core_list}."
        )

    @property
    def thread_num(self) -> int:
        """Threads that compute one request, at most 5 a core; 0 chooses by the cores that are there."""
        return self._thread_num

    @thread_num.setter
    def thread_num(self, cpu_thread_num: int) -> None:
        check_count("cpu_thread_num", cpu_thread_num)
        self._thread_num = int(cpu_thread_num)

    @property
    def inter_op_parallel_num(self) -> int:
        """Operators that run at the same time, at most `thread_num`; 0 leaves it to the engine."""
        return self._inter_op_parallel_num

    @inter_op_parallel_num.setter
    def inter_op_parallel_num(self, cpu_inter_op_parallel_num: int) -> None:
        check_count("cpu_inter_op_parallel_num", cpu_inter_op_parallel_num)
        self._inter_op_parallel_num = int(cpu_inter_op_parallel_num)

    @property
    def thread_affinity_mode(self) -> int:
        """Cores to bind threads to: 0 none, 1 the fastest first, 2 the slowest first."""
        return self._thread_affinity_mode

    @thread_affinity_mode.setter
    def thread_affinity_mode(self, cpu_thread_affinity_mode: int) -> None:
        check_type("cpu_thread_affinity_mode", cpu_thread_affinity_mode, int)
        check_32_bits("cpu_thread_affinity_mode", cpu_thread_affinity_mode)
        if cpu_thread_affinity_mode not in _AFFINITY:
            # mindspore_lite takes the value and binds nothing
            warn(f"cpu_thread_affinity_mode {cpu_thread_affinity_mode} is not one of {_AFFINITY}: 0 is used")
            cpu_thread_affinity_mode = 0
        self._thread_affinity_mode = int(cpu_thread_affinity_mode)

    @property
    def thread_affinity_core_list(self) -> list[int]:
        """Cores to bind threads to, in this order; goes before `thread_affinity_mode`."""
        return list(self._thread_affinity_core_list)

    @thread_affinity_core_list.setter
    def thread_affinity_core_list(self, cpu_thread_affinity_core_list: list[int]) -> None:
        check_list("cpu_thread_affinity_core_list", cpu_thread_affinity_core_list, int)
        check_32_bits("cpu_thread_affinity_core_list element", *cpu_thread_affinity_core_list)
        self._thread_affinity_core_list = list(map(int, cpu_thread_affinity_core_list))


class Accelerator(Device):
    """A device with a number."""

    def __init__(self) -> None:
        super().__init__()
        self._device_id: int | None = None
        self._input_shape = ""  # these three are options of configurations alone
        self._dynamic_dims = ""
        self._output_type = ""

    @property
    def device_id(self) -> int:
        """Number of the device on this machine."""
        return self._device_id or 0

    @device_id.setter
    def device_id(self, device_id: int) -> None:
        check_count(f"{self._kind}_device_id", device_id)
        self._device_id = int(device_id)


class GPU(Accelerator):
    """A GPU; its rank and the number of ranks come from the launcher (MPI or the like)."""

    _kind = "gpu"
    _title = "kGPU"

    def __str__(self) -> str:
        return (
            f"device_type: DeviceType.{self._title},\n"
            f"precision_mode: {self.precision_mode},\n"
            f"device_id: {self.device_id},\n"
            f"rank_id: {self.rank_id},\n"
            f"group_size: {self.group_size}."
        )

    @property
    def rank_id(self) -> int:
        """Rank of this process among those that run one model together; 0 where it runs alone."""
        return _launched("RANK", 0)

    @property
    def group_size(self) -> int:
        """Number of processes that run one model together; 1 where it runs alone."""
        return _launched("SIZE", 1)

    def get_rank_id(self) -> int:
        """As `rank_id`: the name of mindspore_lite 1.8 and 1.9."""
        return self.rank_id

    def get_group_size(self) -> int:
        """As `group_size`: the name of mindspore_lite 1.8 and 1.9."""
        return self.group_size


class Ascend(Accelerator):
    """An Ascend processor."""

    _kind = "ascend"
    _title = "kAscend"
    _modes = ("", *ASCEND_PRECISION)
    _default = ""

    def __init__(self) -> None:
        super().__init__()
        self._said_rank: int | None = None
        self._said_size: int | None = None

    def __str__(self) -> str:
        # mindspore_lite 2.0.0 has no such options; the releases that have them tell them so.
        later = f"provider: {self.provider}.rank_id: {self.rank_id}." if self.provider or self.rank_id else ""
        return (
            f"device_type: DeviceType.{self._title},\n"
            f"precision_mode: {self.precision_mode},\n"
            f"device_id: {self.device_id}.{later}"
        )

    @property
    def rank_id(self) -> int:
        """Rank of this process among those that run one model together; 0 where nothing was said."""
        return self._said_rank or 0

    @rank_id.setter
    def rank_id(self, ascend_rank_id: int) -> None:
        check_count("ascend_rank_id", ascend_rank_id)
        self._said_rank = int(ascend_rank_id)

    @property
    def group_size(self) -> int:
        """Number of processes that run one model together: what was set, else what their launcher says, or 1.

        What is set must be what the launcher or the rank table says.
        """
        return self._said_size or _launched("SIZE", 1)

    @group_size.setter
    def group_size(self, ascend_group_size: int) -> None:
        check_count("ascend_group_size", ascend_group_size)
        self._said_size = int(ascend_group_size) or None


class Parallel(Options):
    """What a `ModelParallelRunner` asks for."""

    def __init__(self) -> None:
        self._workers_num = 0
        self._config_info: dict[str, dict[str, str]] = {}
        self._config_path = ""
        self._device_ids: list[int] = []
        self._cluster = ""
        self._address = ""

    def __str__(self) -> str:
        return (
            f"workers num: {self.workers_num},\n"
            f"config info: {self.config_info},\n"
            f"config file: {self.config_path}."
        )

    @property
    def workers_num(self) -> int:
        """Requests that run at the same time; 0 chooses by the cores that are there."""
        return self._workers_num

    @workers_num.setter
    def workers_num(self, workers_num: int) -> None:
        check_count("workers_num", workers_num, "Set parallel failed, ")
        self._workers_num = int(workers_num)

    @property
    def config_info(self) -> Any:
        """Options as text: a line "section: key value" for the first key, "key value" for those after.

        Set a dict {section: {key: value}}; a section replaces what it held, other sections stay.
        """
        return "\n".join(
            f"{section}: " + "\n".join(f"{key} {value}" for key, value in sorted(values.items()))
            for section, values in sorted(self._config_info.items())
        )

    @config_info.setter
    def config_info(self, config_info: Mapping[str, Mapping[str, str]]) -> None:
        check_sections("config_info", config_info)
        self._config_info.update({section: dict(values) for section, values in config_info.items()})

    @property
    def sections(self) -> dict[str, dict[str, str]]:
        """What was set as `config_info`."""
        return self._config_info

    @property
    def config_path(self) -> str:
        """Path of an .ini file with options; those of `config_info` go before."""
        return self._config_path

    @config_path.setter
    def config_path(self, config_path: str) -> None:
        check_type("config_path", config_path, str)
        if config_path and not os.path.exists(config_path):
            raise ArgumentValueError("Set parallel failed, config_path does not exist!")
        self._config_path = config_path or self._config_path

    @property
    def device_ids(self) -> list[int]:
        """Devices that the workers are spread over."""
        return list(self._device_ids)

    @device_ids.setter
    def device_ids(self, device_ids: list[int]) -> None:
        check_list("device_ids", device_ids, int)
        check_32_bits("device_ids element", *device_ids)
        if min(device_ids, default=0) < 0:
            raise ArgumentValueError("Set parallel failed, device_ids contain a negative number.")
        self._device_ids = list(device_ids)

    @property
    def cluster(self) -> str:
        """Whose processes the workers are: "ray" those of a Ray cluster, "" this machine's.

        The cluster is the one that `address` names, else that of the variable RAY_ADDRESS, else the one that
        a node on this machine belongs to; where there is none one is started here, for as long as it is used.
        """
        return self._cluster or ("ray" if self._address else "")

    @cluster.setter
    def cluster(self, cluster: str) -> None:
        check_type("cluster", cluster, str)
        if cluster not in ("", "ray"):
            raise ArgumentValueError(
                f'Set parallel failed, cluster must be "ray" or "", but got {cluster!r}.'
            )
        self._cluster = cluster

    @property
    def address(self) -> str:
        """The "host:port" of a Ray cluster, as `ray start --head` prints it; it implies `cluster`."""
        return self._address

    @address.setter
    def address(self, address: str) -> None:
        check_type("address", address, str)
        host, _, port = address.rpartition(":")
        if address and not (host and "/" not in host and port.isdecimal() and 0 < int(port) < 1 << 16):
            raise ArgumentValueError(
                f'Set parallel failed, address must be "host:port" of a Ray cluster, but got {address!r}.'
            )
        self._address = address


class DeviceInfo:
    """Base of the descriptions of devices of mindspore_lite 1.8 and 1.9, for `Context.append_device_info`."""


class CPUDeviceInfo(CPU, DeviceInfo):
    """A processor that computes in float32, or in float16 where `enable_fp16`."""

    def __init__(self, enable_fp16: bool = False) -> None:
        super().__init__()
        self.enable_fp16 = enable_fp16

    def __str__(self) -> str:
        return f"device_type: DeviceType.{self._title},\nenable_fp16: {self.enable_fp16}."


class GPUDeviceInfo(GPU, DeviceInfo):
    """The GPU with number `device_id`."""

    def __init__(self, device_id: int = 0, enable_fp16: bool = False) -> None:
        super().__init__()
        check_count("device_id", device_id)
        self.device_id = device_id
        self.enable_fp16 = enable_fp16

    def __str__(self) -> str:
        return (
            f"device_type: DeviceType.{self._title},\n"
            f"device_id: {self.device_id},\n"
            f"enable_fp16: {self.enable_fp16}."
        )


class AscendDeviceInfo(Ascend, DeviceInfo):
    """The Ascend processor with number `device_id`."""

    def __init__(self, device_id: int = 0) -> None:
        super().__init__()
        check_count("device_id", device_id)
        self.device_id = device_id

    def __str__(self) -> str:
        return f"device_type: DeviceType.{self._title},\ndevice_id: {self.device_id}."


class Context(Options):
    """The devices to run on, and how.

    `cpu`, `gpu` and `ascend` hold the options of each, `parallel` those of a `ModelParallelRunner`, and
    `target` says which devices are used. The arguments are those of mindspore_lite 1.8 and 1.9; the first
    four set the option of `cpu` with the same name.
    """

    cpu: CPU
    gpu: GPU
    ascend: Ascend
    parallel: Parallel
    enable_parallel: bool

    def __init__(
        self,
        thread_num: int | None = None,
        inter_op_parallel_num: int | None = None,
        thread_affinity_mode: int | None = None,
        thread_affinity_core_list: list[int] | None = None,
        enable_parallel: bool = False,
    ) -> None:
        check_type("enable_parallel", enable_parallel, bool)
        vars(self).update(cpu=CPU(), gpu=GPU(), ascend=Ascend(), parallel=Parallel())
        vars(self).update(enable_parallel=enable_parallel)
        self._target = ["cpu"]
        self._appended = False
        self._group_info_file = ""
        if thread_num is not None:
            self.cpu.thread_num = thread_num
        if inter_op_parallel_num is not None:
            self.cpu.inter_op_parallel_num = inter_op_parallel_num
        if thread_affinity_mode is not None:
            self.cpu.thread_affinity_mode = thread_affinity_mode
        if thread_affinity_core_list is not None:
            self.cpu.thread_affinity_core_list = thread_affinity_core_list

    def __str__(self) -> str:
        return f"target: {self.target}."

    @property
    def target(self) -> list[str]:
        """Kinds of device to use: "cpu", "gpu", "ascend" in any case. The CPU steps in for the others.

        To use other ones set another list: what is done to this one has no effect.
        """
        return list(self._target)

    @target.setter
    def target(self, target: list[str] | None) -> None:
        target = target or ["cpu"]
        check_list("target", target, str)
        for kind in target:
            if kind.lower() not in ("cpu", "gpu", "ascend"):
                raise ArgumentValueError(
                    f"target elements must be in ['cpu', 'gpu', 'ascend'], but got {kind.lower()}."
                )
        self._target = list(target)

    @property
    def group_info_file(self) -> str:
        """Path of a file that tells which ranks run one model together."""
        return self._group_info_file

    @group_info_file.setter
    def group_info_file(self, group_info_file: str) -> None:
        check_type("group_info_file", group_info_file, str)
        self._group_info_file = group_info_file

    def append_device_info(self, device_info: DeviceInfo) -> None:
        """Use one more device: the way of mindspore_lite 1.8 and 1.9. The first call replaces `target`."""
        check_type("device_info", device_info, DeviceInfo)
        match device_info:
            case CPUDeviceInfo():
                self.cpu.enable_fp16 = device_info.enable_fp16
                kind = "cpu"
            case GPUDeviceInfo():
                self.gpu, kind = device_info, "gpu"
            case AscendDeviceInfo():
                self.ascend, kind = device_info, "ascend"
            case _:
                raise ArgumentValueError(f"{type(device_info)} describes no kind of device")
        self._target = [*self._target, kind] if self._appended else [kind]
        self._appended = True


def main_device(context: Context) -> str:
    """The kind of device that a context wants first. Raises `ConfigError` where the CPU stands before it."""
    kinds = [kind.lower() for kind in context.target]
    others = [kind for kind in kinds if kind != "cpu"]
    if others and kinds[0] == "cpu":
        raise ConfigError(
            f"target {context.target} names the CPU before {others[0]!r}: the device goes first, "
            f"the CPU steps in for it by itself"
        )
    return kinds[0]


def device_numbers(context: Context, device_ids: Sequence[int]) -> list[int | None]:
    """The devices to spread over, None for the one of the context alone. Raises `ConfigError`."""
    if not device_ids:
        return [None]
    if main_device(context) == "cpu":
        return [None]
    if len(set(device_ids)) < len(device_ids):
        raise ConfigError(f"device_ids {list(device_ids)} name a device twice")
    return list(device_ids)


def to_target(
    context: Context, requests: int = 1, tuning: Tuning | None = None, device_id: int | None = None
) -> Target:
    """What to build for: the first device of the context, for `requests` at the same time.

    `device_id` goes before that of the context. A device that is simulated becomes the cores that play it.

    A number that is left open with a 0, of a request's threads or of the requests, is the one that was the
    fastest in `tuning`, else as many as the cores that this process may use allow. Raises `ConfigError` where
    options contradict each other or the machine, `DeviceUnavailableError` beyond the simulated devices.
    """
    kind = main_device(context)
    options: Device = getattr(context, kind)
    precision = options.precision_mode or _FP32
    cpu = context.cpu
    if 0 < cpu.thread_num < cpu.inter_op_parallel_num:
        raise ConfigError(
            f"inter_op_parallel_num ({cpu.inter_op_parallel_num}) must not be greater than "
            f"thread_num ({cpu.thread_num})"
        )
    number = getattr(options, "device_id", 0) if device_id is None else device_id
    said: dict[str, Any] = {
        "rank": None if kind == "gpu" else context.ascend._said_rank,
        "ranks": None if kind == "gpu" else context.ascend._said_size,
        "groups": context.group_info_file,
    }
    if isinstance(options, Accelerator):
        for name in ("input_shape", "dynamic_dims", "output_type"):
            said[name] = getattr(options, f"_{name}")
    played = simulated(kind, number)
    if played is not None:
        return replace(_playing(played, options, cpu, requests), **said)
    cores = usable_core_count()
    threads, places = _numbers(cpu, requests, cores)
    # What was measured decides where it was compared with what the cores allow, one operator at a time.
    measured = kind == "cpu" and not cpu.inter_op_parallel_num
    if measured and tuning is not None and tuning.compares(threads, places):
        best = tuning.best(options.provider, precision, cpu.thread_num, requests)
        threads, places = (best.threads, best.workers) if best else (threads, places)
    return Target(
        device=kind,
        device_id=number,
        provider=options.provider,
        precision=precision,
        threads=threads,
        inter_op_threads=_operators(cpu, cores),
        cores=_cores(cpu, threads, places),
        parallel_requests=places,
        **said,
    )


def _playing(played: Simulated, options: Device, cpu: CPU, requests: int) -> Target:
    """The cores that play a device; its own providers and precisions become those of the CPU."""
    if options.provider not in _SIMULATED_PROVIDERS[played.kind]:
        known = ", ".join(map(repr, _SIMULATED_PROVIDERS[played.kind]))
        raise ArgumentValueError(
            f"{played.kind} provider {options.provider!r} is not known; choose from {known}"
        )
    threads, places = _numbers(cpu, requests, len(played.cores))
    half = options.precision_mode in _HALF
    return Target(
        precision=_FP16 if half else _FP32,
        threads=threads,
        inter_op_threads=_operators(cpu, len(played.cores)),
        cores=played.cores,
        parallel_requests=places,
        simulates=str(played),
        device_id=played.id,
    )


def _numbers(cpu: CPU, requests: int, cores: int) -> tuple[int, int]:
    """Threads of a request, and requests; where they are left open, as many as the cores allow."""
    threads = _sensible("thread_num", cpu.thread_num, cores)
    requests = requests or max(1, cores // (threads or 1))
    return threads or max(1, _operators(cpu, cores), cores // requests), requests


def _operators(cpu: CPU, cores: int) -> int:
    """Operators that run at the same time."""
    return _sensible("inter_op_parallel_num", cpu.inter_op_parallel_num, cores)


def _sensible(name: str, threads: int, cores: int) -> int:
    """As many threads as are asked for, or the most that make sense, as mindspore_lite 2.0.0 has it."""
    most = _THREADS_A_CORE * cores
    if threads > most:
        warn(
            f"{name} {threads} is more than {_THREADS_A_CORE} times the {cores} cores that this process may "
            f"use: {most} is taken"
        )
    return min(threads, most)


def _cores(cpu: CPU, threads: int, workers: int) -> tuple[int, ...]:
    """Cores to bind to: the list given, or as many of the ranked ones as there are threads.

    The first ones are the workers', one each, the rest is for all further threads.
    """
    if cpu.thread_affinity_core_list:
        return _checked_cores(cpu.thread_affinity_core_list)
    if cpu.thread_affinity_mode:
        ranked = cores_by_speed(fastest_first=cpu.thread_affinity_mode == 1)
        return spread(ranked[: threads * workers], workers)
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


def file_of_rank(path: str, context: Context | None) -> str:
    """The path; where there is no such file that of this rank's part: NAME0.mindir or NAME_0.mindir for 0."""
    rank = None if context is None or main_device(context) == "gpu" else context.ascend._said_rank
    rank = _launched("RANK", -1) if rank is None else rank
    if rank < 0 or os.path.exists(path):
        return path
    stem, suffix = os.path.splitext(path)
    parts = (f"{stem}{joint}{rank}{suffix}" for joint in ("", "_"))
    return next(filter(os.path.exists, parts), path)


def _launched(what: str, default: int) -> int:
    """A number that the launcher of ranks left in the environment: Open MPI, MPICH and Slurm, torchrun."""
    names = {
        "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK", "RANK_ID"),
        "SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE", "RANK_SIZE"),
    }[what]
    for name in names:
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    return default
