"""The options of each kind of device."""

from __future__ import annotations

from typing import Literal

from pinnace.errors import warn
from pinnace.options.arguments import check_32_bits, check_type, count, ints, one_of, text
from pinnace.options.launcher import launched
from pinnace.options.setting import Options, given, setting
from pinnace.options.table import ASCEND_PRECISION, ENGINES

FP16, FP32 = "preferred_fp16", "enforce_fp32"
_AFFINITY = {0: "none", 1: "fastest cores first", 2: "slowest cores first"}


def _affinity(name: str, value: object) -> int:
    mode = int(check_type(name, value, int))
    check_32_bits(name, mode)
    if mode not in _AFFINITY:  # mindspore_lite accepts the value and binds nothing
        warn(f"{name} {mode} is not one of {_AFFINITY}: 0 is used")
        return 0
    return mode


def _group_size(name: str, size: object) -> int | None:
    return count(name, size) or None


class DeviceOptions(Options):
    """Options of all kinds of device."""

    kind: Literal["cpu", "gpu", "ascend"]
    _title: str
    _printed: tuple[str, ...]

    provider: str = setting(
        "{kind}_provider", text, "", 'Name of the engine to run on; "" leaves the choice to Pinnace.'
    )

    precision_mode: str = setting(
        "{kind}_precision_mode", one_of(FP32, FP16), FP32,
        'Precision to compute in: "enforce_fp32" or "preferred_fp16".',
    )  # fmt: skip

    @property
    def enable_fp16(self) -> bool:
        """True if `precision_mode` is "preferred_fp16", as in mindspore_lite 1.8 and 1.9."""
        return bool(given(self, "precision_mode") == FP16)

    @enable_fp16.setter
    def enable_fp16(self, enable: bool) -> None:
        check_type("enable_fp16", enable, bool)
        self._precision_mode = FP16 if enable else ""

    def __str__(self) -> str:
        rows = (f"{name}: {getattr(self, name)}" for name in self._printed)
        return ",\n".join((f"device_type: DeviceType.{self._title}", *rows)) + "."


class CPU(DeviceOptions):
    """Options of the CPU: threads, cores, precision."""

    kind = "cpu"
    _title = "kCPU"
    _printed: tuple[str, ...] = (
        "precision_mode",
        "thread_num",
        "inter_op_parallel_num",
        "thread_affinity_mode",
        "thread_affinity_core_list",
    )

    provider: str = setting(
        "cpu_provider", one_of("", *ENGINES), "",
        f"Name of the engine: {' or '.join(ENGINES)}; '' leaves the choice to Pinnace.",
    )  # fmt: skip
    thread_num: int = setting(
        "cpu_thread_num", count, 0,
        "Threads that compute one request, at most 5 per core; 0 chooses by cores and model.",
    )  # fmt: skip
    inter_op_parallel_num: int = setting(
        "cpu_inter_op_parallel_num", count, 0,
        "Operators that run at the same time, at most `thread_num`; 0 leaves it to the engine.",
    )  # fmt: skip
    thread_affinity_mode: int = setting(
        "cpu_thread_affinity_mode", _affinity, 0,
        "Cores to bind threads to: 0 none, 1 the fastest first, 2 the slowest first.",
    )  # fmt: skip
    thread_affinity_core_list: list[int] = setting(
        "cpu_thread_affinity_core_list", ints, [],
        "Cores to bind threads to, in this order; it takes precedence over `thread_affinity_mode`.",
    )  # fmt: skip


class Accelerator(DeviceOptions):
    """Options of devices with a number."""

    device_id: int = setting("{kind}_device_id", count, 0, "Number of the device on this machine.")


class GPU(Accelerator):
    """Options of a GPU; its rank and the number of ranks come from the launcher (MPI or the like)."""

    kind = "gpu"
    _title = "kGPU"
    _printed: tuple[str, ...] = ("precision_mode", "device_id", "rank_id", "group_size")

    @property
    def rank_id(self) -> int:
        """Rank of this process among those that run one model together; 0 if it runs alone."""
        return launched("rank", 0)

    @property
    def group_size(self) -> int:
        """Number of processes that run one model together; 1 if it runs alone."""
        return launched("size", 1)

    def get_rank_id(self) -> int:
        """Return `rank_id`, as in mindspore_lite 1.8 and 1.9."""
        return self.rank_id

    def get_group_size(self) -> int:
        """Return `group_size`, as in mindspore_lite 1.8 and 1.9."""
        return self.group_size


class Ascend(Accelerator):
    """Options of an Ascend device."""

    kind = "ascend"
    _title = "kAscend"
    _printed: tuple[str, ...] = ("precision_mode", "device_id")

    precision_mode: str = setting(
        "{kind}_precision_mode", one_of("", *ASCEND_PRECISION), "",
        'Precision to compute in, such as "preferred_fp32" or "enforce_origin"; "" leaves it to the device.',
    )  # fmt: skip
    rank_id: int = setting(
        "ascend_rank_id", count, 0,
        "Rank of this process among those that run one model together; 0 by default.",
    )  # fmt: skip
    group_size: int = setting(
        "ascend_group_size", _group_size, lambda _: launched("size", 1),
        "Number of processes that run one model together: the value set, which must match that of the "
        "launcher or the rank table, else the launcher's, or 1.",
    )  # fmt: skip

    def __str__(self) -> str:
        # mindspore_lite 2.0.0 has no such options; releases that have them print them this way.
        later = f"provider: {self.provider}.rank_id: {self.rank_id}." if self.provider or self.rank_id else ""
        return f"{super().__str__()}{later}"


class DeviceInfo:
    """Base of the device classes of mindspore_lite 1.8 and 1.9, for `Context.append_device_info`."""


class CPUDeviceInfo(CPU, DeviceInfo):
    """A CPU that computes in float32, or in float16 with `enable_fp16`."""

    _printed: tuple[str, ...] = ("enable_fp16",)

    def __init__(self, enable_fp16: bool = False) -> None:
        self.enable_fp16 = enable_fp16


class GPUDeviceInfo(GPU, DeviceInfo):
    """The GPU with number `device_id`."""

    _printed: tuple[str, ...] = ("device_id", "enable_fp16")

    def __init__(self, device_id: int = 0, enable_fp16: bool = False) -> None:
        self.device_id = device_id
        self.enable_fp16 = enable_fp16


class AscendDeviceInfo(Ascend, DeviceInfo):
    """The Ascend processor with number `device_id`."""

    _printed: tuple[str, ...] = ("device_id",)
    __str__ = DeviceOptions.__str__

    def __init__(self, device_id: int = 0) -> None:
        self.device_id = device_id
