"""What the handler of a signal raises while an engine runs reaches the caller as it is."""

from __future__ import annotations

import signal

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pinnace import Context, Model, ModelType


class TimeIsUpError(Exception):
    pass


def ring(*_):
    raise TimeIsUpError


class Interrupted:
    """A session, or a request, that a signal interrupts."""

    def __init__(self, session):
        self._session = session

    def __getattr__(self, name):
        signal.raise_signal(signal.SIGALRM)
        return getattr(self._session, name)

    def __call__(self, *arguments, **options):
        signal.raise_signal(signal.SIGALRM)


@pytest.fixture(autouse=True)
def _alarm():
    before = signal.signal(signal.SIGALRM, ring)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("provider", "shape"),
    [("onnxruntime", [4]), ("onnxruntime", [64, 64]), ("onnxruntime", ["n", 4]), ("openvino", [64, 64])],
)
def test_a_signal_while_the_engine_runs(tmp_path, provider, shape):
    pytest.importorskip(provider)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    path = str(tmp_path / "m.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    context = Context(thread_num=1)
    context.cpu.provider = provider
    x = np.arange(np.prod([4, *shape[1:]] if "n" in shape else shape), dtype=np.float32)
    x = x.reshape(-1, *shape[1:])
    with Model() as model:
        model.build_from_file(path, ModelType.ONNX, context)
        place = model._live.workers._workers[0]._execution
        name = "_infer" if provider == "openvino" else "_session"
        whole = getattr(place, name)
        setattr(place, name, Interrupted(whole))
        for _ in range(2):
            with pytest.raises(TimeIsUpError):
                model.predict([x])
        setattr(place, name, whole)
        np.testing.assert_array_equal(np.asarray(model.predict([x])[0]), x + x)
        assert model.stats().busy == 0
