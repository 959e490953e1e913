"""Every kind of place where ONNX holds a tensor survives the compile cache."""

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import pinnace
from pinnace.engines.onnxruntime.engine import Onnxruntime

X = np.random.default_rng(1).normal(size=(3, 128)).astype(np.float32)
WEIGHT = np.random.default_rng(2).normal(size=(128, 512)).astype(np.float32)  # 256 KiB: a file of its own
_IO = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [3, 128]), ("y", [3, 512]))]
_SETS = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]


def _product(x="x", w="w", y="y"):
    return helper.make_node("MatMul", [x, w], [y])


def _weight(name="w", by=1):
    return numpy_helper.from_array(WEIGHT * np.float32(by), name)


def _constant(name="w", **value):
    return helper.make_node("Constant", [], [name], **(value or {"value": _weight()}))


def _model(nodes, weights=(), functions=(), sparse=()):
    graph = helper.make_graph(nodes, "places", _IO[:1], _IO[1:], weights, sparse_initializer=sparse)
    return helper.make_model(graph, opset_imports=_SETS, ir_version=10, functions=functions)


def _branch(name, *nodes, weights=()):
    inner = helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 512])
    return helper.make_graph(nodes, name, [], [inner], weights)


def _if(then, otherwise):
    small = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Constant", [], ["zero"], value_float=0.0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
    ]
    return [*small, helper.make_node("If", ["positive"], ["y"], then_branch=then, else_branch=otherwise)]


def _branches():
    then = _branch("a", _product(w="v", y="a"), weights=[_weight("v")])
    return _model(_if(then, _branch("b", _product(w="v", y="b"), weights=[_weight("v", 2)])))


def _branches_of_branches():
    inner = _branch("b", _product(w="v", y="b"), weights=[_weight("v", 2)])
    outer = _branch("c", helper.make_node("If", ["positive"], ["c"], then_branch=inner, else_branch=inner))
    return _model(_if(_branch("a", _product(w="v", y="a"), weights=[_weight("v")]), outer))


def _branches_of_constants():
    then = _branch("a", _constant("v"), _product(w="v", y="a"))
    return _model(_if(then, _branch("b", _constant("u", value=_weight("u", 2)), _product(w="u", y="b"))))


def _branches_of_a_loop():
    names = (("i", TensorProto.INT64, []), ("on", TensorProto.BOOL, []), ("s", TensorProto.FLOAT, [3, 512]))
    given = [helper.make_tensor_value_info(*one) for one in names]
    made = [helper.make_tensor_value_info(*one) for one in (("go", *names[1][1:]), ("t", *names[2][1:]))]
    one = _branch("a", _constant("v"), _product(w="v", y="a"))
    other = _branch("b", _constant("u", value=_weight("u", 2)), _product(w="u", y="b"))
    nodes = [helper.make_node("Identity", ["on"], ["go"]), *_if(one, other)]
    nodes += [helper.make_node("Add", ["y", "s"], ["t"])]
    body = helper.make_graph(nodes, "body", given, made)
    small = [numpy_helper.from_array(np.array(3), "count"), numpy_helper.from_array(np.float32([0]), "none")]
    return _model(
        [
            _product(y="first"),
            helper.make_node("Loop", ["count", "", "first"], ["last"], body=body),
            helper.make_node("Add", ["last", "none"], ["y"]),
        ],
        [_weight(), *small],
    )


def _branches_of_a_function():
    nodes = _branches_of_constants().graph.node
    made = helper.make_function("own", "Product", ["x"], ["y"], nodes, _SETS[:1])
    return _model([helper.make_node("Product", ["x"], ["y"], domain="own")], functions=[made])


def _branches_without_packing():
    then = _branch("a", helper.make_node("Gather", ["v", "rows"], ["a"]), weights=[_weight("v")])
    other = _branch("b", helper.make_node("Gather", ["v", "rows"], ["b"]), weights=[_weight("v", 2)])
    rows = numpy_helper.from_array(np.array([5, 100, 0]), "rows")
    return _model(_if(then, other), [rows])


def _loop():
    names = (("i", TensorProto.INT64, []), ("on", TensorProto.BOOL, []), ("s", TensorProto.FLOAT, [3, 128]))
    given = [helper.make_tensor_value_info(*one) for one in names]
    made = [helper.make_tensor_value_info(*one) for one in (("go", *names[1][1:]), ("t", *names[2][1:]))]
    square = numpy_helper.from_array(WEIGHT[:, :128].copy() / 16, "square")
    nodes = [helper.make_node("Identity", ["on"], ["go"]), _product("s", "square", "t")]
    body = helper.make_graph(nodes, "body", given, made, [square])
    count = numpy_helper.from_array(np.array(3), "count")
    return _model(
        [helper.make_node("Loop", ["count", "", "x"], ["h"], body=body), _product("h")], [count, _weight()]
    )


def _function():
    made = helper.make_function("own", "Product", ["x"], ["y"], [_constant(), _product()], _SETS[:1])
    return _model([helper.make_node("Product", ["x"], ["y"], domain="own")], functions=[made])


