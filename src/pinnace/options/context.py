"""The context: devices to run on, and their options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pinnace.errors import ArgumentValueError, ConfigError
from pinnace.escaping import html_table
from pinnace.options.arguments import check_list, check_sections, check_type, count, ints, path, text
from pinnace.options.devices import (
    CPU,
    GPU,
    Ascend,
    AscendDeviceInfo,
    CPUDeviceInfo,
    DeviceInfo,
    GPUDeviceInfo,
)
from pinnace.options.launcher import launched
from pinnace.options.setting import Options, given, setting

__all__ = ["Context"]

_OF_CPU = ("thread_num", "inter_op_parallel_num", "thread_affinity_mode", "thread_affinity_core_list")
_PARALLEL = "Set parallel failed, "


def _workers(name: str, value: object) -> int:
    return count(name, value, _PARALLEL)


def _numbers(name: str, ids: object) -> list[int]:
    taken = ints(name, ids)
    if min(taken, default=0) < 0:
        raise ArgumentValueError(f"{_PARALLEL}{name} contain a negative number.")
    return taken


def _cluster(name: str, value: object) -> str:
    cluster = text(name, value)
    if cluster not in ("", "ray"):
        raise ArgumentValueError(f'{_PARALLEL}{name} must be "ray" or "", but got {cluster!r}.')
    return cluster


def _address(name: str, value: object) -> str:
    address = text(name, value)
    host, _, port = address.rpartition(":")
    known = port.isdecimal() and len(port) < 6 and 0 < int(port) < 1 << 16
    if address and not (host and "/" not in host and known):
        raise ArgumentValueError(
            f'{_PARALLEL}{name} must be "host:port" of a Ray cluster, but got {address!r}.'
        )
    return address


class Parallel(Options):
    """The options of a `ModelParallelRunner`."""

    workers_num: int = setting(
        "workers_num", _workers, 0,
        "Requests that run at the same time; 0 chooses by the available cores.",
    )  # fmt: skip
    device_ids: list[int] = setting("device_ids", _numbers, [], "Devices that the workers are spread over.")
    address: str = setting(
        "address", _address, "",
        'The "host:port" of a Ray cluster, as `ray start --head` prints it; it implies `cluster`.',
    )  # fmt: skip

    cluster: str = setting(
        "cluster", _cluster, lambda parallel: "ray" if parallel.address else "",
        'Kind of cluster that the workers run on: "ray", or "" for this machine. The cluster is that of '
        "`address`, else of the variable RAY_ADDRESS, else the one that a node on this machine belongs to; "
        "if there is none, one is started here for as long as it is used.",
    )  # fmt: skip

    def __init__(self) -> None:
        self._config_info: dict[str, dict[str, str]] = {}
        self._config_path = ""

    def __str__(self) -> str:
        return (
            f"workers num: {self.workers_num},\n"
            f"config info: {self.config_info},\n"
            f"config file: {self.config_path}."
        )

    @property
    def config_info(self) -> Any:
        """Options as text: a line "section: key value" for the first key, "key value" for further ones.

        Assign a dict {section: {key: value}}; each section replaces its former content, other sections stay.
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
        """The options that were set by `config_info`."""
        return self._config_info

    @property
    def config_path(self) -> str:
        """Path of an .ini file with options; those of `config_info` take precedence."""
        return self._config_path

    @config_path.setter
    def config_path(self, config_path: str | os.PathLike[str]) -> None:
        if config_path := path("config_path", config_path):
            if not os.path.exists(config_path):
                raise ArgumentValueError(f"{_PARALLEL}config_path does not exist!")
            self._config_path = config_path


