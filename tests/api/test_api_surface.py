"""Every public name of mindspore_lite is there, with its signature, and importing it stays cheap."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import FunctionType

import pytest

import pinnace
from pinnace.api import base_model, group, infer, model, runner
from pinnace.options import context, devices
from pinnace.tensors import tensor

# Signatures as the API pages of mindspore_lite give them: methods, and properties (w: can be set).
METHODS = {
    (base_model, "BaseModel"): [
        "get_inputs(self)",
        "get_outputs(self)",
        "get_model_info(self, key)",
        "update_weights(self, weights)",
        "predict(self, inputs, outputs=None)",
        "resize(self, inputs, dims)",
    ],
    (model, "Model"): [
        "__init__(self)",
        "build_from_file(self, model_path, model_type, context=None, config_path='', config_dict=None, "
        "dec_key=None, dec_mode='AES-GCM', dec_num_parallel=0)",
        "get_outputs(self)",
        "get_inputs(self)",
        "update_weights(self, weights)",
        "predict(self, inputs, outputs=None)",
        "resize(self, inputs, dims)",
    ],
    (runner, "ModelParallelRunner"): [
        "__init__(self)",
        "build_from_file(self, model_path, context=None)",
        "init(self, model_path, runner_config=None)",
        "get_inputs(self)",
        "get_outputs(self)",
        "predict(self, inputs, outputs=None)",
    ],
    (runner, "RunnerConfig"): [
        "__init__(self, context=None, workers_num=None, config_info=None, config_path='')"
    ],
    (group, "ModelGroup"): [
        "__init__(self, flags=ModelGroupFlag.SHARE_WORKSPACE)",
        "add_model(self, models)",
        "cal_max_size_of_workspace(self, model_type, context)",
    ],
    (infer, "LiteInfer"): [
        "__init__(self, model_or_net, *net_inputs, context=None, model_group_id=None, config=None)",
        "get_inputs(self)",
        "resize(self, inputs, dims)",
    ],
    (tensor, "Tensor"): [
        "__init__(self, tensor=None, shape=None, dtype=None, device=None)",
        "get_data_to_numpy(self)",
        "set_data_from_numpy(self, numpy_obj)",
        "get_tensor_name(self)",
        "set_tensor_name(self, tensor_name)",
        "get_data_type(self)",
        "set_data_type(self, data_type)",
        "get_shape(self)",
        "set_shape(self, shape)",
        "get_format(self)",
        "set_format(self, tensor_format)",
        "get_element_num(self)",
        "get_data_size(self)",
    ],
    (tensor, "TensorMeta"): ["__init__(self)"],
    (context, "Context"): [
        "__init__(self, thread_num=None, inter_op_parallel_num=None, thread_affinity_mode=None, "
        "thread_affinity_core_list=None, enable_parallel=False)",
        "append_device_info(self, device_info)",
    ],
    (devices, "CPUDeviceInfo"): ["__init__(self, enable_fp16=False)"],
    (devices, "GPUDeviceInfo"): ["__init__(self, device_id=0, enable_fp16=False)"],
    (devices, "AscendDeviceInfo"): ["__init__(self, device_id=0)"],
}
PROPERTIES = {
    tensor.Tensor: {
        "data_size": "",
        "dtype": "w",
        "element_num": "",
        "format": "w",
        "name": "w",
        "shape": "w",
    }
    | {"device": ""},
    context.Context: {"target": "w", "group_info_file": "w"},
    devices.CPU: dict.fromkeys(
        [
            *("precision_mode", "thread_num", "inter_op_parallel_num", "thread_affinity_mode"),
            *("thread_affinity_core_list", "provider"),
        ],
        "w",
    ),
    devices.GPU: {"precision_mode": "w", "device_id": "w", "provider": "w", "rank_id": "", "group_size": ""},
    devices.Ascend: dict.fromkeys(["precision_mode", "device_id", "rank_id", "provider"], "w"),
    context.Parallel: dict.fromkeys(["workers_num", "config_info", "config_path", "device_ids"], "w"),
}


OURS = {
    "BaseModel.predict": ("timeout",),
    "Model.__init__": ("model", "context"),
    "ModelParallelRunner.__init__": ("model", "context"),
}


def plain(function: FunctionType, name: str) -> str:
    """The signature without annotations and without what only we have, written as in the table."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in OURS.get(function.__qualname__, ())
    ]
    text = str(inspect.Signature(parameters))
    return f"{name}{text}".replace("<ModelGroupFlag.SHARE_WORKSPACE: 2>", "ModelGroupFlag.SHARE_WORKSPACE")


@pytest.mark.parametrize(("where", "signature"), [(k, s) for k, all_ in METHODS.items() for s in all_])
def test_method(where: tuple, signature: str) -> None:
    module, owner = where
    name = signature.partition("(")[0]
    assert plain(getattr(getattr(module, owner), name), name) == signature


@pytest.mark.parametrize(("owner", "name"), [(o, n) for o, names in PROPERTIES.items() for n in names])
def test_property(owner: type, name: str) -> None:
    found = getattr(owner, name)
    assert isinstance(found, property)
    assert bool(found.fset) == bool(PROPERTIES[owner][name])
    assert found.__doc__


def test_public_names() -> None:
    assert {
        *("Context", "Model", "ModelType", "ModelParallelRunner", "ModelGroup", "ModelGroupFlag", "Tensor"),
        *("TensorMeta", "DataType", "Format", "LiteInfer", "CPUDeviceInfo", "GPUDeviceInfo"),
        *("AscendDeviceInfo", "RunnerConfig", "DeviceInfo"),
    } <= set(pinnace.__all__)
    assert all(hasattr(pinnace, name) for name in pinnace.__all__)


def test_import_is_light() -> None:
    """Engines and graph libraries take half a second; they come with the first build."""
    code = "import sys, pinnace; print([m for m in ('onnxruntime', 'onnx_ir', 'onnx') if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"
