"""What a request could make OpenVINO read, write or make up is refused, or checked in the graph."""

import os

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace.building.build import build_model as build
from pinnace.errors import EngineError, PinnaceWarning
from pinnace.options.settings import Settings
from pinnace.options.target import Target

ON_OPENVINO = Target(threads=2, provider="openvino")
KINDS = {"f": TensorProto.FLOAT, "i": TensorProto.INT32, "l": TensorProto.INT64, "?": TensorProto.BOOL}
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


def model(nodes, inputs, weights=None, outputs=("y",)):
    """`inputs` are examples, or (example, shape) where dimensions are free."""
    ports = []
    for name, given in inputs.items():
        example, shape = given if isinstance(given, tuple) else (given, given.shape)
        ports.append(helper.make_tensor_value_info(name, KINDS[example.dtype.char], shape))
    graph = helper.make_graph(
        nodes,
        "guards",
        ports,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made).SerializeToString()


@pytest.fixture(params=["off", "on"])
def execution(request, monkeypatch, tmp_path):
    """Places to run a model; with the cache, of what was exported and loaded again."""
    monkeypatch.setenv("PINNACE_CACHE_DIR", "off" if request.param == "off" else str(tmp_path / "cache"))
    made = []

    def on_openvino(proto):
        for _ in range(2):
            made.append(build(proto, None, ON_OPENVINO, Settings()))
            assert made[-1].info["engine"].startswith("openvino")
        return made[-1].execution()

    yield on_openvino
    for executable in made:
        executable.close()


@pytest.mark.parametrize("wrong", [4, -5, 1_000_000, -1_000_000, 1 << 33, (1 << 32) + 1])
def test_indices_out_of_range_are_an_error(execution, wrong):
    indices = np.array([0, -4, 3])
    node = helper.make_node("Gather", ["w", "i"], ["y"], "embedding")
    run = execution(model([node], {"i": indices}, {"w": TABLE})).run
    for _ in range(2):
        np.testing.assert_array_equal(run([indices])[0], TABLE[indices])
        with pytest.raises(
            EngineError, match=r"Gather that computes 'y' are out of range|'i' has integers of more"
        ):
            run([np.array([0, wrong, 1])])


def test_an_error_names_the_gather_whose_index_is_out_of_range(execution):
    """Columns of an input index tables of other lengths; what the first finds indexes a third."""
    nodes = [
        helper.make_node("Split", ["i"], ["j", "k"], axis=1, num_outputs=2),
        helper.make_node("Gather", ["w", "j"], ["a"]),
        helper.make_node("Gather", ["s", "k"], ["b"]),
        helper.make_node("Gather", ["next", "j"], ["n"]),
        helper.make_node("Gather", ["s", "n"], ["c"]),
    ]
    weights = {"w": TABLE, "s": TABLE[:2], "next": np.array([0, 1, -2, -3])}
    run = execution(model(nodes, {"i": np.array([[2, -1]])}, weights, ["a", "b", "c"])).run
    for _ in range(2):
        a, b, c = run([np.array([[2, -1]])])
        np.testing.assert_array_equal(a, TABLE[[[2]]])
        np.testing.assert_array_equal(b, TABLE[[[1]]])
        np.testing.assert_array_equal(c, TABLE[[[0]]])
        for wrong, named in ([4, 0], "[an]"), ([0, 2], "b"), ([3, 0], "c"), ([-5, 0], "[an]"), ([0, -3], "b"):
            with pytest.raises(EngineError, match=f"Gather that computes '{named}' are out of range"):
                run([np.array([wrong])])


@pytest.mark.parametrize(
    ("moves", "picked"),
    [
        ([("Slice", ["two", "five", "one", "one"], {})], lambda i: i[:, 2:5]),
        ([("Gather", ["back"], {"axis": 1})], lambda i: i[:, -2]),
        ([("Transpose", [], {"perm": [1, 0]}), ("Gather", ["one"], {})], lambda i: i.T[1:2]),
        ([("Cast", [], {"to": 6}), ("Reshape", ["long"], {}), ("Gather", ["five"], {})], lambda i: i.flat[5]),
    ],
)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_only_the_elements_of_an_input_that_a_gather_reads_are_checked(execution, moves, picked, kind):
    constants = {"one": [1], "two": [2], "five": [5], "long": [12], "back": -2}
    nodes = [
        helper.make_node(name, [f"at{k}", *more], [f"at{k + 1}"], **attributes)
        for k, (name, more, attributes) in enumerate(moves)
    ]
    nodes.append(helper.make_node("Gather", ["w", f"at{len(moves)}"], ["y"]))
    weights = {"w": TABLE, **{name: np.array(value) for name, value in constants.items()}}
    run = execution(model(nodes, {"at0": np.zeros((2, 6), kind)}, weights, ["y"])).run
    for place in range(12):
        for value in (3, -4, 4, -5):
            given = np.ones((2, 6), kind)
            given.flat[place] = value
            read = np.asarray(picked(given))
            if (abs(2 * read + 1) < 8).all():  # within [-4, 4)
                np.testing.assert_array_equal(run([given])[0].reshape(-1), TABLE[read].reshape(-1))
            else:
                with pytest.raises(EngineError, match="Gather that computes 'y' are out of range"):
                    run([given])


