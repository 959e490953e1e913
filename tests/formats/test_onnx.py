"""ONNX files: weights inside and beside the file, and damage."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

import pinnace as mslite
from pinnace.errors import ModelFormatError
from pinnace.formats import read
from pinnace.formats.onnx_checks import every_graph
from pinnace.weights.source import Source

W = np.random.RandomState(0).randn(16, 32).astype(np.float32)
X = np.random.RandomState(1).randn(2, 16).astype(np.float32)


def model(weight_node: bool = False) -> onnx.ModelProto:
    weight = numpy_helper.from_array(W, "w")
    constant = helper.make_node("Constant", [], ["w"], value=weight)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(
        [constant, *nodes] if weight_node else nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 16])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 32])],
        [] if weight_node else [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("weight_node", [False, True])
@pytest.mark.parametrize("kind", ["file", "buffer"])
def test_weights_inside_the_file(tmp_path, run_model, kind, weight_node):
    path = tmp_path / "m.onnx"
    onnx.save(model(weight_node), path)
    (y,) = run_model(path if kind == "file" else path.read_bytes(), [X])
    # One matrix product in fp32 against numpy's: sums of 16 products.
    np.testing.assert_allclose(y, X @ W, rtol=1e-5, atol=1e-5)


def test_weights_inside_the_file_are_not_copied(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model(), path)
    weight = read(Source.of_file(path)).graph.initializers["w"].const_value
    assert isinstance(weight, ir.ExternalTensor)
    assert weight.location == "m.onnx"
    assert path.read_bytes()[weight.offset : weight.offset + weight.length] == W.tobytes()


@pytest.mark.parametrize(
    ("inside", "constant"),
    [("graph", False), ("branch", False), ("branch of a function", False)]
    + [(inside, True) for inside in ("graph", "branch", "function", "branch of a function")],
)
def test_weights_of_a_buffer_are_views_of_it_wherever_they_are(inside, constant):
    whole = model(constant)
    if "branch" in inside:
        del whole.graph.input[:]
        branches = {"then_branch": whole.graph, "else_branch": whole.graph}
        both = helper.make_node("If", ["t"], ["y"], **branches)
        whole = helper.make_model(helper.make_graph([both], "g", [], []))
    if "function" in inside:
        function = helper.make_function("own", "F", [], ["y"], whole.graph.node, whole.opset_import)
        whole = helper.make_model(onnx.GraphProto(name="g"), functions=[function])
    data = whole.SerializeToString()
    graphs = every_graph(read(Source.of_buffer(data)))
    found = [v.const_value for graph in graphs for v in graph.initializers.values()]
    given = [a for graph in graphs for node in graph for a in node.attributes.values()]
    found += [a.as_tensor() for a in given if a.type is ir.AttributeType.TENSOR]
    assert len(found) == 1 + ("branch" in inside)
    assert all(np.shares_memory(x.numpy(), np.frombuffer(data, np.uint8)) for x in found)


def test_weights_beside_the_file(tmp_path, run_model):
    path = tmp_path / "m.onnx"
    onnx.save(model(), path, save_as_external_data=True, location="m.data", size_threshold=0)
    (y,) = run_model(path, [X])
    np.testing.assert_allclose(y, X @ W, rtol=1e-5, atol=1e-5)


def write_with_external_data(path, **fields):
    proto = model()
    weight = proto.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, value in fields.items():
        weight.external_data.add(key=key, value=value)
    path.write_bytes(proto.SerializeToString())


@pytest.mark.parametrize("location", ["../m.data", "/etc/hostname"])
def test_weights_outside_of_the_folder_are_refused(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "m.data").write_bytes(W.tobytes())
    write_with_external_data(folder / "m.onnx", location=location)
    with pytest.raises(ModelFormatError, match=r"folder"):
        read(Source.of_file(folder / "m.onnx"))


def test_weights_of_a_functions_branches_outside_of_the_folder_are_refused(tmp_path):
    weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[4, 4])
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../m.data")
    (tmp_path / "m.data").write_bytes(bytes(64))
    nodes = [
        onnx.helper.make_node("Constant", [], ["w"], value=weight),
        onnx.helper.make_node("MatMul", ["x", "w"], ["b"]),
    ]
    b = onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [4, 4])
    branch = onnx.helper.make_graph(nodes, "branch", [], [b])
    both = onnx.helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    sets = [onnx.helper.make_opsetid("", 20)]
    function = onnx.helper.make_function("own", "F", ["x", "c"], ["y"], [both], sets)
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(onnx.helper.make_model(onnx.GraphProto(name="g"), functions=[function]), folder / "m.onnx")
    with pytest.raises(ModelFormatError, match=r"folder"):
        read(Source.of_file(folder / "m.onnx"))


@pytest.fixture
def store(tmp_path):
    """A folder of links to files of other names in another folder, as Hugging Face's cache has them."""
    blobs, links = tmp_path / "blobs", tmp_path / "links"
    blobs.mkdir()
    links.mkdir()
    write_with_external_data(blobs / "0a", location="m.data")
    (blobs / "0b").write_bytes(W.tobytes())
    for name, blob in (("m.onnx", "0a"), ("m.data", "0b")):
        (links / name).symlink_to(blobs / blob)
    return links


