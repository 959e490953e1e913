"""Inference of element types and shapes: ONNX's own, node by node."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

import onnx
import onnx_ir as ir

from pinnace.graph import shape_data
from pinnace.graph.failures import RankUnknown, Unsupported
from pinnace.graph.walk import inner_graphs

OPSET = 21
"""The ONNX operator set that lowerings write: the newest that all our engines read."""

InferenceError = onnx.shape_inference.InferenceError
_MOST = 64
"""Elements of constants that ONNX's inference is given."""

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
        shape = shape_data.dims_of(x)
        if shape is None:
            raise RankUnknown(f"the rank of {x.name!r} is unknown")
        return shape

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
        with suppress(InferenceError):  # used wrongly: the engine will say it
            infer_node(node, opset)


def refine(node: ir.Node, opset: int) -> None:
    """Infer types and shapes of a node's results again, now that more is known of its inputs.

    Follows small integers, too, which the shapes of other nodes may come from. Raises InferenceError where
    the inputs do not fit the operator.
    """
    declared = [output.shape for output in node.outputs]
    for output in node.outputs:
        output.shape = None
    try:
        infer_node(node, opset)
    finally:
        computed = shape_data.shape_after(node)
        if computed is not None:
            node.outputs[0].shape = _both(node.outputs[0].shape, ir.Shape(computed))
        for output, shape in zip(node.outputs, declared, strict=True):
            output.shape = _both(output.shape, shape)
        shape_data.follow(node, opset)


def _both(found: ir.Shape | None, other: ir.Shape | None) -> ir.Shape | None:
    """Return the dimensions of a tensor by two sources; the first has the rank."""
    if found is None or other is None or len(found) != len(other):
        return other if found is None else found
    return ir.Shape([d if isinstance(d, int) else o for d, o in zip(found, other, strict=True)])


def common_shape(first: ir.Shape | None, second: ir.Shape | None) -> ir.Shape | None:
    """Return the shape of a tensor that has one of two, free where they differ; None if the ranks do."""
    if first is None or second is None or len(first) != len(second):
        return None
    return ir.Shape([m if m == n else None for m, n in zip(first, second, strict=True)])


@cache
def since(op_type: str, opset: int, domain: str = "") -> int:
    """The set that defined an operator as an operator set has it; the set itself if it lacks it."""
    try:
        return int(onnx.defs.get_schema(op_type, opset, domain).since_version)
    except onnx.defs.SchemaError:
        return opset


def infer_node(node: ir.Node, opset: int) -> None:
    """Fill in what ONNX's inference tells of a node's outputs; its InferenceError where inputs do not fit."""
    if node.domain or inner_graphs(node):
        return
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for value in node.inputs:
        if value is None or value.name is None:
            continue
        if value.dtype is None:
            return
        types[value.name] = onnx.helper.make_tensor_type_proto(value.dtype.value, shape_data.dims_of(value))
        with suppress(ir.serde.SerdeError):  # it will hold other values, or the file is damaged
            if (tensor := _tensor(value)) is not None:
                data[value.name] = tensor
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


def _tensor(value: ir.Value) -> onnx.TensorProto | None:
    """Return what a short constant holds, or the integers that are known of another tensor."""
    constant = ir.convenience.get_const_tensor(value)  # of an operator Constant, too
    if constant is None:
        known = shape_data.exact(value)
        return None if known is None else onnx.numpy_helper.from_array(known, value.name)
    if constant.size > _MOST:
        return None
    made = ir.serde.serialize_tensor(constant)
    made.name = value.name or ""
    return made


def _take(value: ir.Value, inferred: onnx.TypeProto.Tensor) -> None:
    if value.dtype is None and inferred.elem_type:
        value.dtype = ir.DataType(inferred.elem_type)
    if value.shape is None and inferred.HasField("shape"):
        value.shape = ir.Shape([d.dim_value if d.HasField("dim_value") else None for d in inferred.shape.dim])
