"""Shapes that partly known integers tell, against ONNX's own inference of the ones that are fixed."""

import graphs
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from pinnace.graph.inference import refine
from pinnace.graph.shape_data import dims, exact, shape_after


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


def followed(body, weights=""):
    """A model of which all nodes were followed; x has a free dimension, f has none."""
    m = graphs.model(body, "float[2,N,4] x, float[2,3] f, int64[3] k", weights=weights)
    m.graph.outputs[0].type = m.graph.outputs[0].shape = None
    for node in m.graph:
        refine(node, 21)
    return m


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("y = Shape(x)", (2, None, 4)),
        ("y = Shape <start = 1> (x)", (None, 4)),
        ("y = Shape <end = 1> (x)", (2,)),
        ("y = Shape <start = -1> (x)", (4,)),
        ("y = Shape <end = -1> (x)", (2, None)),
        ("y = Size(x)", (None,)),
        ("y = Size(f)", (6,)),
        ("s = Shape(x) y = Gather(s, two)", (4,)),
        ("s = Shape(x) y = Slice(s, one, three)", (None, 4)),
        ("s = Shape(x) y = Reshape(s, sides)", (2, None, 4)),
        ("s = Shape(x) y = Unsqueeze(s, one)", (2, None, 4)),
        ("s = Shape(x) g = Gather(s, two) y = Squeeze(g)", (4,)),
        ("s = Shape(x) y = Identity(s)", (2, None, 4)),
        ("s = Shape(x) y = Concat <axis = 0> (s, one, s)", (2, None, 4, 1, 2, None, 4)),
        ("s = Shape(x) y = Add(s, s)", (4, None, 8)),
        ("s = Shape(x) y = Sub(s, one)", (1, None, 3)),
        ("s = Shape(x) y = Mul(s, s)", (4, None, 16)),
        ("s = Shape(x) y = Cast <to = 6> (s)", (2, None, 4)),
        ("s = Shape(x) y = Cast <to = 9> (s)", None),
        ("s = Shape(x) y = Cast <to = 1> (s)", None),
        ("s = Shape(x) y = Div(s, s)", None),
        ("s = Shape(f) y = Div(s, two)", (1, 1)),
        ("s = Shape(f) y = Equal(s, two)", (1, 0)),
        ("s = Shape(x) y = Gather(one, s)", None),
        ("y = Identity(k)", None),
        ("y = Add(k, one)", None),
        ("s = Shape(x) y = Concat <axis = 0> (s, k)", None),
        ("s = Shape(x) y = Concat <axis = 0> (s, huge)", None),
        ("s = Shape(x) y = Mul(s, large)", (1 << 51, None, 1 << 52)),
        ("s = Shape(x) t = Mul(s, large) y = Add(t, one)", ((1 << 51) + 1, None, (1 << 52) + 1)),
        # 1 << 53, and 1 more, which is the same float
        ("s = Shape(x) t = Mul(s, large) y = Add(t, t)", None),
        ("s = Shape(x) t = Mul(s, large) u = Add(t, t) y = Add(u, one)", None),
        ("s = Shape(f) t = Mul(s, large) y = Add(t, one)", ((1 << 51) + 1, (3 << 50) + 1)),
    ],
)
def test_integers_are_followed_through_what_moves_and_adds_them(body, known):
    numbers = {"one": 1, "two": 2, "three": 3, "large": 1 << 50, "huge": (1 << 53) + 1}
    weights = [f"int64[1] {name} = {{{number}}}" for name, number in numbers.items()]
    m = followed(body, f"<{', '.join(weights)}, int64[2] sides = {{3, 1}}>")
    assert dims(graphs.value(m, "y")) == known


@pytest.mark.parametrize(
    ("count", "kind", "known", "joined"),
    [
        (63, "int64", True, True),
        (64, "int64", True, False),
        (65, "int64", False, False),
        (3, "float", False, False),
    ],
)
def test_short_tensors_of_integers_are_known(count, kind, known, joined):
    weights = f"<{kind}[{count}] w = {{{','.join(['7'] * count)}}}, {kind}[1] v = {{7}}>"
    m = followed("y = Concat <axis = 0> (w, v)", weights)
    assert (exact(graphs.value(m, "w")) is not None) == known
    assert (exact(graphs.value(m, "y")) is not None) == joined
    assert exact(None) is None


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("s = Shape(x) y = ConstantOfShape(s)", [2, None, 4]),
        ("s = Shape(x) y = Expand(one, s)", [2, None, 4]),
        ("s = Shape <end = 2> (x) t = Concat <axis = 0> (s, four) y = Reshape(x, t)", [2, None, 4]),
        ("s = Shape <start = 1, end = 2> (x) t = Concat <axis = 0> (zero, s, four) y = Reshape(x, t)",
         [2, None, 4]),
        ("y = Reshape(x, k)", [None, None, None]),
    ],
)  # fmt: skip
def test_results_have_the_dimensions_that_partly_known_shapes_tell(body, shape):
    m = followed(body, "<int64[1] four = {4}, int64[1] zero = {0}, float one = {1}>")
    assert [d if isinstance(d, int) else None for d in graphs.value(m, "y").shape] == shape
