"""An LSTM or a GRU of nothing, which ends the process in bare onnxruntime."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace.building.origin import build
from pinnace.errors import EngineError
from pinnace.options.settings import Settings
from pinnace.options.target import Target


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(("operator", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_no_rows_and_no_steps_are_an_error_or_right(monkeypatch, tmp_path, cached, operator, gates):
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "cache") if cached else "off")
    weights = {"w": (1, 3 * gates, 4), "r": (1, 3 * gates, 3)}
    node = helper.make_node(operator, ["x", *weights], ["", "y"], hidden_size=3)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["t", "n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "n", 3])
    numbers = np.random.default_rng(0)
    tensors = [numpy_helper.from_array(numbers.random(s, np.float32), name) for name, s in weights.items()]
    graph = helper.make_graph([node], "g", [x], [y], tensors)
    sets = [helper.make_opsetid("", 20)]
    proto = helper.make_model(graph, opset_imports=sets, ir_version=10).SerializeToString()
    given = numbers.random((5, 2, 4), np.float32)
    [expected] = onnxruntime.InferenceSession(proto).run(None, {"x": given})
    for _ in range(2):
        executable = build(proto, None, Target(threads=1), Settings())
        run = executable.execution().run
        with pytest.raises(EngineError):
            run([given[:, :0]])
        if operator == "GRU":
            with pytest.raises(EngineError):
                run([given[:0]])
        else:
            assert not run([given[:0]])[0].any()
        np.testing.assert_allclose(run([given])[0], expected, rtol=1e-5)  # sums in another order
        executable.close()