class Context(Options):
    """The devices to run on, and their options.

    `cpu`, `gpu` and `ascend` hold the options of each device, `parallel` those of a `ModelParallelRunner`,
    and `target` selects the devices. The arguments are those of mindspore_lite 1.8 and 1.9; the first four
    set the option of `cpu` with the same name.
    """

    cpu: CPU
    gpu: GPU
    ascend: Ascend
    parallel: Parallel
    enable_parallel: bool
    group_info_file: str = setting(
        "group_info_file", text, "", "Path of a file that tells which ranks run one model together."
    )

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
        given = (thread_num, inter_op_parallel_num, thread_affinity_mode, thread_affinity_core_list)
        for name, value in zip(_OF_CPU, given, strict=True):
            if value is not None:
                setattr(self.cpu, name, value)

    def __str__(self) -> str:
        return f"target: {self.target}."

    def __repr__(self) -> str:
        return f"<Context {', '.join(self.target)}: {', '.join(self._facts().values())}>"

    def _repr_html_(self) -> str:
        return html_table("Context", [("target", ", ".join(self.target)), *self._facts().items()])

    def _facts(self) -> dict[str, str]:
        cpu, workers = self.cpu, self.parallel.workers_num
        facts = {"threads": f"{cpu.thread_num or 'all'} threads", "precision": cpu.precision_mode}
        return facts | ({"workers": f"{workers} workers"} if workers else {})

    @property
    def target(self) -> list[str]:
        """Kinds of device to use: "cpu", "gpu", "ascend" in any case. The CPU is the fallback of the others.

        Assign a list to change it; changes of the returned list have no effect.
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

    def append_device_info(self, device_info: DeviceInfo) -> None:
        """Add a device, as in mindspore_lite 1.8 and 1.9. The first call replaces `target`."""
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
                raise ArgumentValueError(f"{type(device_info)} is not the description of a device")
        self._target = [*self._target, kind] if self._appended else [kind]
        self._appended = True


def given_context(argument: object) -> Context:
    return Context() if argument is None else check_type("context", argument, Context)


def main_device(context: Context) -> str:
    """Return the device that a context prefers. Raises `ConfigError` if the CPU comes before another one."""
    kinds = [kind.lower() for kind in context.target]
    others = [kind for kind in kinds if kind != "cpu"]
    if others and kinds[0] == "cpu":
        raise ConfigError(
            f"target {context.target} names the CPU before {others[0]!r}: put the device first, "
            f"the CPU is its fallback"
        )
    return kinds[0]


def device_numbers(context: Context, device_ids: Sequence[int]) -> list[int | None]:
    """Return the devices to use, [None] for the context's own. Raises `ConfigError`."""
    if not device_ids or main_device(context) == "cpu":
        return [None]
    if len(set(device_ids)) < len(device_ids):
        raise ConfigError(f"device_ids {list(device_ids)} name a device twice")
    return list(device_ids)


def file_of_rank(path: str, context: Context | None) -> str:
    """Return the path, or, if there is no such file, that of this rank's part: NAME0.mindir or NAME_0.mindir
    for 0.
    """
    rank = None if context is None or main_device(context) == "gpu" else given(context.ascend, "rank_id")
    rank = launched("rank", -1) if rank is None else rank
    if rank < 0 or os.path.exists(path):
        return path
    stem, suffix = os.path.splitext(path)
    parts = (f"{stem}{joint}{rank}{suffix}" for joint in ("", "_"))
    return next(filter(os.path.exists, parts), path)


def files_of_ranks(path: str, ranks: int) -> list[str]:
    """Return the files of all ranks, of which `path` is rank 0's: NAME0.mindir or NAME_0.mindir.

    Raises ConfigError if it has another name, or a file is missing.
    """
    stem, suffix = os.path.splitext(path)
    files = [f"{stem.removesuffix('0')}{rank}{suffix}" for rank in range(ranks)]
    if files[0] != path:
        raise ConfigError(f"ranks: {path} is not the file of rank 0, whose name ends with 0")
    missing = [file for file in files if not os.path.exists(file)]
    if missing:
        raise ConfigError(f"ranks: there is no {missing[0]}, the file of one of {ranks} ranks")
    return files
