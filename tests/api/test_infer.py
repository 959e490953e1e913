from __future__ import annotations

import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from pinnace import Context, LiteInfer, PinnaceWarning
from pinnace.errors import ConfigError

API = Path(__file__).parents[1] / "data" / "api"


class Cell:
    """Stands for `mindspore.nn.Cell`."""


class TrainModel:
    """Stands for `mindspore.train.Model`."""

    def __init__(self, network: Cell) -> None:
        self.predict_network = network


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """A package mindspore whose export writes a .mindir made by MindSpore Lite; lists its calls."""
    calls: list[tuple] = []

    def export(network, *inputs, file_name, file_format):
        calls.append((network, inputs, file_name, file_format))
        shutil.copy(API / "dense.mindir", f"{file_name}.mindir")

    mindspore = types.ModuleType("mindspore")
    mindspore.nn = types.SimpleNamespace(Cell=Cell)
    mindspore.train = types.SimpleNamespace(Model=TrainModel)
    mindspore.export = export
    monkeypatch.setitem(sys.modules, "mindspore", mindspore)
    return calls


@pytest.mark.parametrize("wrap", [lambda cell: cell, TrainModel], ids=["cell", "model"])
def test_a_network_is_exported_built_and_gone(exported: list[tuple], wrap) -> None:
    cell = Cell()
    infer = LiteInfer(wrap(cell), "input", context=Context(thread_num=1))
    ((network, inputs, path, file_format),) = exported
    assert (network, inputs, file_format) == (cell, ("input",), "MINDIR")
    assert not Path(path).parent.exists()
    tensors = infer.get_inputs()
    infer.resize(tensors, [[2, 3]])
    tensors[0].set_data_from_numpy(np.ones(6, np.float32))
    (output,) = infer.predict(tensors)
    assert output.get_data_to_numpy().tolist() == [[6, 9], [6, 9]]


def test_shapes_that_the_network_cannot_take_are_refused_by_predict(exported: list[tuple]) -> None:
    """mindspore_lite's own suite of LiteInfer resizes a LeNet to images that its dense layers do not fit."""
    infer = LiteInfer(Cell(), "input")
    tensors = infer.get_inputs()
    with pytest.warns(PinnaceWarning, match=r"resize failed! .*predictions with these shapes will fail"):
        infer.resize(tensors, [[2, 5]])
    assert tensors[0].shape == [2, 5]
    tensors[0].set_data_from_numpy(np.ones(10, np.float32))
    with pytest.raises(RuntimeError, match="predict failed! input 'x' must have shape"):
        infer.predict(tensors)
    infer.resize(tensors, [[2, 3]])
    tensors[0].set_data_from_numpy(np.ones(6, np.float32))
    assert infer.predict(tensors)[0].shape == [2, 2]
    with pytest.raises(TypeError, match="dims must be list"):
        infer.resize(tensors, 1)


def test_config(exported: list[tuple], tmp_path: Path) -> None:
    (tmp_path / "c.ini").write_text("[ms_cache]\nvocab_size=x\n")
    with pytest.raises(ConfigError, match=r"c\.ini: \[ms_cache\] vocab_size"):
        LiteInfer(Cell(), config={"configPath": str(tmp_path / "c.ini")})
    with pytest.raises(TypeError, match="config_value must be str"):
        LiteInfer(Cell(), config={"configPath": 1})
    with pytest.raises(TypeError, match="config_value must be dict"):
        LiteInfer(Cell(), config={"ms_cache": 1})
    assert exported == []


def test_wrong_arguments(exported: list[tuple]) -> None:
    with pytest.raises(
        ValueError, match=r"must be mindspore.train.Model or mindspore.nn.Cell, but got <class 'int'>"
    ):
        LiteInfer(1)
    with pytest.raises(TypeError, match="context must be Context"):
        LiteInfer(Cell(), context=1)
    with pytest.raises(TypeError, match="model_group_id must be int"):
        LiteInfer(Cell(), model_group_id="1")
    assert exported == []


def test_without_mindspore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mindspore", None)
    with pytest.raises(ImportError, match="Install mindspore, or export the network elsewhere"):
        LiteInfer(Cell())
