"""Models of one node `Custom`, made by hand, and what they give."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import AttributeProto, helper, numpy_helper

from pinnace.building.build import build_model as build
from pinnace.errors import UnsupportedModelError
from pinnace.options.settings import Settings
from pinnace.options.target import Target

BOTH = ("onnxruntime", "openvino")
CLOSE = {"rtol": 2e-5, "atol": 2e-6}  # sums in float32, in another order
HALF = {"rtol": 2e-3, "atol": 1e-3}  # one rounding to float16, whose steps are 1e-3 of a number


def arrays(seed: int, *shapes: tuple[int, ...], dtype=np.float32) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.normal(size=shape).astype(dtype) for shape in shapes]


def model(
    kind: str, inputs: dict, results: int = 1, fixed: tuple = (), opset: int = 17, **attributes
) -> bytes:
    """A model of one node; the inputs named in `fixed` are weights, those that are None are left out."""
    given = {name: array for name, array in inputs.items() if array is not None}
    types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in given.items()}
    names = [name if name in given else "" for name in inputs]
    outputs = [f"result{i}" for i in range(results)]
    named = {"type": kind, "input_names": list(inputs), "output_names": outputs, "output_num": results}
    node = helper.make_node("Custom", names, outputs, name="the node")
    node.attribute.extend(
        helper.make_attribute(key, value, attr_type=AttributeProto.STRINGS if value == [] else None)
        for key, value in (named | attributes).items()
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, types[n], given[n].shape) for n in given if n not in fixed],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(given[n], n) for n in fixed],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    ).SerializeToString()


def ran(
    kind: str, inputs: dict, *, fixed: tuple = (), engine: str = "onnxruntime", **options
) -> list[np.ndarray]:
    made = model(kind, inputs, fixed=fixed, **options)
    executable = build(made, None, Target(threads=1, provider=engine), Settings())
    feed = [np.ascontiguousarray(a) for name, a in inputs.items() if a is not None and name not in fixed]
    return executable.execution().run(feed)


def refusal(kind: str, inputs: dict, **options) -> str:
    with pytest.raises(UnsupportedModelError) as caught:
        ran(kind, inputs, **options)
    return str(caught.value)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)
