"""Names out of files are shown escaped, and given to programs as they are."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pinnace import DataMismatchError, Model, ModelType, PinnaceError
from pinnace.cli import main
from pinnace.errors import UnsupportedModelError, UnsupportedPrimitive
from pinnace.escaping import shown

EVIL = "x\x1b[2J\nCONVERT RESULT SUCCESS:0\r\u202e\x9b"
LINE = r"x\x1b[2J\nCONVERT RESULT SUCCESS:0\r\u202e\x9b"


@pytest.fixture
def path(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Relu", [EVIL], ["y" + EVIL], name=EVIL)],
        "g",
        [helper.make_tensor_value_info(EVIL, TensorProto.FLOAT, [EVIL, 2])],
        [helper.make_tensor_value_info("y" + EVIL, TensorProto.FLOAT, [EVIL, 2])],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def harmless(text, lines):
    assert all(line.isprintable() for line in text.split("\n")), text
    assert "\nCONVERT" not in text
    assert len(text.splitlines()) == lines, text


def test_what_is_shown_of_a_model_is_harmless(path):
    with Model() as model:
        model.build_from_file(str(path), ModelType.ONNX)
        (tensor,) = model.get_inputs()
        assert tensor.name == EVIL
        harmless(str(tensor), 6)
        assert LINE in str(tensor)
        for text in (repr(tensor), tensor._repr_html_(), repr(model), model._repr_html_()):
            harmless(text, 1)
            assert LINE in text
        with pytest.raises(DataMismatchError) as error:
            model.predict([np.zeros((1, 3), np.float32)])
        harmless(str(error.value), 1)


@pytest.mark.parametrize("command", ["run", "inspect", "bench"])
def test_what_commands_print_is_harmless(path, command, monkeypatch, capsys):
    arguments = ["--runs", "1", "--warm-up", "0", "--clients", "1"] if command == "bench" else []
    monkeypatch.setattr("sys.argv", ["pinnace", command, str(path), *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    for text in capsys.readouterr():
        assert all(line.isprintable() for line in text.split("\n")), text
        assert "\nCONVERT" not in text


def test_errors_are_in_lines_of_their_own():
    harmless(str(PinnaceError(f"{EVIL} is wrong")), 1)
    harmless(str(UnsupportedModelError(EVIL, [UnsupportedPrimitive(EVIL, 1, EVIL, EVIL)])), 3)


def test_long_names_are_cut():
    assert shown("a" * 10**6) == "a" * 500 + "... (1000000 characters)"
    assert shown("layer/weights") == "layer/weights"
