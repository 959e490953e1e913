import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pinnace


def make_model(path, seed=0, name="w", external="", outputs=512, rows="n"):
    """x (rows, 128) times a random weight (128, outputs), and the weight itself."""
    weight = np.random.default_rng(seed).normal(size=(128, outputs)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", name], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 128])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, outputs])],
        [numpy_helper.from_array(weight, name)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, path, save_as_external_data=bool(external), location=external or None)
    return weight


@pytest.fixture
def product(tmp_path):
    """Path and weight of a model that multiplies."""
    path = tmp_path / "product.onnx"
    return path, make_model(path)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, in use."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(folder))
    return folder


X = np.random.default_rng(1).normal(size=(3, 128)).astype(np.float32)


def predict(model):
    """What a model (path or bytes) makes of X, in a `Model` of its own."""
    with pinnace.Model() as built:
        if isinstance(model, bytes):
            built.build_from_buffer(model, pinnace.ModelType.ONNX)
        else:
            built.build_from_file(str(model), pinnace.ModelType.ONNX)
        return built.predict([X])[0].get_data_to_numpy()


def close_to(weight):
    # 128 products summed in another order than numpy's
    return pytest.approx(X @ weight, rel=1e-4, abs=1e-4)
