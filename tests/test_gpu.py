"""On a real GPU. Without one these tests are skipped, and say why."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import pinnace
from pinnace import DataType, Tensor
from pinnace.engines.devices import devices_of
from pinnace.errors import DataMismatchError, DeviceUnavailableError, EngineError

pytestmark = pytest.mark.gpu

NETWORK = str(Path(pinnace.__file__).parent / "data" / "efficientnet_lite0.mindir")
EXPECTED = Path(__file__).parent / "data" / "efficientnet_lite0_expected.npz"

# The network gives probabilities. In fp32, TF32 off, kernels of CUDA differ from the CPU's in the order of
# sums, as MindSpore and onnxruntime do on the CPU: 1e-6 was measured there, and GPUs split sums further.
# TensorRT multiplies in TF32 unless told fp16, and both keep 10 bits of a number. With all convolutions of
# the network in float16 the CPU differs by 1.4e-3; TensorRT computes the rest in 10 bits too: ten times that.
FP32, TEN_BITS = 1e-4, 1.5e-2


def on(provider="", precision=""):
    context = pinnace.Context()
    context.target = ["gpu", "cpu"]
    context.gpu.provider = provider
    if precision:
        context.gpu.precision_mode = precision
    return context


def model_of(file, context, **sections):
    kind = pinnace.ModelType.MINDIR if str(file).endswith("mindir") else pinnace.ModelType.ONNX
    model = pinnace.Model()
    model.build_from_file(str(file), kind, context, "", sections or None)
    return model


@pytest.fixture
def tensorrt(dense):
    """Skip where TensorRT is not installed, and say what is missing."""
    try:
        model_of(dense, on("tensorrt")).close()
    except DeviceUnavailableError as error:
        pytest.skip(f"needs TensorRT: {error}")


@pytest.fixture(scope="module")
def picture():
    return np.load(EXPECTED)["chelsea_input"]


@pytest.fixture(scope="module")
def probabilities(picture):
    """What the CPU says, beside what MindSpore said when the golden was made."""
    with model_of(NETWORK, pinnace.Context()) as model:
        found = model.predict([picture.reshape(model.get_inputs()[0].shape)])[0].get_data_to_numpy().ravel()
    # both in fp32, on the same kind of processor
    np.testing.assert_allclose(found, np.load(EXPECTED)["chelsea_mindspore"].ravel(), atol=1e-5)
    return found


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(6).normal(size=(64, 64)).astype(np.float32) / 8


@pytest.fixture(scope="module")
def dense(tmp_path_factory, weights):
    """y = relu(x @ w), with a free batch: small enough that TensorRT is done in a moment."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    w = helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.ravel())
    graph = helper.make_graph(nodes, "dense", ports[:1], ports[1:], [w])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path_factory.mktemp("dense") / "dense.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def rows(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 64)).astype(np.float32)


def agree(found, x, weights, atol=1e-4):
    """Sums of 64 products that come to 1 or so: 1e-4 is fp32 in another order; with 10 bits a factor 7e-4."""
    np.testing.assert_allclose(found, np.maximum(x.astype(np.float64) @ weights, 0), atol=atol)


# -- a network -------------------------------------------------------------------------------------------


def test_the_network_of_the_package(picture, probabilities):
    with model_of(NETWORK, on()) as model:
        assert model.get_model_info("device") == "gpu:0"
        (found,) = model.predict([picture.reshape(model.get_inputs()[0].shape)])
    np.testing.assert_allclose(found.get_data_to_numpy().ravel(), probabilities, atol=FP32)


@pytest.mark.parametrize("precision", ["enforce_fp32", "preferred_fp16"])
def test_the_network_with_tensorrt(tensorrt, picture, probabilities, precision):
    with model_of(NETWORK, on("tensorrt", precision)) as model:
        (found,) = model.predict([picture.reshape(model.get_inputs()[0].shape)])
    found = found.get_data_to_numpy().ravel()
    np.testing.assert_allclose(found, probabilities, atol=TEN_BITS)
    assert found.argmax() == probabilities.argmax()


def test_profiles_and_the_cache_of_engines(tensorrt, dense, weights, tmp_path):
    sections = {
        "gpu_context": {"input_shape": "x:[-1,64]", "dynamic_dims": "[1~8]", "opt_dims": "[4]"},
        "ms_cache": {"serialize_path": str(tmp_path)},
    }
    written = []
    for _ in range(2):
        with model_of(dense, on("tensorrt"), **sections) as model:
            for count in (1, 4, 8):
                x = rows(count)
                agree(model.predict([x])[0].get_data_to_numpy(), x, weights, atol=5e-3)  # TF32
        written.append({file.name: file.stat().st_mtime_ns for file in tmp_path.glob("*.engine")})
    assert written[0]
    assert written[0] == written[1]  # the second model took the engine of the first


