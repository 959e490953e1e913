"""MindIR files: what is read, where weights stay, what is said of damage."""

from __future__ import annotations

import shutil

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.errors import ModelFormatError, UnsupportedModelError
from pinnace.formats import read
from pinnace.formats.mindir.schema import model_class, number_of
from pinnace.program import Dialect, FunctionRef, Monad, TypeInfo
from pinnace.weights.source import SMALL, Source


@pytest.fixture
def split(data, tmp_path):
    """A model whose weights lie beside its graph, as MindSpore writes big ones."""
    return shutil.copytree(data / "split", tmp_path / "split")


def weights(path):
    """All weights of a model; a reader makes each when it is asked for."""
    return list(read(Source.of_file(path)).main.parameters.values())


def test_weights_beside_the_graph_run(split, run_model):
    golden = np.load(split / "big.npz")
    (y,) = run_model(split / "big_graph.mindir", [golden["x0"]])
    # fp32, sums of 64 products: rounding differs in the last bits.
    np.testing.assert_allclose(y, golden["y0"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("place", ["graph file", "folder"])
def test_a_buffer_finds_its_weights_by_mindir_path(split, run_model, place):
    golden = np.load(split / "big.npz")
    graph = split / "big_graph.mindir"
    path = str(graph if place == "graph file" else split)
    (y,) = run_model(graph.read_bytes(), [golden["x0"]], {"model_file": {"mindir_path": path}})
    np.testing.assert_allclose(y, golden["y0"], rtol=1e-5, atol=1e-6)


def test_a_buffer_without_mindir_path_says_so(split, run_model):
    with pytest.raises(ModelFormatError, match=r"\[model_file\] mindir_path"):
        run_model((split / "big_graph.mindir").read_bytes(), [])


def test_large_weights_stay_in_their_file(split):
    program = read(Source.of_file(split / "big_graph.mindir"))
    weight = program.main.parameters["48_25___main___Net_construct_13:a.weight"]
    assert isinstance(weight, ir.ExternalTensor)
    assert weight.location == "big_variables/data_0"


def test_what_the_file_says_of_itself(split):
    program = read(Source.of_file(split / "big_graph.mindir"))
    assert (program.producer, program.version) == ("MindSpore", "2.10.0")
    assert program.dialect is Dialect.MINDSPORE
    assert list(program.input_names) == ["x"]


# As mindspore_lite 2.0.0 names what it computes.
NAMES = {
    "lite_ops/test_split_equal_parts_2d_lite": ["output_1", "output_2"],
    "lite_layers/topk_lite": ["y0", "y1"],
    "lite_layers/lstm_forward_lite": ["y0", "y1", "y2"],
    "versions/2.0.0/attention": ["Default/gelu-GELU/GeLU-op102"],
    "versions/1.10.0/convolution": ["Default/layers-SequentialCell/10-Softmax/Softmax-op27"],
}


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_called_as_the_converter_or_the_layer_called_them(data, name):
    assert read(Source.of_file(data / f"{name}.mindir")).output_names == NAMES[name]


def test_tuples_without_end_are_named_in_an_end(data, tmp_path):
    """Forty times a tuple of two of the one before, and a value that depends on itself."""
    path = tmp_path / "tuples.mindir"
    model = model_class().FromString((data / "versions/2.0.0/attention.mindir").read_bytes())
    tuples = next(p.name for p in model.primitives if p.op_type == "MakeTuple")
    depend = next(p.name for p in model.primitives if p.op_type == "Depend")
    for place in range(40):
        model.graph.node.add(input=[f"t{place}"] * 2, output=[f"t{place + 1}"], op_type=f"REF::{tuples}")
    model.graph.node.add(input=["t0"], output=["t0"], op_type=f"REF::{depend}")
    del model.graph.output[0].tensor[:]
    model.graph.output[0].name = "t40"
    path.write_bytes(model.SerializeToString())
    assert set(read(Source.of_file(path)).output_names) <= {"t0"} | {f"t{place}" for place in range(41)}


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "link"])
def test_weights_outside_of_the_folder_are_refused(split, location):
    (split.parent / "secret").write_bytes(bytes(10000))
    (split / "link").symlink_to(split.parent / "secret")
    graph = split / "big_graph.mindir"
    model = model_class().FromString(graph.read_bytes())
    model.graph.parameter[0].external_data.location = location
    graph.write_bytes(model.SerializeToString())
    with pytest.raises(ModelFormatError, match=r"folder"):
        weights(graph)


