"""Files of `.ms`, written and read again."""

import struct

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.errors import UnsupportedModelError
from pinnace.formats.ms import flatbuffer, reader, schema, tables, writer
from pinnace.program import Dialect, Function, Input, Node, Program, Quantized, TypeInfo
from pinnace.weights.source import Source

FLOATS = TypeInfo(ir.DataType.FLOAT, (2, None))


def program(weight):
    """A program of two nodes with attributes of all kinds."""
    given = {"constant_value": 0.5, "paddings": ((0, 1), (2, 3))}
    padded = Node("", "PadFusion", ("x", "pads"), ("y",), given)
    split = Node("", "Split", ("y",), ("a", "b"), {"size_splits": (1, 1), "axis": -1}, (FLOATS, None))
    main = Function(
        "main",
        [Input("x", FLOATS)],
        ["a", "b"],
        [padded, split],
        {"w": weight},
        {"pads": ir.tensor(np.zeros((2, 2), np.int32))},
    )
    return Program(main, {"main": main}, Dialect.LITE, input_names=["in"], output_names=["first", "second"])


def test_what_is_written_is_read(tmp_path):
    weight = ir.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    (path,) = writer.write(program(weight), tmp_path / "made.ms")
    read = reader.read(Source.of_file(path))
    assert [(i.name, i.type) for i in read.main.inputs] == [("in", FLOATS)]
    assert list(read.output_names) == ["first", "second"]
    padded, split = read.main.nodes
    assert padded.attributes["paddings"] == ((0, 1), (2, 3))
    assert padded.attributes["constant_value"] == 0.5
    assert (split.attributes["size_splits"], split.attributes["axis"]) == ((1, 1), -1)
    assert split.types == (FLOATS, None)
    assert read.main.constants["pads"].numpy().tolist() == [[0, 0], [0, 0]]


def test_weights_lie_where_runtimes_take_them(tmp_path):
    x = ir.tensor(np.full(100, 7, np.float32))
    made = program(x)
    made.main.nodes.append(Node("", "AddFusion", ("a", "w"), ("c",)))
    (path,) = writer.write(made, tmp_path / "made.ms")
    assert path.read_bytes().index(x.tobytes()) % 64 == 0


def test_more_than_a_flatbuffer_holds_is_refused(tmp_path):
    large = ir.LazyTensor(lambda: pytest.fail("nothing is read"), ir.DataType.FLOAT, ir.Shape([1 << 29]))
    with pytest.raises(UnsupportedModelError, match=str(tables.LIMIT)):
        writer.write(program(large), tmp_path / "made.ms")
    assert not (tmp_path / "made.ms").exists()


def test_element_types_that_it_lacks_are_refused(tmp_path):
    weight = ir.Tensor(np.zeros(3, np.uint8), dtype=ir.DataType.FLOAT8E4M3FN)
    with pytest.raises(UnsupportedModelError, match="FLOAT8E4M3FN"):
        writer.write(program(weight), tmp_path / "made.ms")


@pytest.mark.parametrize(("turned", "order"), [(False, 1), (True, 0)])
def test_an_input_that_a_convolution_reads_has_its_channels_last(turned, order):
    """MindSpore Lite 2.0 does not open the file if the tensor says otherwise."""
    picture, other = (TypeInfo(ir.DataType.FLOAT, shape) for shape in ((1, 8, 9, 3), (1, 3, 8, 9)))
    scaled = Node("", "MulFusion", ("x", "x"), ("a",), {}, (other if turned else picture,))
    moved = Node("", "Transpose", ("a", "perm"), ("b",), {}, (picture,))
    layer = Node("", "Conv2DFusion", ("b" if turned else "a", "w"), ("y",), {"format": 1}, (None,))
    nodes = [scaled, *([moved] if turned else []), layer]
    constants = {"perm": ir.tensor(np.array([0, 2, 3, 1], np.int32))}
    weight = {"w": ir.tensor(np.zeros((2, 3, 3, 3), np.float32))}
    main = Function("main", [Input("x", other if turned else picture)], ["y"], nodes, weight, constants)
    root = writer._Tables(Program(main, {"main": main}, Dialect.LITE)).root()
    assert root["allTensors"][root["inputIndex"][0]]["format"] == order


