"""`.ms` files: what is read, where weights stay, how packed ones unpack, what is said of damage."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.errors import ModelFormatError, UnsupportedModelError
from pinnace.formats import ms, read
from pinnace.program import Dialect, Layout
from pinnace.weights.source import Source

FOLDER = Path(__file__).parent.parent / "data" / "ms"
RUN_BY_LITE = sorted(p.with_suffix(".ms") for p in FOLDER.glob("*.npz"))

# MindSpore's element types, as the files number them.
FLOAT32, INT32 = 43, 34


@pytest.fixture(scope="module")
def network():
    return read(Source.of_file(FOLDER / "network.ms"))


# -- what is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RUN_BY_LITE, ids=lambda p: p.stem)
def test_gives_what_mindspore_lite_computes(path, run_model):
    golden = np.load(path.with_suffix(".npz"))
    arrays = [golden[key] for key in sorted(golden) if key.startswith("x")]
    (result,) = run_model(path, arrays)
    # fp32 on both sides; sums of up to 72 products.
    np.testing.assert_allclose(result, golden["y0"], rtol=1e-5, atol=1e-5)


def test_what_the_file_says_of_itself(network):
    assert (network.dialect, network.layout) == (Dialect.LITE, Layout.NHWC)
    assert network.producer == "MindSpore Lite, from ONNX"
    assert network.output_names == ["scores"]
    (image,) = network.main.inputs
    assert (image.name, image.type.dtype, image.type.shape) == ("image", ir.DataType.FLOAT, (1, 16, 16, 3))


def test_attributes_are_those_of_the_schema_with_its_defaults(network):
    first = network.main.nodes[0]
    assert first.primitive == "Conv2DFusion"
    assert first.attributes["stride"] == (2, 2)
    assert first.attributes["pad_list"] == (1, 1, 1, 1)
    assert first.attributes["activation_type"] == 1
    assert first.attributes["mode"] == 0
    assert "quantType" not in first.attributes


def test_weights_of_a_file_stay_in_it():
    (weight,) = read(Source.of_file(FOLDER / "product.ms")).main.parameters.values()
    assert isinstance(weight, ir.ExternalTensor)
    raw = (FOLDER / weight.location).read_bytes()[weight.offset : weight.offset + weight.length]
    np.testing.assert_array_equal(np.frombuffer(raw, np.float32).reshape(24, 24), weight.numpy())


def test_weights_of_a_buffer_are_views_of_it():
    buffer = (FOLDER / "product.ms").read_bytes()
    (weight,) = read(Source.of_buffer(buffer)).main.parameters.values()
    assert np.shares_memory(weight.numpy(), np.frombuffer(buffer, np.uint8))


def test_shapes_and_axes_are_constants(network):
    perms = [c.numpy().tolist() for c in network.main.constants.values()]
    assert [0, 3, 1, 2] in perms
    assert all(w.dtype.is_floating_point() for w in network.main.parameters.values())


# -- packed weights --------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", ["product_8bit", "convolution_4bit"])
def test_quantized_weights_are_within_a_step_of_what_was_quantized(packed):
    # MindSpore Lite 2.0.0 cannot run these files itself; the weights before are the only witness.
    program = read(Source.of_file(FOLDER / f"{packed}.ms"))
    before = read(Source.of_file(FOLDER / f"{packed[:-5]}.ms")).main.parameters
    for name, weight in program.main.parameters.items():
        values, expected = weight.numpy(), before[name].numpy()
        if isinstance(weight, ir.LazyTensor):
            axis = tuple(range(1, expected.ndim)) if packed.startswith("conv") else 0
            step = np.ptp(expected, axis=axis, keepdims=True) / (255 if packed.endswith("8bit") else 15)
            assert (np.abs(values - expected) < step).all()
            assert not np.array_equal(values, expected)
        else:
            np.testing.assert_array_equal(values, expected)


def test_packings_that_are_not_known_are_refused_by_name(write_ms):
    weight = tensor("w", [4], data=bytes(4), dataType=32, weightQuantCompressType=5)
    with pytest.raises(ModelFormatError, match=r"allTensors\[0\].weightQuantCompressType: 'w' .* FSE_INT"):
        load(write_ms(**graph([weight, tensor("y", [4])], [node("Abs", [0], [1])], [], [1])))


def test_many_small_packed_weights_are_not_all_memory(write_ms):
    """Each is within its bound; all share a few kilobytes of the file."""
    row = {"numBits": 8, "scale": 1.0, "varCorr": 1.0}
    data = bytes(40_000)
    packed = {"dataType": 32, "weightQuantCompressType": 2, "quantParams": [row]}
    weights = [tensor(f"w{i}", [1 << 23], data=data, **packed) for i in range(9)]
    nodes = [node("Abs", [i], [9 + i], name=f"n{i}") for i in range(9)]
    outputs = [tensor(f"y{i}", [1 << 23]) for i in range(9)]
    with pytest.raises(ModelFormatError, match="'w8' and the packed weights before it have more than"):
        load(write_ms(**graph([*weights, *outputs], nodes, [], list(range(9, 18)))))


@pytest.mark.parametrize("name", ["dense_5bit", "few_8bit", "sparse_8bit", "convolution_mixed"])
def test_damaged_packed_data_gives_values_or_an_error(name):
    data = bytearray((FOLDER / f"{name}.ms").read_bytes())
    random = np.random.default_rng(0)
    outcomes = set()
    for _ in range(60):
        damaged = bytearray(data)
        for place in random.integers(len(data) // 3, len(data), 4):
            damaged[place] ^= 1 << random.integers(8)
        try:
            for weight in load(bytes(damaged)).main.parameters.values():
                weight.numpy()
            outcomes.add("read")
        except ModelFormatError:
            outcomes.add("refused")
    assert "read" in outcomes


# -- what no converter of today writes -------------------------------------------------------------


def tensor(name, dims, data=None, **fields):
    fields = {"name": name, "dims": dims, "dataType": FLOAT32, **fields}
    return fields if data is None else {**fields, "data": data}


def node(primitive, inputs, outputs, name="n", attributes=None, **fields):
    value = {"value": (primitive, attributes or {})}
    return {"name": name, "primitive": value, "inputIndex": inputs, "outputIndex": outputs, **fields}


def graph(tensors, nodes, inputs, outputs, **fields):
    ends = {"inputIndex": inputs, "outputIndex": outputs}
    return {"allTensors": tensors, "nodes": nodes, **ends, **fields}


def sub_graph(name, inputs, outputs, nodes):
    return {"name": name, "inputIndices": inputs, "outputIndices": outputs, "nodeIndices": nodes}


def load(data, folder=None):
    return read(Source.of_buffer(data, folder))


def test_a_file_without_sub_graphs_is_one_function(write_ms, run_model):
    file = write_ms(**graph([tensor("x", [2]), tensor("y", [2])], [node("Abs", [0], [1])], [0], [1]))
    (result,) = run_model(file, [np.array([-1, 2], np.float32)])
    np.testing.assert_array_equal(result, [1, 2])


def test_names_are_unique_and_the_models_ends_keep_theirs(write_ms):
    tensors = [tensor("", [2]), tensor("x", [2]), tensor("x", [2]), tensor("y", [2])]
    nodes = [node("Abs", [1], [2]), node("Abs", [2], [0]), node("Abs", [0], [3])]
    main = load(write_ms(**graph(tensors, nodes, [1], [3]))).main
    assert [n.outputs for n in main.nodes] == [("x@2",), ("@0",), ("y",)]
    assert main.inputs[0].name == "x"


def test_sub_graphs_are_functions(write_ms, run_model):
    tensors = [tensor(n, [2]) for n in ("x", "bound", "called", "inner", "inner_result")]
    nodes = [
        node("PartialFusion", [0], [1], attributes={"sub_graph_index": 1}),
        node("Call", [1], [2]),
        node("Neg", [3], [4]),
    ]
    graphs = [sub_graph("main", [0], [2], [0, 1]), sub_graph("body", [3], [4], [2])]
    file = write_ms(**graph(tensors, nodes, [0], [2], subGraph=graphs))
    program = load(file)
    assert list(program.functions) == ["main", "body"]
    assert program.main.nodes[0].inputs == ("body", "x")
    (result,) = run_model(file, [np.array([1, -2], np.float32)])
    np.testing.assert_array_equal(result, [-1, 2])


def test_a_primitive_of_a_later_release_is_unsupported_by_number(write_ms, run_model):
    tensors = [tensor("x", [2]), tensor("y", [2])]
    file = bytearray(write_ms(**graph(tensors, [node("FillV2", [0], [1])], [0], [1])))
    places = [i for i in range(len(file)) if file[i] == 221]
    assert len(places) == 1
    file[places[0]] = 251
    with pytest.raises(UnsupportedModelError, match="PrimitiveType_251 x1, first at node 'n'"):
        run_model(bytes(file), [np.zeros(2, np.float32)])


def test_a_free_dimension_is_none(write_ms):
    file = write_ms(**graph([tensor("x", [-1, 3]), tensor("y", [-1])], [node("Abs", [0], [1])], [0], [1]))
    main = load(file).main
    assert main.inputs[0].type.shape == (None, 3)
    assert main.nodes[0].types[0].shape is None


# -- weights in other files ------------------------------------------------------------------------


def outside(location, offset=0, length=-1):
    entry = {"location": location, "offset": offset, "length": length}
    weight = tensor("w", [2], externalData=[entry])
    return graph([weight, tensor("x", [2]), tensor("y", [2])], [node("AddFusion", [0, 1], [2])], [1], [2])


@pytest.fixture
def beside(tmp_path, write_ms):
    """A model file whose weight lies in weights.bin, at the given place."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(struct.pack("<4f", 1, 2, 3, 4))
    (tmp_path / "secret").write_bytes(struct.pack("<2f", 7, 7))
    os.symlink(tmp_path / "secret", folder / "link")

    def write(*place):
        path = folder / "model.ms"
        path.write_bytes(write_ms(**outside(*place)))
        return path

    return write


