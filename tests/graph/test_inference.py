"""Inference of shapes where ONNX has none for an operator."""

from __future__ import annotations

import pytest

from pinnace.deferred import import_onnx_ir

import_onnx_ir()

import onnx_ir as ir  # noqa: E402

from pinnace.graph.inference import infer_node  # noqa: E402


def of(name, *shape):
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))


@pytest.mark.parametrize(
    ("kind", "opset", "others", "attributes", "shape"),
    [
        ("LessOrEqual", 13, [of("b", 3, 1)], {}, [2, 3, 4]),  # of its own from 16 on
        ("GreaterOrEqual", 14, [of("b", 3, 1)], {}, [2, 3, 4]),
        ("GroupNormalization", 21, [of("b", 1), of("c", 1)], {"num_groups": 1}, [2, 1, 4]),
        ("MeanVarianceNormalization", 13, [], {}, [2, 1, 4]),
    ],
)
def test_operators_that_are_functions(kind, opset, others, attributes, shape):
    node = ir.node(kind, [of("a", 2, 1, 4), *others], attributes)
    node.outputs[0].name = "y"
    infer_node(node, opset)
    assert node.outputs[0].shape == shape
    assert node.outputs[0].dtype is (ir.DataType.BOOL if "Equal" in kind else ir.DataType.FLOAT)
