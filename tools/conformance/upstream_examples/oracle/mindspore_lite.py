"""The part of mindspore_lite's API that upstream's scripts use, on onnxruntime without optimization.

The oracle of `tools/conformance/upstream_examples`: it computes `NAME.mindir` with the ONNX file that this was converted from,
which lies beside it as `NAME.onnx`, and shares no code with Pinnace.
"""

import enum
from pathlib import Path

import numpy as np
import onnxruntime


class ModelType(enum.Enum):
    MINDIR = 0
    MINDIR_LITE = 4


class Format(enum.Enum):
    DEFAULT = -1
    NCHW = 0
    NHWC = 1


class DataType(enum.Enum):
    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"


class ModelGroupFlag(enum.Enum):
    SHARE_WORKSPACE = 1
    SHARE_WEIGHT = 2


class _Anything:
    """An object that takes every attribute: the options of a device."""

    def __init__(self):
        self.device_id = 0


class Context:
    def __init__(self, thread_num=None, thread_affinity_mode=None, thread_affinity_core_list=None):
        self.target = ["cpu"]
        self.cpu, self.gpu, self.ascend = _Anything(), _Anything(), _Anything()


class Tensor:
    def __init__(self, tensor=None, device=None, *, name="", shape=(), dtype=DataType.FLOAT32):
        self.name, self._shape, self._dtype, self._data = name, list(shape), dtype, None
        if tensor is not None:
            self.set_data_from_numpy(tensor.get_data_to_numpy() if isinstance(tensor, Tensor) else tensor)

    @property
    def shape(self):
        return self._shape

    @shape.setter
    def shape(self, value):
        self._shape, self._data = list(value), None

    @property
    def dtype(self):
        return self._dtype

    @dtype.setter
    def dtype(self, value):
        self._dtype = value

    def set_data_from_numpy(self, array):
        self._data = np.array(array)
        self._shape, self._dtype = list(array.shape), DataType(array.dtype.name)

    def get_data_to_numpy(self):
        return np.zeros(self._shape, self._dtype.value) if self._data is None else np.array(self._data)


class Model:
    def build_from_file(self, model_path, model_type, context=None, config_path="", config_dict=None, **_):
        file = Path(model_path).with_suffix(".onnx")
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self._inputs = [
            Tensor(
                name=i.name,
                shape=[n if isinstance(n, int) else -1 for n in i.shape],
                dtype=_data_type(i.type),
            )
            for i in self._session.get_inputs()
        ]

    def get_inputs(self):
        return self._inputs

    def get_outputs(self):
        return [Tensor(name=o.name, dtype=_data_type(o.type)) for o in self._session.get_outputs()]

    def resize(self, inputs, dims):
        for tensor, shape in zip(self._inputs, dims, strict=True):
            tensor.shape = shape

    def predict(self, inputs, outputs=None):
        known = self._session.get_inputs()
        feed = {
            i.name: tensor.get_data_to_numpy().astype(_numpy_type(i.type))
            for i, tensor in zip(known, inputs, strict=True)
        }
        names = [o.name for o in self._session.get_outputs()]
        results = self._session.run(names, feed)
        if outputs is None:
            outputs = [Tensor(name=name) for name in names]
        for tensor, result in zip(outputs, results, strict=True):
            tensor.set_data_from_numpy(result)
        return outputs


class ModelGroup:
    def __init__(self, flag=ModelGroupFlag.SHARE_WORKSPACE):
        pass

    def add_model(self, models):
        pass

    def cal_max_size_of_workspace(self, model_type, context):
        pass


def _numpy_type(name):
    return {"float": "float32", "double": "float64"}.get(name[7:-1], name[7:-1])


def _data_type(name):
    kind = _numpy_type(name)  # upstream's converter makes int32 of int64
    return DataType({"int64": "int32", "float64": "float32"}.get(kind, kind))
