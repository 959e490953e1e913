"""What the C++ library asks of Python: codes of errors, contexts, tensors, text, without a C++ program."""

from __future__ import annotations

import re
import struct
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.cpp.conftest import ROOT

from pinnace import Context, DataType, Model, ModelGroupFlag, ModelType, errors
from pinnace.cpp import bridge
from pinnace.engines.steps import Profile, Step

API = ROOT / "tests" / "data" / "api"
STATUS = (Path(bridge.__file__).parent / "include" / "api" / "status.h").read_text(encoding="utf-8")


def code(name: str) -> int:
    """Return the number of a code in the header."""
    found = re.search(rf"\b{name} = (.+),", STATUS)[1]
    value = eval(found.replace("kLite", "0xF0000000").replace("kMC", "0x30000000"))
    return value & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (errors.NotSupportedError("x"), "kLiteNotSupport"),
        (errors.UnsupportedModelError("x", []), "kLiteNotFindOp"),
        (errors.ArgumentTypeError("x"), "kLiteParamInvalid"),
        (errors.ArgumentValueError("x"), "kLiteParamInvalid"),
        (errors.DataMismatchError("x"), "kLiteInputTensorError"),
        (errors.ConfigError("x"), "kLiteInputParamInvalid"),
        (errors.ModelFormatError("x"), "kLiteGraphFileError"),
        (errors.ModelStateError("x"), "kLiteUninitializedObj"),
        (errors.EngineError("x"), "kLiteOpExecuteFailure"),
        (errors.QueueFullError("x"), "kLiteServiceDeny"),
        (errors.FileWriteError("x"), "kLiteFileError"),
        (errors.DeviceUnavailableError("x"), "kMCDeviceError"),
        (errors.DistributedError("x"), "kLiteError"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else one,
)
def test_errors_have_the_codes_of_the_header(error, name):
    assert bridge.status_of(error) == (code(name), str(error))


def test_errors_of_python_are_named():
    assert bridge.status_of(MemoryError("x")) == (code("kLiteMemoryFailed"), "MemoryError: x")
    assert bridge.status_of(FileNotFoundError("x"))[0] == code("kLiteFileError")
    assert bridge.status_of(KeyError("x")) == (code("kLiteError"), "KeyError: 'x'")


def test_a_context_has_the_options_of_the_program():
    made, sections = bridge.context(None)
    assert (made.target, sections) == (Context().target, {})
    options = {"thread_num": 3, "inter_op_parallel_num": 2, "group_info_file": "", "thread_affinity_mode": 1}
    made, sections = bridge.context((options, [(0, {"provider": "onnxruntime", "enable_fp16": True})]))
    assert (made.target, made.cpu.thread_num, made.cpu.inter_op_parallel_num) == (["cpu"], 3, 2)
    assert (made.cpu.provider, made.cpu.enable_fp16, made.cpu.thread_affinity_mode) == (
        "onnxruntime",
        True,
        1,
    )
    assert sections == {}


@pytest.mark.parametrize(("kind", "name"), [(1, "gpu"), (3, "ascend"), (4, "ascend"), (5, "ascend")])
def test_devices_are_in_the_order_of_the_program(kind, name):
    made, _ = bridge.context(({}, [(kind, {"device_id": 2}), (0, {})]))
    assert made.target == [name, "cpu"]
    assert getattr(made, name).device_id == 2


def test_options_of_ascend_become_a_section():
    device = {"ascend_context.input_shape": "x:[1,3]", "output_type": DataType.FLOAT16.value}
    assert bridge.context(({}, [(3, device)]))[1] == {
        "ascend_context": {"input_shape": "x:[1,3]", "output_type": "FP16"}
    }
    for kind, text in ((DataType.FLOAT32, "FP32"), (DataType.UINT8, "UINT8"), (DataType.INT8, "INT8")):
        found = bridge.context(({}, [(3, {"output_type": kind.value})]))[1]
        assert found == {"ascend_context": {"output_type": text}}


def test_what_a_context_cannot_have_is_refused():
    with pytest.raises(errors.NotSupportedError, match="no CPU, GPU or Ascend device"):
        bridge.context(({}, [(2, {})]))
    with pytest.raises(errors.NotSupportedError, match="CPUDeviceInfo::frequency has no meaning"):
        bridge.context(({}, [(0, {"frequency": 3})]))
    bridge.context(({}, [(0, {"frequency": 0})]))  # as it is without


@pytest.mark.parametrize("texts", [[], ["a"], ["", "grüß dich", "b" * 300]])
def test_text_is_packed_as_mindspore_lite_packs_it(texts):
    packed = bridge.packed(np.array(texts, object))
    parts = [text.encode() for text in texts]
    count, *ends = struct.unpack_from(f"{len(texts) + 2}i", packed)
    assert count == len(texts)
    assert [packed[a:b] for a, b in pairwise(ends)] == parts
    assert ends[-1] == len(packed)
    found = bridge.array(memoryview(packed), DataType.STRING.value, [len(texts), 1])
    assert found.ravel().tolist() == texts
    assert found.shape == (len(texts), 1)


