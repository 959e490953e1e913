"""[execution_plan]: single nodes in float16 or float32, by the names that they have in the file.

The oracle for float16 is onnx's reference evaluator, which computes in numpy's float16.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from pinnace import Context, Model, ModelParallelRunner, ModelType, Tensor
from pinnace.building.build import build_model as build
from pinnace.building.opening import inspect_model
from pinnace.engines.onnxruntime.rules import rewrite
from pinnace.errors import PinnaceWarning
from pinnace.formats import read
from pinnace.graph.nodes import ORIGIN
from pinnace.lowering.graph import compilable
from pinnace.lowering.plan import PLANNED, apply
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.program import Program
from pinnace.weights.source import Source

DATA = Path(__file__).parents[1] / "data"
HEAD = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'
ENGINES = [name for name in ("onnxruntime", "openvino") if find_spec(name)]
HALF = 2.0**-11
"""The relative error of one rounding to float16."""

# Operators, and the same written by hand in float16.
OPERATORS = {
    "Conv": "Conv <pads = [1, 1, 1, 1]> (x, w)",
    "MatMul": "MatMul(x, w)",
    "Gemm": "Gemm(x, w, b)",
    "Add": "Add(x, b)",
    "Softmax": "Softmax(x)",
    "LayerNormalization": "LayerNormalization(x, b, b)",
}


def graph(operator: str, *, by_hand: bool = False) -> onnx.ModelProto:
    """A model of one operator, called "it", and a Relu after it."""
    convolves = operator == "Conv"
    x, w = ("1,8,12,12", "16,8,3,3") if convolves else ("4,64", "64,64")
    body = f"y = {OPERATORS[operator]}"
    if by_hand:
        for name in "xwb":
            body = body.replace(f"({name}", f"(h{name}").replace(f", {name}", f", h{name}")
        casts = "".join(f"h{name} = Cast <to = 10> ({name}) " for name in "xwb")
        body = f"{casts} h{body} y = Cast <to = 1> (hy)"
    text = f"{HEAD} g (float[{x}] x, float[{w}] w, float[64] b) => (float z) {{ {body} z = Relu(y) }}"
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    for node in model.graph.node:
        node.name = "it" if node.op_type == operator else f"other {node.output[0]}"
    random = np.random.default_rng(2)
    for value in [v for v in model.graph.input if v.name != "x"]:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        data = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(data, value.name))
        model.graph.input.remove(value)
    return model


def feed(operator: str) -> np.ndarray:
    shape = (1, 8, 12, 12) if operator == "Conv" else (4, 64)
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def planned(model: onnx.ModelProto, plan: dict[str, str]) -> ir.Model:
    made = ir.serde.deserialize_model(model)
    apply(made, plan, "a model")
    return made


def options(plan: dict[str, str]) -> Settings:
    return Settings.load(options={"execution_plan": {k: f"data_type:{v}" for k, v in plan.items()}})


def text_model(body: str) -> ir.Model:
    model = ir.from_onnx_text(f"{HEAD} {body}")
    for node in model.graph:
        node.name = node.outputs[0].name
    return model


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_node_computes_in_float16(operator):
    x = feed(operator)
    ours = ir.serde.serialize_model(planned(graph(operator), {"it": "float16"}))
    by_hand = ReferenceEvaluator(graph(operator, by_hand=True)).run(None, {"x": x})
    np.testing.assert_array_equal(ReferenceEvaluator(ours).run(None, {"x": x}), by_hand)
    plain = ReferenceEvaluator(graph(operator)).run(None, {"x": x})
    assert not np.array_equal(plain, by_hand)


@pytest.mark.parametrize("provider", ENGINES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_engine_takes_it(operator, provider):
    x = feed(operator)
    target = Target(threads=1, provider=provider)
    executable = build(graph(operator).SerializeToString(), None, target, options({"it": "float16"}))
    (y,) = executable.execution().run([x])
    (expected,) = ReferenceEvaluator(graph(operator, by_hand=True)).run(None, {"x": x})
    # Roundings of two operands and of the result; sums in numpy's float16 round at each of 64 steps or more.
    np.testing.assert_allclose(y, expected, rtol=0, atol=16 * HALF * np.abs(expected).max())
    if provider == "onnxruntime":
        # The same graph by hand, in the same engine: to the last bit.
        (same,) = (
            build(graph(operator, by_hand=True).SerializeToString(), None, target, Settings())
            .execution()
            .run([x])
        )
        np.testing.assert_array_equal(y, same)


def test_only_the_node_that_is_named_changes():
    model = planned(graph("MatMul"), {"it": "float16"})
    types = {node.op_type: node.inputs[0].dtype for node in model.graph if node.op_type != "Cast"}
    assert types == {"MatMul": ir.DataType.FLOAT16, "Relu": ir.DataType.FLOAT}
    assert model.graph.initializers["w"].dtype is ir.DataType.FLOAT
    assert model.graph.outputs[0].name == "z"


def test_a_result_of_the_model_keeps_name_and_type():
    model = text_model("g (float[4] x) => (float[4] y) { y = Exp(x) }")
    apply(model, {"y": "float16"}, "a model")
    (y,) = model.graph.outputs
    assert (y.name, y.dtype) == ("y", ir.DataType.FLOAT)
    assert y.producer().op_type == "Cast"


def test_float32_within_a_model_of_float16():
    body = "g (float16[4] x) => (float16[4] y) { a = Exp(x) y = Log(a) }"
    model = text_model(body)
    apply(model, {"a": "float32"}, "a model")
    assert [n.op_type for n in model.graph] == ["Cast", "Exp", "Cast", "Log"]
    x = np.array([0.1, 0.2, 0.3, 0.4], np.float16)
    (y,) = ReferenceEvaluator(ir.serde.serialize_model(model)).run(None, {"x": x})
    expected = np.log(np.exp(x.astype(np.float32)).astype(np.float16))
    np.testing.assert_array_equal(y, expected)


def test_nodes_within_branches_follow_too():
    body = """g (bool c, float[4] x) => (float[4] y)
    { y = If (c) <then_branch = t () => (float[4] a) { a = Exp(x) },
                  else_branch = e () => (float[4] b) { b = Neg(x) }> }"""
    model = text_model(body)
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        node.name = node.op_type
    apply(model, {"Exp": "float16"}, "a model")
    x = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    run = ReferenceEvaluator(ir.serde.serialize_model(model)).run
    expected = np.exp(x.astype(np.float16)).astype(np.float32)
    np.testing.assert_array_equal(run(None, {"x": x, "c": np.array(True)})[0], expected)
    np.testing.assert_array_equal(run(None, {"x": x, "c": np.array(False)})[0], -x)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"sumn": "float16"}, "no node 'sumn' runs; the nearest are 'sum'"),
        ({"whole": "float16"}, r"'whole' \(Mod\) has nothing that can be float16"),
        ({"branch": "float16"}, r"'branch' \(If\) has nothing"),
        ({"own": "float16"}, r"'own' \(FusedMatMul\) has nothing"),
        ({f"n{i}": "float32" for i in range(9)}, "and 4 more"),
    ],
)
def test_what_cannot_follow_is_said(plan, message):
    body = """g (bool c, float[4,4] x, int64[4] i) => (float[4,4] sum, int64[4] whole, float[4,4] branch)
    { own = com.microsoft.FusedMatMul(x, x) sum = Add(x, own) whole = Mod(i, i)
      branch = If (c) <then_branch = t () => (float[4,4] a) { a = Exp(x) },
                       else_branch = e () => (float[4,4] b) { b = Neg(x) }> }"""
    model = text_model(body)
    before = [node.op_type for node in model.graph]
    with pytest.warns(PinnaceWarning, match=rf"^a model: \[execution_plan\].*{message}") as caught:
        apply(model, plan, "a model")
    assert len(caught) == 1
    assert [node.op_type for node in model.graph] == before


# -- models of MindSpore ---------------------------------------------------------------------------


def names(path: Path, *primitives: str) -> list[str]:
    program = read(Source.of_file(path))
    assert isinstance(program, Program)
    return [n.name for f in program.functions.values() for n in f.nodes if n.primitive in primitives]


def lowered(path: Path, plan: dict[str, str]) -> ir.Model:
    source = Source.of_file(path)
    return compilable(read(source), source.name, str(source.folder), (), plan).model


@pytest.mark.parametrize("name", ["bert", "whisper_encoder", "llama"])
def test_all_that_a_node_became_follows_and_no_rule_undoes_it(name):
    path = DATA / f"zoo/{name}.mindir"
    nodes = names(
        path, "LayerNorm", "RmsNorm", "Sqrt", "Rsqrt", "Erf", "GeLU", "Softmax", "Mul", "BatchMatMul"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PinnaceWarning)  # some are of integers
        model = lowered(path, dict.fromkeys(nodes, "float16"))
    marked = [node for node in model.graph if PLANNED in node.meta]
    assert len(marked) >= 8
    assert {node.meta[PLANNED] for node in marked} == {ir.DataType.FLOAT16}
    rewrite(model)
    assert all(node.graph is model.graph for node in marked)
    kinds = {x.dtype for node in marked for x in node.inputs if x is not None and x.dtype.is_floating_point()}
    assert kinds == {ir.DataType.FLOAT16}


@pytest.mark.parametrize("provider", ENGINES)
def test_a_network_of_mindspore(provider, run_model):
    path, golden = DATA / "zoo/whisper_encoder.mindir", np.load(DATA / "zoo/whisper_encoder.npz")
    inputs, expected = [golden["run0_x0"]], golden["run0_y0"]
    plan = dict.fromkeys(names(path, "LayerNorm", "BatchMatMul", "MatMul", "Conv2D"), "float16")
    with warnings.catch_warnings():
        warnings.simplefilter("error", PinnaceWarning)  # all are found, those too that took in the bias after
        executable = build(path, None, Target(threads=1, provider=provider), options(plan))
    (y,) = executable.execution().run(inputs)
    (plain,) = run_model(path, inputs)
    assert not np.array_equal(y, plain)
    # Some ten operators one after the other, each rounded at most three times.
    np.testing.assert_allclose(y, expected, rtol=0, atol=30 * HALF * np.abs(expected).max())


def test_nodes_of_mindspore_lite_have_their_names(data):
    path = data / "lite_layers/attn.ms"
    model = lowered(path, {"Default/Softmax-op1": "float16"})
    assert {n.meta[ORIGIN] for n in model.graph if PLANNED in n.meta} == {("Default/Softmax-op1",)}


@pytest.mark.parametrize(
    ("file", "name", "node"),
    [
        # its value in the file, its output as the user sees it, and its own
        ("lite_layers/attn_lite.mindir", "U0.1:U9:5", "Default/MatMulFusion-op2"),
        ("lite_layers/attn_lite.mindir", "y", "Default/MatMulFusion-op2"),
        ("lite_layers/attn_lite.mindir", "Default/Softmax-op1", "Default/Softmax-op1"),
        ("lite_layers/attn.ms", "y", "Default/MatMulFusion-op2"),
        ("zoo/two_tower.mindir", "Default/user-Tower/table-Embedding/Gather-op0", None),
    ],
)
def test_a_node_has_more_than_one_name(file, name, node):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PinnaceWarning)
        model = lowered(DATA / file, {name: "float16"})
    assert {n.meta[ORIGIN] for n in model.graph if PLANNED in n.meta} == {(node or name,)}


def test_outputs_of_mindspore_name_what_computes_them():
    """They end in a Depend, and are shown by the layer before."""
    path = DATA / "zoo/whisper_encoder.mindir"
    (output,) = inspect_model(path).outputs
    assert [n for n in lowered(path, {output.name: "float16"}).graph if PLANNED in n.meta]


def test_nodes_of_onnx_without_a_name_are_named_by_their_output(tmp_path):
    text = f"{HEAD} g (float[4] x) => (float[4] y) {{ a = Exp(x) y = Log(a) }}"
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    model = lowered(tmp_path / "m.onnx", {"a": "float16"})
    assert [n.op_type for n in model.graph] == ["Cast", "Exp", "Cast", "Log"]


@pytest.mark.parametrize("provider", ENGINES)
@pytest.mark.parametrize(
    "file", ["zoo/whisper_encoder.mindir", "lite_layers/attn_lite.mindir", "lite_layers/attn.ms"]
)
def test_a_name_that_is_wrong_is_said_with_the_nearest_from_the_cache_too(file, provider):
    name = next(n for n, primitive in inspect_model(DATA / file).nodes if primitive == "Softmax")
    wrong = name.replace("Softmax", "SoftMax")
    target = Target(threads=1, provider=provider)
    message = f"no node '{wrong}' runs; the nearest are '.*{name}"
    for _ in range(2):
        with pytest.warns(PinnaceWarning, match=message) as seen:
            build(DATA / file, None, target, options({wrong: "float16"})).close()
        assert len(seen) == 1


# -- float32 where the rest is in 16 bits ----------------------------------------------------------


def test_nodes_that_stay_in_float32_are_marked_for_openvino(tmp_path):
    openvino = pytest.importorskip("openvino")
    from pinnace.engines.openvino.conversion import encoded, float32_results

    source = Source.of_buffer(graph("Softmax").SerializeToString())
    plan = {"it": "float32"}
    made = compilable(read(source), "a model", None, (), plan)
    assert float32_results(made.model) == {"y"}
    openvino.serialize(encoded(made).read({}), tmp_path / "model.xml")
    layers = (tmp_path / "model.xml").read_text().split("<layer ")
    # OpenVINO's own word for a node that is not to be computed in float16.
    assert [layer for layer in layers if "DisablePrecisionConversion" in layer and 'type="SoftMax"' in layer]
    assert not [layer for layer in layers if "DisablePrecisionConversion" in layer and "ReLU" in layer]


def test_a_plan_of_a_rank_is_applied_without_a_word(caplog):
    path = DATA / "distributed/mlp_2_0.mindir"
    model = lowered(path, dict.fromkeys(names(path, "MatMul")[:1], "float16"))
    (product,) = (node for node in model.graph if PLANNED in node.meta)
    assert product.inputs[0].dtype is ir.DataType.FLOAT16
    assert not caplog.records


# -- the doors -------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    (tmp_path / "model.onnx").write_bytes(graph("MatMul").SerializeToString())
    (tmp_path / "plan.ini").write_text("[execution_plan]\nit=data_type:float16\n")
    return tmp_path / "model.onnx"


def test_model_and_runner_take_it(file):
    plan, x = str(file.parent / "plan.ini"), feed("MatMul")
    context = Context(thread_num=1)
    model, other, runner = Model(), Model(), ModelParallelRunner()
    model.build_from_file(str(file), ModelType.ONNX, context)
    other.build_from_file(str(file), ModelType.ONNX, context, plan)
    plain, half = ([t.get_data_to_numpy().copy() for t in m.predict([Tensor(x)])] for m in (model, other))
    assert not np.array_equal(plain, half)
    context.parallel.config_path = plan
    runner.build_from_file(str(file), context)
    np.testing.assert_array_equal(runner.predict([Tensor(x)])[0].get_data_to_numpy(), half[0])


def test_the_cache_tells_plans_apart(file):
    x, target = feed("MatMul"), Target(threads=1)
    plans = ({}, {"it": "float16"}, {"other z": "float16"}, {}, {"it": "float16"})
    results = [build(file, None, target, options(p)).execution().run([x])[0] for p in plans]
    np.testing.assert_array_equal(results[0], results[3])
    np.testing.assert_array_equal(results[1], results[4])
    assert not np.array_equal(results[0], results[1])
    assert not np.array_equal(results[1], results[2])


@pytest.mark.parametrize(
    "name", ["904_1___main___Net_construct_18:output:3", "Default/conv1-Conv2d/Conv2D-op1"]
)
def test_names_of_mindspore_stand_in_a_file(tmp_path, name):
    (tmp_path / "plan.ini").write_text(f"[execution_plan]\n{name}=data_type:float16\n")
    assert Settings.load(str(tmp_path / "plan.ini")).precision_plan == {name: "float16"}


@pytest.mark.parametrize("provider", ENGINES)
def test_weights_of_planned_nodes_can_be_exchanged(file, provider):
    (file.parent / "names.txt").write_text("w\n")
    plan = {"execution_plan": {"it": "data_type:float16"}}
    plan["common_context"] = {"variable_weights_file": str(file.parent / "names.txt")}
    context = Context(thread_num=1)
    context.cpu.provider = provider
    model = Model()
    model.build_from_file(str(file), ModelType.ONNX, context, config_dict=plan)
    x, w = feed("MatMul"), np.eye(64, dtype=np.float32) * np.float32(1 + 2.0**-12)
    model.update_weights([[_named(w)]])
    y = model.predict([Tensor(x)])[0].get_data_to_numpy()
    # float16 has no 1 + 2^-12: rounded, the weights are those of the identity.
    np.testing.assert_allclose(y, np.maximum(x, 0), rtol=2 * HALF, atol=0)


def _named(w: np.ndarray) -> Tensor:
    tensor = Tensor(w)
    tensor.name = "w"
    return tensor
