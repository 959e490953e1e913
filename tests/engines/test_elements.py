"""Requests, and values inside of models, without elements."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tests.elements import calls
from tests.elements.trial import Subject

from pinnace import Context, DataParallel, Model, ModelParallelRunner, ModelType, errors
from pinnace.building.build import build_model as build
from pinnace.engines.elements import record
from pinnace.engines.nonempty import NonEmpty
from pinnace.engines.protocol import WITHOUT_ELEMENTS
from pinnace.options.settings import Settings
from pinnace.options.target import Target

node = helper.make_node
ENGINES = ("onnxruntime", "openvino")


def model(nodes, inputs, constants=(), kind=TensorProto.FLOAT) -> bytes:
    """A model of one result; a shape of an input, which may have free dimensions, is of floats."""
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    result = [helper.make_tensor_value_info(nodes[-1].output[0], kind, None)]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", given, result, tensors)
    sets = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()


def weights(shape) -> np.ndarray:
    return np.random.default_rng(0).random(shape, np.float32)


LESS = [node("Shape", ["x"], ["sizes"]), node("Sub", ["sizes", "one"], ["end"])]
CUT = [node("Shape", ["size"], ["sizes"]), node("Sub", ["sizes", "one"], ["end"])]
CUT += [node("Slice", ["x", "zero", "end", "zero"], ["cut"])]
NUMBERS = {"zero": [0], "one": [1], "two": [2]}
ROW = ("zero", "one", "zero")
BOTH_WAYS = {"w": weights((2, 9, 4)), "r": weights((2, 9, 3))}

STEPS = [("QuantizeLinear", "", "q"), ("DequantizeLinear", "q", "d")]

REFUSING = {
    "Concat": model(
        [node("Concat", ["token", "x"], ["y"], axis=1)], {"x": ["n", 64, 65]}, {"token": weights((1, 1, 65))}
    ),
    "ConvTranspose": model(
        [node("ConvTranspose", ["x", "w"], ["y"])], {"x": ["n", 2, "l"]}, {"w": weights((2, 3, 3))}
    ),
    "MatMul": model(  # a kernel of integers left the sums of no products as they lay in memory
        [
            *(node(op, [f"{x}{q}", "s", "z"], [f"{x}{r}"]) for x in "xw" for op, q, r in STEPS),
            node("MatMul", ["xd", "wd"], ["y"]),
        ],
        {"x": ["n", "k"], "w": ["k", "m"]},
        {"s": np.float32(0.1), "z": np.uint8(4)},
    ),
    "Unique": model([node("Unique", ["x"], ["y"], axis=0)], {"x": ["n", 3]}),
    "GRU": model(
        [node("GRU", ["x", "w", "r"], ["y"], hidden_size=3, direction="bidirectional")],
        {"x": ["t", "n", 4]},
        BOTH_WAYS,
    ),
    "InstanceNormalization": model(
        [node("InstanceNormalization", ["x", "s", "s"], ["y"])], {"x": ["n", 3, "l"]}, {"s": weights(3)}
    ),
    "ReduceMean": model([node("ReduceMean", ["x", "axes"], ["y"])], {"x": ["n", 3]}, {"axes": [0]}),
}
"""Models by the operator that is not known to be right."""


def opened(kind, proto, engine, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(proto)
    context = Context()
    context.target = ["cpu"]
    context.cpu.provider = engine
    if kind is DataParallel:
        return DataParallel(str(path), context)
    found = kind()
    found.build_from_file(str(path), *([ModelType.ONNX] if kind is Model else ()), context)
    return found


def nothing_for(proto: bytes) -> list[np.ndarray]:
    """A request in which each free dimension is 0."""
    inputs = onnx.load_from_string(proto).graph.input
    return [np.zeros([d.dim_value for d in i.type.tensor_type.shape.dim], np.float32) for i in inputs]


@pytest.mark.parametrize(
    ("engine", "operator"),
    [*(("onnxruntime", each) for each in REFUSING), ("openvino", "GRU"), ("openvino", "ConvTranspose")],
)
def test_a_model_with_an_operator_not_known_to_be_right_refuses_it_before_the_run(engine, operator, tmp_path):
    proto = REFUSING[operator]
    for _ in range(2):  # the second time from the cache
        built = opened(Model, proto, engine, tmp_path)
        with pytest.raises(errors.DataMismatchError, match=rf"without elements, and \w+ is not .*{operator}"):
            built.predict(nothing_for(proto))


@pytest.mark.parametrize("kind", [ModelParallelRunner, DataParallel])
def test_runners_refuse_it_too(kind, tmp_path):
    with opened(kind, REFUSING["Concat"], "onnxruntime", tmp_path) as built:
        some = weights((1, 64, 65))
        assert built.predict([some])[0].shape == [1, 65, 65]
        for ask in (built.predict, built.submit):
            with pytest.raises(errors.DataMismatchError, match="Concat"):
                ask([some[:0]])


def test_an_input_whose_size_is_0_in_the_file(tmp_path):
    proto = model([node("Unique", ["x"], ["y"], axis=0)], {"x": [0, 3]})
    built = opened(Model, proto, "onnxruntime", tmp_path)
    with pytest.raises(errors.DataMismatchError, match="Unique"):
        built.predict([np.zeros((0, 3), np.float32)])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_of_operators_known_to_be_right_takes_it(engine, tmp_path):
    nodes = [node("Add", ["x", "w"], ["m"]), node("Relu", ["m"], ["a"]), node("Softmax", ["a"], ["y"])]
    built = opened(Model, model(nodes, {"x": ["n", 4, 8]}, {"w": weights((8,))}), engine, tmp_path)
    assert built.get_model_info(WITHOUT_ELEMENTS) == ""
    assert built.predict([weights((0, 4, 8))])[0].shape == [0, 4, 8]


def test_a_cache_may_begin_without_elements(tmp_path):
    nodes = [node("Concat", ["past", "x"], ["all"], axis=2)]
    nodes += [node("Transpose", ["all"], ["t"], perm=[0, 1, 3, 2])]
    nodes += [node("MatMul", ["x", "t"], ["s"]), node("Softmax", ["s"], ["y"])]
    proto = model(nodes, {"past": ["b", 2, "p", 8], "x": ["b", 2, "s", 8]})
    built = opened(Model, proto, "onnxruntime", tmp_path)
    past, x = weights((3, 2, 0, 8)), weights((3, 2, 1, 8))
    [expected] = ReferenceEvaluator(proto).run(None, {"past": past, "x": x})
    np.testing.assert_allclose(built.predict([past, x])[0].get_data_to_numpy(), expected, rtol=1e-6)
    with pytest.raises(errors.EngineError, match=r"node .* \(Concat\) is not run: an input has no elements"):
        built.predict([weights((0, 2, 5, 8)), x])


@pytest.mark.parametrize("causal", [0, 1])
def test_a_cache_of_an_attention_may_begin_without_elements(causal, tmp_path):
    given = ["q", "k", "v", "mask", "keys", "values"]
    attention = node("Attention", given, ["y", "all_keys", "all_values"], is_causal=causal)
    new, past = ["b", 2, "s", 8], ["b", 2, "p", 8]
    shapes = {"q": ["b", 4, "s", 8], "k": new, "v": new, "mask": ["s", "t"], "keys": past, "values": past}
    proto = onnx.load_from_string(model([attention], shapes))
    proto.opset_import[0].version, proto.ir_version = 23, 10
    built = opened(Model, proto.SerializeToString(), "onnxruntime", tmp_path)

    def request(batch, tokens, before):
        sizes = {"b": batch, "s": tokens, "p": before, "t": before + tokens}
        return {name: weights([sizes.get(size, size) for size in shape]) for name, shape in shapes.items()}

    for before in (0, 5):
        fed = request(3, 2, before)
        expected = ReferenceEvaluator(proto).run(["y"], fed)[0]
        got = built.predict(fed)[0].get_data_to_numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-5)  # sums of 8 products in another order
    with pytest.raises(
        errors.EngineError, match=r"node .* \(Attention\) is not run: an input has no elements"
    ):
        built.predict(request(0, 2, 5))
    with pytest.raises(errors.EngineError, match="past_sequence_length"):
        built.predict({**request(3, 2, 5), "values": request(3, 2, 0)["values"]})


def test_sizes_of_nothing_fit_in_31_bits(tmp_path):
    built = opened(Model, model([node("Relu", ["x"], ["y"])], {"x": ["n", "m"]}), "onnxruntime", tmp_path)
    assert built.predict([np.zeros((5, 0), np.float32)])[0].shape == [5, 0]
    with pytest.raises(errors.DataMismatchError, match="31 bits"):
        built.predict([np.zeros((1 << 32, 0), np.float32)])


INSIDE = {
    "Concat": ([*CUT, node("Concat", ["token", "cut"], ["y"], axis=1)], {"token": weights((1, 1, 65))}),
    "a Concat of cuts": (
        [*CUT, node("Slice", ["x", *ROW], ["some"]), node("Concat", ["some", "cut"], ["y"], axis=1)],
        {},
    ),
    "a Concat of two cuts": (
        [*CUT, node("Slice", ["x", "end", "two"], ["rest"]), node("Concat", ["rest", "cut"], ["y"], axis=1)],
        {},
    ),
    "InstanceNormalization": (
        [*CUT, node("InstanceNormalization", ["cut", "s", "s"], ["y"])],
        {"s": weights(64)},
    ),
    "Unique": ([*CUT, node("Unique", ["cut"], ["y"], axis=0)], {}),
}


@pytest.mark.parametrize(
    ("engine", "what"),
    [*(("onnxruntime", each) for each in INSIDE), ("openvino", "Concat"), ("openvino", "Unique")],
)
def test_what_lacks_elements_inside_of_a_model_is_an_error(engine, what):
    nodes, constants = INSIDE[what]
    proto = model(nodes, {"x": ["n", 64, 65], "size": ["k"]}, {**constants, **NUMBERS})
    execution = build(proto, None, Target(threads=1, provider=engine), Settings()).execution()
    x = weights((4, 64, 65))
    assert execution.run([x, weights(2)])[0].size
    with pytest.raises(errors.EngineError):
        execution.run([x, weights(1)])


def test_an_offset_that_lacks_elements_is_an_error_in_each_run():
    """onnxruntime's LayerNormalization takes one without memory, as the first run has it, for none at all."""
    nodes = [*CUT[:2], node("Slice", ["b", "zero", "end", "zero"], ["cut"])]
    nodes.append(node("LayerNormalization", ["x", "s", "cut"], ["y"]))
    proto = model(nodes, {"x": ["n", 8], "b": ["k"], "size": ["m"]}, {"s": weights(8), **NUMBERS})
    execution = build(proto, None, Target(threads=1), Settings()).execution()
    x, b = weights((2, 8)), weights(8)
    for _ in range(2):
        with pytest.raises(errors.EngineError):
            execution.run([x, b, weights(1)])
    [expected] = ReferenceEvaluator(proto).run(None, {"x": x, "b": b, "size": weights(9)})
    np.testing.assert_allclose(execution.run([x, b, weights(9)])[0], expected, rtol=1e-5)  # float32


