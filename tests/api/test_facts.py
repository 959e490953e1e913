"""Facts of builds and predictions: `get_model_info`, and the loggers."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import pinnace
from pinnace.errors import EngineError

ADD = Path(__file__).parents[1] / "data" / "api" / "add.onnx"


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Build a model, through a cache of the test's own."""

    def build(path=ADD, cache="cache") -> pinnace.Model:
        monkeypatch.setenv("PINNACE_CACHE_DIR", str(tmp_path / cache) if cache != "off" else "off")
        model = pinnace.Model()
        model.build_from_file(path, pinnace.ModelType.ONNX, pinnace.Context(thread_num=1))
        return model

    return build


def test_facts_of_a_build(built):
    model = built()
    names = ("precision", "threads", "workers", "model_type", "tuned", "cache")
    assert [model.get_model_info(name) for name in names] == ["float32", "1", "1", "ONNX", "no", "written"]
    assert model.get_model_info("engine").startswith("onnxruntime ")
    stages = model.get_model_info("build")
    places = [
        stages.index(stage)
        for stage in ("imports ", "reading ", "lowering ", "compiling ", "loading ", " in all")
    ]
    assert places == sorted(places)
    again = built()
    assert again.get_model_info("cache") == "loaded"
    assert "reading" not in again.get_model_info("build")
    assert built(cache="off").get_model_info("cache") == "off"
    again.resize(again.get_inputs(), [[3, 4, 5]] * 2)
    assert again.get_model_info("model_type") == "ONNX"


def test_a_build_is_one_line_of_the_log(built, caplog):
    with caplog.at_level(logging.INFO, "pinnace"):
        built()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "pinnace.build"]
    for part in (
        str(ADD),
        "engine onnxruntime",
        "precision float32",
        "model_type ONNX",
        "threads 1",
        "cache written",
        "in all",
    ):
        assert part in line
    (record,) = [record for record in caplog.records if record.name == "pinnace.build"]
    assert (record.event, record.model, record.precision) == ("built", str(ADD), "float32")
    assert record.engine.startswith("onnxruntime")
    assert record.seconds > 0
    assert [*map(list, record.shapes.values())] == [[3, 4, 5]] * 2


def test_predictions_are_logged_and_failures_with_their_shapes(built, tmp_path, caplog):
    path = tmp_path / "reshaped.onnx"
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "reshaped",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("shape", TensorProto.INT64, [1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    x = np.zeros(3, np.float32)
    with caplog.at_level(logging.DEBUG, "pinnace.predictions"):
        built_model = built(path)
        built_model.predict([x, np.array([3])])
        with pytest.raises(EngineError):
            built_model.predict([x, np.array([7])])
    good, bad = [record for record in caplog.records if record.name == "pinnace.predictions"]
    assert good.levelno == logging.DEBUG
    assert good.getMessage().endswith("ms, inputs of shapes [(3,), (1,)]")
    assert bad.levelno == logging.WARNING
    assert bad.getMessage().startswith("a prediction failed, inputs of shapes [(3,), (1,)]: ")
    assert (good.event, bad.event) == ("prediction", "prediction failed")
    assert good.model == bad.model == str(path)
    assert good.shapes == bad.shapes == [(3,), (1,)]
    assert good.seconds > 0
    assert bad.kind == "EngineError"


def test_nothing_is_printed_by_default(built, capfd):
    model = built()
    with pytest.raises(pinnace.DataMismatchError):
        model.predict([np.zeros(1, np.float32)])
    assert capfd.readouterr().err == ""
