"""Files of MindIR, written, decoded by protobuf, and read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.formats.mindir import reader, writer
from pinnace.formats.mindir.schema import model_class, number_of
from pinnace.program import Dialect, Function, FunctionRef, Input, Monad, Node, Program, Quantized, TypeInfo
from pinnace.weights.source import Source

FLOATS, PAIR = TypeInfo(ir.DataType.FLOAT, (2, None)), TypeInfo(ir.DataType.INT32, (2,))
KINDS = {number: name for name, number in number_of("AttributeProto.AttributeType").items()}
LARGE = np.arange(600, dtype=np.float32)
LITERALS = {
    "none": None,
    "monad": Monad.U,
    "world": Monad.IO,
    "true": True,
    "false": False,
    "seven": 7,
    "half": 0.5,
    "text": "same",
    "body": FunctionRef("body"),
    "tuple": (1, 2, -3),
    "floats": (0.5, -2.0),
    "texts": ("a", "b"),
    "truths": (True, False),
    "nested": ((1, 2), (3, "x")),
    "empty": (),
}


def program(dialect=Dialect.MINDSPORE, **changes):
    """A program of two functions, of which the main one calls the other and takes its results apart."""
    add = Node("layer/add", "Add", ("x", "w"), ("a",), {"alpha": 2, "mode": "fast"}, (FLOATS,))
    again = Node("layer/again", "Add", ("a", "w"), ("b",), {"alpha": 2, "mode": "fast"}, (FLOATS,))
    split = Node("layer/split", "Split", ("b",), ("s",), {"axis": 1}, (FLOATS, PAIR))
    first = Node("", "TupleGetItem", ("s", "zero"), ("s0",), {}, (FLOATS,))
    second = Node("", "TupleGetItem", ("s", "one"), ("s1",), {}, (PAIR,))
    called = Node("call", "", ("body", "s0"), ("c",), {}, (FLOATS,))
    ordered = Node("", "Depend", ("s1", "monad"), ("d",), {}, (PAIR,))
    whole = Node("", "MakeTuple", ("c", "d"), ("y",), {}, (FLOATS, PAIR))
    nodes = [add, again, split, first, second, called, ordered, whole]
    constants = {"zero": 0, "one": 1, **LITERALS}
    main = Function(
        "main", [Input("x", FLOATS)], ["y"], nodes, {"w": ir.tensor(LARGE, name="net.w")}, constants
    )
    inner = Node("", "Neg", ("p",), ("q",), {}, (FLOATS,))
    body = Function(
        "body",
        [Input("p", FLOATS)],
        ["q"],
        [inner],
        {"v": ir.tensor(LARGE[::-1].copy(), name="net.v")},
        {"seven": 7},
    )
    given = {
        "input_names": ["image"],
        "output_names": ["scores", "boxes"],
        "version": "2.0.0",
        "producer": "me",
    }
    return Program(main, {"body": body, "main": main}, dialect, **{**given, **changes})


def written(path, made=None, **options):
    writer.write(made or program(), path, **options)
    return reader.read(Source.of_file(path)), model_class().FromString(path.read_bytes())


def test_what_is_written_is_read(tmp_path):
    made = program(user_info={"labels": "cat"}, converted_for={"input_shape": "x:[2,-1]"})
    found, _ = written(tmp_path / "m.mindir", made)
    assert (found.producer, found.version, found.dialect) == ("me", "2.0.0", Dialect.MINDSPORE)
    assert (found.input_names, found.output_names) == (["image"], ["scores", "boxes"])
    assert (found.user_info, found.converted_for) == ({"labels": "cat"}, {"input_shape": "x:[2,-1]"})
    assert list(found.functions) == ["main", "body"]
    for name, function in made.functions.items():
        other = found.functions[name]
        assert [(i.name, i.type) for i in other.inputs] == [(i.name, i.type) for i in function.inputs]
        assert list(other.outputs) == list(function.outputs)
        for node, mine in zip(other.nodes, function.nodes, strict=True):
            assert (node.primitive, node.inputs, node.outputs) == (mine.primitive, mine.inputs, mine.outputs)
            assert dict(node.attributes) == dict(mine.attributes)
            assert tuple(node.types) == tuple(mine.types)
        for key, tensor in function.parameters.items():
            np.testing.assert_array_equal(other.parameters[key].numpy(), tensor.numpy())


@pytest.mark.parametrize("name", LITERALS)
def test_constants_keep_their_values_and_their_types(tmp_path, name):
    found = written(tmp_path / "m.mindir")[0].main.constants[name]
    assert found == LITERALS[name]
    assert type(found) is type(LITERALS[name])
    assert repr(found) == repr(LITERALS[name])  # True is not 1


def test_tensors_and_numbers_of_32_bits_are_constants(tmp_path):
    made = program()
    made.main.constants["t"] = ir.tensor(np.arange(6, dtype=np.int16).reshape(2, 3))
    made.main.constants["n"] = np.int32(5)
    found, model = written(tmp_path / "m.mindir", made)
    np.testing.assert_array_equal(found.main.constants["t"].numpy(), np.arange(6).reshape(2, 3))
    assert found.main.constants["t"].dtype is ir.DataType.INT16
    (number,) = (n.attribute[0] for n in model.graph.node if n.output[0] == "n")
    assert (KINDS[number.type], number.i) == ("INT32", 5)


def test_equal_constants_and_equal_primitives_are_written_once(tmp_path):
    _, model = written(tmp_path / "m.mindir")
    constants = [
        n.output[0] for g in (model.graph, *model.functions) for n in g.node if n.op_type == "Constant"
    ]
    assert sorted(constants) == sorted({"zero", "one", *LITERALS})
    assert [p.op_type for p in model.primitives].count("Add") == 1
    assert len({p.name for p in model.primitives}) == len(model.primitives)


def test_nodes_have_names_that_tell_them_apart(tmp_path):
    _, model = written(tmp_path / "m.mindir")
    names = [n.domain for g in (model.graph, *model.functions) for n in g.node if n.op_type != "Constant"]
    assert len(set(names)) == len(names) == 9
    assert names[0].startswith("layer/add/Add-op")
    assert names[3].startswith("TupleGetItem-op")


def test_what_mindspore_wants_of_a_file(tmp_path):
    _, model = written(tmp_path / "m.mindir")
    assert (model.ir_version, model.little_endian) == ("1.1", True)
    assert model.mind_ir_version == number_of("Version")["IR_VERSION"]
    assert [p.ref_key for p in model.graph.parameter] == ["net.w"]
    assert not model.graph.attribute
    (whole,) = model.graph.output
    assert (whole.denotation, KINDS[whole.attr_info.type]) == ("Tuple", "TUPLE")
    assert whole.attr_info.HasField("seq_info")
    assert [item.tensors[0].name for item in whole.attr_info.values] == ["scores", "boxes"]
    assert model.functions[0].output[0].tensor[0].dims == [2, -1]


def test_what_mindspore_lite_wants_of_a_graph(tmp_path):
    found, model = written(tmp_path / "m.mindir", program(Dialect.LITE))
    assert found.dialect is Dialect.LITE
    facts = {a.name: (KINDS[a.type], a.s or a.i) for a in model.graph.attribute}
    assert facts == {
        "fmk": ("INT32", 2),
        "graph_name": ("STRING", b"main"),
        "isOptimized": ("BOOL", 1),
        "format": ("INT64", 0),
    }
    for primitive in model.primitives:
        assert [KINDS[a.type] for a in primitive.attribute if a.name == "quant_type"] == ["INT32"]


def test_integers_of_lite_keep_what_they_stand_for(tmp_path):
    made = program(Dialect.LITE)
    made.main.parameters["q"] = ir.tensor(np.arange(6, dtype=np.int8).reshape(2, 3), name="q")
    meaning = {"q": Quantized((0.5, 0.25), (3, -1), 0), "a": Quantized((0.125,), (7,))}
    made.main.quantized.update(meaning)
    made.main.nodes.append(Node("", "Add", ("a", "q"), ("z",), {"quantType": 1}, (FLOATS,)))
    found, _ = written(tmp_path / "m.mindir", made)
    assert dict(found.main.quantized) == meaning
    assert found.main.nodes[-1].attributes["quant_type"] == 1


def test_the_numbers_of_a_quantization_have_the_types_that_lite_writes(tmp_path):
    made = program(Dialect.LITE)
    made.main.quantized["w"] = Quantized((0.5,), (3,))
    _, model = written(tmp_path / "m.mindir", made)
    of_lite = Path(__file__).parent.parent / "data" / "lite_quantized" / "product_8bit_lite.mindir"
    ours, theirs = (
        {
            (a.name, KINDS[a.type], KINDS[number.type], number.ListFields()[0][0].name)
            for tensor in graph.parameter
            for parameters in tensor.quant_params
            for a in parameters.attribute
            for number in a.values
        }
        for graph in (model.graph, model_class().FromString(of_lite.read_bytes()).graph)
    )
    assert ours == theirs
    assert len(ours) == 8


@pytest.mark.parametrize("split", [2 * LARGE.nbytes, 2 * LARGE.nbytes - 1])
def test_many_bytes_of_weights_are_a_file_of_their_own(tmp_path, split):
    made = program()
    paths = writer.write(made, tmp_path / "m.mindir", split)
    if split == 2 * LARGE.nbytes:
        assert paths == [tmp_path / "m.mindir"]
        return
    assert paths == [tmp_path / "m_graph.mindir", tmp_path / "m_variables" / "data_0"]
    assert writer.write(made, tmp_path / "m_graph.mindir", split) == paths
    data = paths[1].read_bytes()
    assert data[:64] == b"\x01" + bytes(63)
    found = reader.read(Source.of_file(paths[0]))
    offsets = []
    for name, function in made.functions.items():
        for key, tensor in function.parameters.items():
            other = found.functions[name].parameters[key]
            np.testing.assert_array_equal(other.numpy(), tensor.numpy())
            assert (other.location, other.length) == ("m_variables/data_0", LARGE.nbytes)
            offsets.append(other.offset)
    assert min(offsets) == 64
    assert not any(offset % 64 for offset in offsets)


def test_large_weights_of_all_functions_stay_in_the_file(tmp_path):
    found, _ = written(tmp_path / "m.mindir")
    content = (tmp_path / "m.mindir").read_bytes()
    for function in found.functions.values():
        for weight in function.parameters.values():
            assert isinstance(weight, ir.ExternalTensor)
            assert content[weight.offset : weight.offset + weight.length] == weight.numpy().tobytes()


def test_what_is_no_constant_is_an_error(tmp_path):
    made = program()
    made.main.constants["odd"] = object()
    with pytest.raises(TypeError, match="MindIR has no constant like"):
        writer.write(made, tmp_path / "m.mindir")