def test_nothing_found_is_no_error():
    nodes = [node("NonZero", ["x"], ["places"])]
    for name, begin, end in (("rows", "zero", "one"), ("columns", "one", "two")):
        nodes.append(node("Slice", ["places", begin, end, "zero"], [f"{name}_t"]))
        nodes.append(node("Transpose", [f"{name}_t"], [name]))
    nodes.append(node("Concat", ["columns", "rows"], ["y"], axis=1))
    proto = model(nodes, {"x": ["n", 4]}, NUMBERS, TensorProto.INT64)
    execution = build(proto, None, Target(threads=1), Settings()).execution()
    assert execution.run([np.zeros((5, 4), np.float32)])[0].shape == (0, 2)
    np.testing.assert_array_equal(execution.run([np.eye(2, 4, dtype=np.float32)])[0], [[0, 0], [1, 1]])


CHOSEN = [node("NonZero", ["chosen"], ["places"]), node("Transpose", ["places"], ["rows"])]
CHOSEN += [node("GatherND", ["x", "rows"], ["some"])]
RMS_NORM = [node("Pow", ["some", "square"], ["q"]), node("ReduceMean", ["q", "last"], ["m"], keepdims=1)]
RMS_NORM += [node("Add", ["m", "least"], ["a"]), node("Sqrt", ["a"], ["d"]), node("Reciprocal", ["d"], ["r"])]
RMS_NORM += [node("Mul", ["some", "r"], ["n"]), node("Mul", ["s", "n"], ["y"])]


