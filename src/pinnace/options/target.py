"""What an executable is built for: the device, the precision, the threads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One place to run, and how.

    `threads` is the number of threads that compute one request, the caller's included; `parallel_requests`
    how many requests run at the same time, each with that many threads. 0 threads means automatic: the
    cores this process may use, divided by the requests. `cores` are the processors that these threads
    are bound to, in order; () binds none. With `shared_workspace` the memory for intermediate results is
    that of all executables of this process which have it too. With `profile` an executable notes what each
    node of each run takes, for which runs take a little longer. `simulates` describes the device that the CPU
    plays here; `options` are (section, key, value) of the configuration, for devices other than the CPU.
    `input_shape` has the shapes of inputs by name that are not those of the file (`shapes.named_shapes`),
    `dynamic_dims` what the free ones may be (`shapes.sizes`), `output_type` the element type of the outputs
    ("FP16", "FP32" or "UINT8"), where one was asked for.
    `rank` is that of this process and `ranks` their number, as far as the user says them; `groups` is the
    path of the file of their groups.
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
    simulates: str = ""
    options: tuple[tuple[str, str, str], ...] = ()
    rank: int | None = None
    ranks: int | None = None
    groups: str = ""
    input_shape: str = ""
    dynamic_dims: str = ""
    output_type: str = ""
