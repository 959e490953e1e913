"""Inference of shapes where ONNX has none for an operator."""

from __future__ import annotations

import pytest

from pinnace.deferred import import_onnx_ir

import_onnx_ir()

import onnx_ir as ir  # noqa: E402

from pinnace.graph.inference import common_shape, infer, infer_node, opset_of, refine  # noqa: E402


def of(name, *shape):
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))


@pytest.mark.parametrize(
    ("kind", "opset", "others", "attributes", "shape"),
    [
        ("LessOrEqual", 13, [of("b", 3, 1)], {}, [2, 3, 4]),  # of its own from 16 on
        ("GreaterOrEqual", 14, [of("b", 3, 1)], {}, [2, 3, 4]),
        ("GroupNormalization", 21, [of("b", 1), of("c", 1)], {"num_groups": 1}, [2, 1, 4]),
        ("MeanVarianceNormalization", 13, [], {}, [2, 1, 4]),
        ("SimplifiedLayerNormalization", 17, [of("b", 4)], {}, [2, 1, 4]),
    ],
)
def test_operators_that_are_functions(kind, opset, others, attributes, shape):
    node = ir.node(kind, [of("a", 2, 1, 4), *others], attributes)
    node.outputs[0].name = "y"
    infer_node(node, opset)
    assert node.outputs[0].shape == shape
    assert node.outputs[0].dtype is (ir.DataType.BOOL if "Equal" in kind else ir.DataType.FLOAT)


def test_a_shape_for_both_is_free_where_they_differ():
    assert common_shape(ir.Shape([2, 3, None]), ir.Shape([2, 4, None])) == [2, None, None]
    assert common_shape(ir.Shape([2]), ir.Shape([2, 1])) is None
    assert common_shape(None, ir.Shape([2])) is common_shape(ir.Shape([2]), None) is None


@pytest.mark.parametrize(
    ("declared", "shape"),
    [
        ([None, None, 8], [2, 1, 8]),
        ([2, 1, 4], [2, 1, 4]),
        ([None, None], [2, 1, None]),
        (None, [2, 1, None]),
    ],
)
def test_what_a_file_declares_fills_what_inference_leaves_free(declared, shape):
    x = ir.Value(name="a", shape=ir.Shape([2, 1, None]), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.node("Relu", [x])
    node.outputs[0].name = "y"
    node.outputs[0].shape = None if declared is None else ir.Shape(declared)
    refine(node, 21)
    assert [d if isinstance(d, int) else None for d in node.outputs[0].shape] == shape


def test_what_is_known_stays_and_the_rest_is_inferred_through_nodes_before():
    a = of("a", 2, 3)
    first, second = ir.node("Relu", [a]), ir.node("Foo", [a])
    last = ir.node("Add", [first.outputs[0], a])
    for node, name in ((first, "b"), (second, "c"), (last, "d")):
        node.outputs[0].name = name
    infer(last.outputs[0], 21)
    assert (last.outputs[0].shape, last.outputs[0].dtype) == ([2, 3], ir.DataType.FLOAT)
    infer(second.outputs[0], 21)
    assert second.outputs[0].shape is None
    declared = ir.node("Relu", [a])
    declared.outputs[0].name, declared.outputs[0].shape = "e", ir.Shape([5])
    infer(declared.outputs[0], 21)
    assert (declared.outputs[0].shape, declared.outputs[0].dtype) == ([5], ir.DataType.FLOAT)


def test_the_operator_set_of_a_model():
    text = "<ir_version: 10, opset_import: [{}]> g (float[2] x) => (y) {{ y = m.F(x) }}"
    assert opset_of(ir.from_onnx_text(text.format('"": 13, "m": 1'))) == 13
    assert opset_of(ir.from_onnx_text(text.format('"m": 1'))) == 21
