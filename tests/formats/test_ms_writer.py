"""Files of `.ms`, written and read again."""

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.errors import UnsupportedModelError
from pinnace.formats.ms import reader, tables, writer
from pinnace.program import Dialect, Function, Input, Node, Program, TypeInfo
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
