from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pinnace
from pinnace import AscendDeviceInfo, Context, CPUDeviceInfo, DeviceInfo, GPUDeviceInfo, PinnaceWarning
from pinnace.building.planning import to_target
from pinnace.errors import ArgumentValueError, ConfigError
from pinnace.machine import cores
from pinnace.options.context import device_numbers, file_of_rank, files_of_ranks
from pinnace.options.target import Target

CORES = sorted(os.sched_getaffinity(0))


def test_default_is_the_cpu_with_all_usable_cores() -> None:
    target = to_target(Context())
    assert (target.device, target.precision, target.cores) == ("cpu", "enforce_fp32", ())
    assert target.threads == cores.usable_core_count()
    assert target.parallel_requests == 1


def test_automatic_threads_are_shared_by_the_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinnace.building.planning.usable_core_count", lambda: 8)
    assert to_target(Context(), 3).threads == 2
    assert to_target(Context(), 20).threads == 1
    assert to_target(Context(thread_num=5), 3).threads == 5


def test_options_of_the_cpu_reach_the_target() -> None:
    context = Context()
    context.cpu.thread_num = 3
    context.cpu.inter_op_parallel_num = 2
    context.cpu.precision_mode = "preferred_fp16"
    context.cpu.provider = "onnxruntime"
    target = to_target(context, 2)
    assert (target.threads, target.inter_op_threads, target.parallel_requests) == (3, 2, 2)
    assert (target.precision, target.provider) == ("preferred_fp16", "onnxruntime")


def options(of: object) -> list[str]:
    found = inspect.getmembers(type(of), lambda member: isinstance(member, property))
    return [name for name, option in found if option.fset]


@pytest.mark.parametrize(
    ("part", "option", "value"),
    [
        ("cpu", "thread_affinity_mode", 1 << 31),
        ("cpu", "thread_affinity_core_list", [0, 1 << 40]),
        ("parallel", "device_ids", [1 << 31]),
    ],
)
def test_numbers_beyond_32_bits_are_refused(part: str, option: str, value: object) -> None:
    with pytest.raises(TypeError, match="must be an int of 32 bits, but got"):
        setattr(getattr(Context(), part), option, value)


@pytest.mark.parametrize("part", ["", "cpu", "gpu", "ascend", "parallel"])
def test_every_option_accepts_its_default(part: str) -> None:
    context = Context()
    group = getattr(context, part) if part else context
    for name in options(group):
        first = getattr(group, name)
        setattr(group, name, {} if name == "config_info" else first)
        assert getattr(group, name) == first


def test_the_precision_of_ascend_can_be_left_open_again() -> None:
    ascend = Context().ascend
    ascend.precision_mode = "enforce_fp16"
    ascend.precision_mode = ""
    assert ascend.precision_mode == ""


def test_ascend_prints_the_options_of_later_releases() -> None:
    """The form is that of mindspore_lite's page on Context; release 2.0.0 has neither."""
    ascend = Context().ascend
    plain = str(ascend)
    assert plain.endswith("device_id: 0.")
    ascend.provider = "ge"
    assert str(ascend) == f"{plain}provider: ge.rank_id: 0."
    ascend.provider, ascend.rank_id = "", 1
    assert str(ascend) == f"{plain}provider: .rank_id: 1."