def test_external_data_runs_from_its_place(beside, run_model):
    (result,) = run_model(beside("weights.bin", 4, 8), [np.array([10, 10], np.float32)])
    np.testing.assert_array_equal(result, [12, 13])


@pytest.mark.parametrize("location", ["../secret", "link", "/etc/hostname", "missing.bin", "", ".", "a\0b"])
def test_external_data_elsewhere_is_refused(beside, location):
    with pytest.raises(ModelFormatError, match=r"model\.ms"):
        read(Source.of_file(beside(location, 0, 8)))


@pytest.mark.parametrize("place", [(12, 8), (-4, 8), (1 << 62, 8), (0, 1 << 62), (0, 12)])
def test_external_data_past_the_end_is_refused(beside, place):
    with pytest.raises(ModelFormatError, match=r"model\.ms"):
        read(Source.of_file(beside("weights.bin", *place)))


# -- damage ----------------------------------------------------------------------------------------


def test_every_truncation_is_one_error_with_file_and_byte():
    data = (FOLDER / "network.ms").read_bytes()
    for length in range(1, len(data)):
        with pytest.raises(ModelFormatError, match=r"^model buffer: byte \d+: "):
            # asked of this reader, where too little is left to tell the kind
            ms.read(Source.of_buffer(data[:length]))