@pytest.mark.parametrize("cache", ["on", "off"])
def test_a_model_and_its_weights_by_links(store, cache, monkeypatch):
    if cache == "off":
        monkeypatch.setenv("PINNACE_CACHE_DIR", "off")
    for _ in range(2):
        with mslite.Model(store / "m.onnx") as model:
            y = model.predict([X])[0].numpy()
        np.testing.assert_allclose(y, X @ W, rtol=1e-5, atol=1e-5)


def test_weights_by_a_link_to_another_folder_than_the_models_are_refused(store, tmp_path):
    (tmp_path / "secret").write_bytes(W.tobytes())
    (store / "m.data").unlink()
    (store / "m.data").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelFormatError, match=r"outside of the model's folder"):
        read(Source.of_file(store / "m.onnx"))


def test_a_file_of_weights_that_is_a_loop_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    write_with_external_data(tmp_path / "m.onnx", location="loop")
    with pytest.raises(ModelFormatError, match="cannot open 'loop'"):
        read(Source.of_file(tmp_path / "m.onnx"))


def test_what_onnx_ir_refuses_is_told_with_its_reason(tmp_path):
    write_with_external_data(tmp_path / "m.onnx", location="m.data", offset="four")
    try:
        raise LookupError("something of the caller's")
    except LookupError:
        with pytest.raises(ModelFormatError, match=r"m\.onnx: is not a valid ONNX model: .*'four'"):
            read(Source.of_file(tmp_path / "m.onnx"))


@pytest.mark.parametrize(
    "name", ["OPERATOR", "DOMAIN", "OVERLOAD", "NODE", "ATTRIBUTE", "INPUT", "RESULT", "OUTPUT"]
)
def test_names_that_are_no_text_are_refused(name):
    node = helper.make_node(
        "OPERATOR", ["INPUT"], ["RESULT"], "NODE", domain="DOMAIN", overload="OVERLOAD", ATTRIBUTE=1
    )
    ports = [helper.make_tensor_value_info(port, onnx.TensorProto.FLOAT, [1]) for port in ("INPUT", "OUTPUT")]
    data = helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:])).SerializeToString()
    damaged = data.replace(name.encode(), b"\xff" * len(name))
    with pytest.raises(ModelFormatError, match=r"b'\\xff.* is not valid text|must be a string.*bytes"):
        read(Source.of_buffer(damaged))


def test_every_truncation_is_one_clear_error():
    whole = model().SerializeToString()
    for end in range(0, len(whole), 7):
        try:
            read(Source.of_buffer(whole[:end]))
        except ModelFormatError:
            continue
        assert onnx.ModelProto.FromString(whole[:end]).HasField("graph")