@pytest.mark.parametrize("option", ["thread_num", "inter_op_parallel_num"])
def test_too_many_threads_are_reduced(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """mindspore_lite 2.0.0 takes five a core too, and says so; 100000 of them took the machine away."""
    monkeypatch.setattr("pinnace.building.planning.usable_core_count", lambda: 2)
    context = Context(**{option: 100_000})
    with pytest.warns(UserWarning, match=f"{option} 100000 is more than 5 times the 2 cores.*: 10 are used"):
        target = to_target(context)
    assert target.threads == 10
    assert target.inter_op_threads in (0, 10)
    assert to_target(Context(thread_num=10)).threads == 10


@pytest.mark.parametrize("kind", ["gpu", "ascend"])
def test_device_precedes_the_cpu(kind: str) -> None:
    context = Context()
    context.target = [kind.upper(), "cpu"]
    getattr(context, kind).device_id = 2
    getattr(context, kind).provider = "p"
    target = to_target(context)
    assert (target.device, target.device_id, target.provider) == (kind, 2, "p")
    context.target = ["cpu", kind]
    with pytest.raises(ConfigError, match="put the device first"):
        to_target(context)


def test_more_parallel_operators_than_threads_are_refused() -> None:
    context = Context(thread_num=1, inter_op_parallel_num=2)
    with pytest.raises(RuntimeError, match=r"inter_op_parallel_num \(2\).*thread_num \(1\)"):
        to_target(context)
    assert to_target(Context(inter_op_parallel_num=2)).threads >= 2


def test_a_list_of_cores() -> None:
    context = Context()
    context.cpu.thread_affinity_core_list = CORES[::-1]
    context.cpu.thread_affinity_mode = 1
    assert to_target(context).cores == tuple(CORES[::-1])
    context.cpu.thread_affinity_core_list = [CORES[0], CORES[0]]
    with pytest.raises(ConfigError, match="twice"):
        to_target(context)
    context.cpu.thread_affinity_core_list = [4095]
    with pytest.raises(ConfigError, match=r"cannot run on \[4095\], only on"):
        to_target(context)


def test_affinity_mode_ranks_cores_by_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "allowed_cores", lambda: (0, 1, 2, 3))
    monkeypatch.setattr(cores, "_max_frequency", {0: 10, 1: 30, 2: 30, 3: 20}.get)
    context = Context(thread_num=2)
    assert to_target(context).cores == ()
    context.cpu.thread_affinity_mode = 1
    assert to_target(context).cores == (1, 2)
    assert to_target(context, 2).cores == (1, 2, 3, 0)
    context.cpu.thread_affinity_mode = 2
    assert to_target(context).cores == (0, 3)


def test_unknown_affinity_mode_warns() -> None:
    context = Context()
    with pytest.warns(PinnaceWarning, match="cpu_thread_affinity_mode 7"):
        context.cpu.thread_affinity_mode = 7
    assert context.cpu.thread_affinity_mode == 0


@pytest.mark.parametrize(
    ("where", "name", "near"),
    [
        ("cpu", "thread_nums", "thread_num"),
        ("parallel", "worker_num", "workers_num"),
        (None, "targets", "target"),
    ],
)
def test_unknown_options_warn(where: str | None, name: str, near: str) -> None:
    context = Context()
    options = getattr(context, where) if where else context
    with pytest.warns(PinnaceWarning, match=f"no option '{name}'.*did you mean '{near}'") as caught:
        setattr(options, name, 1)
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("error")
def test_every_known_option_is_silent() -> None:
    context = Context()
    context.cpu.enable_fp16 = True
    assert context.cpu.precision_mode == "preferred_fp16"
    context.gpu.provider = "tensorrt"
    context.ascend.provider = "ge"
    context.ascend.rank_id = 1
    context.group_info_file = "groups.json"
    context.parallel.device_ids = [0, 1]
    context.target = ["Ascend"]
    assert (context.ascend.rank_id, context.parallel.device_ids) == (1, [0, 1])
    assert context.group_info_file == "groups.json"


@pytest.mark.parametrize(
    ("set_it", "kind", "message"),
    [
        (
            lambda c: setattr(c.ascend, "rank_id", "1"),
            TypeError,
            "ascend_rank_id must be int, but got <class 'str'>.",
        ),
        (
            lambda c: setattr(c.ascend, "rank_id", -1),
            ValueError,
            "ascend_rank_id must be a non-negative int.",
        ),
        (
            lambda c: setattr(c.ascend, "provider", 1),
            TypeError,
            "ascend_provider must be str, but got <class 'int'>.",
        ),
        (
            lambda c: setattr(c.gpu, "provider", 1),
            TypeError,
            "gpu_provider must be str, but got <class 'int'>.",
        ),
        (
            lambda c: setattr(c, "group_info_file", 1),
            TypeError,
            "group_info_file must be str, but got <class 'int'>.",
        ),
        (
            lambda c: setattr(c.parallel, "device_ids", 1),
            TypeError,
            "device_ids must be list, but got <class 'int'>.",
        ),
        (
            lambda c: setattr(c.parallel, "device_ids", [0, -1]),
            ValueError,
            "Set parallel failed, device_ids contain a negative number.",
        ),
        (
            lambda c: c.append_device_info(1),
            TypeError,
            "device_info must be DeviceInfo, but got <class 'int'>.",
        ),
    ],
)
def test_arguments_of_newer_and_older_names(set_it, kind: type, message: str) -> None:
    with pytest.raises(kind) as caught:
        set_it(Context())
    assert str(caught.value) == message


