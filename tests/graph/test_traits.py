"""The traits of operators, compared with ONNX's own inference and with what onnxruntime computes."""

from collections import Counter

import graphs
import numpy as np
import onnx
import pytest
from onnx import helper

from pinnace.graph import traits
from pinnace.graph.traits import MICROSOFT, Trait, having

KINDS = (onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.INT64, onnx.TensorProto.UINT64)


def inferred(schema, *shapes):
    """The shapes that ONNX infers for the first result from inputs of these, for some element type."""
    names = [f"x{place}" for place in range(len(shapes))]
    needed = {"direction": "LEFT"} if schema.name == "BitShift" else {}
    node = helper.make_node(schema.name, names, ["y"], **needed)
    for kind in KINDS:
        first = onnx.TensorProto.BOOL if schema.name == "Where" else kind
        kinds = [first, *[kind] * (len(shapes) - 1)]
        types = {n: helper.make_tensor_type_proto(k, s) for n, k, s in zip(names, kinds, shapes, strict=True)}
        try:
            found = onnx.shape_inference.infer_node_outputs(schema, node, types)
        except Exception:
            continue
        if "y" in found and found["y"].tensor_type.HasField("shape"):
            yield tuple(d.dim_value for d in found["y"].tensor_type.shape.dim)


def newest():
    """The newest definition of each operator of ONNX's own domain."""
    return [schema for schema in onnx.defs.get_all_schemas() if not schema.domain and not schema.deprecated]


def test_the_operators_that_broadcast_are_those_for_which_onnx_infers_it():
    found = set()
    for schema in newest():
        count = 3 if schema.name == "Where" else 2
        if schema.min_input <= count <= schema.max_input:
            shapes = [(3, 1), (2, 3, 4), (2, 3, 4)][:count]
            found |= {schema.name for shape in inferred(schema, *shapes) if shape == (2, 3, 4)}
    shaped_by_the_second = {"Expand", "GatherElements"}
    assert found - shaped_by_the_second == having(Trait.BROADCASTING) - {"PRelu"}  # only slopes are broadcast


def test_results_of_elementwise_operators_have_the_shape_of_the_input():
    for name in having(Trait.ELEMENTWISE) - {"Cast", "CastLike"}:
        assert (2, 3) in set(inferred(onnx.defs.get_schema(name), (2, 3))), name


def test_every_operator_has_one_row_and_is_one_of_onnx():
    rows = Counter(name for _, names in traits._rows() for name in names.split())
    assert max(rows.values()) == 1
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    others = {"GatherBlockQuantized", "SimplifiedLayerNormalization"}  # onnxruntime's
    assert rows.keys() - known == others
    assert not having(Trait.FILLED, MICROSOFT) & having(Trait.MOVING)


@pytest.mark.parametrize(
    "call",
    [
        *("Neg(x)", "Transpose(x)", "Flatten(x)", "ReduceSum(x)", "Concat<axis = 0>(x, x)"),
        *("Gather(x, i)", "Squeeze(x)", "Tile(x, i)", "ReverseSequence(x, i)", "Compress(x, b)"),
    ],
)
def test_a_linear_operator_may_be_applied_before_or_after_a_sum(call):
    assert call.partition("(")[0].partition("<")[0] in having(Trait.LINEAR)
    weights = "<int64[2] i = {1, 1}, bool[2] b = {1, 0}>"
    run = graphs.session(graphs.model(f"y = {call}", "float[2, 2] x", weights=weights)).run
    first, second = np.random.default_rng(0).normal(size=(2, 2, 2)).astype(np.float32)
    whole, one, other = (run(None, {"x": x})[0] for x in (first + second, first, second))
    np.testing.assert_allclose(whole, one + other, rtol=1e-5, atol=1e-6)