ABSURD = {
    "negative dimension": [tensor("w", [-2], bytes(8)), tensor("y", [2])],
    "dimensions beyond memory": [tensor("w", [2**31 - 1] * 3, bytes(8)), tensor("y", [2])],
    "more bytes than elements": [tensor("w", [2], bytes(9)), tensor("y", [2])],
    "no bytes for elements": [tensor("w", [2, 0], bytes(9)), tensor("y", [2])],
    "text elements": [tensor("w", [2], bytes(8), dataType=12), tensor("y", [2])],
}


@pytest.mark.parametrize("tensors", ABSURD.values(), ids=ABSURD)
def test_constants_that_cannot_be_are_refused(tensors, write_ms):
    with pytest.raises(ModelFormatError, match=r"byte \d+: MetaGraph.allTensors\[0\]\.\w+: .*'w'"):
        load(write_ms(**graph(tensors, [node("Abs", [0], [1])], [], [1])))


ABS = node("Abs", [0], [1])
TO_NOWHERE = node("PartialFusion", [0], [1], attributes={"sub_graph_index": 3})
EMPTY = {"name": "n", "inputIndex": [0], "outputIndex": [1]}
WRONG = {
    "inputIndex: there is no tensor 7": {"nodes": [node("Abs", [7], [1])]},
    "outputIndex: there is no tensor 9": {"outputs": [9]},
    "outputIndex: node 'n' is the second": {"nodes": [ABS, ABS]},
    "primitive: node 'n' has no primitive": {"nodes": [EMPTY]},
    "there is no sub-graph 3": {"nodes": [TO_NOWHERE]},
    "nodeIndices: node 4 is not there, only 1": {"subGraph": [sub_graph("main", [0], [1], [4])]},
    "nodeIndices: node 0 is taken twice": {"subGraph": [sub_graph("main", [0], [1], [0, 0])]},
    "obfuscate: the model is obfuscated": {"obfuscate": True},
}


@pytest.mark.parametrize("message", WRONG)
def test_references_to_nothing_are_refused(message, write_ms):
    parts = {"nodes": [ABS], "inputs": [0], "outputs": [1]} | WRONG[message]
    with pytest.raises(ModelFormatError, match=rf"byte \d+: MetaGraph.*{message}"):
        load(write_ms(**graph([tensor("x", [2]), tensor("y", [2])], **parts)))


def test_a_file_that_points_at_the_same_bytes_again_and_again_is_refused(write_ms):
    # 2000 nodes that are one node of 2000 inputs: 4 million where the file has 4 thousand.
    file = write_ms(**graph([tensor("x", [2])], [node("Abs", [0] * 2000, [0])] * 2000, [0], [0]))
    assert len(file) < 20_000
    with pytest.raises(ModelFormatError, match="the same bytes too often"):
        load(file)
