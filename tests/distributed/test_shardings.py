"""What the ranks can share of each operator, what that costs, and what is chosen."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace.deferred import import_onnx_ir

import_onnx_ir()

import onnx_ir as ir  # noqa: E402

from pinnace.distributed.shard import costs, sections  # noqa: E402
from pinnace.distributed.shard.placements import Partial, RowShard, Shard  # noqa: E402
from pinnace.distributed.shard.shardings import Shardings  # noqa: E402


def graph_of(nodes, inputs, weights=(), outputs=("y",), opset=21):
    """A graph of onnx-ir with all shapes; weights are arrays, or shapes of random ones."""
    made = [
        numpy_helper.from_array(
            w if isinstance(w, np.ndarray) else np.random.default_rng(0).normal(size=w).astype(np.float32),
            name,
        )
        for name, w in dict(weights).items()
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
        made,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(model, data_prop=True)).graph


def product(name, shape, axis):
    """Nodes, input and weight of a product that the ranks can split along an axis, or leave as a sum."""
    rank = len(shape)
    order = [place for place in range(rank) if place != axis] + [axis]
    back = np.argsort(order).tolist()
    nodes = [
        helper.make_node("MatMul", [f"{name}x", f"{name}w"], [f"{name}p"]),
        helper.make_node("Transpose", [f"{name}p"], [name], perm=back),
    ]
    return nodes, {f"{name}x": [*(shape[place] for place in order[:-1]), 8]}, {f"{name}w": (8, shape[axis])}


def shown(sharding):
    def text(placement):
        match placement:
            case Shard(axis, ()):
                return str(axis)
            case Shard(axis, widths):
                return f"{axis}:{'+'.join(map(str, widths))}"
            case Partial():
                return "sum"
            case RowShard():
                return "rows"
        return "-"

    again = " again" if sharding.again else ""
    return f"{' '.join(map(text, sharding.takes))} > {text(sharding.gives)}{again}"


def shared(kind, held, *others, opset=21, size=2, count=1, after=(), weights=None, **attributes):
    """The shardings of a node whose inputs are products, split along the axis of each, or weights."""
    nodes, inputs, constants, names = [], {}, dict(weights or {}), []
    for place, given in enumerate((held, *others)):
        name = f"i{place}"
        names.append(name)
        if isinstance(given, str):
            names[-1] = given
        elif isinstance(given, np.ndarray):
            constants[name] = given
        elif isinstance(given[0], tuple):
            more, takes, reads = product(name, *given)
            nodes += more
            inputs |= takes
            constants |= reads
        else:
            inputs[name] = list(given)
    outputs = ["y", *(f"y{i}" for i in range(1, count))]
    nodes.append(helper.make_node(kind, names, outputs, **attributes))
    graph = graph_of(
        [*nodes, *after], inputs, constants, outputs if not after else [after[-1].output[0]], opset
    )
    found = Shardings(graph, size, opset)
    *before, last = list(graph)[: len(nodes)]
    for node in before:
        found.of(node)
    whole, *more = [shown(sharding) for sharding in found.of(last)]
    assert whole == f"{' '.join('-' * len(names))} > -"
    return more


def f(*shape):
    return np.ones(shape, np.float32)


def n(*numbers):
    return np.array(numbers, np.int64)


S = (2, 4, 6)
HEADS = (2, 4, 8)
SUM1, SUM2 = "sum - > sum", "sum - - - > sum"


@pytest.mark.parametrize(
    ("kind", "inputs", "given", "expected"),
    [
        *(("Relu", [(S, axis)], {}, [f"{axis} > {axis}"]) for axis in range(3)),
        ("Neg", [(S, 1)], {}, ["sum > sum", "1 > 1"]),
        ("Clip", [(S, 1), np.array(0, np.float32)], {}, ["1 - > 1"]),
        ("Sigmoid", [(S, 1)], {"size": 4}, ["1 > 1"]),
        ("Sigmoid", [(S, 2)], {"size": 4}, []),
        ("CumSum", [(S, 1), n(2)], {}, []),
        ("TopK", [(S, 1), n(2)], {"count": 2}, []),
        # what is computed along an axis needs all of it
        ("Softmax", [(S, 1)], {}, ["1 > 1"]),
        ("Softmax", [(S, 2)], {}, []),
        ("Softmax", [(S, 1)], {"axis": 1}, []),
        ("Softmax", [(S, 2)], {"axis": 1}, ["2 > 2"]),
        ("Softmax", [(S, 0)], {"opset": 11}, ["0 > 0"]),
        ("Softmax", [(S, 1)], {"opset": 11}, []),
        ("Softmax", [(S, 1)], {"opset": 11, "axis": 2}, ["1 > 1"]),
        ("Softmax", [(S, 2)], {"opset": 11, "axis": 1}, []),
        ("LayerNormalization", [(S, 1), f(6)], {}, ["1 - > 1"]),
        ("LayerNormalization", [(S, 2), f(6)], {}, []),
        ("LayerNormalization", [(S, 0), f(4, 6)], {"axis": 1}, ["0 - > 0"]),
        ("LayerNormalization", [(S, 2), f(4, 6)], {"axis": 1}, []),
        ("Trilu", [(S, 0)], {}, ["0 > 0"]),
        ("Trilu", [(S, 1)], {}, []),
        # what moves data
        ("Transpose", [(S, 0)], {}, ["sum > sum", "0 > 2"]),
        ("Transpose", [(S, 2)], {"perm": [1, 2, 0]}, ["sum > sum", "2 > 1"]),
        ("Reshape", [(S, 1), n(2, 24)], {}, [SUM1, "1 - > 1"]),
        ("Reshape", [(S, 2), n(2, 4, 2, 3)], {}, [SUM1, "2 - > 2"]),
        ("Reshape", [(S, 2), n(2, 4, 3, 2)], {}, [SUM1, "2:2+2+2 - > 3"]),
        ("Reshape", [(S, 1), n(2, 1, 4, 6)], {}, [SUM1, "1 - > 2"]),
        ("Reshape", [(S, 2), n(2, 24)], {}, [SUM1]),
        ("Reshape", [(S, 0), n(48)], {}, [SUM1, "0 - > 0"]),
        ("Reshape", [(HEADS, 2), n(2, 4, 2, 4)], {}, [SUM1, "2 - > 2", "2:4+4 - > 3"]),
        ("Reshape", [(S, 1), n(8, 6)], {}, [SUM1]),
        ("Expand", [((1, 4, 6), 1), n(2, 4, 6)], {}, [SUM1, "1 - > 1"]),
        ("Expand", [((4, 6), 0), n(3, 4, 6)], {}, [SUM1, "0 - > 1"]),
        ("Expand", [((4, 1, 6), 0), n(4, 5, 6)], {}, [SUM1, "0 - > 0"]),
        ("Tile", [(S, 1), n(3, 1, 2)], {}, [SUM1, "1 - > 1"]),
        ("Tile", [(S, 2), n(1, 1, 2)], {}, [SUM1]),
        ("Gather", [(S, 1), n(0, 1)], {}, [SUM1, "1 - > 1"]),
        ("Gather", [(S, 0), n(0, 1)], {}, [SUM1]),
        ("Gather", [(S, 1), n(0, 1)], {"axis": 1}, [SUM1]),
        ("Gather", [(S, 2), n([0, 1], [1, 0])], {"axis": 1}, [SUM1, "2 - > 3"]),
        ("Gather", [(S, 0), n([0, 1], [1, 0])], {"axis": -1}, [SUM1, "0 - > 0"]),
        ("Gather", [(S, 2), np.array(1)], {}, [SUM1, "2 - > 1"]),
        ("Split", [(S, 1), n(3, 3)], {"axis": 2, "count": 2}, [SUM1, "1 - > 1"]),
        ("Split", [(S, 2), n(4, 2)], {"axis": -1, "count": 2}, [SUM1, "2:4+2 - > 2"]),
        ("Split", [(S, 2), n(3, 3)], {"axis": 2, "count": 2}, [SUM1]),
        ("Split", [(S, 2), n(1, 1)], {"count": 2}, [SUM1, "2 - > 2"]),
        ("Slice", [(S, 1), n(0), n(2), n(2)], {}, [SUM2, "1 - - - > 1"]),
        ("Slice", [(S, 2), n(0), n(2), n(2)], {}, [SUM2]),
        ("Unsqueeze", [(S, 1), n(0)], {}, [SUM1, "1 - > 2"]),
        ("Unsqueeze", [(S, 1), n(-1)], {}, [SUM1, "1 - > 1"]),
        ("Unsqueeze", [(S, 1), n(1, 0)], {}, [SUM1, "1 - > 3"]),
        ("Unsqueeze", [(S, 1)], {"opset": 11, "axes": [0]}, ["sum > sum", "1 > 2"]),
        ("Squeeze", [((1, 4, 6), 1), n(0)], {}, [SUM1, "1 - > 0"]),
        ("Squeeze", [((4, 1, 6), 0), n(-2)], {}, [SUM1, "0 - > 0"]),
        ("Squeeze", [((1, 4, 6), 1)], {}, ["sum > sum"]),
        ("ReduceSum", [(S, 1), n(1)], {}, [SUM1, "1 - > sum"]),
        ("ReduceSum", [(S, 2), n(0)], {"keepdims": 0}, [SUM1, "2 - > 1"]),
        ("ReduceSum", [(S, 2), n(0)], {}, [SUM1, "2 - > 2"]),
        ("ReduceSum", [(S, 1)], {}, ["sum > sum"]),
        ("ReduceMax", [(S, 1), n(1)], {}, []),
        ("ReduceMax", [(S, 1), n(2)], {"keepdims": 0}, ["1 - > 1"]),
        ("ReduceMax", [(S, 2), n(-1)], {}, []),
        # products: columns of weights, or rows with columns of what is multiplied, which gives a sum
        ("MatMul", [(S, 2), f(6, 8)], {}, ["2 0 > sum", "- 1 > 2", SUM1]),
        ("MatMul", [(S, 1), f(6, 8)], {}, ["2 0 > sum", "- 1 > 2", SUM1, "1 - > 1"]),
        ("MatMul", [(S, 0), f(6, 8)], {}, ["2 0 > sum", "- 1 > 2", SUM1, "0 - > 0"]),
        ("MatMul", [(S, 2), ((2, 6, 8), 1)], {}, ["- sum > sum", "2 1 > sum", SUM1]),
        ("MatMul", [(S, 0), ((2, 6, 8), 0)], {}, ["- sum > sum", SUM1, "0 0 > 0"]),
        ("MatMul", [(S, 2), ((6, 8), 1)], {}, ["- sum > sum", "- 1 > 2", SUM1, "2 0 > sum"]),
        ("MatMul", [(S, 2), f(6)], {}, []),
        # two inputs
        *((kind, [(S, 1), (S, 1)], {}, ["1 1 > 1", "sum sum > sum"]) for kind in ("Add", "Sub")),
        ("Mul", [(S, 1), (S, 1)], {}, ["1 1 > 1", "sum - > sum", "- sum > sum"]),
        ("Div", [(S, 1), (S, 1)], {}, ["1 1 > 1", "sum - > sum"]),
        ("Max", [(S, 1), (S, 1)], {}, ["1 1 > 1"]),
        ("Add", [(S, 0), ((4, 6), 1)], {}, ["0 - > 0", "2 1 > 2", "sum sum > sum"]),
        ("Add", [(S, 1), f(4, 6)], {}, ["1 0 > 1"]),
        ("Add", [(S, 1), f(6)], {}, ["1 - > 1"]),
        ("Add", [(S, 2), f(4, 1)], {}, ["2 - > 2"]),
        ("Sub", [(S, 2), (4, 6)], {}, ["2 1 > 2"]),
        ("Div", [f(6), (S, 2)], {}, ["0 2 > 2"]),
        ("Concat", [(S, 1), (S, 1)], {"axis": 1}, ["sum sum > sum"]),
        ("Concat", [(S, 0), (2, 4, 6)], {"axis": 2}, ["0 0 > 0", "0 0 > 0 again"]),
        ("Concat", [(S, 1), (S, 1)], {"axis": -1}, ["sum sum > sum", "1 1 > 1", "1 1 > 1 again"]),
        ("Shape", [(S, 1)], {}, ["sum > -", "1 > -"]),
    ],
)
def test_the_ranks_can_share_what_each_computes_by_itself(kind, inputs, given, expected):
    assert sorted(shared(kind, *inputs, **given)) == sorted(expected)


@pytest.mark.parametrize(
    ("rows", "kind", "given", "found"),
    [
        (8, np.float32, {}, ["rows - > sum", "1 - > 1"]),
        (3, np.float32, {}, ["rows - > sum", "1 - > 1"]),
        (1, np.float32, {}, ["1 - > 1"]),
        (8, np.float32, {"axis": 1}, ["0 - > 0"]),
        (8, np.int32, {}, ["1 - > 1"]),
    ],
)
def test_ranks_have_rows_of_a_table(rows, kind, given, found):
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["w", "i"], ["y"], **given),
    ]
    graph = graph_of(nodes, {"x": [3]}, {"w": np.ones((rows, 6), kind)})
    *_, lookup = graph
    _, *more = Shardings(graph, 2).of(lookup)
    assert [shown(one) for one in more] == found


@pytest.mark.parametrize(
    ("shape", "axis", "heads", "found"),
    [
        ((2, 4, 3, 8), 1, {}, ["1 1 1 > 1"]),
        ((2, 4, 2, 8), 2, {}, []),
        ((2, 3, 8), 2, {"q_num_heads": 4, "kv_num_heads": 2}, ["2 2 2 > 2"]),
        ((2, 3, 8), 2, {"q_num_heads": 4, "kv_num_heads": 1}, []),
        ((2, 4, 8), 1, {"q_num_heads": 4, "kv_num_heads": 2}, []),
    ],
)
def test_ranks_share_heads_of_attention(shape, axis, heads, found):
    inputs = [(shape, axis)] * 3
    assert shared("Attention", *inputs, opset=23, **heads) == found


def test_columns_of_a_product_stay_together_with_the_sections_that_are_taken_apart_later():
    later = helper.make_node("Split", ["y", "widths"], ["q", "k"], axis=2)
    weights = {"widths": n(6, 2)}
    found = shared("MatMul", (S, 1), f(6, 8), after=[later], weights=weights)
    assert "- 1:6+2 > 2:6+2" in found
    weights = {"widths": n(5, 3)}  # which two ranks cannot share
    assert not any(":" in one for one in shared("MatMul", (S, 1), f(6, 8), after=[later], weights=weights))


@pytest.mark.parametrize(
    ("scale", "given", "found"),
    [
        (f(6), {"axis": 0}, "0 0 > 0"),
        (f(6), {"axis": 1}, "0 - > 0"),
        (f(1), {"axis": 0}, "0 - > 0"),
        (np.array(1, np.float32), {}, "0 - > 0"),
        (f(3, 4), {"axis": 0, "block_size": 2}, None),
        (f(6, 2), {"axis": 1, "block_size": 2}, "0 0 > 0"),
    ],
)
def test_quantized_weights_are_cut_with_their_scales(scale, given, found):
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], **given),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    graph = graph_of(nodes, {"x": [3, 6]}, {"w": np.ones((6, 4), np.int8), "s": scale})
    shardings = [shown(one) for one in Shardings(graph, 2).of(graph[0])]
    assert [one for one in shardings if one.startswith("0")] == [found] * (found is not None)


# -- what nodes name -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ((n(1), n(3), n(1)), {1: (1, 3)}),
        ((n(-2), n(100), n(-1)), {2: (4, 6)}),
        ((n(0, 1), n(1, -1), n(2, 0)), {2: (0, 1), 0: (1, 1)}),
        ((n(0, 2), n(2, 4)), {0: (0, 2), 1: (2, 4)}),
        ((n(0), n(4), n(1), n(2)), {1: None}),
        ((n(0), n(4), n(1), n(1)), {1: (0, 4)}),
        (("x", n(4), n(1)), {1: None}),
        ((n(0), n(4), "x"), None),
        ((n(0), n(4), n(1), "x"), {1: None}),
    ],
)
def test_the_limits_of_a_slice(limits, found):
    names = ["data", *(one if isinstance(one, str) else f"c{i}" for i, one in enumerate(limits))]
    weights = {name: one for name, one in zip(names[1:], limits, strict=True) if name != "x"}
    graph = graph_of([helper.make_node("Slice", names, ["y"])], {"data": S}, weights)
    if "x" in names:
        graph[0].replace_input_with(names.index("x"), ir.Value(name="x"))
    assert sections.sliced(graph[0]) == found
    if found and found.get(1) == (1, 3):
        assert sections.sliced(graph[0], (2, 2, 6)) == {1: (1, 2)}


def test_the_product_of_dimensions_with_names():
    batch, rows, unknown = ir.SymbolicDim("batch"), ir.SymbolicDim("rows"), ir.SymbolicDim(None)
    assert sections.volume_of([2, rows, 3, batch]) == (6, ["batch", "rows"])
    assert sections.volume_of([]) == (1, [])
    assert sections.volume_of([2, unknown]) is None
    assert sections.volume_of([2, 0]) is None


@pytest.mark.parametrize(
    ("nodes", "weights", "found"),
    [
        ([("Split", ["x", "w"], ["y", "z"], {"axis": 1})], {"w": n(4, 8)}, {12: [(4, 8)]}),
        ([("Split", ["x", "w"], ["y", "z"], {"axis": 1})], {"w": n(3, 9)}, {}),
        ([("Split", ["x", "w"], ["y", "z"], {"axis": 1})], {"w": n(0, 12)}, {}),
        ([("Split", ["x", "w"], ["y"], {"axis": 1})], {"w": n(12)}, {}),
        ([("Split", ["x"], ["y", "z"], {"num_outputs": 2})], {}, {4: [(2, 2)]}),
        ([("Reshape", ["x", "w"], ["y"], {})], {"w": n(4, 3, 4)}, {12: [(4, 4, 4)]}),
        ([("Reshape", ["x", "w"], ["y"], {})], {"w": n(4, 2, 6)}, {12: [(6, 6)]}),
        ([("Reshape", ["x", "w"], ["y"], {})], {"w": n(4, 6, 2)}, {}),
        ([("Reshape", ["x", "w"], ["y"], {})], {"w": n(2, 2, 12)}, {}),
        (
            [("Slice", ["x", "a", "b", "one"], ["y"], {}), ("Slice", ["x", "b", "c", "one"], ["z"], {})],
            {"a": n(0), "b": n(4), "c": n(12), "one": n(1)},
            {12: [(4, 8)]},
        ),
        (
            [("Slice", ["x", "a", "b", "one"], ["y"], {}), ("Slice", ["x", "b", "c", "one"], ["z"], {})],
            {"a": n(0), "b": n(4), "c": n(10), "one": n(1)},
            {},
        ),
    ],
)
def test_sections_are_how_a_width_is_taken_apart(nodes, weights, found):
    made = [helper.make_node(kind, takes, gives, **given) for kind, takes, gives, given in nodes]
    outputs = [name for node in made for name in node.output]
    assert sections.sections_of(graph_of(made, {"x": [4, 12]}, weights, outputs), 2) == found


# -- costs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "shapes", "weight", "given", "count"),
    [
        ("MatMul", [5, 6], (6, 8), {}, 2 * 5 * 8 * 6),
        ("MatMul", ["n", 6], (6, 8), {}, 2 * 8 * 6),
        ("MatMul", [3, 5, 6], (6, 8), {}, 2 * 3 * 5 * 8 * 6),
        ("Gemm", [5, 6], (8, 6), {"transB": 1}, 2 * 5 * 8 * 6),
        ("Conv", [1, 4, 9, 9], (8, 2, 3, 3), {"group": 2}, 2 * (8 * 7 * 7) * (2 * 3 * 3)),
        ("Add", [5, 6], (6,), {}, 0),
    ],
)
def test_operations_of_products_are_counted(kind, shapes, weight, given, count):
    graph = graph_of([helper.make_node(kind, ["x", "w"], ["y"], **given)], {"x": shapes}, {"w": weight})
    assert costs.operations(graph[0]) == count


def test_bytes_of_values_and_of_weights():
    value = ir.Value(name="v", shape=ir.Shape([3, "n", 5]), type=ir.TensorType(ir.DataType.FLOAT16))
    assert costs.nbytes(value) == 30
    value.dtype = ir.DataType.INT4
    assert costs.nbytes(value) == 7.5
    assert costs.nbytes(ir.Value(name="v", shape=ir.Shape([3]))) == 12
    assert costs.nbytes(ir.Value(name="v")) == 0
    weight = ir.Value(name="w", const_value=ir.tensor(np.ones((3, 4), np.int8)))
    assert costs.nbytes(weight) == 12


def test_a_sum_travels_twice():
    assert costs.sent(1000, 4, is_sum=False) == 750
    assert costs.sent(1000, 4, is_sum=True) == 1500


def test_two_products_are_cut_by_columns_and_by_rows():
    """Of which the second gives parts of a sum: one collective, as Megatron-LM has it."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w2"], ["y"]),
    ]
    wide = {"w1": (256, 1024), "w2": (1024, 256)}
    graph = graph_of(nodes, {"x": [1, 256]}, wide)
    choice = costs.choose(graph, 4)
    assert [shown(one) for one in choice.shardings] == ["- 1 > 1", "1 > 1", "1 0 > sum"]
    weights, row = 2 * 4 * 256 * 1024, 4 * 1024
    work = 0.02 * (2 * 2 * 256 * 1024) + 0.1 * (2 * row + row // 4)
    assert choice.uncut == pytest.approx(weights + work)
    assert choice.cost == pytest.approx((weights + work) / 4 + costs.COLLECTIVE + 2 * (row // 4) * 3 / 4)


def test_what_is_too_small_for_a_collective_is_left_whole():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    choice = costs.choose(graph_of(nodes, {"x": [1, 32]}, {"w": (32, 32)}), 2)
    assert [shown(one) for one in choice.shardings] == ["- - > -"]
    assert choice.cost == choice.uncut