def test_an_rms_norm_of_no_rows_has_none():
    constants = {"s": weights(65), "last": [-1], "square": np.float32(2), "least": np.float32(1e-6)}
    proto = model([*CHOSEN, *RMS_NORM], {"x": ["n", 65], "chosen": ["n"]}, constants)
    execution = build(proto, None, Target(threads=1, provider="onnxruntime"), Settings()).execution()
    x, chosen = weights((4, 65)), np.array([1, 0, 0, 1], np.float32)
    [expected] = ReferenceEvaluator(proto).run(None, {"x": x, "chosen": chosen})
    # float32 sums of 65 numbers, in another order
    np.testing.assert_allclose(execution.run([x, chosen])[0], expected, rtol=1e-5, atol=1e-5)
    assert execution.run([x, 0 * chosen])[0].shape == (0, 65)


def test_parts_of_a_sequence_have_elements():
    nodes = [node("NonZero", ["x"], ["places"]), node("Cast", ["places"], ["found"], to=TensorProto.FLOAT)]
    nodes += [node("SequenceConstruct", ["found", "x"], ["parts"])]
    nodes += [node("ConcatFromSequence", ["parts"], ["y"], axis=1)]
    proto = model(nodes, {"x": [2, "n"]})
    execution = build(proto, None, Target(threads=1), Settings()).execution()
    [joined] = execution.run([np.eye(2, dtype=np.float32)])
    np.testing.assert_array_equal(joined, [[0, 1, 1, 0], [0, 1, 0, 1]])
    with pytest.raises(errors.EngineError, match=r"node .* \(SequenceConstruct\) is not run"):
        execution.run([np.zeros((2, 2), np.float32)])


