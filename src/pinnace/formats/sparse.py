"""Conversion of sparse ONNX tensors to dense ones, as onnx-ir reads no sparse ones.

SparseTensorProto in onnx.proto: `values` of length N, `dims` of the dense tensor, and `indices`, of shape
(N,) into the flattened tensor, or of shape (N, rank).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from pinnace.errors import ModelFormatError
from pinnace.formats.protos import inner_graphs

_DENSE = 1 << 26
"""Maximum bytes of all dense forms of a file; a few bytes can declare terabytes."""


def make_dense(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], name: str) -> None:
    """Replace all sparse tensors of a model; `nodes` are all of its nodes.

    Raises ModelFormatError, which begins with `name`, if one is damaged or in another file, or if all
    together exceed 64 MiB.
    """
    budget = _DENSE
    for graph in (model.graph, *(graph for node in nodes for graph in inner_graphs(node))):
        for sparse in graph.sparse_initializer:
            graph.initializer.append(_dense(sparse, budget, name))
            budget -= len(graph.initializer[-1].raw_data)
        del graph.sparse_initializer[:]
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
                tensor = _dense(attribute.sparse_tensor, budget, name)
                budget -= len(tensor.raw_data)
                attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))


def _dense(sparse: onnx.SparseTensorProto, budget: int, name: str) -> onnx.TensorProto:
    what = f"{name}: sparse tensor {sparse.values.name!r}"
    parts = (sparse.values, sparse.indices)
    if any(part.data_location == onnx.TensorProto.EXTERNAL for part in parts):
        raise ModelFormatError(
            f"{what} lies in another file, which is not read: store it in the model, or dense"
        )
    try:
        values, indices = map(onnx.numpy_helper.to_array, parts)
        shape = tuple(sparse.dims)
        if min(shape, default=1) < 0 or math.prod(shape) * values.itemsize > budget:
            raise ModelFormatError(
                f"{what} of shape {list(shape)} takes more than {_DENSE >> 20} MiB when it is dense"
            )
        array = np.zeros(shape, values.dtype)
        places = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
        if places.size and places.min() < 0:
            raise IndexError(f"index {places.min()} is negative")
        array.reshape(-1)[places] = values
    except (ValueError, TypeError, IndexError) as error:
        raise ModelFormatError(f"{what} is damaged: {error}") from None
    return onnx.numpy_helper.from_array(array, sparse.values.name)