def test_device_infos_of_older_releases() -> None:
    context = Context(
        thread_num=1, inter_op_parallel_num=1, thread_affinity_mode=2, thread_affinity_core_list=[0]
    )
    context.append_device_info(CPUDeviceInfo(enable_fp16=True))
    assert context.target == ["cpu"]
    assert context.cpu.precision_mode == "preferred_fp16"
    assert (context.cpu.thread_num, context.cpu.thread_affinity_mode) == (1, 2)
    context = Context()
    context.append_device_info(GPUDeviceInfo(device_id=1))
    context.append_device_info(CPUDeviceInfo())
    assert context.target == ["gpu", "cpu"]
    assert to_target(context).device_id == 1
    context = Context()
    context.append_device_info(AscendDeviceInfo(device_id=3))
    assert (context.target, context.ascend.device_id) == (["ascend"], 3)


def test_device_infos_print_as_in_the_pages_of_mindspore_lite() -> None:
    assert str(CPUDeviceInfo(enable_fp16=True)) == "device_type: DeviceType.kCPU,\nenable_fp16: True."
    assert str(AscendDeviceInfo()) == "device_type: DeviceType.kAscend,\ndevice_id: 0."
    assert str(GPUDeviceInfo()) == "device_type: DeviceType.kGPU,\ndevice_id: 0,\nenable_fp16: False."
    assert issubclass(GPUDeviceInfo, DeviceInfo)
    with pytest.raises(TypeError, match="enable_fp16 must be bool"):
        CPUDeviceInfo(enable_fp16=1)
    with pytest.raises(ValueError, match="device_id must be a non-negative int"):
        AscendDeviceInfo(device_id=-1)


def test_rank_and_size_come_from_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Context().gpu
    assert (gpu.rank_id, gpu.get_group_size()) == (0, 1)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert (gpu.rank_id, gpu.group_size, gpu.get_rank_id()) == (1, 2, 1)


def test_a_built_model_reads_its_threads_from_proc() -> None:
    """The threads that an engine starts, and what they are bound to, as the kernel tells."""
    # In a child, so that threads of other tests are not counted; what starts threads at import comes first.
    code = (
        "import onnxruntime, onnx_ir, pinnace.engines, pinnace.formats, pinnace.lowering.graph\n"
        "import os, sys, time, pinnace as m\n"
        "before = set(os.listdir('/proc/self/task'))\n"
        "c = m.Context(thread_num=2, thread_affinity_core_list=[min(os.sched_getaffinity(0))])\n"
        "c.cpu.provider = 'onnxruntime'\n"
        "x = m.Model(); x.build_from_file(sys.argv[1], m.ModelType.ONNX, c)\n"
        "new = set(os.listdir('/proc/self/task')) - before\n"
        "bound = lambda: [sorted(os.sched_getaffinity(int(t))) for t in new]\n"
        "end = time.monotonic() + 300\n"
        "while [1] != [*map(len, bound())] and time.monotonic() < end:\n"  # a thread binds itself first
        "    time.sleep(0.01)\n"
        "print(len(new), bound())\n"
    )
    model = Path(__file__).parents[1] / "data" / "api" / "chain.onnx"
    output = subprocess.run(
        [sys.executable, "-c", code, str(model)], capture_output=True, text=True, check=True
    )
    # two threads compute: the caller's and one more
    assert output.stdout.strip() == f"1 [[{CORES[0]}]]"


def test_package_exports_the_helpers() -> None:
    assert {"CPUDeviceInfo", "GPUDeviceInfo", "AscendDeviceInfo"} <= set(pinnace.__all__)


def test_the_list_of_targets_is_a_copy() -> None:
    """As with mindspore_lite, which runs on what was set: changes of the list once ended in an IndexError."""
    given = ["cpu"]
    context = Context()
    context.target = given
    given.append("gpu")
    context.target.clear()
    assert context.target == ["cpu"]
    assert to_target(context).device == "cpu"


@pytest.mark.parametrize(
    ("group", "option"),
    [
        ("cpu", "thread_num"),
        ("cpu", "inter_op_parallel_num"),
        ("gpu", "device_id"),
        ("ascend", "device_id"),
        ("parallel", "workers_num"),
    ],
)
def test_numbers_have_32_bits(group: str, option: str) -> None:
    """mindspore_lite raises a TypeError there; engines said so in words of their own, or hung."""
    options = getattr(Context(), group)
    setattr(options, option, 2**31 - 1)
    with pytest.raises(TypeError, match=rf"{option} must be an int of 32 bits, but got 2147483648\."):
        setattr(options, option, 2**31)
    assert getattr(options, option) == 2**31 - 1


