"""Order of dimensions: what images and weights look like to ONNX, which knows channels first only.

A model whose images have their channels last (`b.layout`) is lowered with a `Transpose` before and one
after each operator on images. Neighboring ones meet and vanish here; those with elementwise operators
between them are moved together and cancelled by the engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.program import Layout
from pinnace.weights.placed import PlacedTensor, lazy


def permuted(op: Builder, x: ir.Value, perm: tuple[int, ...]) -> ir.Value:
    """Dimensions reordered, with as few nodes as that takes; result dimension i is dimension perm[i].

    1. A permutation that changes nothing is no node.
    2. A weight of which only dimensions of size 1 move has the same bytes: it stays where it lies.
    3. A transposed tensor is transposed from where it came.
    4. Of a quantized weight the integers are reordered: engines look for their meaning beside its use.
    """
    if sorted(perm) != list(range(len(perm))):
        raise Unsupported(f"has {list(perm)} as the order of dimensions, which is not a permutation")
    if perm == tuple(range(len(perm))):
        return x
    if x.const_value is not None and keeps_bytes(x.const_value.shape.numpy(), perm) and not op.changes(x):
        dims = x.const_value.shape.numpy()
        return reshaped_weight(op, x.const_value, tuple(dims[p] for p in perm))
    node = x.producer()
    if node is not None and node.op_type == "DequantizeLinear" and _is_weight(node.inputs[0]):
        return _permuted_integers(op, node, perm)
    if node is not None and node.op_type == "Transpose" and node.inputs[0] is not None:
        before = tuple(node.attributes["perm"].as_ints())
        return permuted(op, node.inputs[0], tuple(before[p] for p in perm))
    return op.transpose(x, perm)


def channels_first(op: Builder, x: ir.Value, layout: Layout | None = None) -> ir.Value:
    """An image of a layout, or else the model's, as N, C, spatial dimensions."""
    rank = op.rank(x) if (layout or op.layout) is Layout.NHWC else 0
    return permuted(op, x, (0, rank - 1, *range(1, rank - 1))) if rank else x


def channels_back(op: Builder, y: ir.Value, x: ir.Value, layout: Layout | None = None) -> ir.Value:
    """`y`, which is N, C, spatial dimensions and was made of the image `x`, in the layout of `x`."""
    return y if (layout or op.layout) is Layout.NCHW else permuted(op, y, (0, *range(2, op.rank(x)), 1))


def channel_axis(op: Builder, x: ir.Value) -> int:
    return 1 if op.layout is Layout.NCHW else op.rank(x) - 1


def reshaped_weight(op: Builder, tensor: ir.TensorProtocol, dims: tuple[int, ...]) -> ir.Value:
    """A weight with other dimensions over the same bytes."""
    name = tensor.name or ""
    if isinstance(tensor, ir.ExternalTensor):
        return op.weight(
            PlacedTensor(
                tensor.location,
                tensor.offset,
                tensor.length,
                tensor.dtype,
                shape=ir.Shape(dims),
                name=name,
                base_dir=tensor.base_dir,
            )
        )
    return op.weight(lazy(lambda: tensor.numpy().reshape(dims), tensor.dtype, dims, name))


def _is_weight(x: ir.Value | None) -> bool:
    return x is not None and x.const_value is not None


def _permuted_integers(op: Builder, node: ir.Node, perm: tuple[int, ...]) -> ir.Value:
    integers, *parameters = node.inputs
    assert integers is not None
    axis = node.attributes.get("axis")
    moved = None if axis is None else perm.index(axis.as_int())
    return op.DequantizeLinear(_turned_weight(op, integers, perm), *parameters, axis=moved)


def _turned_weight(op: Builder, integers: ir.Value, perm: tuple[int, ...]) -> ir.Value:
    """A weight of integers, reordered when it is read: OpenVINO computes with floats after a Transpose."""
    tensor = integers.const_value
    if tensor is None or op.changes(integers) or keeps_bytes(tensor.shape.numpy(), perm):
        return permuted(op, integers, perm)
    return op.weight(reordered_weight(tensor, perm))


def reordered_weight(tensor: ir.TensorProtocol, perm: tuple[int, ...]) -> ir.LazyTensor:
    dims = tensor.shape.numpy()
    turned = [dims[p] for p in perm]
    return lazy(
        lambda: np.ascontiguousarray(tensor.numpy().transpose(perm)), tensor.dtype, turned, tensor.name
    )


def keeps_bytes(dims: Sequence[int], perm: tuple[int, ...]) -> bool:
    large = [p for p in perm if dims[p] != 1]
    return large == sorted(large)
