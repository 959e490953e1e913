"""From a context to onnxruntime's session on a device: providers and options, as the session gets them.

The cards are made up, and the sessions compute on the CPU.
"""

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import pinnace
from pinnace.engines.onnxruntime import device_errors, device_memory, providers
from pinnace.errors import ConfigError, DataMismatchError, DeviceUnavailableError, PinnaceWarning
from pinnace.machine import accelerators as hardware

X = np.arange(4, dtype=np.float32).reshape(1, 4)


@pytest.fixture
def sessions(monkeypatch):
    """What each session was started with, on a machine with four cards of each kind."""
    begun = []
    real = ort.InferenceSession

    def start(model, options, *, providers, disabled_optimizers, enable_fallback):
        begun.append(providers)
        session = real(model, options, providers=["CPUExecutionProvider"], enable_fallback=enable_fallback)
        session.get_providers = lambda: [name for name, _ in providers]
        return session

    monkeypatch.delenv("PINNACE_SIMULATE", raising=False)
    monkeypatch.setattr("onnxruntime.InferenceSession", start)
    monkeypatch.setattr(device_errors, "preload", lambda: None)
    everything = [providers.TENSORRT, providers.CUDA, providers.CANN, providers.CPU]
    monkeypatch.setattr(providers.ort, "get_available_providers", lambda: everything)
    for module in ("machine.accelerators", "engines.devices"):
        monkeypatch.setattr(
            f"pinnace.{module}.cards",
            lambda kind: [hardware.Card(kind, number, "Card", 8 << 30) for number in range(4)],
        )
    return begun