def test_trials_see_memory_that_nobody_wrote():
    found = calls.Call("call", onnx.load_from_string(REFUSING["Concat"]), {"x": weights((1, 64, 65))})
    subject = Subject(found, "onnxruntime", guarded=False)
    assert subject.judge(found.feed) == "right"
    assert subject.judge({"x": weights((0, 64, 65))}) == "memory that nobody wrote"


@pytest.mark.parametrize(
    ("nodes", "filled"),
    [
        ([node("Slice", ["x", *ROW], ["y"])], True),
        ([node("Slice", ["x", "one", "two", "zero"], ["y"])], False),
        ([node("Shape", ["x"], ["s"]), node("ConstantOfShape", ["s"], ["y"])], True),
        ([*LESS, node("Expand", ["x", "end"], ["y"])], False),
        ([node("NonZero", ["x"], ["y"])], False),
        ([node("RandomNormal", [], ["y"], shape=[2, 3])], True),
        ([node("RandomNormal", [], ["y"], shape=[0, 3])], False),
        ([node("AveragePool", ["x"], ["y"], kernel_shape=[2])], False),
        ([node("AveragePool", ["x"], ["y"], kernel_shape=[2], pads=[1, 0])], True),
        ([node("Relu", ["x"], ["r"]), node("Reshape", ["r", "one"], ["y"])], True),
    ],
)
def test_what_has_elements_in_every_run(nodes, filled):
    graph = ir.serde.deserialize_model(
        onnx.load_from_string(model(nodes, {"x": ["n", "c", "l"]}, {**NUMBERS}))
    )
    assert (graph.graph.outputs[0] in NonEmpty(graph)) == filled


