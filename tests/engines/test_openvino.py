"""OpenVINO beneath Pinnace: weights where they lie, runs, states, what is left to the other engine.

Goldens run on it with `pytest --provider openvino tests/test_goldens_*.py tests/test_zoo_goldens.py`.
Expected values here are numpy's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace.building.build import build as build_spec
from pinnace.building.build import build_model as build
from pinnace.building.opening import open_model
from pinnace.building.weights import refitter as refitter_of
from pinnace.errors import (
    DeviceUnavailableError,
    LackingKernelsError,
    PinnaceWarning,
    UnsupportedModelError,
)
from pinnace.options.settings import Settings
from pinnace.options.target import Target

pytest.importorskip("openvino")

RANDOM = np.random.default_rng(0)
W = RANDOM.standard_normal((64, 64)).astype(np.float32)
X = RANDOM.standard_normal((3, 64)).astype(np.float32)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # sums of 64 products in float32, in orders of their own
ON_OPENVINO = Target(threads=1, provider="openvino")


def test_openvino_reports_nothing_to_its_maker(tmp_path):
    """Its own import writes ~/intel, and sends an event; what others do with the package still works."""
    done = subprocess.run(
        [sys.executable, "-c", """
import sys
import pinnace.engines.openvino.engine
from openvino.tools import ovc
print(ovc.telemetry_utils.tm.__name__, "openvino_telemetry" in sys.modules)
import openvino_telemetry
"""],
        env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "openvino.tools.ovc.telemetry_stub False\n"
    assert list(tmp_path.iterdir()) == []


def model(nodes, inputs, outputs, weights=(), kind=TensorProto.FLOAT):
    def ports(named):
        return [helper.make_tensor_value_info(name, kind, shape) for name, shape in named.items()]

    tensors = [numpy_helper.from_array(value, name) for name, value in dict(weights).items()]
    graph = helper.make_graph(nodes, "g", ports(inputs), ports(outputs), tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def product(rows=3):
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return model([node], {"x": [rows, 64]}, {"y": [rows, 64]}, {"w": W})


def of_integers(operator, kind):
    node = helper.make_node(operator, ["a", "b"], ["y"], "odd")
    return model([node], {"a": [4], "b": [4]}, {"y": [4]}, kind=kind).SerializeToString()


def built(proto, target=ON_OPENVINO):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PinnaceWarning)  # it is OpenVINO itself that runs it
        executable = build(proto.SerializeToString(), None, target, Settings())
    assert executable.info["engine"].startswith("openvino ")
    return executable


def test_runs_give_new_arrays():
    execution = built(product()).execution()
    first, second = execution.run([X])[0], execution.run([2 * X])[0]
    np.testing.assert_allclose(first, X @ W, **CLOSE)
    np.testing.assert_allclose(second, 2 * X @ W, **CLOSE)


def test_results_go_into_the_arrays_of_the_caller():
    execution = built(product()).execution()
    mine = [np.zeros((3, 64), np.float32) for _ in range(2)]
    for scale, output in zip((1, 2), mine, strict=True):
        (result,) = execution.run([scale * X], [output])
        assert result is output
    for scale, output in zip((1, 2), mine, strict=True):
        np.testing.assert_allclose(output, scale * X @ W, **CLOSE)


def test_an_input_that_was_changed_in_place_is_read_again():
    execution, x = built(product()).execution(), X.copy()
    execution.run([x])
    x *= 3
    np.testing.assert_allclose(execution.run([x])[0], 3 * X @ W, **CLOSE)


def test_read_only_inputs_are_taken_and_left_alone():
    x = X.copy()
    x.flags.writeable = False
    np.testing.assert_allclose(built(product()).execution().run([x])[0], X @ W, **CLOSE)
    np.testing.assert_array_equal(x, X)


def test_both_kinds_of_64_bit_integers_that_numpy_has():
    node = helper.make_node("Add", ["x", "w"], ["y"])
    proto = model([node], {"x": [2]}, {"y": [2]}, {"w": np.array([1, 2])}, TensorProto.INT64)
    execution = built(proto).execution()
    for kind in (np.int64, np.longlong):
        output = np.empty(2, kind)
        execution.run([np.array([3, 4], kind)], [output])
        np.testing.assert_array_equal(output, [4, 6])


def test_executions_of_several_threads_do_not_mix():
    executable = built(product(), Target(threads=1, parallel_requests=2, provider="openvino"))
    wrong = []

    def serve(scale):
        execution = executable.execution()
        for _ in range(200):
            result = execution.run([scale * X])[0]
            if not np.allclose(result, scale * X @ W, **CLOSE):
                wrong.append(scale)

    threads = [threading.Thread(target=serve, args=(np.float32(scale),)) for scale in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("beside", [False, True])
def test_weights_in_the_file_and_beside_it(tmp_path, beside):
    path = tmp_path / "m.onnx"
    onnx.save(product(), path, save_as_external_data=beside, location="m.data", size_threshold=0)
    execution = build(path, None, ON_OPENVINO, Settings()).execution()
    np.testing.assert_allclose(execution.run([X])[0], X @ W, **CLOSE)


def test_what_was_compiled_is_loaded_again(tmp_path, monkeypatch):
    from pinnace.engines.openvino.engine import Openvino

    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "cache"))  # nobody else clears it
    path = tmp_path / "m.onnx"
    onnx.save(product(), path)
    first = build(path, None, ON_OPENVINO, Settings.load())
    for method in ("build", "compile"):
        monkeypatch.delattr(Openvino, method)
    second = build(path, None, ON_OPENVINO, Settings.load())
    for executable in (first, second):
        np.testing.assert_allclose(executable.execution().run([X])[0], X @ W, **CLOSE)


def test_weights_are_exchanged_and_the_file_keeps_its_own():
    spec = open_model(product().SerializeToString(), None, ON_OPENVINO, Settings())
    refitter, variable = refitter_of(spec, ["w"])
    (name,) = variable["w"].names
    for weights, expected in (({name: 2 * W}, 2 * W), ({}, W)):
        executable = refitter.refit(weights)
        np.testing.assert_allclose(executable.execution().run([X])[0], X @ expected, **CLOSE)


# Above 2^24 float32 has not every integer.
LARGE = {"a": [16777217, 2147483647, -16777219, 100000007], "b": [2, 3, 7, 10]}


@pytest.mark.parametrize("kind", [TensorProto.INT32, TensorProto.INT64])
@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("Mod", [1, 1, 3, 7]),  # of the divisor's sign
        ("Div", [8388608, 715827882, -2396745, 10000000]),
    ],
)
def test_integers_that_float32_has_not_are_divided_by_the_other_engine(operator, expected, kind):
    with pytest.warns(PinnaceWarning, match=f"openvino .* lacks {operator}; onnxruntime .* runs the model"):
        executable = build(of_integers(operator, kind), None, ON_OPENVINO, Settings())
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    (result,) = executable.execution().run([np.array(v, dtype) for v in LARGE.values()])
    np.testing.assert_array_equal(result, expected)


def test_what_the_other_engine_runs_is_loaded_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path))
    proto = of_integers("Mod", TensorProto.INT32)
    for cache in ("written", "loaded"):
        with pytest.warns(PinnaceWarning, match="onnxruntime .* runs the model"):
            built = build_spec(open_model(proto, None, ON_OPENVINO, Settings()))
        assert built.facts["cache"] == cache


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("ReduceL1", np.abs(X).sum(1)),
        ("ReduceLogSum", np.log(np.abs(X).sum(1))),
        ("ReduceLogSumExp", np.log(np.exp(np.abs(X)).sum(1))),
    ],
)
def test_reductions_over_axes_that_are_attributes(operator, expected):
    node = helper.make_node(operator, ["x"], ["y"], axes=[1], keepdims=0)
    proto = model([node], {"x": [3, 64]}, {"y": [3]}).SerializeToString()
    with pytest.warns(PinnaceWarning, match=f"lacks {operator}; onnxruntime"):
        executable = build(proto, None, ON_OPENVINO, Settings())
    np.testing.assert_allclose(executable.execution().run([np.abs(X)])[0], expected, **CLOSE)


def test_an_error_names_what_neither_engine_has():
    node = helper.make_node("Strange", ["x"], ["y"], "odd", domain="somewhere")
    proto = model([node], {"x": [3]}, {"y": [3]})
    proto.opset_import.append(helper.make_opsetid("somewhere", 1))
    with pytest.raises(UnsupportedModelError, match="Strange") as raised:
        build(proto.SerializeToString(), None, ON_OPENVINO, Settings())
    assert [(p.name, p.count) for p in raised.value.primitives] == [("Strange", 1)]


def test_openvino_runs_what_onnxruntime_lacks(monkeypatch):
    from pinnace.engines.onnxruntime.engine import Onnxruntime
    from pinnace.errors import UnsupportedPrimitive

    def lacks(*_):
        raise LackingKernelsError("m", [UnsupportedPrimitive("MatMul", 1, "", "no kernel")])

    for method in ("build", "compile"):
        monkeypatch.setattr(Onnxruntime, method, lacks)
    target = Target(threads=1, provider="onnxruntime")
    with pytest.warns(PinnaceWarning, match="onnxruntime .* lacks MatMul; openvino .* runs the model"):
        executable = build(product().SerializeToString(), None, target, Settings())
    np.testing.assert_allclose(executable.execution().run([X])[0], X @ W, **CLOSE)


@pytest.mark.parametrize("cache", ["off", "cache"])
def test_small_tensors_in_a_file_beside_the_model_are_read(tmp_path, monkeypatch, cache):
    monkeypatch.setenv("PINNACE_CACHE_DIR", cache if cache == "off" else str(tmp_path / cache))
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(X[0]))
    nodes = [constant, helper.make_node("Add", ["x", "b"], ["h"]), helper.make_node("Mul", ["h", "c"], ["y"])]
    proto = model(nodes, {"x": [3, 64]}, {"y": [3, 64]}, {"b": X[1]})
    how = {
        "save_as_external_data": True,
        "location": "m.data",
        "size_threshold": 0,
        "convert_attribute": True,
    }
    onnx.save(proto, tmp_path / "m.onnx", **how)
    executable = build(tmp_path / "m.onnx", None, ON_OPENVINO, Settings())
    assert executable.info["engine"].startswith("openvino ")
    np.testing.assert_allclose(executable.execution().run([X])[0], (X + X[1]) * X[0], **CLOSE)


def test_without_the_package_an_error_says_how_to_get_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pinnace.engines.openvino.engine", None)
    with pytest.raises(DeviceUnavailableError, match=r"pip install 'openvino>=2025.4'"):
        build(product().SerializeToString(), None, ON_OPENVINO, Settings())


@pytest.mark.parametrize(
    ("operator", "inputs"),
    [("Max", []), ("Transpose", []), ("TopK", ["x"]), ("MatMul", ["x"]), ("Add", ["", "x"])],
)
def test_nodes_that_lack_inputs_or_outputs_are_an_error(operator, inputs):
    """OpenVINO's reader ends the process for some."""
    proto = model([helper.make_node(operator, inputs, ["y"])], {"x": [2]}, {"y": [2]})
    with pytest.raises(LackingKernelsError, match=operator):
        build(proto.SerializeToString(), None, ON_OPENVINO, Settings())


