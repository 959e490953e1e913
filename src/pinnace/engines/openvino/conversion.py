"""Conversion of graphs to OpenVINO's models.

OpenVINO's reader of ONNX copies weights, or expects them in files beside the model. So larger weights become
inputs of the graph that it reads, and these inputs are then replaced by constants over the mapped memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import openvino as ov
import openvino._pyopenvino as _pyopenvino
from openvino import opset13 as opset
from openvino.op import Constant

from pinnace.engines import duration
from pinnace.engines.folding_limits import allowance
from pinnace.engines.openvino.guards import guard
from pinnace.engines.openvino.precision import keep_float32, keep_halves, kept_compressed
from pinnace.engines.openvino.rewrites import rewrite
from pinnace.engines.openvino.supported import free_shapes, unsupported
from pinnace.engines.protocol import HALF_WEIGHTS, failures
from pinnace.errors import EngineError, LackingKernelsError
from pinnace.graph.walk import nodes
from pinnace.lowering.graph import Compilable
from pinnace.lowering.plan import PLANNED
from pinnace.types import Array, DataType, Interface
from pinnace.weights.source import SMALL, Source, size_of

FAILURES = failures(_pyopenvino)
"""The exceptions of OpenVINO."""

_SHARED = frozenset("bfiu?BHIQhqlLe")
"""Character codes of numpy dtypes with which constants can share memory."""

_MIN_ALLOWANCE = 1 << 20
"""Bytes of a folded result that must be allowed: OpenVINO has no setting to limit them."""

_PRODUCTS = frozenset(
    (
        *("Convolution", "ConvolutionBackpropData", "GroupConvolution", "GroupConvolutionBackpropData"),
        "MatMul",
    )
)


@dataclass(frozen=True)
class OpenvinoModel:
    """A graph in the form that OpenVINO reads; `weights` are inputs of it by name.

    `float32_results` are the names of results that are computed in float32 in any precision; weights of a
    `halved` graph stay in float16 until they are used.
    """

    name: str
    graph: bytes
    weights: Mapping[str, Array]
    interface: Interface
    first_state: Sequence[Array]
    float32_results: Collection[str] = ()
    halved: bool = False

    def read(self, weights: Mapping[str, Array], narrow: bool = False) -> ov.Model:
        """Return OpenVINO's model, in which `weights` replace those of the same names.

        Raises `LackingKernelsError` if not all shapes within the model are known.
        With `narrow`, weights that are multiplied in bfloat16 anyway are constants in bfloat16.
        """
        model = ov.Core().read_model(self.graph)
        wide = keep_float32(model, self.float32_results)
        for parameter in model.get_parameters():
            name = parameter.get_friendly_name()
            if name in self.weights:
                array = weights.get(name, self.weights[name])
                readers = parameter.output(0).get_target_inputs()
                is_narrow = narrow and array.dtype == np.float32 and all(_narrows(r, wide) for r in readers)
                constant = _in_bfloat16(array) if is_narrow else Constant(writable(array), shared_memory=True)
                constant.set_friendly_name(name)
                for reader in readers:
                    reader.replace_source_output(constant.output(0))
                model.remove_parameter(parameter)
        model.validate_nodes_and_infer_types()
        if undetermined := free_shapes(model):
            raise LackingKernelsError(self.name, undetermined)
        guard(model, {port.name for port in self.interface.inputs})
        if self.halved:
            keep_halves(model)
        return model


def _narrows(reader: ov.Input, wide: Collection[str]) -> bool:
    """Return True if a node multiplies by what this input takes, and is none of those kept wide."""
    node = reader.get_node()
    return node.get_type_name() in _PRODUCTS and node.get_name() not in wide


def _in_bfloat16(array: Array) -> ov.Node:
    """Return a constant in half the memory, rounded as OpenVINO would, that is converted where it is read."""
    rounded = array.astype(DataType.BFLOAT16.to_numpy()).view(np.uint16)
    tensor = ov.Tensor(rounded, ov.Shape(list(array.shape)), ov.Type.bf16)
    return kept_compressed(opset.convert(Constant(tensor, shared_memory=False), "f32"))


def encoded(graph: Compilable, source: Source | None = None) -> OpenvinoModel:
    """Encode a graph for OpenVINO. Raises `LackingKernelsError` or `EngineError`.

    The graph cannot be used afterwards. With the model's `source`, its mappings of weights are used.
    """
    refused = unsupported(graph.model)
    if refused:
        raise LackingKernelsError(graph.name, refused)
    allowed = allowance(graph.model)
    if not (allowed.folds and allowed.fits) or allowed.max_result < _MIN_ALLOWANCE:
        raise EngineError(f"{graph.name}: constant folding by OpenVINO would exceed the bounds of a build")
    duration.record(graph.model, graph.interface.info)
    rewrite(graph.model)
    variable = {name for v in graph.variable.values() for name in v.names}
    _read_within(graph.model, source)
    weights = _weights(graph.model.graph, variable, source)
    states = [np.array(value.numpy()) for value in graph.first_state]
    kept, halved = float32_results(graph.model), bool(graph.model.meta.get(HALF_WEIGHTS))
    try:
        text = _serialized(graph.model, weights)
        encoded_graph = OpenvinoModel(graph.name, text, weights, graph.interface, states, kept, halved)
        encoded_graph.read({})
    except FAILURES as error:
        reason = " ".join(str(error).split())[-500:]
        raise EngineError(f"{graph.name}: OpenVINO cannot read it: {reason}") from None
    return encoded_graph


def _weights(graph: ir.Graph, variable: Collection[str], source: Source | None) -> dict[str, Array]:
    """Return the weights to share with OpenVINO, and read other external ones into memory."""
    weights = {}
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if tensor is None:
            continue
        array = _data(tensor, source)
        if size_of(tensor) > (0 if name in variable else SMALL) and array.dtype.char in _SHARED:
            weights[name] = array
        elif isinstance(tensor, ir.ExternalTensor):
            value.const_value = _in_memory(tensor, source)
    return weights


def float32_results(model: ir.Model) -> set[str]:
    kept = (node for node in model.graph if node.meta.get(PLANNED) is ir.DataType.FLOAT)
    return {output.name for node in kept for output in node.outputs if output.name}


def _read_within(model: ir.Model, source: Source | None) -> None:
    """Read external tensors of `Constant` nodes into memory.

    OpenVINO would look for them in the working directory.
    """
    for node in nodes(model.graph):
        for attribute in list(node.attributes.values()):
            if isinstance(attribute.value, ir.ExternalTensor):
                node.attributes.add(ir.AttrTensor(attribute.name, _in_memory(attribute.value, source)))


def _in_memory(tensor: ir.TensorProtocol, source: Source | None) -> ir.TensorProtocol:
    return ir.Tensor(np.array(_data(tensor, source)), tensor.dtype, name=tensor.name)


def _data(tensor: ir.TensorProtocol, source: Source | None) -> Array:
    return tensor.numpy() if source is None else source.data_of(tensor)


def _serialized(model: ir.Model, weights: Mapping[str, Array]) -> bytes:
    """Serialize a model with its weights as inputs, and without types and shapes of intermediate values."""
    values = [model.graph.initializers.pop(name) for name in weights]
    tensors = [value.const_value for value in values]
    for value, array in zip(values, weights.values(), strict=True):
        assert value.const_value is not None
        value.type = ir.TensorType(value.const_value.dtype)
        value.shape, value.const_value = ir.Shape(array.shape), None
        model.graph.inputs.append(value)
    for node in model.graph:
        for output in node.outputs:
            if not output.is_graph_output():
                output.type = output.shape = None
    data = ir.serde.serialize_model(model).SerializeToString()
    del model.graph.inputs[-len(values) or len(model.graph.inputs) :]
    for value, tensor in zip(values, tensors, strict=True):
        value.const_value = tensor
        model.graph.register_initializer(value)
    return data


def writable(array: Array) -> Array:
    """Return the same memory as a writable array, which OpenVINO requires, although it only reads it."""
    array = with_known_dtype(np.asarray(array, order="C"))
    if array.flags.writeable or not array.nbytes:
        return array
    memory: Any = (ctypes.c_ubyte * array.nbytes).from_address(array.ctypes.data)
    memory.owner = array  # keeps it alive
    return np.ndarray(array.shape, array.dtype, memory)


def with_known_dtype(array: Array) -> Array:
    """Return the same memory with the one of numpy's two dtypes of 64-bit integers that OpenVINO knows."""
    return array.view(array.dtype.str) if array.dtype.char in "qQ" else array
