"""The least integer over -1, which ends the process in bare onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

import pinnace as mslite
from pinnace.building.build import build_model as build
from pinnace.engines.onnxruntime.guards import guard
from pinnace.options.settings import Settings
from pinnace.options.target import Target


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("operator", "opset", "expected"),
    [("Div", 8, [None, -7, -3, 1]), ("Div", 18, [None, -7, -3, 1]), ("Mod", 18, [0, 0, 1, 2])],
)
def test_a_divisor_that_only_the_run_knows(tmp_path, kind, operator, opset, expected):
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    value = {name: helper.make_tensor_value_info(name, code, [4]) for name in "xyz"}
    node = helper.make_node(operator, ["x", "y"], ["z"])
    graph = helper.make_graph([node], "g", [value["x"], value["y"]], [value["z"]])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    model = mslite.Model()
    model.build_from_file(str(path), mslite.ModelType.ONNX)
    least = np.iinfo(kind).min
    x, y = np.array([least, 7, -7, 6], kind), np.array([-1, -1, 2, 4], kind)
    result = model.predict([mslite.Tensor(x), mslite.Tensor(y)])[0].get_data_to_numpy()
    quotient = [least if e is None else e for e in expected]  # begins anew, as other sums beyond the end do
    assert result.tolist() == quotient


@pytest.mark.parametrize("small", [np.int32, np.int16, np.int8])
def test_a_size_that_is_cast_to_fewer_bits(small):
    code, least = helper.np_dtype_to_tensor_dtype(np.dtype(small)), np.iinfo(small).min
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], end=1),
        helper.make_node("Cast", ["s"], ["size"], to=code),
        helper.make_node("Div", ["y", "size"], ["z"]),
    ]
    rows = 2 * -int(least) - 1  # -1 in fewer bits
    feed = {"x": np.zeros((rows, 0), np.float32), "y": np.array([least], small)}
    assert divided(nodes, small, feed) == [least]


def test_a_choice_that_only_looks_like_a_guard():
    nodes = [helper.make_node("Where", ["c", "one", "y"], ["w"]), helper.make_node("Div", ["x", "w"], ["z"])]
    least = np.iinfo(np.int32).min
    feed = {"c": np.array([False]), "x": np.array([least], np.int32), "y": np.array([-1], np.int32)}
    assert divided(nodes, np.int32, feed) == [least]


def divided(nodes, kind, feed) -> list[int]:
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim)
        for name, x in feed.items()
    ]
    result = helper.make_tensor_value_info("z", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), [None])
    one = numpy_helper.from_array(np.array(1, kind), "one")
    graph = helper.make_graph(nodes, "g", inputs, [result], [one])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    executable = build(proto.SerializeToString(), None, Target(threads=1), Settings())
    return executable.execution().run(list(feed.values()))[0].tolist()


@pytest.mark.parametrize(
    ("body", "guarded"),
    [
        ("y = Div(n, d)", True),
        ("y = Div(n, minus)", True),
        ("y = Div(n, several)", True),
        ("y = Div(n, one)", False),
        ("s = Shape(x) y = Div(n, s)", False),
        ("s = Shape(x) g = Gather(s, one) i = Identity(g) y = Div(n, i)", False),
        ("s = Size(x) y = Div(n, s)", False),
        ("s = Shape(x) a = Sub(s, one) y = Div(n, a)", True),
        ("s = Shape(x) a = mine.Gather(s, one) y = Div(n, a)", False),  # of an unknown type
        ("a = Cast <to = 13> (n) b = Cast <to = 13> (d) y = Div(a, b)", False),
        ("y = Div(x, x)", False),
    ],
)
def test_what_may_divide_by_minus_one_is_guarded(body, guarded):
    for operator in ("Div", "Mod"):
        model = ir.from_onnx_text(
            f"""<ir_version: 10, opset_import: ["": 21, "mine": 1]>
            g (float[a,b] x, int64[2] n, int64[2] d) => (y)
            <int64[1] one = {{1}}, int64[1] minus = {{-1}}, int64[2] several = {{2, -1}}> {{
                {body.replace("Div", operator)}
            }}"""
        )
        guard(model)
        written = [node.op_type for node in model.graph]
        assert written.count("Where") == guarded * (2 if operator == "Div" else 1)
        assert written.count("Neg") == (guarded and operator == "Div")
