"""Reader of ONNX files, which leaves the weights in place."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from pinnace.errors import ModelFormatError, PinnaceError
from pinnace.formats.onnx_checks import check, check_tensor, every_graph
from pinnace.formats.protos import every_node
from pinnace.formats.sparse import make_dense
from pinnace.formats.wire import PAYLOAD, Fields, delimited, outline
from pinnace.weights.source import SMALL, Source

_TENSOR: Fields = {9: PAYLOAD}
_GRAPH: dict[int, Fields] = {5: _TENSOR}
_GRAPH[1] = {5: {5: _TENSOR, 6: _GRAPH, 11: _GRAPH}}  # nodes, their attributes, nested graphs
_MODEL: Fields = {7: _GRAPH, 25: {7: _GRAPH[1]}}
_RAW_DATA = 9  # field of TensorProto
_OWN = os.urandom(16)
"""Begins the payload in place of one that stays in the file; its offset and length follow. onnx-ir knows
tensors in other files, but for these it imports what checks models, which takes 3 ms."""


def read(source: Source) -> ir.Model:
    """Read an ONNX model. Raises ModelFormatError, with file and place, if it is damaged."""
    proto = onnx.ModelProto()
    earlier = sys.exception()
    try:
        proto.ParseFromString(outline(source.data, _MODEL, _reference, SMALL, source.name))
        if not proto.HasField("graph"):
            raise ModelFormatError(f"{source.name}: is not an ONNX model: it has no graph")
        _check_outputs(proto.graph.output, source.name)
        nodes = list(every_node(proto))
        make_dense(proto, nodes, source.name)
        for node in nodes:
            if not node.name and node.output:
                node.name = node.output[0]
        model = ir.from_proto(proto)
        graphs = every_graph(model)
        check(model, graphs, source.name)
    except PinnaceError:
        raise
    except (DecodeError, ValueError, TypeError, KeyError, AttributeError, ir.serde.SerdeError) as error:
        raise ModelFormatError(
            f"{source.name}: is not a valid ONNX model: {_reason(error, earlier)}"
        ) from None
    _place_weights(graphs, source)
    return model


def _check_outputs(outputs: Sequence[onnx.ValueInfoProto], name: str) -> None:
    """Raise ModelFormatError for an output that is a map, or a sequence of maps."""
    for output in outputs:
        kind = output.type
        while kind.HasField("sequence_type"):
            kind = kind.sequence_type.elem_type
        if kind.HasField("map_type"):
            raise ModelFormatError(
                f"{name}: output {output.name!r} is a map, and outputs are tensors: export the model without "
                f"the ZipMap before it (skl2onnx: options={{'zipmap': False}})"
            )


def _reason(error: BaseException, earlier: BaseException | None) -> str:
    """Return the first cause of an error: onnx-ir wraps it in errors that name only places in onnx-ir.

    `earlier` is the exception that the caller was handling before.
    """
    while (inner := error.__cause__ or error.__context__) and inner is not earlier:
        error = inner
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _reference(offset: int, length: int) -> bytes:
    return delimited(_RAW_DATA, _OWN + b"%d %d" % (offset, length))


def _place_weights(graphs: Sequence[ir.Graph], source: Source) -> None:
    for graph in graphs:
        for value in graph.initializers.values():
            if value.const_value is not None:
                value.const_value = _placed(value.const_value, source)
        for node in graph:
            for attribute in [*node.attributes.data.values()]:  # without the views of a UserDict
                if attribute.type is ir.AttributeType.TENSOR and attribute.value is not None:
                    placed = _placed(attribute.value, source)
                    if placed is not attribute.value:
                        node.attributes.add(ir.AttrTensor(attribute.name, placed))
                    if node.op_type == "Constant" and not node.domain and len(node.outputs) == 1:
                        _know(node.outputs[0], placed)


def _know(value: ir.Value, tensor: ir.TensorProtocol) -> None:
    """Note what a Constant gives, so that neither its attribute nor inference is asked for it again."""
    value.const_value, value.dtype, value.shape = tensor, tensor.dtype, ir.Shape(tensor.shape.numpy())


def _placed(tensor: ir.TensorProtocol, source: Source) -> ir.TensorProtocol:
    """Return a tensor at its place in a file; checks one that was parsed."""
    payload = tensor.raw.raw_data if isinstance(tensor, ir.serde.TensorProtoTensor) else b""
    if not (isinstance(tensor, ir.ExternalTensor) or payload.startswith(_OWN)):
        check_tensor(tensor, max(len(source.data), len(payload)), source.name)  # sparse ones are made dense
        return tensor
    name, shape = tensor.name or "", tuple(tensor.shape.numpy())
    if tensor.dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING):
        what = f"tensor {name!r} is of type {tensor.dtype.name}, which cannot lie in another file"
        raise ModelFormatError(f"{source.name}: {what}")
    if isinstance(tensor, ir.ExternalTensor):
        offset, length = tensor.offset or 0, -1 if tensor.length is None else tensor.length
        return source.external(name, tensor.dtype, shape, str(tensor.location), offset, length)
    offset, length = map(int, payload[len(_OWN) :].split())
    return source.tensor(name, tensor.dtype, shape, offset, length)
