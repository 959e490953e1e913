"""Inference of element types and shapes: ONNX's own, over the nodes that compute a value."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import onnx
import onnx_ir as ir

from pinnace.graph.failures import RankUnknown, Unsupported

OPSET = 21
"""The ONNX operator set that lowerings write: the newest that all our engines read."""

_NONE: Mapping[ir.Value, ir.TensorProtocol] = {}

_INFERRED_AS = {"GreaterOrEqual": "Greater", "LessOrEqual": "Less"}
_INFERRED_AS |= {"GroupNormalization": "LayerNormalization", "MeanVarianceNormalization": "Identity"}
_INFERRED_AS |= {"SimplifiedLayerNormalization": "LayerNormalization"}  # onnxruntime's
"""Operators whose shapes onnx infers only by what they are made of, and others with the same shapes."""


class Types:
    """Types and shapes of the tensors of a graph; what nothing has declared is inferred."""

    def __init__(self, opset: int = OPSET) -> None:
        self.opset = opset
        """The ONNX operator set of the graph."""

    def dtype(self, x: ir.Value) -> ir.DataType:
        """Element type of a tensor."""
        dtype = self.known_dtype(x)
        if dtype is None:
            raise Unsupported(f"the element type of {x.name!r} is unknown")
        return dtype

    def known_dtype(self, x: ir.Value) -> ir.DataType | None:
        """Element type of a tensor, None where it is unknown."""
        if x.dtype is None:
            infer(x, self.opset)
        return x.dtype

    def shape(self, x: ir.Value) -> tuple[int | None, ...]:
        """Dimensions of a tensor, None where free; Unsupported where not even the rank is known."""
        if x.shape is None:
            infer(x, self.opset)
        if x.shape is None:
            raise RankUnknown(f"the rank of {x.name!r} is unknown")
        return tuple(d if isinstance(d, int) else None for d in x.shape)

    def rank(self, x: ir.Value) -> int:
        """Number of dimensions."""
        return len(self.shape(x))

    def axis(self, axis: int, x: ir.Value) -> int:
        """`axis` counted from the front."""
        return axis % (self.rank(x) or 1) if axis < 0 else axis

    def static_shape(self, x: ir.Value) -> tuple[int, ...]:
        """Dimensions of a tensor that has no free one."""
        shape = self.shape(x)
        known = tuple(d for d in shape if d is not None)
        if len(known) != len(shape):
            raise Unsupported(
                f"needs all dimensions fixed, but they are {list(shape)}: fix them by shapes of the inputs"
            )
        return known


def opset_of(model: ir.Model) -> int:
    """The ONNX operator set that a model is written in."""
    return model.opset_imports.get("", OPSET)


def infer(x: ir.Value, opset: int) -> None:
    """Fill in type and shape of `x` by ONNX's own inference over the nodes, of a set, that compute it."""
    pending = [x]
    seen: set[ir.Value] = set()  # whose inputs are known, or have been asked: what failed once fails again
    while pending:
        value = pending[-1]
        node = value.producer()
        if node is None or (value.shape is not None and value.dtype is not None):
            pending.pop()
            continue
        if value not in seen:
            seen.add(value)
            unknown = [i for i in node.inputs if i is not None and (i.shape is None or i.dtype is None)]
            pending += [i for i in unknown if i.producer() and i not in seen]
            continue
        pending.pop()
        with suppress(onnx.shape_inference.InferenceError):  # used wrongly: the engine will say it
            infer_node(node, opset)


def infer_node(node: ir.Node, opset: int, values: Mapping[ir.Value, ir.TensorProtocol] = _NONE) -> None:
    """Fill in what ONNX's inference tells of a node's outputs; its InferenceError where inputs do not fit.

    `values` holds what is known of inputs that are no constants.
    """
    if node.domain or any(a.type is ir.AttributeType.GRAPH for a in node.attributes.values()):
        return
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for value in node.inputs:
        if value is None or value.name is None:
            continue
        if value.dtype is None:
            return
        types[value.name] = _type_proto(value)
        known = values.get(value) or ir.convenience.get_const_tensor(value)  # of an operator Constant, too
        if known is not None and known.size <= 64:
            with suppress(ir.serde.SerdeError):  # it will hold other values, or the file is damaged
                data[value.name] = ir.serde.serialize_tensor(known)
                data[value.name].name = value.name
    try:
        proto = ir.serde.serialize_node(node)
        schema = onnx.defs.get_schema(_INFERRED_AS.get(node.op_type, node.op_type), opset)
        inferred = onnx.shape_inference.infer_node_outputs(
            schema, proto, types, data, opset_imports=[onnx.helper.make_opsetid("", opset)]
        )
        for output in node.outputs:
            if output.name in inferred and inferred[output.name].HasField("tensor_type"):
                _take(output, inferred[output.name].tensor_type)
    except (onnx.defs.SchemaError, onnx.checker.ValidationError, ir.serde.SerdeError, ValueError):
        pass  # there is no such operator, or no such element type: the engine will say it


def _type_proto(value: ir.Value) -> onnx.TypeProto:
    assert value.dtype is not None
    shape = None if value.shape is None else [d if isinstance(d, int) else None for d in value.shape]
    return onnx.helper.make_tensor_type_proto(value.dtype.value, shape)


def _take(value: ir.Value, inferred: onnx.TypeProto.Tensor) -> None:
    if value.dtype is None and inferred.elem_type:
        value.dtype = ir.DataType(inferred.elem_type)
    if value.shape is None and inferred.HasField("shape"):
        value.shape = ir.Shape([d.dim_value if d.HasField("dim_value") else None for d in inferred.shape.dim])
