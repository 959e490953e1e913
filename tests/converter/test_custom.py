"""Models with operators of Ascend in nodes `Custom`, converted, and such nodes in files of MindSpore Lite."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper
from tests.converted import run, same

from pinnace.converter.convert import Conversion, convert
from pinnace.errors import UnsupportedModelError
from pinnace.formats.mindir import writer
from pinnace.program import Dialect, Function, Input, Node, Program, TypeInfo
from pinnace.types import ModelType
from pinnace.weights.source import Source

DATA = Path(__file__).parents[1] / "data" / "custom"


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
@pytest.mark.parametrize("shape", ["", "ids:2,5;mask:2,5;positions:2,5"])
def test_a_prompt_is_read_as_without_the_operators(kind, shape, tmp_path):
    converted("prefill", tmp_path, Conversion(save_type=kind, input_shape=shape))


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
def test_a_token_is_read_as_without_the_operators(kind, tmp_path):
    converted("decode", tmp_path, Conversion(save_type=kind))


def converted(name, folder, options):
    """Convert a model, and compare its results with those of the model without the operators."""
    golden = np.load(DATA / f"{name}.npz")
    summary = convert(Source.of_file(DATA / f"{name}.onnx"), None, folder / "made", options)
    given = [golden[key] for key in golden.files if not key.startswith("expected")]
    for y, key in zip(run(summary.files[0], *given), ("expected_logits", "expected_kept"), strict=True):
        np.testing.assert_allclose(y, golden[key], rtol=1e-4, atol=1e-5)  # float32, through two layers


def written(folder, attributes):
    """A `.mindir` of one Custom, as a converter leaves it that does not compile for a device."""
    declared = TypeInfo(ir.DataType.FLOAT, (2, 8))
    node = Node("norm", "Custom", ("x", "gamma"), ("y",), attributes, (declared, declared))
    first = Node("first", "TupleGetItem", ("y", "place"), ("z",), {}, (declared,))
    gamma = ir.tensor(np.linspace(0.5, 1.5, 8, dtype=np.float32), name="gamma")
    ports = [Input("x", declared)]
    main = Function("main", ports, ["z"], [node, first], {"gamma": gamma}, {"place": 0})
    program = Program(main, {"main": main}, Dialect.MINDSPORE, source="made by hand")
    (path,) = writer.write(program, folder / "made.mindir")
    return path


NAMES = {"input_names": ("x", "gamma"), "output_names": ("y", "rstd"), "input_index": (0, 1), "output_num": 2}


@pytest.mark.parametrize("kind", [{"type": "RmsNorm", "reg_op_name": "RmsNorm"}, {"reg_op_name": "RmsNorm"}])
def test_custom_primitives_of_mindir_files_run(kind, tmp_path):
    x = np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)
    (y,) = run(written(tmp_path, kind | NAMES | {"epsilon": 0.1}), x)
    expected = x / np.sqrt((x.astype(float) ** 2).mean(-1, keepdims=True) + 0.1) * np.linspace(0.5, 1.5, 8)
    np.testing.assert_allclose(y, expected, rtol=1e-6)  # float32


def test_other_custom_primitives_of_mindir_files_are_refused_by_name(tmp_path):
    with pytest.raises(UnsupportedModelError, match=r"Custom:Unheard x1, first at node 'norm"):
        run(written(tmp_path, {"type": "Unheard", **NAMES}), np.zeros((2, 8), np.float32))
    with pytest.raises(UnsupportedModelError, match="has an attribute 'begin' \\(3\\)"):
        run(written(tmp_path, {"type": "RmsNorm", "begin": 3, **NAMES}), np.zeros((2, 8), np.float32))


@pytest.mark.parametrize("kind", [ModelType.MINDIR, ModelType.MINDIR_LITE])
def test_the_gated_delta_rule_becomes_a_loop(kind, tmp_path):
    random = np.random.default_rng(3)
    shapes = {
        "query": (3, 2, 8),
        "key": (3, 2, 8),
        "value": (3, 4, 5),
        "beta": (3, 4),
        "initial_state": (1, 4, 5, 8),
    }
    given = {name: random.normal(0, 0.3, shape).astype(np.float16) for name, shape in shapes.items()}
    given |= {"actual_seq_lengths": np.array([3], np.int32), "g": -random.random((3, 4)).astype(np.float32)}
    names = list(given)
    node = helper.make_node("Custom", names, ["y", "last"], type="ChunkGatedDeltaRule", input_names=names)
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in given.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in ("y", "last")]
    graph = helper.make_graph([node], "g", ports, results)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    same(made.SerializeToString(), tmp_path, list(given.values()), kind=kind, rtol=2e-3, atol=1e-3)  # float16
