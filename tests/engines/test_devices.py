"""Devices: what there is, what is simulated, and what onnxruntime's providers are told."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import pinnace
from pinnace.building.planning import to_target
from pinnace.engines.devices import devices, devices_of
from pinnace.engines.onnxruntime import device_errors, providers
from pinnace.errors import (
    ArgumentValueError,
    ConfigError,
    DeviceUnavailableError,
    EngineError,
    PinnaceWarning,
)
from pinnace.machine import accelerators as hardware
from pinnace.machine.simulation import counts, simulated, slice_of
from pinnace.options.context import Context
from pinnace.options.target import Target

DATA = Path(__file__).parents[1] / "data" / "api"
CORES = sorted(os.sched_getaffinity(0))


@pytest.fixture
def simulate(monkeypatch):
    return lambda text: monkeypatch.setenv("PINNACE_SIMULATE", text)


@pytest.fixture(autouse=True)
def _as_asked(monkeypatch):
    for name in ("PINNACE_SIMULATE", "CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    forget = hardware.cards.cache_clear  # tests replace the function
    forget()
    yield
    forget()


def on(kind, number=0):
    context = Context()
    context.target = [kind]
    getattr(context, kind).device_id = number
    return context


# -- what is simulated -----------------------------------------------------------------------------------


def test_nothing_is_simulated_unless_asked():
    assert counts() == {}
    assert not any(device.simulated for device in devices())


def test_kinds_and_counts(simulate):
    simulate(" Ascend:2, gpu : 3 ")
    assert counts() == {"ascend": 2, "gpu": 3}
    assert [(d.kind, d.id) for d in devices() if d.simulated] == [
        *(("gpu", number) for number in range(3)),
        *(("ascend", number) for number in range(2)),
    ]
    assert all("simulated on core" in str(d) and d.usable and d.memory > 0 for d in devices_of("gpu"))


@pytest.mark.parametrize(
    "text",
    [
        "gpu",
        "gpu:",
        "gpu:0",
        "gpu:-1",
        "gpu:x",
        "tpu:1",
        "cpu:2",
        "gpu:1,",
        "gpu:1,gpu:2",
        "gpu:5000",
        "gpu:٢",
    ],
)
def test_what_cannot_be_read_is_refused(simulate, text):
    simulate(text)
    with pytest.raises(ConfigError, match="PINNACE_SIMULATE="):
        counts()


@pytest.mark.parametrize(
    ("cores", "count", "slices"),
    [
        (range(4), 2, [(0, 1), (2, 3)]),
        (range(5), 2, [(0, 1), (2, 3, 4)]),
        (range(3), 3, [(0,), (1,), (2,)]),
        ([4, 7], 3, [(4,), (7,), (4,)]),
    ],
)
def test_slices_of_cores(cores, count, slices):
    assert [slice_of(list(cores), place, count) for place in range(count)] == slices


@pytest.mark.parametrize("provider", ["", "acl", "ge"])
def test_a_simulated_device_is_the_cpu_on_its_slice(simulate, provider):
    simulate("ascend:2")
    context = on("ascend", 1)
    context.ascend.provider = provider
    context.ascend.precision_mode = "enforce_fp16"
    target = to_target(context)
    mine = slice_of(CORES, 1, 2)
    assert (target.device, target.provider, target.precision) == ("cpu", "", "preferred_fp16")
    assert (target.cores, target.threads, target.parallel_requests) == (mine, len(mine), 1)
    assert target.simulates.startswith("ascend:1 (simulated on core")


def test_the_cpu_comes_after_the_device(simulate):
    simulate("ascend:1")
    context = Context()
    context.target = ["ascend", "cpu"]
    assert to_target(context).simulates
    context.target = ["cpu", "ascend"]
    with pytest.raises(ConfigError, match="put the device first"):
        to_target(context)


def test_wrong_words_for_a_simulated_device(simulate):
    simulate("gpu:2,ascend:1")
    with pytest.raises(DeviceUnavailableError, match=r"gpu:2 is not available: .* makes gpu:0 to gpu:1"):
        to_target(on("gpu", 2))
    context = on("gpu")
    context.gpu.provider = "ge"
    with pytest.raises(ArgumentValueError, match=r"gpu provider 'ge' is not known.*'tensorrt'"):
        to_target(context)


def test_a_model_says_that_its_device_is_simulated(simulate):
    with pinnace.Model() as model:
        model.build_from_file(str(DATA / "add.onnx"), pinnace.ModelType.ONNX)
        assert model.get_model_info("device") == "cpu:0"
        assert "simulated" not in str(model)
    simulate("gpu:2")
    with pinnace.Model() as model:
        model.build_from_file(str(DATA / "add.onnx"), pinnace.ModelType.ONNX, on("gpu", 1))
        assert model.get_model_info("device").startswith("gpu:1 (simulated on core")
        assert "simulated" in str(model)
        assert [port.name for port in model.get_inputs()]


# -- one runner on several devices -----------------------------------------------------------------------


def test_a_runner_on_two_devices(simulate):
    simulate("ascend:2")
    context = on("ascend")
    context.parallel.device_ids = [0, 1]
    context.parallel.workers_num = 1
    with pinnace.ModelParallelRunner() as runner:
        runner.build_from_file(str(DATA / "add.onnx"), context)
        first, second = runner.get_model_info("device").split("), ")
        assert first.startswith("ascend:0 (simulated")
        assert second.startswith("ascend:1 (simulated")
        assert runner.stats().workers == 2
        shapes = [[1 if d < 0 else d for d in t.shape] for t in runner.get_inputs()]
        arrays = [np.full(s, 3, t.dtype.to_numpy()) for s, t in zip(shapes, runner.get_inputs(), strict=True)]
        futures = [runner.submit(arrays) for _ in range(20)]
        results = [future.result(300)[0].get_data_to_numpy() for future in futures]
        for result in results:
            np.testing.assert_array_equal(result, sum(arrays))
        assert runner.stats().served == 20


def test_weights_change_on_all_devices_at_once(simulate, tmp_path):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    w = helper.make_tensor("w", TensorProto.FLOAT, [4, 4], np.eye(4, dtype=np.float32).ravel())
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", value[:1], value[1:], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "names").write_text("w\n", encoding="utf-8")
    simulate("gpu:2")
    context = on("gpu")
    context.parallel.device_ids = [0, 1]
    context.parallel.workers_num = 1
    context.parallel.config_info = {"common_context": {"variable_weights_file": str(tmp_path / "names")}}
    with pinnace.ModelParallelRunner() as runner:
        runner.build_from_file(str(tmp_path / "m.onnx"), context)
        x = np.arange(4, dtype=np.float32).reshape(1, 4)
        new = pinnace.Tensor(2 * np.eye(4, dtype=np.float32))
        new.name = "w"
        runner.update_weights([[new]])
        both = threading.Barrier(2)

        def predicted(_):
            both.wait(300)  # so that the two take a device each
            return [runner.predict([x])[0].get_data_to_numpy() for _ in range(20)]

        with ThreadPoolExecutor(2) as clients:
            for results in clients.map(predicted, range(2)):
                np.testing.assert_array_equal(results, [2 * x] * 20)


def test_devices_named_twice_or_for_nothing(simulate):
    simulate("ascend:2")
    context = on("ascend")
    context.parallel.device_ids = [1, 1]
    runner = pinnace.ModelParallelRunner()
    with pytest.raises(ConfigError, match="twice"):
        runner.build_from_file(str(DATA / "add.onnx"), context)
    context.target = ["cpu"]
    with pytest.warns(PinnaceWarning, match="no effect"), runner:
        runner.build_from_file(str(DATA / "add.onnx"), context)


# -- what the machine has --------------------------------------------------------------------------------


def test_what_nvidia_smi_says():
    text = "0, GPU-5d1, 143771, NVIDIA H200\n1, GPU-77a, [N/A], NVIDIA A100, 40GB\nNo devices were found\n"
    assert hardware.parse_nvidia_smi(text) == [
        hardware.Card("gpu", 0, "NVIDIA H200", 143771 << 20, "GPU-5d1"),
        hardware.Card("gpu", 1, "NVIDIA A100, 40GB", 0, "GPU-77a"),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, ["a", "b", "c"]),
        ("2,0", ["c", "a"]),
        ("GPU-2, 0", ["b", "a"]),
        ("MIG-3,1", ["MIG-3", "b"]),
        ("1,9,0", ["b"]),
        ("GPU", []),  # the beginning of all three
        ("-1", []),
        ("", []),
    ],
)
def test_the_cards_that_the_environment_leaves(monkeypatch, text, names):
    """CUDA numbers those that are left from 0 on, and so do context and tensors."""
    rows = "0, GPU-1a, 10, a\n1, GPU-2b, 10, b\n2, GPU-1c, 10, c\n"
    monkeypatch.setattr(hardware, "_output", lambda program, arguments: rows)
    if text is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
    assert [(card.id, card.name) for card in hardware.cards("gpu")] == list(enumerate(names))


def test_an_nvidia_smi_that_fails_or_hangs(tmp_path, monkeypatch):
    """As after an update of the driver: "Driver/library version mismatch", status 18."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(hardware, "_NVIDIA", tmp_path)
    monkeypatch.setattr(hardware, "_PATIENCE", 0.2)
    tool = tmp_path / "nvidia-smi"
    for script in ("echo 0, GPU-1, 10, a; exit 18", "echo 0, GPU-1, 10, a; exec /bin/sleep 20"):
        tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        tool.chmod(0o755)
        hardware.cards.cache_clear()
        assert hardware.cards("gpu") == ()


