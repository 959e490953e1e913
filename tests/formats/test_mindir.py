"""MindIR files: what is read, where weights stay, what is said of damage."""

from __future__ import annotations

import shutil

import numpy as np
import onnx_ir as ir
import pytest

from pinnace.errors import ModelFormatError, UnsupportedModelError
from pinnace.formats import read
from pinnace.formats.mindir.schema import model_class
from pinnace.program import Dialect
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
