"""Shapes of operators, for the count of work, against ONNX's own inference."""

import onnx
import onnx_ir as ir
import pytest

from pinnace.engines.speed.sizes import Sizes

IMAGE = "float[2,6,9,11] x"
FORMS = [
    *(
        (IMAGE, f"y = {operator} <{attributes}> (x{weight})")
        for operator, weight, attribute_sets in (
            ("Conv", ", w", (
                "pads = [1,2,0,1]", "strides = [2,3]", "dilations = [2,1]", "kernel_shape = [3,2]",
                'auto_pad = "SAME_UPPER", strides = [2,3]', 'auto_pad = "VALID"',
            )),
            ("Conv", ", half", ("group = 2, pads = [0,0,3,1], strides = [3,2], dilations = [1,4]",)),
            ("ConvTranspose", ", v", ("pads = [1,0,0,1]", "strides = [2,3]", "group = 2, strides = [1,2]",
                                      "group = 3, pads = [0,1,1,0]")),
            ("MaxPool", "", ("kernel_shape = [3,2]", "kernel_shape = [2,3], dilations = [3,2]",
                             "kernel_shape = [3,3], strides = [2,1], pads = [1,0,1,2]")),
            ("AveragePool", "", ("kernel_shape = [4,2], strides = [3,2]",
                                 'kernel_shape = [4,2], auto_pad = "SAME_LOWER", strides = [2,2]')),
        )
        for attributes in attribute_sets
    ),
    *((IMAGE, f"y = {operator}(x)") for operator in ("GlobalAveragePool", "GlobalMaxPool", "Transpose",
                                                     "Relu", "Flatten")),
    *((IMAGE, f"y = Flatten <axis = {axis}> (x)") for axis in (0, 2, 3, -1)),
    (IMAGE, "y = Transpose <perm = [1,3,0,2]> (x)"),
    *((IMAGE, f"a = Constant <value = int64[{axes.count(',') + 1}] {{{axes}}}> () "
              f"y = {operator} <keepdims = {keeps}> (x, a)")
      for operator in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceL2", "ReduceSumSquare")
      for axes, keeps in (("1", 0), ("-1,0", 1), ("-2,1", 0))),
    *((IMAGE, f"y = ReduceSum <keepdims = {keeps}> (x)") for keeps in (0, 1)),
    (IMAGE, "y = Concat <axis = 1> (x, x, x)"),
    (IMAGE, "y = Concat <axis = -1> (x, x)"),
    *((f"{IMAGE}, int64[2,3] i", f"y = Gather <axis = {axis}> (x, i)")
      for axis in (0, 2, -1)),
    (IMAGE, "i = Constant <value = int64 {1}> () y = Gather <axis = 1> (x, i)"),
    (IMAGE, "y, z = Split <axis = 1, num_outputs = 2> (x)"),
    (IMAGE, "p = Constant <value = int64[3] {2,4,5}> () y, z, u = Split <axis = -1> (x, p)"),
    *((IMAGE, f"b = Constant <value = int64[2] {{{starts}}}> () "
              f"e = Constant <value = int64[2] {{{ends}}}> () "
              f"a = Constant <value = int64[2] {{{axes}}}> () s = Constant <value = int64[2] {{{steps}}}> () "
              "y = Slice(x, b, e, a, s)")
      for starts, ends, axes, steps in (("1,2", "5,9", "1,3", "1,2"),
                                        ("-1,7", "-100,1", "3,2", "-2,-1"),
                                        ("0,0", "100,-3", "-1,1", "3,1"))),
    (IMAGE, "b = Constant <value = int64[2] {1,2}> () e = Constant <value = int64[2] {2,5}> () "
            "y = Slice(x, b, e)"),
    ("float[2,1,9,1] x", "y = Squeeze(x)"),
    ("float[2,1,9,1] x", "a = Constant <value = int64[1] {-1}> () y = Squeeze(x, a)"),
    ("float[2,1,9,1] x", "a = Constant <value = int64[2] {1,3}> () y = Squeeze(x, a)"),
    ("float[2,9] x", "a = Constant <value = int64[2] {0,-1}> () y = Unsqueeze(x, a)"),
    ("float[2,9] x", "a = Constant <value = int64[2] {3,1}> () y = Unsqueeze(x, a)"),
    ("float[2,1,9] x", "size = Constant <value = int64[4] {3,2,5,1}> () y = Expand(x, size)"),
    (IMAGE, "size = Constant <value = int64[3] {0,-1,11}> () y = Reshape(x, size)"),
    (IMAGE, "size = Constant <value = int64[2] {54,22}> () y = Reshape(x, size)"),
    (IMAGE, "size = Constant <value = int64[4] {2,6,20,5}> () y = Resize(x, , , size)"),
    (IMAGE, "s = Constant <value = float[4] {1.0,1.0,2.5,0.5}> () y = Resize(x, , s)"),
    ("float[5,7] x", "y = Gemm <transB = 1> (x, m)"),
    ("float[7,5] x", "y = Gemm <transA = 1, transB = 1> (x, m)"),
    ("float[3,7] x", "y = Gemm(x, n)"),
    ("float[3,1,5,7] x", "y = MatMul(x, n)"),
    ("float[3,2,5,7] x, float[2,7,4] z", "y = MatMul(x, z)"),
    ("float[5,7] x, float[3,2,7,4] z", "y = MatMul(x, z)"),
    ("float[3,1,5] x, float[2,1] z", "y = Add(x, z)"),
    ("float[5] x, float[4,2,1] z", "y = Mul(x, z)"),
]  # fmt: skip
WEIGHTS = {"w": "4,6,3,2", "half": "4,3,3,2", "v": "6,5,3,2", "m": "6,7", "n": "7,4"}


def parsed(inputs, nodes):
    """Return a model whose outputs, those of the last node, declare no shape."""
    read = nodes.rpartition("(")[2].rstrip(")").split(", ")
    given = ", ".join([inputs, *(f"float[{dims}] {name}" for name, dims in WEIGHTS.items() if name in read)])
    made = nodes.rpartition("}> () ")[2].partition("=")[0].strip()
    ends = ", ".join(f"float {name}" for name in made.split(", "))
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g ({given}) => ({ends}) {{ {nodes} }}'
    )
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize(("inputs", "nodes"), FORMS, ids=[nodes for _, nodes in FORMS])
def test_the_shape_is_that_of_onnx(inputs, nodes):
    model = parsed(inputs, nodes)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
    wanted = [tuple(d.dim_value for d in value.type.tensor_type.shape.dim) for value in inferred]
    graph, sizes = ir.from_proto(model).graph, Sizes()
    for node in graph:
        sizes.results(node, [sizes.of(value) for value in node.inputs if value is not None])
    assert [sizes.of(output) for output in graph.outputs] == wanted
    assert all(map(all, wanted))
