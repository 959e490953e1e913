"""The modules and names that scripts written for mindspore_lite import."""

import subprocess
import sys
from importlib import import_module

import pytest

import pinnace

# The public names of mindspore_lite's modules, from its API listing and, for the older ones (device infos,
# RunnerConfig), from its tutorials.
NAMES = {
    "context": ["AscendDeviceInfo", "CPUDeviceInfo", "Context", "DeviceInfo", "GPUDeviceInfo"],
    "lite_infer": ["LiteInfer"],
    "model": [
        "Model",
        "ModelExecutor",
        "ModelGroup",
        "ModelGroupFlag",
        "ModelParallelRunner",
        "ModelType",
        "MultiModelRunner",
        "RunnerConfig",
    ],
    "tensor": ["DataType", "Format", "Tensor", "TensorMeta"],
}


@pytest.mark.parametrize("module", ["mindspore_lite", "mindspore_lite.llm_engine"])
def test_a_name_that_there_is_not_is_missing_in_mindspore_lite(module):
    with pytest.raises(AttributeError, match="module 'mindspore_lite' has no attribute 'Foo'"):
        import_module(f"pinnace.compat.{module}").Foo  # noqa: B018


@pytest.mark.parametrize("module", NAMES)
def test_a_module_gives_pinnaces_own_names(module):
    package = import_module("pinnace.compat.mindspore_lite")
    stand_in = import_module(f"pinnace.compat.mindspore_lite.{module}")
    assert sorted(stand_in.__all__) == sorted(NAMES[module])
    for name in NAMES[module]:
        assert getattr(stand_in, name) is getattr(pinnace, name)
        assert getattr(package, name) is getattr(pinnace, name)


def test_the_converter_is_where_scripts_look_for_it():
    from pinnace.compat.mindspore_lite import Converter, FmkType

    assert {member.name: member.value for member in FmkType} == {
        "TF": 0, "CAFFE": 1, "ONNX": 2, "MINDIR": 3, "TFLITE": 4, "PYTORCH": 5,
    }  # fmt: skip
    assert "weight_fp16: False" in str(Converter())


def test_nobody_is_given_the_stand_in_without_asking():
    code = "import pinnace, importlib.util as u, sys; sys.exit(u.find_spec('mindspore_lite') is not None)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_base_and_the_version_are_where_scripts_look_for_them():
    from pinnace.api.base_model import BaseModel
    from pinnace.compat.mindspore_lite import __version__, base_model, version

    assert base_model.BaseModel is BaseModel
    assert version.__version__ == __version__ == "2.0.0"


@pytest.mark.parametrize("module", [*NAMES, "base_model", "converter"])
def test_a_module_can_be_imported_by_its_old_name_under_exec(module):
    code = f"import mindspore_lite as t, mindspore_lite.{module} as m; print({{*m.__all__}} <= {{*dir(t)}})"
    command = [sys.executable, "-m", "pinnace", "exec", "-c", code]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == "True\n"


@pytest.mark.parametrize("module", ["mindspore_lite", "mindspore_lite.llm_engine"])
def test_names_of_language_models_say_what_they_are(module):
    code = f"from {module} import LLMEngine"
    command = [sys.executable, "-m", "pinnace", "exec", "-c", code]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (
        "LLMEngine is part of mindspore_lite's LLMEngine, which serves language models and runs on Ascend"
        in answer.stderr
    )


def test_dir_shows_the_public_names_and_all_can_be_imported():
    assert dir(pinnace) == sorted(pinnace.__all__)
    for name in pinnace.__all__:
        getattr(pinnace, name)
    errors = {name for name in vars(import_module("pinnace.errors")) if name.endswith(("Error", "Warning"))}
    assert errors - {"LackingKernelsError"} <= {*pinnace.__all__}