def test_what_the_driver_says(tmp_path, monkeypatch):
    for bus, name in (("0000:17:00.0", "Tesla T4"), ("0000:65:00.0", "NVIDIA L4")):
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "information").write_text(
            f"Model: \t\t {name}\nIRQ:   \t\t 16\nGPU UUID: \t GPU-{bus}\n", encoding="utf-8"
        )
    for node in ("davinci1", "davinci0", "davinci_manager"):
        (tmp_path / node).touch()
    monkeypatch.setattr(hardware, "_NVIDIA", tmp_path)
    monkeypatch.setattr(hardware, "_DEV", tmp_path)
    monkeypatch.setattr("shutil.which", lambda program: None)
    assert hardware.cards("gpu") == (
        hardware.Card("gpu", 0, "Tesla T4", 0, "GPU-0000:17:00.0"),
        hardware.Card("gpu", 1, "NVIDIA L4", 0, "GPU-0000:65:00.0"),
    )
    assert [c.id for c in hardware.cards("ascend")] == [0, 1]


def test_a_card_without_its_provider_says_why_it_is_not_usable(monkeypatch):
    monkeypatch.setattr(
        "pinnace.engines.devices.cards", lambda kind: [hardware.Card(kind, 0, "Card", 8 << 30)]
    )
    monkeypatch.setattr(
        "pinnace.machine.accelerators.cards", lambda kind: [hardware.Card(kind, 0, "Card", 8 << 30)]
    )
    monkeypatch.setattr(providers.ort, "get_available_providers", lambda: [providers.CPU])
    gpu, ascend = devices_of("gpu") + devices_of("ascend")
    assert not gpu.usable
    assert "onnxruntime-gpu" in str(gpu)
    assert "onnxruntime-cann" in str(ascend)
    monkeypatch.setattr(providers.ort, "get_available_providers", lambda: [providers.CUDA, providers.CANN])
    assert devices_of("gpu")[0].usable
    assert devices_of("ascend")[0].usable


