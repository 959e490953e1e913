"""The target of a build: device, precision, threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pinnace.machine.cores import usable_core_count


class Target(NamedTuple):
    """The device to run on, and how.

    `threads` is the number of threads of one request, including the caller's; `parallel_requests` is the
    number of requests in parallel, each with as many threads. 0 threads means automatic: the usable cores
    divided by the requests. `cores` are the cores that the threads are bound to, in order; () binds none.
    With `shared_workspace`, executables of this process share the memory of intermediate results. With
    `profile` an executable records the time of each node of each run, which makes runs slightly slower.
    `prefer` decides between engines where none is given: "latency", "first" or "memory".
    `simulates` describes the device that the CPU simulates; `options` are (section, key, value) of the
    configuration, for devices other than the CPU.

    `input_shape` has input shapes by name that differ from those of the file (`shapes.named_shapes`),
    `dynamic_dims` the allowed sizes of free dimensions (`shapes.sizes`), given by the option
    `dynamic_dims_option`, `output_type` the element type of
    the outputs ("FP16", "FP32" or "UINT8"), if requested; `form` is the text of the form with fewer bits that
    a tuning found (`quantization.scheme`). With
    `fewer_threads` a small model gets one thread. `rank` is that of this process and `ranks` their number, as
    far as the user sets them; `groups` is the path of the file of groups.
    """

    device: str = "cpu"
    device_id: int = 0
    provider: str = ""
    precision: str = "enforce_fp32"
    threads: int = 0
    inter_op_threads: int = 0
    cores: tuple[int, ...] = ()
    parallel_requests: int = 1
    shared_workspace: bool = False
    profile: bool = False
    prefer: str = "latency"
    simulates: str = ""
    options: tuple[tuple[str, str, str], ...] = ()
    rank: int | None = None
    ranks: int | None = None
    groups: str = ""
    input_shape: str = ""
    dynamic_dims: str = ""
    dynamic_dims_option: str = ""
    output_type: str = ""
    form: str = ""
    fewer_threads: bool = False

    @property
    def threads_of_request(self) -> int:
        """The `threads`, or what 0 stands for."""
        return self.threads or max(1, usable_core_count() // self.parallel_requests)

    @property
    def place(self) -> str:
        """Its device for people."""
        return self.simulates or f"{self.device}:{self.device_id}"

    @property
    def gears(self) -> tuple[str, str, str]:
        """The order of inputs, the sizes of their free dimensions, and the option that gave these."""
        return self.input_shape, self.dynamic_dims, self.dynamic_dims_option

    @classmethod
    def of_message(cls, fields: Mapping[str, Any]) -> Target:
        """Return the target whose `_asdict` became JSON on the way."""
        lists = {key: tuple(map(_tuple, fields[key])) for key in ("cores", "options")}
        return cls(**{**fields, **lists})


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