FILLED = [
    "y = Identity(x)", "y = Neg(x)", "y = Concat <axis = 0> (none, x)", "y = Concat <axis = 0> (x, none)",
    "y = Slice(x, zero, one, zero, one)", "s = Shape <end = 1> (x) y = Slice(x, zero, s, zero)",
    "y = Slice(f, one, two, one)", "y, z = Split <axis = 1> (f, pair)", "y, z = Split(x, pair)",
    "y, z = Split <axis = 1, num_outputs = 2> (f)", "s = Size(x) y = Range(n0, s, n1)", "y, z = TopK(x, one)",
    "s = Shape(x) y = Expand(x, s)", "s = Shape(x) t = Mul(s, s) y = Expand(x, t)", "y = Tile(x, ones)",
    "s = Shape(x) t = Mul(s, minus) y = Expand(x, t)", "s = Shape(x) t = Add(s, s) y = ConstantOfShape(t)",
    "s = Shape(x) t = Max(s, one) y = ConstantOfShape(t)", "s = Shape(x) t = Min(s, one) y = Expand(x, t)",
    "s = Shape(x) t = Concat <axis = 0> (s, one) y = ConstantOfShape(t)",
    "s = Shape(x) t = Gather(s, one) y = ConstantOfShape(t)",
    "s = Shape(x) t = Cast <to = 7> (s) y = ConstantOfShape(t)", "s = Shape(k) t = Where(c, s, one) "
    "y = ConstantOfShape(t)",
    "t = ConstantOfShape <value = int64[1] {2}> (k) y = Expand(x, t)", "y = OneHot(k, n3, values)",
    "y = Pad(x, pads)", "y = Resize(x, , same)", "y = Resize(x, region, same)",
    "y = Concat <axis = 0> (none, unit)", "s = Shape(x) y = Resize(x, , , s)",
    "y = AveragePool <kernel_shape = [1]> (x)", "y = AveragePool <kernel_shape = [4]> (t4)",
    "y = MaxPool <kernel_shape = [3], pads = [1,1]> (x)", "y = Conv(f, w)",
    'y = MaxPool <kernel_shape = [9], auto_pad = "SAME_UPPER"> (x)',
    "s = Shape <end = 1> (x) t = Concat <axis = 0> (two, s) r = Reshape(x, t) y = Slice(r, one, two, zero)",
]  # fmt: skip
NOT_FILLED = [
    "y = Identity(none)", "y = Neg(none)", "y = Concat <axis = 0> (none, none)",
    "y = Slice(none, zero, one, zero)", "y = Slice(x, zero, one, zero, minus)",
    "y = Slice(x, zero, minus, zero)", "y = Slice(x, zero, k, zero)", "y = Slice(f, four, nine, one)",
    "y = Slice(f, one, two, zero)", "y, z = Split(x, holes)", "y, z = Split(none, pair)",
    "y, z = Split <num_outputs = 2> (x)", "y, z = Split <num_outputs = 2> (f)",
    "s = Size(none) y = Range(n0, s, n1)", "s = Size(x) y = Range(n1, s, n1)",
    "s = Size(x) y = Range(n0, s, minus_n)", "y, z = TopK(x, k)", "y, z = TopK(none, one)",
    "y = Expand(none, k)", "y = Expand(x, k)", "y = Tile(x, hole)", "y = Tile(none, ones)",
    "s = Shape(none) y = ConstantOfShape(s)", "s = Shape(x) t = Sub(s, one) y = ConstantOfShape(t)",
    "s = Shape(x) t = Add(s, minus) y = ConstantOfShape(t)", "s = Shape(x) t = Max(s, k) y = Expand(x, t)",
    "s = Shape(x) t = Concat <axis = 0> (s, zero) y = ConstantOfShape(t)",
    "s = Shape(k) t = Where(c, s, k) y = ConstantOfShape(t)",
    "s = Shape(k) t = Where(c, k, s) y = ConstantOfShape(t)",
    "s = Size(x) t = Cast <to = 6> (s) u = Cast <to = 7> (t) y = Range(n0, u, n1)",
    "t = ConstantOfShape(k) y = Expand(x, t)",
    "t = ConstantOfShape <value = int64[1] {0}> (k) y = Expand(x, t)",
    "y = OneHot(k, n, values)", "y = OneHot(k, minus_n, values)", "t = Cast <to = 7> (none) "
    "y = OneHot(t, n3, values)",
    "s = Concat <axis = 0> (k, one) r = Reshape(x, s) y = Slice(r, one, two, zero)",
    "y = Concat <axis = 0> (none, nothing)",
    "y = Pad(x, cuts)", "y = Pad(x, k)", "y = Pad(none, pads)", "y = Resize(x, , half)",
    "y = Resize(x, , , k)", "y = Resize(none, , same)", "y = AveragePool <kernel_shape = [2]> (x)",
    "y = AveragePool <kernel_shape = [5]> (t4)", "y = AveragePool <kernel_shape = [1]> (none)",
    "y = MaxPool <kernel_shape = [3], pads = [1,0]> (x)", "y = Conv(f, wide)",
    "y = MaxPool <kernel_shape = [2], dilations = [2], pads = [1,0]> (x)",
    'y = MaxPool <kernel_shape = [9], auto_pad = "VALID"> (x)', "y = Unique(none)", "y = Compress(x, c)",
    "s = Shape <end = 1> (x) t = Concat <axis = 0> (zero, s) r = Reshape(x, t) y = Slice(r, one, two, zero)",
    "s = Shape <end = 1> (x) t = Concat <axis = 0> (pair, s) r = Reshape(x, t) y = Slice(r, one, two, two)",
]  # fmt: skip
"""Values `y` that have elements in every run, and that may lack them, as `none` may, a part of x."""