def test_the_command(simulate):
    simulate("ascend:2")
    done = subprocess.run(
        [sys.executable, "-m", "pinnace", "devices", "--json"], capture_output=True, text=True, check=True
    )
    found = {(d["kind"], d["id"]): d for d in json.loads(done.stdout)}
    assert found["cpu", 0]["usable"]
    assert found["ascend", 1]["simulated"]
    assert "simulated on" in found["ascend", 1]["name"]
    simulate("ascend")
    done = subprocess.run(
        [sys.executable, "-m", "pinnace", "devices"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "'ascend' is not KIND:COUNT" in done.stderr


# -- what cannot start: the words in it are those of onnxruntime-gpu 1.31 on machines that lack something ---


@pytest.fixture
def has_cards(monkeypatch):
    """Two cards of each kind, and an onnxruntime that says it has all providers."""
    found = [hardware.Card("gpu", number, "Card", 8 << 30) for number in range(2)]
    monkeypatch.setattr("pinnace.machine.accelerators.cards", lambda kind: found)
    monkeypatch.setattr("pinnace.engines.devices.cards", lambda kind: found)
    everything = [providers.TENSORRT, providers.CUDA, providers.CANN, providers.CPU]
    monkeypatch.setattr(providers.ort, "get_available_providers", lambda: everything)
    monkeypatch.setattr(device_errors, "preload", lambda: None)


def test_a_provider_that_is_left_out_is_not_taken_for_the_cpu(has_cards, monkeypatch, tmp_path):
    """onnxruntime goes on with the CPU where a library of CUDA is missing; the loader knows which."""
    (tmp_path / "lib.so").write_bytes(b"no library at all")
    monkeypatch.setattr(device_errors, "_library", lambda provider: tmp_path / "lib.so")
    refused = pytest.raises(
        DeviceUnavailableError, match=r"has CUDAExecutionProvider and could not start it: .*lib\.so: .*cuDNN"
    )
    with refused, pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        pinnace.Model().build_from_file(str(DATA / "add.onnx"), pinnace.ModelType.ONNX, on("gpu"))


TROUBLES = [
    (
        "CUDA_PATH is set but CUDA wasnt able to be loaded. Please install",
        DeviceUnavailableError,
        "could not",
    ),
    ("Please install TensorRT libraries as mentioned in the", DeviceUnavailableError, "LD_LIBRARY_PATH"),
    (
        "CUDA failure 100: no CUDA-capable device is detected ; GPU=0",
        DeviceUnavailableError,
        "no CUDA-capable",
    ),
    ("CUDA failure 101: invalid device ordinal ; GPU=7", DeviceUnavailableError, "invalid device ordinal"),
    ("CUDA driver version is insufficient for CUDA runtime", DeviceUnavailableError, "driver version"),
    ("CUDA failure 2: out of memory ; GPU=0", EngineError, "add.onnx.*the device is out of memory"),
    (
        "Failed to allocate memory for requested buffer of size 9",
        EngineError,
        "add.onnx.*the device is out of memory",
    ),
    ("anything else", EngineError, "add.onnx: onnxruntime cannot build it: anything else"),
]


@pytest.mark.parametrize(("words", "kind", "message"), TROUBLES)
def test_what_is_wrong_with_a_device_is_named(has_cards, monkeypatch, words, kind, message):
    def refuse(*args, **kwargs):
        raise RuntimeError(words)

    monkeypatch.setattr("onnxruntime.InferenceSession", refuse)
    context = on("gpu")
    context.gpu.provider = "tensorrt"
    with pytest.raises(kind, match=message):
        pinnace.Model().build_from_file(str(DATA / "add.onnx"), pinnace.ModelType.ONNX, context)


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        ("CUDA Provider not available, can't get interface", DeviceUnavailableError, "could not start"),
        ("The provided device id doesn't match any available GPUs", DeviceUnavailableError, "doesn't match"),
        ("CUDA failure 2: out of memory ; GPU=1", EngineError, r"cannot be allocated: .* is out of memory"),
    ],
)
def test_a_tensor_that_finds_no_memory(has_cards, monkeypatch, words, kind, message):
    def refuse(shape, element_type, device, number):
        assert (device, number) == ("cuda", 1)
        raise RuntimeError(words)

    monkeypatch.setattr("onnxruntime.OrtValue.ortvalue_from_shape_and_type", refuse)
    with pytest.raises(kind, match=rf"gpu:1: .*{message}"):
        pinnace.Tensor(np.ones(3), device="gpu:1")


