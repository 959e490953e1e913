"""Shapes that partly known integers tell, against ONNX's own inference of the ones that are fixed."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from pinnace.graph.shape_data import shape_after


def after(dims, wanted, operator="Expand", attributes=""):
    """Return what the node says of its result, and what ONNX infers where all is fixed."""
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (float[{",".join(map(str, dims))}] x) => (y)
        <int64[{len(wanted)}] wanted = {{{",".join(map(str, wanted))}}}>
        {{ y = {operator}{attributes}(x, wanted) }}"""
    model = onnx.parser.parse_model(text)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output[0].type.tensor_type.shape
    (node,) = ir.from_proto(model).graph
    known = tuple(d.dim_value if d.HasField("dim_value") else None for d in inferred.dim)
    return shape_after(node), known


@pytest.mark.parametrize(
    ("dims", "wanted"),
    [
        ((1, 3), (4, 3)),
        ((4, 3), (1, 3)),
        ((3,), (2, 5, 1)),
        ((2, 1, 3), (1,)),
        ((2, 3), (2, 3)),
        ((1,), (1, 1)),
    ],
)
def test_expand_of_fixed_sizes(dims, wanted):
    given, known = after(dims, wanted)
    assert given == known == np.broadcast_shapes(dims, wanted)


def test_expand_of_free_sizes():
    """A free size stays where 1 is wanted, and is what is wanted otherwise: it is that or 1."""
    assert after(("N", 3), (1, 3))[0] == (None, 3)
    assert after(("N", 3), (4, 1))[0] == (4, 3)
    assert after((3,), (5, 1))[0] == (5, 3)


@pytest.mark.parametrize("wanted", [(0, -1), (6, 2), (2, 0, 2), (-1,)])
def test_reshape(wanted):
    given, known = after((2, 3, 2), wanted, "Reshape")
    assert given == tuple(None if d == -1 else size for d, size in zip(wanted, known, strict=True))
    assert after((0, 3), (0, 5), "Reshape", "<allowzero = 1>")[0] == (0, 5)
