"""What `pinnace shard` meets in ONNX files: the ranks compute what onnxruntime computes of the whole."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pinnace.deferred import import_onnx_ir
from pinnace.errors import ConfigError, UnsupportedModelError

import_onnx_ir()

from pinnace.distributed.shard import costs  # noqa: E402
from pinnace.distributed.shard.cutting import shard  # noqa: E402

# float32 of the largest value: the sums of the ranks come in another order.
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Weights are small here, and count as those of large models do."""
    monkeypatch.setattr(costs, "HELD", 100)


def weight(name, *shape):
    values = np.random.default_rng(sum(name.encode())).normal(size=shape)
    return numpy_helper.from_array((values / 4).astype(np.float32), name)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def of(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def op(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


X, Y = of("x", [3, 32]), of("y", [3, 32])
W1, W2 = weight("w1", 32, 64), weight("w2", 64, 32)
FIRST, LAST = op("MatMul", "x w1", "a"), op("MatMul", "b w2", "y")


def write(folder, name, nodes, weights=(W1, W2), inputs=(X,), outputs=(Y,), opset=21, ir=10):
    graph = helper.make_graph(nodes, name, inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    onnx.save(model, folder / f"{name}.onnx")
    random = np.random.default_rng(7)
    given = {
        value.name: random.normal(size=[d.dim_value or 3 for d in value.type.tensor_type.shape.dim])
        for value in inputs
        if value.name not in {w.name for w in weights}
    }
    given = {key: value.astype(np.float32) for key, value in given.items()}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / f"{name}.onnx", options, ["CPUExecutionProvider"])
    results = session.run(None, given)
    golden = {f"run0_x{i}": value for i, value in enumerate(given.values())}
    np.savez(folder / f"{name}.npz", **golden, **{f"run0_y{i}": y for i, y in enumerate(results)})


def chooses(value):
    """An If by the sum of x, whose branches read `value` of the graph around them."""
    branches = {
        f"{name}_branch": helper.make_graph([op(kind, value, name)], name, [], [of(name, None)])
        for name, kind in (("then", "Neg"), ("else", "Abs"))
    }
    decides = [op("ReduceSum", "x", "s", keepdims=0), op("Less", "s s", "c")]
    return [*decides, helper.make_node("If", ["c"], ["b"], **branches)]


def attention(scored="s", **softmax):
    """Heads of which each rank has half, and a softmax over what the attribute says."""
    heads = op("Reshape", "a heads", "h"), op("Transpose", "h", "q", perm=[0, 2, 1, 3])
    scores = op("Transpose", "h", "k", perm=[0, 2, 3, 1]), op("MatMul", "q k", "s")
    result = op("Softmax", scored, "p", **softmax), op("MatMul", "p q", "o")
    back = op("Transpose", "o", "t", perm=[0, 2, 1, 3]), op("Reshape", "t back", "b")
    return [FIRST, *heads, *scores, *result, *back, LAST]


ATTENTION = {
    "weights": (W1, W2, ints("heads", 2, 3, 4, 16), ints("back", 2, 3, 64)),
    "inputs": [of("x", [2, 3, 32])],
    "outputs": [of("y", [2, 3, 32])],
    "ir": 7,
}
GREATER = [FIRST, op("Greater", "a w.1", "m"), op("Relu", "a", "b"), LAST]
TENSOR = {
    "softmax_from_axis_1_on": (attention(), ATTENTION | {"opset": 11}),
    "softmax_of_the_last": (attention(axis=-1), ATTENTION | {"opset": 11}),
    "branch_of_a_part": ([FIRST, *chooses("a"), LAST], {}),
    "branch_of_a_sum": (
        [FIRST, op("MatMul", "a w2", "d"), *chooses("d"), op("Relu", "b", "y")],
        {},
    ),
    "free_rows_reshaped": (
        [FIRST, op("Reshape", "a rows", "b"), LAST],
        {
            "weights": (W1, W2, ints("rows", 1, -1, 64)),
            "inputs": [of("x", ["n", 32])],
            "outputs": [of("y", [1, "n", 32])],
        },
    ),
    "columns_before_free_rows": (
        [FIRST, op("Reshape", "a turned", "r"), op("Transpose", "r", "b", perm=[0, 2, 1]), LAST],
        {
            "weights": (W1, W2, ints("turned", 0, 64, -1)),
            "inputs": [of("x", [2, "n", 32])],
            "outputs": [of("y", [2, "n", 32])],
        },
    ),
    "truth_is_an_output": (
        GREATER,
        {"weights": (W1, W2, weight("w.1", 1)), "outputs": (Y, of("m", [3, 64], TensorProto.BOOL))},
    ),
    "pads_as_attribute": ([FIRST, op("Relu", "a", "b")], {"opset": 9, "outputs": [of("b", [3, 64])]}),
    "names_of_parts": (
        [op("MatMul", "x w", "a"), op("Relu", "a", "b"), LAST, op("Add", "y w.1", "z")],
        {
            "weights": (weight("w", 32, 64), W2, weight("w.1", 32)),
            "outputs": (of("z", [3, 32]),),
        },
    ),
}

TENSOR |= {
    "weights_that_are_inputs": (
        [FIRST, op("Relu", "a", "b"), LAST],
        {"inputs": (X, of("w1", [32, 64]), of("w2", [64, 32])), "opset": 9, "ir": 3},
    ),
    "weights_that_are_nodes": (
        [
            op("Constant", "", "w1", value=W1),
            op("Constant", "", "w2", value=W2),
            *(FIRST, op("Relu", "a", "b"), LAST),
        ],
        {"weights": ()},
    ),
    "two_orders_of_one_weight": (
        [
            *(op("Transpose", "w", "w1", perm=[2, 0, 1]), op("Transpose", "w", "w2", perm=[1, 0, 2])),
            *(FIRST, op("MatMul", "a w2", "b"), op("MatMul", "b large", "y")),
        ],
        {
            "weights": (weight("w", 8, 8, 8), weight("large", 8, 160)),
            "inputs": [of("x", [8, 3, 8])],
            "outputs": [of("y", [8, 3, 160])],
        },
    ),
    "name_of_a_transposed": (
        [op("Gemm", "x w", "a", transB=1), op("MatMul", "a w.T", "y")],
        {"weights": (weight("w", 32, 32), weight("w.T", 32, 32))},
    ),
    "transposed_weight_is_an_output": (
        [op("Transpose", "w", "t"), FIRST, op("MatMul", "a t", "b"), op("MatMul", "b w1", "y")],
        {
            "weights": (W1, weight("w", 32, 64)),
            "outputs": (of("y", [3, 64]), of("t", [64, 32])),
        },
    ),
}

TENSOR["two_names_of_a_batch"] = (
    [
        *(op("Add", "x z", "s"), op("MatMul", "s w1", "a"), op("Shape", "x", "n", end=1)),
        *(op("Concat", "n heads", "into", axis=0), op("Reshape", "a into", "h"), op("Softmax", "h", "p")),
        *(op("Concat", "n row", "back", axis=0), op("Reshape", "p back", "b"), LAST),
    ],
    {
        "weights": [W1, W2, ints("heads", 4, -1, 16), ints("row", 4, 64)],
        "inputs": [of("x", ["n", 4, 32]), of("z", ["m", 4, 32])],
        "outputs": [of("y", ["n", 4, 32])],
    },
)
"""As of an encoder and a decoder, where the file does not say that they are equal."""


def masked():
    """Attention with a mask that is cut to the length of x."""
    nodes = attention("scored")
    mask = op("Slice", "mask from n rows", "r"), op("Slice", "r from n columns", "m")
    nodes[5:5] = [op("Shape", "x", "n", start=1, end=2), *mask, op("Add", "s m", "scored")]
    return nodes


MASK = weight("mask", 1, 1, 64, 64), ints("from", 0), ints("rows", 2), ints("columns", 3)
TENSOR["mask_of_a_length"] = (
    masked(),
    {
        "weights": (W1, W2, ints("heads", 2, -1, 4, 16), ints("back", 2, -1, 64), *MASK),
        "inputs": [of("x", [2, "n", 32])],
        "outputs": [of("y", [2, "n", 32])],
    },
)
TENSOR["sections_of_an_input_and_an_output"] = (
    [
        *(op("MatMul", "x w", "a"), op("Mul", "a z", "m"), op("Split", "m", "q k v", axis=1, num_outputs=3)),
        *(op("Mul", "q k", "s"), op("Add", "s v", "b"), LAST),
    ],
    {
        "weights": (weight("w", 32, 192), W2),
        "inputs": (X, of("z", [3, 192])),
        "outputs": (Y, of("m", [3, 192])),
    },
)
TENSOR["rows_of_a_table_from_both_ends"] = (
    [op("Cast", "x", "i", to=TensorProto.INT64), op("Gather", "table i", "e")],
    {"weights": [weight("table", 401, 3)], "outputs": [of("e", [3, 32, 3])]},
)
TENSOR["sizes_of_fixed_shapes"] = (
    [
        *(op("Shape", "x", "s"), op("Gather", "s first", "n"), op("Concat", "n rest", "dims", axis=0)),
        *(FIRST, op("Reshape", "a dims", "r"), op("Reshape", "r flat", "b"), LAST),
    ],
    {
        "weights": (W1, W2, ints("first", 0), ints("rest", 2, 32), ints("flat", 3, 64)),
        "outputs": (Y, of("n", [1], TensorProto.INT64)),
    },
)


def test_tensor(ranks, tmp_path):
    check(ranks, tmp_path, "tensor", TENSOR)


@pytest.mark.parametrize("name", ["two_names_of_a_batch", "mask_of_a_length"])
def test_one_sum_is_enough(tmp_path, name):
    nodes, options = TENSOR[name]
    write(tmp_path, name, nodes, **options)
    assert [one.collectives for one in shard(tmp_path / f"{name}.onnx", 2, tmp_path, "tensor")] == [1, 1]


def test_comparisons_of_free_sizes_are_left_to_the_run(tmp_path):
    nodes = [
        *(FIRST, op("Shape", "x", "n", end=1), op("Less", "n many", "few")),
        *(op("Relu", "a", "r"), op("Where", "few a r", "b"), LAST),
    ]
    free = {"inputs": [of("x", ["n", 32])], "outputs": [of("y", ["n", 32])]}
    write(tmp_path, "few", nodes, weights=(W1, W2, ints("many", 100)), **free)
    shard(tmp_path / "few.onnx", 2, tmp_path, "tensor")
    part = onnx.load(tmp_path / "few_0.onnx", load_external_data=False)
    assert "Less" in {node.op_type for node in part.graph.node}


def test_sizes_of_fixed_shapes_are_constants_and_those_of_outputs_stay(tmp_path):
    nodes, options = TENSOR["sizes_of_fixed_shapes"]
    write(tmp_path, "sizes", nodes, **options)
    shard(tmp_path / "sizes.onnx", 2, tmp_path, "tensor")
    part = onnx.load(tmp_path / "sizes_0.onnx", load_external_data=False)
    kinds = {node.op_type for node in part.graph.node}
    assert not {"Shape", "Concat"} & kinds
    assert "Gather" in kinds


PIPELINE = {
    "an_input_is_an_output": ([FIRST, op("Relu", "a", "b"), LAST], {"outputs": (Y, X)}),
    "branch_of_another_rank": ([FIRST, *chooses("a"), LAST], {}),
}


def test_pipeline(ranks, tmp_path):
    check(ranks, tmp_path, "pipeline", PIPELINE)


def test_a_part_is_cut_no_further(tmp_path):
    write(tmp_path, "whole", [FIRST, op("Relu", "a", "b"), LAST])
    shard(tmp_path / "whole.onnx", 2, tmp_path, "tensor")
    with pytest.raises(ConfigError, match="is a part of a model that was cut"):
        shard(tmp_path / "whole_0.onnx", 2, tmp_path, "tensor")


def test_what_cannot_be_cut_leaves_no_files(tmp_path):
    """That what crosses has a free dimension shows at the second rank."""
    found = [op("NonZero", "a", "i"), op("Gather", "large i", "b"), op("ReduceSum", "b", "y", keepdims=0)]
    write(tmp_path, "found", [FIRST, *found], (W1, weight("large", 64, 64)), outputs=(of("y", []),))
    stretches = tmp_path / "parts"
    with pytest.raises(ConfigError, match="has free dimensions"):
        shard(tmp_path / "found.onnx", 2, stretches, "pipeline")
    assert not stretches.exists()


def test_a_free_dimension_is_fixed(ranks, tmp_path):
    free = {"inputs": [of("x", ["n", 32])], "outputs": [of("y", ["n", 32])]}
    model = {"free": ([FIRST, op("Relu", "a", "b"), LAST], free)}
    for shapes, said in (
        ({}, "has free dimensions"),
        ({"z": [3, 32]}, "has no input 'z'; its inputs are x"),
        ({"x": [3, 31]}, "of which only -1 is free"),
    ):
        with pytest.raises(ConfigError, match=said):
            check(ranks, tmp_path, "pipeline", model, shapes)
    check(ranks, tmp_path, "pipeline", model, {"x": [3, 32]})


def test_the_share_of_a_rank_is_counted(tmp_path):
    """Of products of [3, 32] with [32, 64] and [64, 32], of convolutions of [1, 2, 8, 8]."""
    write(tmp_path, "products", [FIRST, op("Relu", "a", "b"), LAST])
    counted = {
        strategy: [
            (one.weights, one.whole, one.operations, one.collectives, one.sent)
            for one in shard(tmp_path / "products.onnx", 2, tmp_path / strategy, strategy)
        ]
        for strategy in ("tensor", "pipeline")
    }
    half, products = 32 * 64 * 4, 2 * 3 * 64 * 32
    assert counted["tensor"] == [(half, 2 * half, products, 1, 3 * 32 * 4)] * 2
    sent = 3 * 64 * 4 + 3 * 32 * 4
    shape = 2 * 8  # of the result, in whose place the first has zeros until the second sends it
    assert counted["pipeline"] == [(half + n, 2 * half, products, 2, sent) for n in (shape, 0)]
    nodes = op("Conv", "x c1", "h"), op("Conv", "h c2", "z")
    kernels = weight("c1", 2, 2, 3, 3), weight("c2", 2, 2, 3, 3)
    write(tmp_path, "pictures", nodes, kernels, [of("x", [1, 2, 8, 8])], [of("z", [1, 2, 4, 4])])
    shares = shard(tmp_path / "pictures.onnx", 2, tmp_path / "pictures", "pipeline")
    assert [one.operations for one in shares] == [2 * 2 * 36 * 18, 2 * 2 * 16 * 18]


def test_ranks_share_each_product_where_that_divides_most_weights(tmp_path):
    """Tensor ranks hold 64.8 % of the first, with whole convolutions, 65.3 % of the other."""
    nodes = [FIRST, op("Relu", "a", "b"), LAST, op("Conv", "p c1", "h"), op("Conv", "h c2", "z")]
    outputs = {"outputs": (Y, of("z", [1, 2, 4, 4]))}
    for name, size, strategy in (("most", 48, "tensor"), ("few", 50, "pipeline")):
        kernels = weight("c1", size, 2, 3, 3), weight("c2", 2, size, 3, 3)
        write(tmp_path, name, nodes, (W1, W2, *kernels), (X, of("p", [1, 2, 8, 8])), **outputs)
        for share in shard(tmp_path / f"{name}.onnx", 2, tmp_path / "parts"):
            part = onnx.load(tmp_path / "parts" / share.file)
            kinds = {node.op_type for node in part.graph.node}
            assert ("AllReduce" in kinds, "Exchange" in kinds) == (
                strategy == "tensor",
                strategy == "pipeline",
            )
            assert (share.why == ["each rank computes a stretch of the graph"]) == (strategy == "pipeline")


def test_a_model_is_cut_into_no_more_than_1024_parts(tmp_path):
    with pytest.raises(ConfigError, match="1025 ranks: a model can be cut into at most 1024 parts"):
        shard(tmp_path / "none.onnx", 1025, tmp_path)


def check(ranks, folder, strategy, models, shapes=None):
    for name, (nodes, options) in models.items():
        write(folder, name, nodes, **options)
        shard(folder / f"{name}.onnx", 2, folder / "parts", strategy, shapes)
    stems = ",".join(f"{folder}/parts/{name}_{{rank}}.onnx" for name in models)
    answers, errors = ranks("sockets", stems, 2, "--golden", str(folder))
    assert sorted(answers) == [0, 1], errors
    for answer in answers.values():
        assert "raised" not in answer, answer
        assert all(answer["shapes"].values()), answer
        assert answer["error"] <= TOLERANCE, answer


@pytest.mark.parametrize(
    ("node", "draws"),
    [
        (op("Dropout", "a half training", "b"), True),
        (op("Dropout", "a none training", "b"), False),
        (op("Dropout", "a half", "b"), False),
        (op("RandomUniformLike", "a", "b"), True),
        (op("RandomUniformLike", "a", "b", seed=1.0), False),
    ],
)
def test_ranks_do_not_draw_at_random(tmp_path, node, draws):
    """As a model does that was exported for training: then each rank would drop other elements."""
    numbers = {"half": np.array(0.5, np.float32), "none": np.array(0, np.float32), "training": np.array(True)}
    weights = (W1, W2, *(numpy_helper.from_array(number, name) for name, number in numbers.items()))
    write(tmp_path, "drawn", [FIRST, node, LAST], weights)
    if draws:
        with pytest.raises(UnsupportedModelError, match="each rank would draw other numbers"):
            shard(tmp_path / "drawn.onnx", 2, tmp_path, "tensor")
    assert shard(tmp_path / "drawn.onnx", 2, tmp_path, "pipeline" if draws else "tensor")