@pytest.fixture
def path(tmp_path):
    """y = x @ w, where w is the unit matrix and the batch is free."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy"]
    w = helper.make_tensor("w", TensorProto.FLOAT, [4, 4], np.eye(4, dtype=np.float32).ravel())
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [w])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    return str(tmp_path / "m.onnx")


def on(kind, number=0, provider="", precision=""):
    context = pinnace.Context()
    context.target = [kind]
    device = getattr(context, kind)
    device.device_id = number
    device.provider = provider
    if precision:
        device.precision_mode = precision
    return context


def built(path, context, config_path="", **sections):
    model = pinnace.Model()
    model.build_from_file(path, pinnace.ModelType.ONNX, context, config_path, sections or None)
    return model


LAST = ("CPUExecutionProvider", {})


@pytest.mark.parametrize(
    ("context", "precision", "chain"),
    [
        (on("gpu", 3), "float32", [("CUDAExecutionProvider", {"device_id": "3", "use_tf32": "False"}), LAST]),
        (
            on("gpu", precision="preferred_fp16"),
            "tf32",
            [("CUDAExecutionProvider", {"device_id": "0", "use_tf32": "True"}), LAST],
        ),
        (
            on("gpu", 1, "tensorrt"),
            "tf32",
            [
                ("TensorrtExecutionProvider", {"device_id": "1", "trt_fp16_enable": "False"}),
                ("CUDAExecutionProvider", {"device_id": "1", "use_tf32": "False"}),
                LAST,
            ],
        ),
        (
            on("gpu", 1, "tensorrt", "preferred_fp16"),
            "float16",
            [
                ("TensorrtExecutionProvider", {"device_id": "1", "trt_fp16_enable": "True"}),
                ("CUDAExecutionProvider", {"device_id": "1", "use_tf32": "True"}),
                LAST,
            ],
        ),
        (
            on("ascend", 2, "ge", "enforce_fp16"),
            "force_fp16",
            [
                (
                    "CANNExecutionProvider",
                    {"device_id": "2", "precision_mode": "force_fp16", "enable_cann_graph": "True"},
                ),
                LAST,
            ],
        ),
    ],
)
def test_contexts(sessions, path, context, precision, chain):
    kind = context.target[0]
    number = getattr(context, kind).device_id
    with built(path, context) as model:
        assert sessions == [chain]
        assert model.get_model_info("device") == f"{kind}:{number}"
        assert model.get_model_info("precision") == precision
        np.testing.assert_array_equal(model.predict([X])[0].get_data_to_numpy(), X)
    context.target = [kind, "cpu"]  # the CPU comes last in any case
    with built(path, context):
        assert sessions == [chain, chain]
    context.target = ["cpu", kind]
    with pytest.raises(ConfigError, match="put the device first"):
        built(path, context)
    assert len(sessions) == 2


def test_a_configuration_for_tensorrt(sessions, path, tmp_path):
    (tmp_path / "config.ini").write_text(
        "[gpu_context]\n"
        "input_shape=x:[-1,4]\n"
        "dynamic_dims=[1~16]\n"
        "opt_dims=[8]\n"
        "[ms_cache]\n"
        f"serialize_path={tmp_path}/engines\n",
        encoding="utf-8",
    )
    with built(path, on("gpu", 0, "tensorrt", "preferred_fp16"), str(tmp_path / "config.ini")):
        (name, options), (second, _), last = sessions[0]
    assert (name, second, last) == ("TensorrtExecutionProvider", "CUDAExecutionProvider", LAST)
    assert options == {
        "device_id": "0",
        "trt_fp16_enable": "True",
        "trt_engine_cache_enable": "True",
        "trt_engine_cache_path": f"{tmp_path}/engines",
        "trt_timing_cache_enable": "True",
        "trt_timing_cache_path": f"{tmp_path}/engines",
        "trt_profile_min_shapes": "x:1x4",
        "trt_profile_max_shapes": "x:16x4",
        "trt_profile_opt_shapes": "x:8x4",
    }


def test_a_configuration_for_cann(sessions, path):
    sections = {
        "ascend_context": {"device_id": "1", "precision_mode": "preferred_fp32", "bundle_model": "x"},
        "acl_init_options": {"ge.optypelistForImplmode": "Gelu", "ge.opSelectImplmode": "high_performance"},
    }
    warned = pytest.warns(PinnaceWarning, match=r"device_id \(the context says 3\).* bundle_model \(onnx")
    with warned, built(path, on("ascend", 3), **sections):
        assert sessions == [
            [
                (
                    "CANNExecutionProvider",
                    {
                        "device_id": "3",
                        "precision_mode": "allow_fp32_to_fp16",
                        "enable_cann_graph": "True",
                        "op_select_impl_mode": "high_performance",
                        "optypelist_for_implmode": "Gelu",
                    },
                ),
                LAST,
            ]
        ]


def test_what_was_compiled_for_a_device_is_not_kept_for_the_cpu(sessions, path):
    for _ in range(2):
        built(path, on("gpu")).close()
    with built(path, pinnace.Context()) as model:
        assert model.get_model_info("device") == "cpu:0"
    assert [chain[0][0] for chain in sessions[:2]] == ["CUDAExecutionProvider"] * 2
    assert all(chain == [LAST] for chain in sessions[2:])


def test_a_runner_on_two_cards(sessions, path):
    context = on("gpu")
    context.parallel.device_ids = [2, 0]
    context.parallel.workers_num = 1
    with pinnace.ModelParallelRunner() as runner:
        runner.build_from_file(path, context)
        assert [chain[0] for chain in sessions] == [
            ("CUDAExecutionProvider", {"device_id": "2", "use_tf32": "False"}),
            ("CUDAExecutionProvider", {"device_id": "0", "use_tf32": "False"}),
        ]
        assert runner.get_model_info("device") == "gpu:2, gpu:0"
        np.testing.assert_array_equal(runner.predict([X])[0].get_data_to_numpy(), X)


def test_weights_are_exchanged_on_the_device(sessions, path, tmp_path):
    (tmp_path / "names").write_text("w\n", encoding="utf-8")
    named = {"variable_weights_file": str(tmp_path / "names")}
    with built(path, on("gpu", 1), common_context=named) as model:
        new = pinnace.Tensor(2 * np.eye(4, dtype=np.float32))
        new.name = "w"
        model.update_weights([[new]])
        np.testing.assert_array_equal(model.predict([X])[0].get_data_to_numpy(), 2 * X)
    assert len(sessions) >= 2
    assert all(chain == sessions[0] and chain[0][1]["device_id"] == "1" for chain in sessions)


@pytest.mark.parametrize("kind", ["gpu", "ascend"])
def test_tensors_on_a_device(sessions, path, monkeypatch, kind):
    """As on a real device, but for its memory, which is the host's."""
    monkeypatch.setattr(device_memory, "_DEVICES", {"gpu": "cpu", "ascend": "cpu"})
    x = pinnace.Tensor(X, device=f"{kind}:0")
    y = pinnace.Tensor(shape=[1, 4], dtype=pinnace.DataType.FLOAT32, device=f"{kind}:0")
    assert x.device == f"{kind}:0"
    with built(path, on(kind)) as model:
        assert model.predict([x], [y]) == [y]
        np.testing.assert_array_equal(y.get_data_to_numpy(), X)
        with pytest.raises(DataMismatchError, match=rf"input 'x' is a tensor on {kind}:3, but the model"):
            model.predict([pinnace.Tensor(X, device=f"{kind}:3")])
    with pytest.raises(DeviceUnavailableError, match=rf"{kind}:4 is not available"):
        pinnace.Tensor(X, device=f"{kind}:4")


@pytest.mark.parametrize(("kind", "name"), [("gpu", "cuda"), ("ascend", "cann")])
def test_memory_is_asked_of_onnxruntime_by_its_words(sessions, monkeypatch, kind, name):
    """CANN's values cannot be made empty, nor changed: a new one takes their place."""
    calls = []
    real = ort.OrtValue

    class Value:
        @staticmethod
        def ortvalue_from_shape_and_type(shape, element_type, device, number):
            calls.append(("new", device, number, shape))
            return Value(real.ortvalue_from_shape_and_type(shape, element_type))

        @staticmethod
        def ortvalue_from_numpy(data, device, number):
            calls.append(("of", device, number, list(data.shape)))
            return Value(real.ortvalue_from_numpy(data.copy()))

        def __init__(self, value):
            self.value = value

        def update_inplace(self, data):
            calls.append(("write", data.nbytes))
            self.value.update_inplace(data)

        def numpy(self):
            return self.value.numpy()

    monkeypatch.setattr("onnxruntime.OrtValue", Value)
    tensor = pinnace.Tensor(X, device=f"{kind}:2")
    same = pinnace.Tensor(tensor)
    same.set_data_from_numpy(2 * X)
    np.testing.assert_array_equal(tensor.get_data_to_numpy(), 2 * X)
    if kind == "gpu":
        assert calls == [("new", name, 2, [16]), ("write", 16), ("write", 16)]
    else:
        assert calls == [("of", name, 2, [1]), ("of", name, 2, [16]), ("of", name, 2, [16])]