def test_weights_past_the_end_are_refused(split):
    with (split / "big_variables" / "data_0").open("r+b") as file:
        file.truncate(500)
    with pytest.raises(ModelFormatError, match=r"a\.weight.*320 to 4416.*which has only 500"):
        weights(split / "big_graph.mindir")


def test_missing_weights_are_named(split):
    (split / "big_variables" / "data_0").unlink()
    with pytest.raises(ModelFormatError, match=r"big_variables/data_0"):
        weights(split / "big_graph.mindir")


def test_sizes_that_contradict_the_shape_are_refused(split):
    graph = split / "big_graph.mindir"
    model = model_class().FromString(graph.read_bytes())
    model.graph.parameter[0].dims[0] = 1 << 40
    graph.write_bytes(model.SerializeToString())
    with pytest.raises(ModelFormatError, match=r"a\.weight.* but 4096 are there"):
        weights(graph)


def test_every_truncation_is_one_clear_error(split, tmp_path):
    whole = (split / "big_graph.mindir").read_bytes()
    for end in range(0, len(whole), 97):
        try:
            read(Source.of_buffer(whole[:end], split))
        except ModelFormatError:
            continue
        # A cut between two fields of the outermost message leaves a smaller message that is whole.
        assert model_class().FromString(whole[:end]).HasField("graph")


def changed(data, change) -> bytes:
    """The bytes of a small model after a change of its message."""
    model = model_class()()
    model.ParseFromString((data / "mindspore_ops" / "abs.mindir").read_bytes())
    change(model)
    return model.SerializeToString()


def test_input_of_unknown_rank_is_refused_by_name(data, run_model):
    content = changed(data, lambda model: model.graph.input[0].tensor[0].ClearField("dims"))
    (y,) = run_model(content, [np.float32(-2)])
    assert y == 2, "no dimensions are a scalar, not an unknown rank"
    unknown = changed(data, lambda model: model.graph.input[0].tensor[0].dims.__setitem__(slice(None), [-2]))
    with pytest.raises(UnsupportedModelError, match=r"input '.+' has a free rank: export the model"):
        run_model(unknown, [])


def test_what_users_store_in_a_file_is_kept(data):
    content = changed(data, lambda model: model.user_info.add(key="labels", value="cat, dog"))
    assert read(Source.of_buffer(content)).user_info == {"labels": "cat, dog"}


@pytest.mark.parametrize("name", ["zoo/t5.mindir", "zoo/whisper_encoder.mindir"])
def test_weights_inside_the_file_are_not_copied(data, name):
    """Also those that are constants of the graph: tables of positions and the like."""
    content = (data / name).read_bytes()
    main = read(Source.of_file(data / name)).main
    for held in (main.parameters, main.constants):
        large = [x for x in held.values() if isinstance(x, ir.TensorProtocol) and x.nbytes > SMALL]
        assert large
        assert all(isinstance(x, ir.ExternalTensor) for x in large)
        assert all(content[x.offset : x.offset + x.length] == x.numpy().tobytes() for x in large)


# -- what files declare and hold -------------------------------------------------------------------

KIND = number_of("AttributeProto.AttributeType")
TYPE = number_of("TensorProto.DataType")


