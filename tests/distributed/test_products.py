"""Products written so that ranks can share them: the same numbers, by MatMul."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from pinnace.deferred import import_onnx_ir

import_onnx_ir()

import onnx_ir as ir  # noqa: E402

from pinnace.distributed.shard.pipeline import _stages  # noqa: E402
from pinnace.distributed.shard.products import plain_transposes, prepare_products  # noqa: E402

RANDOM = np.random.default_rng(5)


def values(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def op(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def rewritten(nodes, weights, rewrite, shape=(3, 6), outputs=("y",)):
    """The operators after a rewrite, whose results are those from before."""
    given = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    start = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    before = helper.make_model(
        helper.make_graph(nodes, "g", start, ends, given),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    model = ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(before, data_prop=True))
    rewrite(model)
    after = ir.serde.serialize_model(model)
    x = values(*shape)
    for mine, theirs in zip(
        ReferenceEvaluator(after).run(None, {"x": x}),
        ReferenceEvaluator(before).run(None, {"x": x}),
        strict=True,
    ):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
    return [node.op_type for node in model.graph], model


def prepared(nodes, weights, ranks=2, **given):
    return rewritten(nodes, weights, lambda model: prepare_products(model, ranks), **given)[0]


@pytest.mark.parametrize(
    ("attributes", "shape", "inputs", "found"),
    [
        ({}, (6, 4), "x w b", ["MatMul", "Add"]),
        ({}, (6, 4), "x w", ["MatMul"]),
        ({"transB": 1}, (4, 6), "x w b", ["MatMul", "Add"]),
        ({"alpha": 2.0}, (6, 4), "x w b", ["Gemm"]),
        ({"beta": 0.5}, (6, 4), "x w b", ["Gemm"]),
        ({"transA": 1}, (3, 4), "x w b", ["Gemm"]),
        ({"alpha": 2.0, "beta": 2.0}, (6, 4), "x w b", ["Gemm"]),
    ],
)
def test_a_plain_gemm_with_a_weight_is_a_product_and_a_sum(attributes, shape, inputs, found):
    weights = {"w": values(*shape), "b": values(4)}
    assert prepared([op("Gemm", inputs, "y", **attributes)], weights) == found


def test_a_gemm_of_two_values_stays():
    nodes = [op("Relu", "x", "a"), op("Gemm", "x a", "y", transB=1)]
    assert prepared(nodes, {}) == ["Relu", "Gemm"]


def test_transposes_of_weights_that_nothing_else_reads_are_computed():
    turn, product = op("Transpose", "w", "t", perm=[1, 0]), op("MatMul", "x t", "y")
    assert prepared([turn, product], {"w": values(4, 6)}) == ["MatMul"]
    assert prepared([op("Transpose", "w", "t"), product], {"w": values(4, 6)}) == ["MatMul"]
    shared = [turn, product, op("Identity", "w", "z")]
    assert prepared(shared, {"w": values(4, 6)}, outputs=("y", "z")) == ["Transpose", "MatMul", "Identity"]
    assert prepared([turn, product], {"w": values(4, 6)}, outputs=("y", "t")) == ["Transpose", "MatMul"]


def test_a_table_that_is_a_head_too_is_turned_in_the_graph():
    nodes = [op("Gemm", "x w", "y", transB=1), op("Neg", "w", "z")]
    assert prepared(nodes, {"w": values(4, 6)}, outputs=("y", "z")) == ["Transpose", "MatMul", "Neg"]


HEAD, AFTER = op("MatMul", "x w", "y"), op("MatMul", "x w", "a")


@pytest.mark.parametrize(
    ("nodes", "columns", "ranks", "found"),
    [
        ([HEAD], 101, 2, ["MatMul", "Slice"]),
        ([HEAD], 101, 4, ["MatMul", "Slice"]),
        ([AFTER, op("Softmax", "a", "y")], 101, 2, ["MatMul", "Slice", "Softmax"]),
        (
            [
                op("Transpose", "x", "t"),
                op("MatMul", "x t", "s"),
                op("MatMul", "s x", "u"),
                op("MatMul", "u w", "y"),
            ],
            101,
            2,
            ["Transpose", "MatMul", "MatMul", "MatMul", "Slice"],
        ),
        ([HEAD], 100, 4, ["MatMul"]),
        ([HEAD], 63, 2, ["MatMul"]),  # less than a collective is worth
        ([AFTER, op("Relu", "a", "b"), op("Neg", "b", "y")], 101, 2, ["MatMul", "Relu", "Neg"]),
    ],
)
def test_heads_of_vocabularies_get_columns_that_ranks_can_share(nodes, columns, ranks, found):
    weights = {"w": values(256, columns)}
    kinds, model = rewritten(nodes, weights, lambda model: prepare_products(model, ranks), shape=(3, 256))
    assert kinds == found
    head = [node for node in model.graph if node.op_type == "MatMul"][-1]
    wide = head.inputs[1].const_value.shape[1]
    assert wide == (-(-columns // ranks) * ranks if "Slice" in found else columns)


@pytest.mark.parametrize(
    ("before", "joined", "perm", "after", "found"),
    [
        ((2, 3, 4, 5), (6, 4, 5), [0, 2, 1], (2, 3, 5, 4), ["Transpose"]),
        ((1, 2, 3, 4, 5), (6, 4, 5), [0, 2, 1], (1, 2, 3, 5, 4), ["Transpose"]),
        ((2, 3, 4, 5), (6, 4, 5), [0, 1, 2], (2, 3, 4, 5), ["Reshape", "Transpose", "Reshape"]),
        ((2, 3, 4, 5), (6, 5, 4), [0, 2, 1], (2, 3, 4, 5), ["Reshape", "Transpose", "Reshape"]),
        ((2, 3, 4, 5), (6, 4, 5), [0, 2, 1], (3, 2, 5, 4), ["Reshape", "Transpose", "Reshape"]),
        ((6, 4, 5), (6, 4, 5), [0, 2, 1], (6, 5, 4), ["Reshape", "Transpose", "Reshape"]),
    ],
)
def test_keys_that_are_turned_behind_a_reshape_are_turned_by_one_transpose(
    before, joined, perm, after, found
):
    nodes = [op("Reshape", "x one", "a"), op("Transpose", "a", "b", perm=perm), op("Reshape", "b two", "y")]
    weights = {"one": np.array(joined), "two": np.array(after)}
    kinds, model = rewritten(nodes, weights, plain_transposes, shape=before)
    reached, waiting = [], [model.graph.outputs[0].producer()]
    while waiting[0] is not None:
        reached.insert(0, waiting[0].op_type)
        waiting = [waiting[0].inputs[0].producer()]
    assert reached == found
    assert set(found) <= set(kinds)


@pytest.mark.parametrize(
    ("sizes", "ranks", "stages"),
    [
        ([8, 8, 8, 8], 2, [0, 0, 1, 1]),
        ([8, 8, 8, 8], 4, [0, 1, 2, 3]),
        ([24, 8, 8, 8], 2, [0, 1, 1, 1]),
        ([8, 8, 8, 24], 2, [0, 0, 0, 1]),
    ],
)
def test_stages_have_about_equal_bytes_of_weights(sizes, ranks, stages):
    weights = {f"w{i}": np.zeros((size, 1), np.float32) for i, size in enumerate(sizes)}
    made = [
        ir.Node("", "Add", [ir.Value(name="x"), ir.Value(name=name, const_value=ir.tensor(array))])
        for name, array in weights.items()
    ]
    assert _stages(made, ranks) == stages
