"""Sparse tensors of ONNX files: the dense ones that onnxruntime makes of them, or one clear error."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace.errors import ModelFormatError
from pinnace.formats import sparse
from pinnace.formats.onnx import read
from pinnace.weights.source import Source


def model(values, indices, dims):
    tensors = [
        numpy_helper.from_array(np.array(values, np.float32), "w"),
        numpy_helper.from_array(np.array(indices), "i"),
    ]
    tensor = onnx.SparseTensorProto(values=tensors[0], indices=tensors[1], dims=dims)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Identity", ["w"], ["y"])
    graph = helper.make_graph([node], "sparse", [], [y], sparse_initializer=[tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize(
    ("indices", "dims"),
    [([1, 4], [2, 3]), ([[0, 1], [1, 0]], [2, 3]), ([[0], [2]], [3]), ([0, 7], [2, 2, 2])],
)
def test_it_is_what_onnxruntime_makes_of_it(indices, dims):
    whole = model([1.5, -2], indices, dims).SerializeToString()
    [expected] = onnxruntime.InferenceSession(whole).run(None, {})
    found = read(Source.of_buffer(whole)).graph.initializers["w"].const_value
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize(
    ("values", "indices", "dims", "why"),
    [
        ([1], [6], [2, 3], "out of bounds"),
        ([1], [-1], [2, 3], "index -1 is negative"),
        ([1], [[2, 0]], [2, 3], "invalid entry"),
        ([1, 2], [0, 1, 2], [2, 3], "shape"),
        ([1], [[0, 0, 0]], [2, 3], "sequence of length 2"),
        ([1], [0], [1 << 40, 1 << 30], "takes more than 64 MiB"),
        ([1], [0], [-1, 3], "takes more than 64 MiB"),
    ],
)
def test_damage_is_named(values, indices, dims, why):
    with pytest.raises(ModelFormatError, match=rf"sparse tensor 'w'.*{why}"):
        read(Source.of_buffer(model(values, indices, dims).SerializeToString()))


def test_it_may_be_the_value_of_a_node():
    whole = model([1.5, -2], [1, 4], [2, 3])
    tensor = whole.graph.sparse_initializer.pop()
    whole.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=tensor))
    found = read(Source.of_buffer(whole.SerializeToString())).graph.node(0).attributes["value"].as_tensor()
    np.testing.assert_array_equal(found.numpy(), [[0, 1.5, 0], [0, -2, 0]])


@pytest.mark.parametrize("in_nodes", [False, True])
def test_many_share_one_bound(in_nodes, monkeypatch):
    monkeypatch.setattr(sparse, "_DENSE", 1 << 20)
    whole = model([1], [0], [1 << 17])  # half of it
    (tensor,) = whole.graph.sparse_initializer
    for name in "ab":
        tensor.values.name = name
        if in_nodes:
            whole.graph.node.append(helper.make_node("Constant", [], [name], sparse_value=tensor))
        else:
            whole.graph.sparse_initializer.append(tensor)
    with pytest.raises(ModelFormatError, match=rf"'{'a' if in_nodes else 'b'}' .*takes more than 1 MiB"):
        read(Source.of_buffer(whole.SerializeToString()))
    (whole.graph.node if in_nodes else whole.graph.sparse_initializer).pop()
    read(Source.of_buffer(whole.SerializeToString()))