def test_weights_for_products_in_bfloat16_take_half_and_a_plan_keeps_its_own(monkeypatch, tmp_path):
    """The engine is told to compute in float32, so that the rounding of the weights alone is seen."""
    monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("pinnace.engines.openvino.session.narrows", lambda target: True)
    nodes = [helper.make_node("MatMul", [a, w], [b], b) for a, w, b in (("x", "w", "h"), ("h", "v", "y"))]
    proto = model(nodes, {"x": [3, 64]}, {"y": [3, 64]}, {"w": W, "v": W[::-1]})
    for planned in (False, True):
        plan = {"execution_plan": {"y": "data_type:float32"}} if planned else {}
        executable = build(proto.SerializeToString(), None, ON_OPENVINO, Settings.load(options=plan))
        rounded = W.astype(ml_dtypes.bfloat16).astype(np.float32)
        expected = X @ rounded @ (W if planned else rounded)[::-1]
        np.testing.assert_allclose(executable.execution().run([X])[0], expected, rtol=1e-4, atol=1e-4)
    small, planned = sorted(path.stat().st_size for path in tmp_path.glob("cache/entries/*/model.blob"))
    assert planned - small == pytest.approx(W.nbytes / 2, abs=1000)


@pytest.mark.parametrize(("requests", "queues"), [(1, False), (2, True)])
def test_requests_at_the_same_time_share_a_queue_of_streams(requests, queues):
    executable = built(product(), Target(threads=1, provider="openvino", parallel_requests=requests))
    assert executable.queues is queues