def test_memory_that_is_full_when_a_model_runs(simulate, monkeypatch):
    simulate("gpu:1")
    with pinnace.Model() as model:
        model.build_from_file(str(DATA / "add.onnx"), pinnace.ModelType.ONNX, on("gpu"))
        inputs = [
            np.zeros([1 if d < 0 else d for d in t.shape], t.dtype.to_numpy()) for t in model.get_inputs()
        ]

        def refuse(self, name, value):
            raise RuntimeError("CUDA failure 2: out of memory")

        monkeypatch.setattr("onnxruntime.IOBinding.bind_ortvalue_input", refuse)
        with pytest.raises(EngineError, match=r"the device is out of memory.*CUDA failure 2"):
            model.predict(inputs)
        monkeypatch.undo()


def test_an_onnxruntime_for_the_cpu_beside_a_driver(monkeypatch):
    monkeypatch.setattr(
        "pinnace.machine.accelerators.cards", lambda kind: [hardware.Card(kind, 0, "Card", 8 << 30)]
    )
    wanted = (
        r"gpu:0 is not available: it needs onnxruntime with CUDAExecutionProvider "
        r"\(pip uninstall onnxruntime; "
    )
    with pytest.raises(DeviceUnavailableError, match=wanted):
        pinnace.Model().build_from_file(str(DATA / "add.onnx"), pinnace.ModelType.ONNX, on("gpu"))
    with pytest.raises(DeviceUnavailableError, match=wanted):
        pinnace.Tensor(np.ones(3), device="gpu:0")


# -- what providers are told: the words are those of onnxruntime's pages of its execution providers --------


