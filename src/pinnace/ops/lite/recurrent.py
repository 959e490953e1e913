"""MindSpore Lite: recurrent layers, with weights as ONNX has them, and lists of tensors, which loops fill."""

from __future__ import annotations

import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.ops import binding
from pinnace.ops.lite.math import lite, lite_formulas
from pinnace.ops.mindspore import recurrent
from pinnace.ops.table import INT32, INT64, Dims, Dtype, Ints, Tensor
from pinnace.ops.values import Value


@lite("LSTM", unused="num_directions dropout")
def lstm(
    op: Builder,
    x: Tensor,
    *rest: Tensor,
    hidden_size: int = 0,
    input_size: int = 0,
    num_layers: int = 1,
    has_bias: bool = True,
    bidirectional: bool = False,
) -> Value:
    """LSTM; of a model that came from MindSpore as there."""
    if len(rest) == 3 and op.rank(rest[2]) == 3:
        h, c, w = rest
        layers = (input_size, hidden_size, num_layers, has_bias, bidirectional)
        return recurrent.lstm(op, x, h, c, w, *layers)[:3]
    weights, recurrence, bias, *states = rest
    return _layer(op, "LSTM", 3, x, weights, recurrence, bias, None, *states)


@lite("GRU", unused="bidirectional")
def _gru(
    op: Builder,
    x: Tensor,
    weights: Tensor,
    recurrence: Tensor,
    bias: Tensor,
    start: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Value:
    """GRU, which resets before the product."""
    lengths = None if lengths is None else op.cast(lengths, INT32)
    return _layer(op, "GRU", 2, x, weights, recurrence, bias, lengths, start)


def _layer(
    op: Builder, op_type: str, outputs: int, x: Tensor, weights: Tensor, recurrence: Tensor, *rest: Value
) -> Value:
    direction = "bidirectional" if op.static_shape(weights)[0] == 2 else "forward"
    hidden = op.static_shape(recurrence)[2]
    return op.ops(op_type, outputs, x, weights, recurrence, *rest, hidden_size=hidden, direction=direction)


@lite("TensorListReserve", unused="shape_type")
def _tensor_list_reserve(op: Builder, element_shape: Dims, count: Dims, element_dtype: Dtype) -> Value:
    return _zeros(op, (*count, *element_shape), element_dtype)


# -- lists of tensors: a list is one tensor, whose first dimension counts its members -----------------


@lite("TensorListSetItem", unused="element_dtype")
def list_set_item(op: Builder, items: Tensor, index: Tensor, item: Tensor) -> Value:
    place = op.reshape(op.cast(index, INT64), [1, 1])
    return op.ScatterND(items, place, op.Unsqueeze(item, [0]))


@lite("TensorArray", unused="dynamic_size identical_element_shapes")
def tensor_array(op: Builder, size: Dims, element_shape: Ints = (), data_type: int = 43) -> Value:
    """Expand of zero; the second result, the flow, is what the array holds."""
    empty = _zeros(op, (*size, *element_shape), binding.dtype_(op, data_type))
    return empty, empty


def _zeros(op: Builder, dims: Dims, dtype: ir.DataType) -> Tensor:
    if any(isinstance(d, int) and d < 0 for d in dims):
        raise Unsupported(f"makes a list of tensors of shape {list(dims)[1:]}, which must be fixed")
    return op.Expand(op.constant(0, dtype.numpy()), op.vector(dims))


lite_formulas(
    {
        "TensorArrayRead": lambda op, handle, index, flow: op.Gather(flow, op.scalar(index), axis=0),
        "TensorArrayWrite": lambda op, handle, index, item, flow: list_set_item(op, flow, index, item),
        "TensorListFromTensor": lambda op, x, element_shape=None: x,
        "TensorListGetItem": lambda op, x, index, element_shape=None: op.Gather(x, op.scalar(index), axis=0),
        "TensorListStack": lambda op, x, element_shape=None: op.Identity(x),
    },
    unused="handle element_shape element_dtype num_elements shape_type",
)