@pytest.mark.parametrize("provider", ["openvno", "OpenVINO", "tensorrt"])
def test_an_engine_that_is_not_known_is_refused_when_it_is_set(provider):
    context = pinnace.Context()
    with pytest.raises(ArgumentValueError, match=r"cpu_provider must be in \[onnxruntime, openvino\]"):
        context.cpu.provider = provider
    context.cpu.provider = "openvino"
    context.cpu.provider = ""


def test_devices_are_numbered_once_and_the_cpu_has_no_numbers() -> None:
    context = Context()
    assert device_numbers(context, [0, 1]) == [None]
    context.target = ["Ascend"]
    assert device_numbers(context, []) == [None]
    assert device_numbers(context, (3, 1)) == [3, 1]
    with pytest.raises(ConfigError, match=r"device_ids \[1, 1\] name a device twice"):
        device_numbers(context, (1, 1))


def test_a_rank_opens_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = str(tmp_path / "net.mindir")
    monkeypatch.delenv("RANK", raising=False)
    assert file_of_rank(whole, None) == whole
    monkeypatch.setenv("RANK", "1")
    assert file_of_rank(whole, None) == whole
    (tmp_path / "net_1.mindir").touch()
    assert file_of_rank(whole, Context()) == str(tmp_path / "net_1.mindir")
    (tmp_path / "net1.mindir").touch()
    assert file_of_rank(whole, None) == str(tmp_path / "net1.mindir")
    context = Context()
    context.target, context.ascend.rank_id = ["ascend"], 3
    (tmp_path / "net_3.mindir").touch()
    assert file_of_rank(whole, context) == str(tmp_path / "net_3.mindir")
    context.target = ["gpu"]  # whose rank is the launcher's
    assert file_of_rank(whole, context) == str(tmp_path / "net1.mindir")
    Path(whole).touch()
    assert file_of_rank(whole, None) == whole


def test_the_files_of_all_ranks_are_named_after_that_of_rank_0(tmp_path: Path) -> None:
    for name in ("m_0.ms", "m_1.ms", "n0.onnx", "n1.onnx"):
        (tmp_path / name).touch()
    for stem, suffix in (("m_", ".ms"), ("n", ".onnx")):
        wanted = [str(tmp_path / f"{stem}{rank}{suffix}") for rank in range(2)]
        assert files_of_ranks(wanted[0], 2) == wanted
        with pytest.raises(ConfigError, match=rf"there is no .*{stem}2{suffix}, the file of one of 3 ranks"):
            files_of_ranks(wanted[0], 3)
    with pytest.raises(ConfigError, match="is not the file of rank 0, whose name ends with 0"):
        files_of_ranks(str(tmp_path / "m_1.ms"), 2)


def test_a_context_is_shown_with_its_threads_precision_and_workers() -> None:
    context = Context(thread_num=2)
    assert "2 threads, enforce_fp32>" in repr(context)
    context.parallel.workers_num = 3
    assert repr(context).endswith("2 threads, enforce_fp32, 3 workers>")
    assert str(context) == "target: ['cpu']."


def test_a_target_is_the_same_behind_json() -> None:
    target = Target("gpu", 2, cores=(1, 3), options=(("a", "b", "c"), ("d", "e", "f")), rank=0, form="x")
    assert Target.of_message(json.loads(json.dumps(target._asdict()))) == target
    assert (target.place, target._replace(simulates="a GPU").place) == ("gpu:2", "a GPU")


def test_an_address_names_a_port_of_a_cluster_of_ray() -> None:
    parallel = Context().parallel
    assert (parallel.address, parallel.cluster, parallel.workers_num) == ("", "", 0)
    for address in ("head:1", "10.0.0.1:65535", "[::1]:6379"):
        parallel.address = address
        assert (parallel.address, parallel.cluster) == (address, "ray")
    for wrong in (
        "head",
        "head:",
        ":6379",
        "head:0",
        "head:65536",
        "ray://head:10001",
        "head:x",
        "head:" + "9" * 5000,
    ):
        with pytest.raises(ArgumentValueError, match=r'must be "host:port" of a Ray cluster'):
            parallel.address = wrong
    parallel.address = ""
    assert parallel.cluster == ""
    parallel.cluster = "ray"
    assert parallel.cluster == "ray"
    with pytest.raises(ArgumentValueError, match='cluster must be "ray" or ""'):
        parallel.cluster = "slurm"