def read_attribute(data, **fields):
    """The value of an attribute of the only primitive of a small model."""
    fields["type"] = KIND[fields["type"]]
    content = changed(data, lambda model: model.primitives[0].attribute.add(name="given", **fields))
    (node,) = read(Source.of_buffer(content)).main.nodes
    return node.attributes["given"]


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"type": "INT64", "i": 7}, 7),
        ({"type": "UINT8", "ints": [3]}, 3),
        ({"type": "INT32", "ints": [3, -4]}, (3, -4)),
        ({"type": "BOOL", "i": 1}, True),
        ({"type": "BOOL", "ints": [0]}, False),
        ({"type": "FLOAT", "f": 0.5}, 0.5),
        ({"type": "FLOAT", "floats": [0.5, 2.0]}, (0.5, 2.0)),
        ({"type": "DOUBLE", "d": 0.1}, 0.1),
        ({"type": "DOUBLE", "doubles": [0.1]}, 0.1),
        ({"type": "STRING", "s": b"same"}, "same"),
        ({"type": "STRING", "strings": [b"one"]}, "one"),
        ({"type": "STRING", "s": b"REF::body"}, FunctionRef("body")),
        ({"type": "TUPLE", "ints": [1, 2]}, (1, 2)),
        ({"type": "LIST", "values": [{"type": KIND["INT64"], "i": 4}, {"type": KIND["NONE"]}]}, (4, None)),
        ({"type": "TUPLE"}, ()),
        ({"type": "UMONAD"}, Monad.U),
        ({"type": "IOMONAD"}, Monad.IO),
        ({"type": "NONE"}, None),
        ({"type": "CLASS_TYPE"}, None),
        ({"type": "TENSORS", "tensors": [{"data_type": TYPE["INT8"]}]}, ir.DataType.INT8),
        ({"type": "TENSORS", "tensors": [{"data_type": TYPE["FLOAT64"]}]}, ir.DataType.DOUBLE),
    ],
)
def test_attributes_have_the_values_of_their_kind(data, fields, value):
    found = read_attribute(data, **fields)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ({"data_type": "FLOAT", "float_data": [0.5, 2.0], "dims": [2]}, [0.5, 2.0]),
        ({"data_type": "DOUBLE", "double_data": [0.5], "dims": [1]}, [0.5]),
        ({"data_type": "INT32", "int32_data": [5, -6], "dims": [2]}, [5, -6]),
        ({"data_type": "INT64", "int64_data": [5], "dims": []}, 5),
        ({"data_type": "UINT64", "uint64_data": [5], "dims": [1]}, [5]),
        ({"data_type": "INT16", "raw_data": b"\x01\x00\x02\x00", "dims": [2]}, [1, 2]),
    ],
)
def test_tensors_have_their_elements_in_any_field(data, fields, values):
    fields = fields | {"data_type": TYPE[fields["data_type"]]}
    for given in ({"type": "TENSOR", "t": fields}, {"type": "TENSORS", "tensors": [fields]}):
        found = read_attribute(data, **given)
        assert found.numpy().tolist() == values
    both = read_attribute(data, type="TENSORS", tensors=[fields, fields])
    assert [one.numpy().tolist() for one in both] == [values, values]


def test_attributes_and_versions_of_later_releases_are_refused(data):
    content = changed(data, lambda model: model.primitives[0].attribute.add(name="given", type=41))
    (node,) = read(Source.of_buffer(content)).main.nodes
    with pytest.raises(
        ModelFormatError, match=r"attribute 'given' is of type 41, .*only releases .* after 2\.10"
    ):
        node.attributes["given"]
    newest = max(number_of("Version").values())
    for version in (0, newest):
        assert read(Source.of_buffer(changed(data, lambda m, v=version: setattr(m, "mind_ir_version", v))))
    later = changed(data, lambda model: setattr(model, "mind_ir_version", newest + 1))
    with pytest.raises(ModelFormatError, match=f"mind_ir_version is {newest + 1}, of a release"):
        read(Source.of_buffer(later))