def options(**sections):
    return tuple(
        (s, key.replace("__", "."), v) for s, values in sections.items() for key, v in values.items()
    )


def test_cuda():
    target = Target(device="gpu", device_id=2)
    assert providers.chain(target) == [
        ("CUDAExecutionProvider", {"device_id": "2", "use_tf32": "False"}),
        ("CPUExecutionProvider", {}),
    ]
    assert providers.cuda(Target(device="gpu", precision="preferred_fp16"))["use_tf32"] == "True"


def test_tensorrt():
    target = Target(
        device="gpu",
        device_id=1,
        provider="tensorrt",
        precision="preferred_fp16",
        options=options(
            ms_cache={"serialize_path": "/engines"},
            gpu_context={
                "input_shape": "x:[-1,3,-1,224];mask:[1,8];seq:0:[-1]",
                "dynamic_dims": "[1~8,32~224];[16]",
                "opt_dims": "[4,128];[16]",
            },
        ),
    )
    names = [name for name, _ in providers.chain(target)]
    assert names == ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]
    assert providers.tensorrt(target) == {
        "device_id": "1",
        "trt_fp16_enable": "True",
        "trt_engine_cache_enable": "True",
        "trt_engine_cache_path": "/engines",
        "trt_timing_cache_enable": "True",
        "trt_timing_cache_path": "/engines",
        "trt_profile_min_shapes": "x:1x3x32x224,seq:0:16",
        "trt_profile_max_shapes": "x:8x3x224x224,seq:0:16",
        "trt_profile_opt_shapes": "x:4x3x128x224,seq:0:16",
    }
    plain = Target(device="gpu", provider="tensorrt")
    assert providers.tensorrt(plain) == {"device_id": "0", "trt_fp16_enable": "False"}


def test_profiles_without_favorites_favor_the_largest():
    assert providers.profiles("x:[-1,4]", "[1~8]", "")["trt_profile_opt_shapes"] == "x:8x4"
    assert providers.profiles("x:[1,-1]", "[2~4],[8],[16]", "")["trt_profile_max_shapes"] == "x:1x16"
    assert providers.profiles("x:[2,4]", "", "") == {}


@pytest.mark.parametrize(
    ("shape", "dims", "best", "message"),
    [
        ("x:[-1,-1]", "[1~2]", "", "sizes for 1 free dimensions, and the model's inputs have 2"),
        ("x:[-1]", "[5~2]", "", "'5~2' is neither"),
        ("x:[-1]", "", "[5]", "opt_dims needs free dimensions in input_shape, and dynamic_dims"),
        ("x:[-1]", "[1~4]", "[5]", "not within"),
        ("x:[-1]", "[1~4]", "[a]", "'a' is neither"),
    ],
)
def test_profiles_that_cannot_be(shape, dims, best, message):
    with pytest.raises(ConfigError, match=message):
        providers.profiles(shape, dims, best)


def test_cann():
    plain = providers.chain(Target(device="ascend"))
    assert providers.chain(Target(device="ascend", provider="acl")) == plain
    assert providers.cann(Target(device="ascend", device_id=3)) == {
        "device_id": "3",
        "precision_mode": "force_fp32",
        "enable_cann_graph": "True",
    }
    assert providers.cann(Target(device="ascend", precision="preferred_optimal"))["precision_mode"] == (
        "allow_mix_precision"
    )


def test_cann_takes_options():
    target = Target(
        device="ascend",
        provider="ge",
        options=options(
            ascend_context={"ge_graph_memory_max_size": "1000"},
            acl_init_options={"ge__opSelectImplmode": "high_precision"},
        ),
    )
    found = providers.cann(target)
    assert (found["npu_mem_limit"], found["op_select_impl_mode"]) == ("1000", "high_precision")


def test_simulated_devices_are_left_by_the_variables(monkeypatch):
    monkeypatch.setenv("PINNACE_SIMULATE", "gpu:3,ascend:2")
    whole = [simulated("gpu", number).cores for number in range(3)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "")
    assert [simulated("gpu", number).cores for number in range(2)] == [whole[2], whole[0]]
    with pytest.raises(DeviceUnavailableError, match="of which CUDA_VISIBLE_DEVICES='2,0' leaves 2"):
        simulated("gpu", 2)
    with pytest.raises(DeviceUnavailableError, match="leaves 0"):
        simulated("ascend", 0)
    assert counts() == {"gpu": 2, "ascend": 0}
