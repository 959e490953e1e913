"""The least integer over -1, which ends the process in bare onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import pinnace as mslite


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize(("operator", "expected"), [("Div", [None, -7, -3, 1]), ("Mod", [0, 0, 1, 2])])
def test_a_divisor_that_only_the_run_knows(tmp_path, kind, operator, expected):
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    value = {name: helper.make_tensor_value_info(name, code, [4]) for name in "xyz"}
    node = helper.make_node(operator, ["x", "y"], ["z"])
    graph = helper.make_graph([node], "g", [value["x"], value["y"]], [value["z"]])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    model = mslite.Model()
    model.build_from_file(str(path), mslite.ModelType.ONNX)
    least = np.iinfo(kind).min
    x, y = np.array([least, 7, -7, 6], kind), np.array([-1, -1, 2, 4], kind)
    result = model.predict([mslite.Tensor(x), mslite.Tensor(y)])[0].get_data_to_numpy()
    quotient = [least if e is None else e for e in expected]  # begins anew, as other sums beyond the end do
    assert result.tolist() == quotient