def test_an_array_is_over_the_memory_of_the_program():
    memory = bytearray(np.arange(6, dtype=np.int16).tobytes())
    found = bridge.array(memoryview(memory), DataType.INT16.value, [2, 3])
    found[1, 2] = 7
    assert memory[-2:] == b"\7\0"
    with pytest.raises(errors.DataMismatchError, match="can have no data"):
        bridge.array(memoryview(memory), DataType.UNKNOWN.value, [6])


def test_models_are_built_and_run_as_in_python():
    dense = str(API / "dense.onnx")
    options = ({"thread_num": 1}, [(0, {})])
    with bridge.build(dense, ModelType.MINDIR.value, options, "", {}, b"", "AES-GCM") as model:
        (port, *_) = bridge.ports(model.get_inputs())
        name, kind, shape, layout = port
        tensor = model.get_inputs()[0]
        assert (name, kind, shape) == (tensor.name, DataType.FLOAT32.value, tuple(tensor.shape))
        assert layout == tensor.format.value
        assert bridge.shares_memory(model) == 1
        with pytest.raises(errors.ArgumentValueError, match="has 1 inputs, but Resize was given 2"):
            bridge.resize(model, 2, [[5, 3], [5, 3]])
        bridge.resize(model, 1, [[5, 3]])
        assert model.get_inputs()[0].shape == [5, 3]
    read = Path(dense).read_bytes()
    with bridge.build(read, ModelType.ONNX.value, None, "", {}, b"", "AES-GCM") as model:
        assert isinstance(model, Model)
    with bridge.run(dense, options, 2, [], {"runner": {"max_queue": "9"}}, "") as runner:
        assert runner.get_model_info("workers") == "2"
    with pytest.raises(errors.NotSupportedError, match="model type 1 is not kMindIR, kMindIR_Lite or kONNX"):
        bridge.build(dense, 1, None, "", {}, b"", "AES-GCM")


def test_steps_are_in_the_order_of_their_beginnings_and_in_milliseconds():
    steps = [Step("b", "Add", 2000.0, 500.0), Step("a", "Conv", 0.0, 1500.0)]
    model = SimpleNamespace(profile=lambda arrays, runs, warm_up: Profile([steps] * (runs + warm_up)))
    assert bridge.steps(model, []) == [("a", "Conv", 1.5), ("b", "Add", 0.5)]


def test_weights_of_the_program_have_their_names():
    given = []
    model = SimpleNamespace(update_weights=given.append)
    bridge.update(model, [("w", np.ones(2, np.float32)), ("b", np.zeros(3, np.float32))])
    ((first, second),) = given[0]
    assert (first.name, second.name) == ("w", "b")
    assert (first.get_data_to_numpy().tolist(), second.shape) == ([1, 1], [3])


@pytest.mark.parametrize(
    ("device", "shares"),
    [("cpu", 1), ("gpu:0 (simulated on core 0)", 1), ("gpu:0 (NVIDIA H100)", 0), ("ascend:1", 0)],
)
def test_memory_of_devices_that_are_simulated_is_that_of_the_host(device, shares):
    assert bridge.shares_memory(SimpleNamespace(get_model_info={"device": device}.get)) == shares


def test_sections_of_the_program_go_before_those_of_its_context():
    merged = bridge._merged({"a": {"x": "1", "y": "2"}, "b": {"z": "3"}}, {"a": {"y": "4"}, "c": {"w": "5"}})
    assert merged == {"a": {"x": "1", "y": "4"}, "b": {"z": "3"}, "c": {"w": "5"}}


def test_kinds_of_models_run_on_devices_that_are_there(monkeypatch):
    assert bridge.supports(0, ModelType.MINDIR.value)
    assert not bridge.supports(0, 1)
    assert not bridge.supports(2, ModelType.MINDIR.value)
    assert not bridge.supports(3, ModelType.MINDIR.value)
    monkeypatch.setenv("PINNACE_SIMULATE", "ascend:1,gpu:1")
    assert [kind for kind in range(7) if bridge.supports(kind, ModelType.ONNX.value)] == [0, 1, 3, 4, 5]


def test_a_group_shares_its_workspace_unless_it_is_told_otherwise():
    for flags, wanted in ((0, ModelGroupFlag.SHARE_WORKSPACE), (1, ModelGroupFlag.SHARE_WEIGHT)):
        assert bridge.group(flags)._flags is wanted
    models = bridge.group(0)
    models.add_model([str(API / "add.onnx")])
    bridge.measure(models, ModelType.ONNX.value, None)
    with pytest.raises(errors.ModelStateError, match="add the paths of the models first"):
        bridge.measure(bridge.group(0), ModelType.ONNX.value, None)