# -- memory of the device --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [d for d in DataType if d not in (DataType.UNKNOWN, DataType.INVALID, DataType.STRING)]
)
def test_data_goes_there_and_comes_back(dtype):
    array = (np.arange(24) % 2).reshape(2, 3, 4).astype(dtype.to_numpy())
    tensor = Tensor(array, device="gpu:0")
    assert tensor.device == "gpu:0"
    np.testing.assert_array_equal(tensor.get_data_to_numpy(), array)
    place = tensor.device_array().block.value
    assert place.device_name().lower() in ("cuda", "gpu")
    tensor.set_data_from_numpy(array[::-1].copy())
    np.testing.assert_array_equal(tensor.get_data_to_numpy(), array[::-1])


def test_models_pass_tensors_on_without_the_host(dense, weights):
    x = rows(5)
    first = Tensor(x, device="gpu:0")
    middle, last = (Tensor(shape=[5, 64], dtype=DataType.FLOAT32, device="gpu:0") for _ in range(2))
    with model_of(dense, on()) as one, model_of(dense, on()) as two:
        assert one.predict([first], [middle]) == [middle]
        assert two.predict([middle], [last]) == [last]
    agree(middle.get_data_to_numpy(), x, weights)
    agree(last.get_data_to_numpy(), middle.get_data_to_numpy(), weights)


def test_device_tensors_with_tensorrt(tensorrt, dense, weights):
    x = rows(3)
    y = Tensor(shape=[3, 64], dtype=DataType.FLOAT32, device="gpu:0")
    with model_of(dense, on("tensorrt")) as model:
        model.predict([Tensor(x, device="gpu:0")], [y])
    agree(y.get_data_to_numpy(), x, weights, atol=5e-3)  # TF32


def test_new_data_is_seen(dense, weights):
    """In an array of the host that was bound before, and in the memory of a tensor."""
    array, tensor = rows(2), Tensor(rows(2), device="gpu:0")
    with model_of(dense, on()) as model:
        for seed in range(3):
            array[:] = rows(2, seed)
            tensor.set_data_from_numpy(array)
            for given in (array, tensor):
                agree(model.predict([given])[0].get_data_to_numpy(), array, weights)


def test_weights_are_exchanged_on_the_device(dense, weights, tmp_path):
    (tmp_path / "names").write_text("w\n", encoding="utf-8")
    new = Tensor(-weights, device="gpu:0")
    new.name = "w"
    named = {"variable_weights_file": str(tmp_path / "names")}
    with model_of(dense, on(), common_context=named) as model:
        model.update_weights([[new]])
        agree(model.predict([rows(2)])[0].get_data_to_numpy(), rows(2), -weights)


def test_more_than_the_card_has():
    huge = np.broadcast_to(np.zeros(1, np.int8), (1 << 44,))  # 16 TiB, of which the host holds one byte
    place = Tensor(device="gpu:0")._device_memory
    with pytest.raises(EngineError, match="gpu:0: 17592186044416 bytes cannot be allocated: the device"):
        place.hold(huge)


def test_a_card_that_is_not_there(dense):
    beyond = len(devices_of("gpu"))
    with pytest.raises(DeviceUnavailableError, match=f"gpu:{beyond} is not available"):
        Tensor(np.ones(2), device=f"gpu:{beyond}")
    context = on()
    context.gpu.device_id = beyond
    with pytest.raises(DeviceUnavailableError, match=f"gpu:{beyond} is not available"):
        model_of(dense, context)


def test_a_model_on_the_cpu_takes_none(dense):
    with model_of(dense, pinnace.Context()) as model, pytest.raises(DataMismatchError, match="on gpu:0, and"):
        model.predict([Tensor(rows(1), device="gpu:0")])


# -- around it -------------------------------------------------------------------------------------------


def test_the_command_shows_the_card():
    done = subprocess.run(
        [sys.executable, "-m", "pinnace", "devices", "--json"], capture_output=True, text=True, check=True
    )
    card = next(d for d in json.loads(done.stdout) if (d["kind"], d["id"]) == ("gpu", 0))
    assert card["usable"]
    assert not card["simulated"]
    assert card["name"]
    assert card["memory"] > 1 << 30
    assert card["provider"] == "onnxruntime CUDA"


def test_data_parallel_on_one_card(dense, weights):
    x = rows(7)
    with pinnace.DataParallel(str(dense), on(), device_ids=[0]) as model:
        assert model.get_model_info("device") == "gpu:0"
        for given in (x, Tensor(x, device="gpu:0")):
            agree(model.predict([given])[0].get_data_to_numpy(), x, weights)


def test_a_runner_with_many_clients(dense, weights):
    context = on()
    context.parallel.workers_num = 2
    with pinnace.ModelParallelRunner() as runner, ThreadPoolExecutor(8) as clients:
        runner.build_from_file(str(dense), context)

        def client(seed):
            x = rows(1 + seed % 4, seed)
            given = Tensor(x, device="gpu:0") if seed % 2 else x
            agree(runner.predict([given])[0].get_data_to_numpy(), x, weights)

        list(clients.map(client, range(64)))
        assert runner.stats().served == 64