_BEFORE = {
    "nothing": ([], ["n", "k"]),
    "Relu": ([helper.make_node("Relu", ["x"], ["h"])], ["n", "k"]),
    "Flatten": ([helper.make_node("Flatten", ["x"], ["h"])], ["n", "k"]),
    "Transpose": ([helper.make_node("Transpose", ["x"], ["h"])], ["k", "n"]),
    "Reshape": ([helper.make_node("Reshape", ["x", "s"], ["h"])], ["n", "k"]),
}


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("GatherND", [TABLE, np.array([[1, 2]])], {}),
        ("ScatterElements", [TABLE, np.zeros((1, 3), np.int64), np.ones((1, 3), np.float32)], {}),
        ("Compress", [TABLE, np.ones(4, bool)], {"axis": 0}),
        ("Tile", [TABLE, np.array([2, 1])], {}),
        ("Slice", [TABLE, np.array([1]), np.array([2]), np.array([0])], {}),
        ("Pad", [TABLE, np.array([1, 0, 0, 0])], {}),
        ("Range", [np.array(1), np.array(5), np.array(2)], {}),
        ("Trilu", [TABLE, np.array(1)], {}),
        ("Col2Im", [np.ones((1, 4, 4), np.float32), np.array([4, 4]), np.array([2, 2])], {"strides": [2, 2]}),
        (
            "NonMaxSuppression",
            [np.ones((1, 2, 4), np.float32), np.ones((1, 1, 2), np.float32), np.array([1])],
            {},
        ),
        (
            "GRU",
            [
                np.ones((5, 2, 4), np.float32),
                np.ones((2, 9, 4), np.float32),
                np.ones((2, 9, 3), np.float32),
                np.ones((2, 18), np.float32),
                np.array([5, 2], np.int32),
            ],
            {"hidden_size": 3, "direction": "bidirectional"},
        ),
    ],
)
def test_what_would_choose_memory_is_left_to_onnxruntime(operator, inputs, attributes):
    names = [f"x{place}" for place in range(len(inputs))]
    proto = model(
        [helper.make_node(operator, names, ["y"], **attributes)], dict(zip(names, inputs, strict=True))
    )
    with pytest.warns(PinnaceWarning, match=f"openvino .*lacks {operator}; onnxruntime"):
        execution = build(proto, None, ON_OPENVINO, Settings()).execution()
    [expected] = onnxruntime.InferenceSession(proto).run(None, dict(zip(names, inputs, strict=True)))
    np.testing.assert_array_equal(execution.run(inputs)[0], expected)


def test_a_constant_that_is_too_large_to_be_computed_ahead_is_left_to_onnxruntime():
    """OpenVINO computes all constants when it builds, 6 GB here."""
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["c"]),
        helper.make_node("ReduceSum", ["c"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    proto = model(nodes, {"x": TABLE}, {"s": np.array([40_000, 40_000])})
    with pytest.warns(PinnaceWarning, match="constant folding by OpenVINO would exceed the bounds"):
        made = build(proto, None, ON_OPENVINO, Settings())
    assert made.info["engine"].startswith("onnxruntime")
    made.close()


def test_constant_choices_stay(execution):
    nodes = [
        helper.make_node("Tile", ["x", "two"], ["t"]),
        helper.make_node("Slice", ["t", "two", "five", "axes"], ["y"]),
    ]
    weights = {"two": np.array([2, 2]), "five": np.array([5, 5]), "axes": np.array([0, 1])}
    found = execution(model(nodes, {"x": TABLE}, weights)).run([TABLE])[0]
    np.testing.assert_array_equal(found, np.tile(TABLE, (2, 2))[2:5, 2:5])


def test_a_forked_child_builds_for_onnxruntime():
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": TABLE})
    execution = build(proto, None, ON_OPENVINO, Settings()).execution()
    execution.run([TABLE])
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, build(proto, None, ON_OPENVINO, Settings()).info["engine"].encode())
        except BaseException as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as output:
        assert output.read().startswith("onnxruntime ")
    os.waitpid(child, 0)
    execution.run([TABLE])


def test_a_model_with_free_dimensions_is_left_to_onnxruntime():
    """Its kernels trust shapes: attention gave numbers of others, a BatchNormalization ended the process."""
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (TABLE, ["n", 3])})
    with pytest.warns(PinnaceWarning, match="openvino .* lacks free dimensions; onnxruntime"):
        executable = build(proto, None, ON_OPENVINO, Settings())
    assert executable.info["engine"].startswith("onnxruntime")
    executable.close()


def test_a_model_whose_inner_shapes_depend_on_data_is_left_to_onnxruntime():
    node = helper.make_node("Range", ["zero", "n", "one"], ["y"])
    proto = model([node], {"n": np.array(0)}, {"zero": np.array(0), "one": np.array(1)})
    with pytest.warns(PinnaceWarning, match="openvino .* lacks Range; onnxruntime"):
        executable = build(proto, None, ON_OPENVINO, Settings())
    for stop in (3, -3, 0):  # OpenVINO counted |stop| elements
        np.testing.assert_array_equal(executable.execution().run([np.array(stop)])[0], np.arange(0, stop))
    executable.close()