def test_text_goes_in_and_comes_out(tmp_path):
    node = helper.make_node("StringConcat", ["x", "x"], ["y"])
    port = [helper.make_tensor_value_info(name, onnx.TensorProto.STRING, ["n"]) for name in "xy"]
    graph = helper.make_graph([node], "g", port[:1], port[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(proto, tmp_path / "m.onnx")
    with mslite.Model() as text:
        text.build_from_file(str(tmp_path / "m.onnx"), mslite.ModelType.ONNX)
        (output,) = text.predict([mslite.Tensor(np.array(["ab", "ö"]))])
    assert output.dtype is mslite.DataType.STRING
    assert output.get_data_to_numpy().tolist() == ["abab", "öö"]


@pytest.mark.parametrize("place", ["initializer", "Constant"])
def test_many_texts_are_constants_too(tmp_path, place):
    texts = [f"a text of some length, number {i}" for i in range(500)]
    tensor = helper.make_tensor("t", onnx.TensorProto.STRING, [500], texts)
    constant = helper.make_node("Constant", [], ["t"], value=tensor)
    node = helper.make_node("Gather", ["t", "x"], ["y"])
    x = helper.make_tensor_value_info("x", onnx.TensorProto.INT64, ["n"])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.STRING, ["n"])
    nodes, tensors = ([node], [tensor]) if place == "initializer" else ([constant, node], [])
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(proto, tmp_path / "m.onnx")
    for _ in range(2):
        with mslite.Model() as text:
            text.build_from_file(str(tmp_path / "m.onnx"), mslite.ModelType.ONNX)
            (output,) = text.predict([mslite.Tensor(np.array([3, 499]))])
        assert output.get_data_to_numpy().tolist() == [texts[3], texts[499]]


def _strings(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute.append(helper.make_attribute("kernel_shape", "three"))


def _other_bytes(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute.append(helper.make_attribute("auto_pad", b"\xff\xfe"))


def _valueless(model: onnx.ModelProto) -> None:
    del model.graph.node[0].attribute[:]


def _beyond(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 1 << 40


def _without_results(model: onnx.ModelProto) -> None:
    del model.graph.node[0].output[:]


def _referred(model: onnx.ModelProto) -> None:
    branch = model.graph.node[0].attribute.add()
    branch.name, branch.type, branch.ref_attr_name = "then_branch", onnx.AttributeProto.GRAPH, "elsewhere"


def _typeless(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute[0].t.data_type = -(1 << 31)


@pytest.mark.parametrize(
    ("operator", "damage", "message"),
    [
        ("MaxPool", _strings, "attribute 'kernel_shape' of MaxPool 'y' is STRING, not INTS"),
        ("MaxPool", _other_bytes, "'auto_pad' of MaxPool 'y' is .* not valid text"),
        ("Constant", _valueless, "Constant 'y' must have exactly one attribute"),
        ("If", _referred, "is not a valid ONNX model"),
        ("Relu", _without_results, "Relu '' has no outputs"),
        ("Relu", _beyond, "there is no operator set 1099511627776 of ONNX"),
        ("Constant", _typeless, "tensor 'y' is damaged: -2147483648 is not a valid DataType"),
    ],
)
def test_what_engines_and_rules_take_for_granted_is_checked(operator, damage, message):
    value = {"value": numpy_helper.from_array(np.float32([1, 2]), "y")} if operator == "Constant" else {}
    node = helper.make_node(operator, [] if value else ["x"], ["y"], **value)
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy")
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]))
    damage(model)
    with pytest.raises(ModelFormatError, match=message):
        read(Source.of_buffer(model.SerializeToString()))


@pytest.mark.parametrize("nested", [True, False])
def test_an_output_that_is_a_map_is_refused_with_the_remedy(nested):
    kind = helper.make_map_type_proto(onnx.TensorProto.INT64, helper.make_tensor_type_proto(1, []))
    output = helper.make_value_info("p", helper.make_sequence_type_proto(kind) if nested else kind)
    proto = helper.make_model(helper.make_graph([], "g", [], [output]))
    with pytest.raises(ModelFormatError, match=r"output 'p' is a map.*options=\{'zipmap': False\}"):
        read(Source.of_buffer(proto.SerializeToString()))