def _sparse():
    dense = np.where(np.random.default_rng(3).random(WEIGHT.shape) < 0.3, WEIGHT, 0).astype(np.float32)
    where = np.flatnonzero(dense)
    values = numpy_helper.from_array(dense.ravel()[where], "w")
    return onnx.SparseTensorProto(
        values=values, indices=numpy_helper.from_array(where, "where"), dims=dense.shape
    )


MODELS = {
    "initializer": lambda: _model([_product()], [_weight()]),
    "Constant": lambda: _model([_constant(), _product()]),
    "Constant, not packed": lambda: _model(
        [
            _constant(),
            helper.make_node("ReduceSum", ["w"], ["s"]),
            _product(y="z"),
            helper.make_node("Add", ["z", "s"], ["y"]),
        ]
    ),
    "branches": _branches,
    "branches of branches": _branches_of_branches,
    "Constants of branches": _branches_of_constants,
    "Constants of branches of a loop": _branches_of_a_loop,
    "Constants of branches of a function": _branches_of_a_function,
    "branches that pack nothing": _branches_without_packing,
    "loop": _loop,
    "function": _function,
    "sparse initializer": lambda: _model([_product()], sparse=[_sparse()]),
    "sparse Constant": lambda: _model([_constant(sparse_value=_sparse()), _product()]),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("stored", ["in the file", "beside it"])
def test_it_is_compiled_once_and_its_results_stay(cache, tmp_path, monkeypatch, kind, stored):
    path = tmp_path / "model.onnx"
    beside = stored == "beside it"
    onnx.save(
        MODELS[kind](), path, save_as_external_data=beside, location="weights", convert_attribute=beside
    )
    compiled = []
    compile_ = Onnxruntime.compile
    monkeypatch.setattr(Onnxruntime, "compile", lambda *all: compiled.append(all) or compile_(*all))
    expected = [onnxruntime.InferenceSession(path).run(None, {"x": x})[0] for x in (X, -X)]
    for _ in range(2):
        with warnings.catch_warnings(), pinnace.Model() as model:
            warnings.simplefilter("error")
            model.build_from_file(str(path), pinnace.ModelType.ONNX)
            for x, y in zip((X, -X), expected, strict=True):
                # kernels with packed weights sum in another order
                np.testing.assert_allclose(model.predict([x])[0].get_data_to_numpy(), y, rtol=1e-4, atol=1e-4)
    assert len(compiled) == 1


def test_branches_with_casts_that_onnxruntime_calls_alike(cache, tmp_path):
    """It computes float16 in float32, and casts x once outside and once in each branch, under one name."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 16]> g (float16[3,4] x, bool c) => (float16[3,4] y) {
            a = LpNormalization<p = 1>(x) b = Abs(a)
            y = If(c) <then_branch = t () => (float16[3,4] u) { v = If(c) <
                    then_branch = p () => (float16[3,4] q) { q = Tanh(b) },
                    else_branch = r () => (float16[3,4] s) { s = Abs(b) }> u = Tanh(v) },
                else_branch = e () => (float16[3,4] w) { w = Sigmoid(b) }>
        }""")
    onnx.save(model, tmp_path / "model.onnx")
    x = np.random.default_rng(5).normal(size=(3, 4)).astype(np.float16)
    plain = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for kept in ("written", "loaded"):
        with warnings.catch_warnings(), pinnace.Model() as built:
            warnings.simplefilter("error")
            built.build_from_file(str(tmp_path / "model.onnx"), pinnace.ModelType.ONNX)
            assert built.get_model_info("cache") == kept
            for c in (True, False):
                [y] = built.predict([x, np.array(c)])
                [expected] = plain.run(None, {"x": x, "c": np.array(c)})
                # steps of float16 near 1
                np.testing.assert_allclose(y.get_data_to_numpy(), expected, rtol=0, atol=2e-3)


WEIGHTS_THAT_LOOK_THE_SAME_TRANSPOSED = {
    "a vector": np.random.default_rng(4).normal(size=(1, 1, 512)),
    "zeros": np.zeros((1, 5, 512)),
    "square zeros": np.zeros((1, 512, 512)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize(
    "token", WEIGHTS_THAT_LOOK_THE_SAME_TRANSPOSED.values(), ids=WEIGHTS_THAT_LOOK_THE_SAME_TRANSPOSED
)
def test_a_weight_that_onnxruntime_transposes_under_its_name(cache, tmp_path, token, dtype):
    """Its bytes are those of the file, and its shape is not."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["rows"], perm=[0, 2, 1]),
        helper.make_node("Concat", ["token", "rows"], ["all"], axis=1),
        helper.make_node("Transpose", ["all"], ["y"], perm=[0, 2, 1]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "tokens",
        [helper.make_tensor_value_info("x", kind, [1, 512, 4])],
        [helper.make_tensor_value_info("y", kind, [1, 512, 4 + token.shape[1]])],
        [numpy_helper.from_array(token.astype(dtype), "token")],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=_SETS[:1], ir_version=10), path)
    x = np.arange(2048, dtype=dtype).reshape(1, 512, 4)
    for _ in range(2):
        with pinnace.Model() as model:
            model.build_from_file(str(path), pinnace.ModelType.ONNX)
            y = model.predict([x])[0].get_data_to_numpy()
        np.testing.assert_array_equal(y, np.concatenate([token.astype(dtype).transpose(0, 2, 1), x], 2))