@pytest.mark.parametrize(
    ("body", "filled"), [*((body, True) for body in FILLED), *((body, False) for body in NOT_FILLED)]
)
def test_operators_that_give_elements_to_all_results(body, filled):
    vectors = {"zero": [0], "one": [1], "two": [2], "four": [4], "nine": [9], "minus": [-1], "pair": [2, 2]}
    vectors |= {"holes": [2, 0], "ones": [1, 1, 1], "hole": [1, 0, 1]}
    vectors |= {"pads": [0, 0, 1, 0, 0, 0], "cuts": [0, 0, 0, 0, 0, -1]}
    numbers = {"n0": 0, "n1": 1, "n3": 3, "minus_n": -1}
    constants = [f"int64[{len(v)}] {name} = {{{','.join(map(str, v))}}}" for name, v in vectors.items()]
    constants += [f"int64 {name} = {{{number}}}" for name, number in numbers.items()]
    constants += ["float[2] values = {0,1}", "float[3] same = {1,1,1}", "float[3] half = {1,1,0.5}"]
    constants += ["float[6] region = {0,0,0,1,1,1}", "float[1,1,1] unit = {1}", "float[0,1,1] nothing = {}"]
    graph = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 21]>
        g (float[n,c,l] x, float[n,4,l] f, float[n,c,4] t4, int64[k] k, int64 n, bool[1] c, float[3,4,1] w,
            float[3,4,2] wide) => (y) <{", ".join(constants)}> {{
            none = Slice(x, zero, k, zero) {body}
        }}"""
    )
    found = ir.from_proto(graph)
    assert (found.graph.outputs[0] in NonEmpty(found)) == filled


@pytest.mark.parametrize(
    ("call", "filled"),
    [
        ("Slice <axes = [1], starts = [1], ends = [2]> (f)", True),
        ("Slice <axes = [0], starts = [1], ends = [2]> (f)", False),
        ("Slice <starts = [1,1,1], ends = [2,2,2]> (f)", False),
        ("Pad <pads = [0,0,0,0,0,1]> (f)", True),
        ("Pad <pads = [0,0,0,0,0,-1]> (f)", False),
        ("Pad(f)", False),
        ("Split <axis = 1> (f)", True),
        ("Split(f)", False),
    ],
)
def test_attributes_of_old_operator_sets_tell_what_has_elements(call, filled):
    text = f'<ir_version: 4, opset_import: ["": 9]> g (float[n,4,l] f) => (y) {{ y, z = {call} }}'
    found = ir.from_onnx_text(text if "Split" in call else text.replace("y, z", "y"))
    assert (found.graph.outputs[0] in NonEmpty(found)) == filled


@pytest.mark.parametrize(
    ("call", "operator"),
    [
        ("Relu(x)", ""),
        ("Unique(v)", "Unique"),
        ("Unique(w)", ""),  # which has elements
        ("mine.Relu(x)", "mine.Relu"),
        ("Concat <axis = 0> (f, w)", ""),
        ("Concat <axis = -3> (f, w)", ""),
        ("Concat <axis = 1> (f, w)", "Concat"),
        ("Concat <axis = 0> (f, v)", "Concat"),  # of other ranks
        ("Concat <axis = 0> (hollow, w)", "Concat"),
        ("ReduceMean(f, one)", ""),
        ("ReduceMean(f, last)", ""),
        ("ReduceMean(f, two)", "ReduceMean"),
        ("ReduceMean(f)", "ReduceMean"),
        ("ReduceMean(f, i)", "ReduceMean"),
        ("ReduceMean(hollow, one)", "ReduceMean"),
        ("GatherND(w, i2)", ""),
        ("GatherND(w, i)", "GatherND"),
        ("Resize(w, none, scales)", ""),
        ("Resize(w, , , i)", "Resize"),
        ("SequenceConstruct(v)", ""),
        ("SequenceConstruct(f)", "SequenceConstruct"),
        ("SimplifiedLayerNormalization <axis = -1> (f, s)", ""),
        ("SimplifiedLayerNormalization(f, s)", ""),
        ("SimplifiedLayerNormalization <axis = 1> (f, s)", ""),
        ("SimplifiedLayerNormalization <axis = 0> (f, s)", "SimplifiedLayerNormalization"),
        ("SimplifiedLayerNormalization(f, v)", "SimplifiedLayerNormalization"),
    ],
)
def test_the_first_operator_that_may_be_wrong_without_elements_is_named(call, operator):
    found = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": 21, "mine": 1]>
        g (float[n,c,4] x, float[n,3,4] f, float[n,0,4] hollow, float[n] v, int64[n] i, int64[n,2] i2,
            float[1,3,4] w, float[4] s) => (y)
        <int64[1] one = {{1}}, int64[1] last = {{-1}}, int64[2] two = {{1,0}}, float[0] none = {{}},
            float[3] scales = {{1,1,2}}> {{ y = {call} }}"""
    )
    info: dict[str, str] = {}
    record(found, "onnxruntime", info)
    reason = info[WITHOUT_ELEMENTS]
    assert bool(reason) == bool(operator)
    assert f"known to compute {operator} right" in reason or not operator