def of_everything():
    """A program of two functions with quantized weights, attributes of nodes and types that are not known."""
    called = Node("", "", ("f", "x"), ("c",), {}, (FLOATS,))
    bound = Node("", "PartialFusion", ("body", "x"), ("f",), {}, (None,))
    taken = Node(
        "", "MatMulFusion", ("c", "q8"), ("m",), {"quantType": 4, "deviceType": 1, "transpose_b": True}
    )
    summed = Node(
        "", "AddFusion", ("m", "q4"), ("y",), {"activation_type": 1}, (TypeInfo(ir.DataType.FLOAT, None),)
    )
    weights = {
        "q8": ir.tensor(np.arange(-6, 6, dtype=np.int8).reshape(3, 4)),
        "q4": ir.tensor(np.array([-8, -1, 0, 7, 3], np.int8)),
        "h": ir.tensor(np.arange(700, dtype=np.float16)),
    }
    meanings = {"q8": Quantized((0.5, 0.25, 0.125), (1, 0, -1), 0), "q4": Quantized((0.1,), (2,), None, 4)}
    main = Function(
        "main", [Input("x", FLOATS)], ["y"], [bound, called, taken, summed], weights, {}, meanings
    )
    inner = Node("", "Neg", ("p",), ("n",), {}, (FLOATS,))
    body = Function("body", [Input("p", FLOATS)], ["n"], [inner])
    return Program(main, {"body": body, "main": main}, Dialect.LITE, producer="me", version="2.0")


def test_functions_and_quantized_weights_are_read(tmp_path):
    made = of_everything()
    (path,) = writer.write(made, tmp_path / "made.ms")
    read = reader.read(Source.of_file(path))
    assert (list(read.functions), read.version, read.producer) == (["main", "body"], "2.0", "me, from ONNX")
    bound, called, product, total = read.main.nodes
    assert (bound.primitive, bound.inputs) == ("PartialFusion", ("body", "x"))
    assert (called.primitive, called.inputs) == ("", ("f", "x"))
    assert [product.attributes[name] for name in ("quantType", "deviceType", "transpose_b")] == [4, 1, True]
    assert "quantType" not in total.attributes
    assert "deviceType" not in total.attributes
    assert total.attributes["activation_type"] == 1
    assert total.types == (TypeInfo(ir.DataType.FLOAT, None),)
    assert read.functions["body"].nodes[0].inputs == ("p",)
    weights = read.main.parameters
    columns = np.array([[0.5], [0.25], [0.125]]) * (np.arange(-6, 6).reshape(3, 4) - [[1], [0], [-1]])
    expected = {"q8": columns, "q4": 0.1 * (np.array([-8, -1, 0, 7, 3]) - 2), "h": np.arange(700)}
    for name, values in expected.items():
        if name in weights:
            np.testing.assert_allclose(weights[name].numpy(), values, rtol=1e-6)
    assert {"q8", "q4"} <= weights.keys()
    assert read.folder == str(tmp_path)
    raw = flatbuffer.Buffer(memoryview(path.read_bytes()), "made.ms", schema.load()).root()
    assert [t["dims"] for t in raw["allTensors"] if t["name"] == "y"] == [(-1,)]  # as the converter has it
    for tensor in raw["allTensors"]:  # a ValueNode has data, a CNode is computed
        assert tensor["nodeType"] == (0 if tensor["data"].length else 2), tensor["name"]


def test_numbers_and_weights_lie_at_multiples_of_their_size(tmp_path):
    """Which readers of FlatBuffers on other processors need."""
    made = of_everything()
    for place, axes in enumerate(((0,), (0, 1), (1,))):
        name = f"y{place}"
        made.main.nodes.append(Node("", "Transpose", ("y",), (name,), {"perm": axes}))
        made.main.nodes.append(Node("", "Split", (name,), (f"{name}s",), {"size_splits": axes}))
    (path,) = writer.write(made, tmp_path / "made.ms")
    data = path.read_bytes()
    buffer = flatbuffer.Buffer(memoryview(data), "made.ms", schema.load())
    waiting, seen = [buffer.root()], 0
    while waiting:
        table = waiting.pop()
        seen += 1
        assert table.at % 4 == 0
        for name, field in buffer.schema.tables.get(table.name, {}).items():
            place, value = buffer.place(table, field), table[name]
            assert place == table.at or place % field.size == 0
            if field.is_vector and field.form is not None and place != table.at:
                begin = place + struct.unpack_from("<I", data, place)[0] + 4
                assert begin % field.form.size == 0
            items = value if isinstance(value, tuple) and not isinstance(value, schema.Span) else (value,)
            waiting += [item for item in items if isinstance(item, flatbuffer.Table)]
            if isinstance(value, schema.Span) and value.length:
                assert value.offset % 64 == 0
    assert seen > 20
    assert buffer.root()["fmkType"] == 2
    assert data[4:8] == b"MSL2"


def test_a_field_that_older_releases_have_another_default_of_is_written(tmp_path):
    node = Node("", "ArgMinFusion", ("x",), ("y",), {"top_k": 1, "axis": 0}, (FLOATS,))
    main = Function("main", [Input("x", FLOATS)], ["y"], [node])
    (path,) = writer.write(Program(main, {"main": main}, Dialect.LITE), tmp_path / "made.ms")
    buffer = flatbuffer.Buffer(memoryview(path.read_bytes()), "made.ms", schema.load())
    table = buffer.root()["nodes"][0]["primitive"]["value"]
    fields = buffer.schema.tables["ArgMinFusion"]
    assert buffer.place(table, fields["top_k"]) != table.at
    assert buffer.place(table, fields["axis"]) == table.at  # it is the default
