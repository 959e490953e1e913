from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinnace import Context, Model, ModelGroup, ModelGroupFlag, ModelType
from pinnace.errors import ModelFormatError, ModelStateError

API = Path(__file__).parent / "data" / "api"
ADD, DENSE = str(API / "add.onnx"), str(API / "dense.onnx")


def test_models_of_a_group_build_and_run() -> None:
    group = ModelGroup(ModelGroupFlag.SHARE_WEIGHT)
    models = [Model(), Model()]
    group.add_model(models)
    for model in models:
        model.build_from_file(DENSE, ModelType.ONNX)
        assert np.asarray(model.predict([np.ones((1, 3), np.float32)])[0]).tolist() == [[6, 9]]


def test_paths_of_a_group() -> None:
    group = ModelGroup()
    group.add_model((ADD, DENSE))
    group.cal_max_size_of_workspace(ModelType.ONNX, Context())
    with pytest.raises(ModelFormatError, match="no such file does not exist"):
        group.add_model(["no such file"])


@pytest.mark.parametrize(
    ("models", "kind", "message"),
    [
        (1, TypeError, "models must be list/tuple, but got <class 'int'>"),
        (ADD, TypeError, "models must be list/tuple, but got <class 'str'>"),
        ([], RuntimeError, "models cannot be empty"),
        ([1], TypeError, "models element must be all str or Model, but got <class 'int'> at index 0."),
        ([ADD, Model()], TypeError, "but got <class 'pinnace.model.Model'> at index 1."),
        ([Model(), ADD], TypeError, "but got <class 'str'> at index 1."),
    ],
)
def test_wrong_models(models: object, kind: type, message: str) -> None:
    with pytest.raises(kind) as caught:
        ModelGroup().add_model(models)
    assert str(caught.value).endswith(message)


def test_wrong_flags_and_arguments() -> None:
    with pytest.raises(RuntimeError, match="flags must be ModelGroupFlag, but got <class 'int'>"):
        ModelGroup(1)
    group = ModelGroup(ModelGroupFlag.SHARE_WEIGHT_WORKSPACE)
    with pytest.raises(TypeError, match="context must be Context"):
        group.cal_max_size_of_workspace(ModelType.ONNX, 1)
    with pytest.raises(TypeError, match="model_type must be ModelType"):
        group.cal_max_size_of_workspace(1, Context())
    with pytest.raises(ModelStateError, match="add the paths of the models first"):
        group.cal_max_size_of_workspace(ModelType.ONNX, Context())
    with pytest.raises(ModelStateError, match="share weights only"):
        ModelGroup(ModelGroupFlag.SHARE_WEIGHT).cal_max_size_of_workspace(ModelType.ONNX, Context())


def test_a_built_model_comes_too_late() -> None:
    model = Model()
    model.build_from_file(ADD, ModelType.ONNX)
    with pytest.raises(ModelStateError, match="before it is built"):
        ModelGroup().add_model([model])