@pytest.mark.parametrize(
    ("fields", "types"),
    [
        (
            {"type": "TENSORS", "tensors": [{"data_type": TYPE["INT8"], "dims": [2, -1]}]},
            [("INT8", (2, None))],
        ),
        ({"type": "TENSORS", "tensors": [{"data_type": TYPE["BOOL"], "dims": [-2]}]}, [("BOOL", None)]),
        (
            {"type": "TENSORS", "tensors": [{"data_type": TYPE["BOOL"], "dims": [-2, 0]}]},
            [("BOOL", (None, 0))],
        ),
        ({"type": "TENSORS", "tensors": [{"data_type": 99}]}, [None]),
        ({"type": "UMONAD"}, []),
        ({"type": "IOMONAD"}, []),
        ({"type": "INT64"}, [None]),
        (
            {
                "type": "TUPLE",
                "values": [
                    {"type": KIND["TENSORS"], "tensors": [{"data_type": TYPE["INT8"], "dims": [2]}]},
                    {"type": KIND["LIST"], "values": [{"type": KIND["SCALAR"]}, {"type": KIND["UMONAD"]}]},
                ],
            },
            [("INT8", (2,)), None],
        ),
    ],
)
def test_nodes_declare_the_types_of_their_results(data, fields, types):
    def declare(model):
        (node,) = model.graph.node
        del node.attribute[:]
        node.attribute.add(name="shape", **{**fields, "type": KIND[fields["type"]]})

    (node,) = read(Source.of_buffer(changed(data, declare))).main.nodes
    expected = [one and TypeInfo(ir.DataType[one[0]], one[1]) for one in types]
    assert list(node.types) == expected
    assert (len(node.types), "shape" in node.attributes) == (len(expected), False)


def test_inputs_may_be_tuples_and_scalars(data):
    number = {"type": KIND["SCALAR"], "tensors": [{"data_type": TYPE["INT64"], "dims": [1]}]}
    picture = {"type": KIND["TENSORS"], "tensors": [{"data_type": TYPE["FLOAT"], "dims": [2, 3]}]}

    def add(model):
        model.graph.input.add(name="n", attr_info=number)
        model.graph.input.add(name="p", attr_info={"type": KIND["TUPLE"], "values": [number, picture]})
        model.graph.input.add(
            name="free",
            attr_info={"type": KIND["LIST"], "seq_info": {"is_dyn_len": True}, "values": [number]},
        )

    _, one, several, free = read(Source.of_buffer(changed(data, add))).main.inputs
    integer, floats = TypeInfo(ir.DataType.INT64, ()), TypeInfo(ir.DataType.FLOAT, (2, 3))
    assert (one.type, one.parts) == (integer, ())
    assert several.type is None
    assert [(part.name, part.type) for part in several.parts] == [("p_0", integer), ("p_1", floats)]
    assert (free.type, free.parts) == (None, ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.ClearField("graph"), "it has no graph"),
        (lambda m: m.graph.node[0].ClearField("output"), "has no output"),
        (lambda m: m.graph.node.add(op_type="Constant", name="c", output=["c"]), "constant 'c' has no value"),
    ],
)
def test_messages_that_lack_something_are_refused(data, change, message):
    with pytest.raises(ModelFormatError, match=message):
        read(Source.of_buffer(changed(data, change)))


@pytest.mark.parametrize(
    "place", [{}, {"external_data": {"location": "w"}}, {"external_data": {"length": -1}}]
)
def test_packed_weights_without_a_size_are_refused(data, place):
    weight = {"name": "w", "dims": [2], "data_type": TYPE["INT8"], "compression_type": 1, **place}
    program = read(Source.of_buffer(changed(data, lambda model: model.graph.parameter.add(**weight))))
    with pytest.raises(ModelFormatError, match="tensor 'w' is packed, but its size in bytes is missing"):
        program.main.parameters["w"]


def test_names_of_custom_operators_and_layers_are_shown(data):
    def change(model):
        model.primitives[0].op_type = "Custom"
        model.primitives[0].attribute.add(name="reg_op_name", type=KIND["STRING"], s=b"FastAttention")
        model.graph.node[0].domain = "net/layer"

    (node,) = read(Source.of_buffer(changed(data, change))).main.nodes
    assert (node.primitive, node.name) == ("Custom:FastAttention", "net/layer")
