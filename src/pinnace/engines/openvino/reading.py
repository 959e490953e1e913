"""Graphs -> OpenVINO's models.

OpenVINO's reader of ONNX copies weights, or wants them in files beside the model. So larger weights are made
inputs of the graph that it reads, and these inputs are then replaced by constants over the memory in which
the weights are mapped.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import openvino as ov
from openvino.op import Constant

from pinnace.compiler.graph import Compilable
from pinnace.compiler.plan import PLANNED
from pinnace.engines.folding import allowance
from pinnace.engines.openvino.guards import guard
from pinnace.engines.openvino.lacking import unknown, wrong
from pinnace.engines.openvino.spelling import respell
from pinnace.errors import EngineError, LackingKernelsError
from pinnace.types import Array, Interface
from pinnace.weights.source import SMALL, Source

_SHARED = frozenset("bfiu?BHIQhqlLe")
"""Kinds of numpy dtypes that constants share memory with."""

_ROOM = 1 << 20
"""Bytes of one result: OpenVINO cannot be told to leave larger ones for the run."""

_PRECISE = "precise_0"
"""What OpenVINO marks nodes with that keep their type where others are computed in 16 bits (see
transformations/rt_info of its source); that it is there counts."""


@dataclass(frozen=True)
class OpenvinoModel:
    """A graph as OpenVINO reads it: `weights` are inputs of it by their names.

    `kept_wide` are the names of what is computed in float32 whatever the precision of the rest is.
    """

    name: str
    graph: bytes
    weights: Mapping[str, Array]
    interface: Interface
    first_state: Sequence[Array]
    kept_wide: Collection[str] = ()

    def read(self, weights: Mapping[str, Array]) -> ov.Model:
        """OpenVINO's model, with `weights` in place of those of these names."""
        model = ov.Core().read_model(self.graph)
        for parameter in model.get_parameters():
            name = parameter.get_friendly_name()
            if name in self.weights:
                constant = Constant(writable(weights.get(name, self.weights[name])), shared_memory=True)
                constant.set_friendly_name(name)
                for reader in parameter.output(0).get_target_inputs():
                    reader.replace_source_output(constant.output(0))
                model.remove_parameter(parameter)
        model.validate_nodes_and_infer_types()
        guard(model, {port.name for port in self.interface.inputs})
        for node in model.get_ops() if self.kept_wide else ():
            if any(not output.get_names().isdisjoint(self.kept_wide) for output in node.outputs()):
                node.get_rt_info()[_PRECISE] = ""
        return model


def encoded(graph: Compilable, source: Source | None = None) -> OpenvinoModel:
    """Take a graph apart, which is of no use after. Raises `LackingKernelsError` or `EngineError`.

    With a `source`, the model's, weights are as that has them mapped.
    """
    if graph.model.functions:  # OpenVINO's reader ends the process for some that leave results unread
        from onnx_ir.passes.common import InlinePass  # few models need it, and it takes a while to import

        InlinePass()(graph.model)
    refused = wrong(graph.model)
    if refused:
        raise LackingKernelsError(graph.name, refused)
    allowed = allowance(graph.model)
    if not (allowed.folds and allowed.fits) or allowed.room < _ROOM:
        raise EngineError(f"{graph.name}: OpenVINO would compute too much of constants ahead of the run")
    respell(graph.model)
    variable = {name for v in graph.variable.values() for name in v.names}
    weights = {}
    _read_within(graph.model, source)
    for name, value in list(graph.model.graph.initializers.items()):
        tensor = value.const_value
        if tensor is None:
            continue
        array = _data(tensor, source)
        if (tensor.nbytes > SMALL or name in variable) and tensor.nbytes and array.dtype.char in _SHARED:
            weights[name] = array
        elif isinstance(tensor, ir.ExternalTensor):
            value.const_value = _in_memory(tensor, source)
    states = [np.array(value.numpy()) for value in graph.first_state]
    kept = kept_wide(graph.model)
    try:  # a damaged file can hold what cannot be written
        text = _serialised(graph.model, weights)
        made = OpenvinoModel(graph.name, text, weights, graph.interface, states, kept)
        made.read({})
    except Exception as error:
        missing = unknown(graph.model, str(error))
        if missing:
            raise LackingKernelsError(graph.name, missing) from None
        raise EngineError(f"{graph.name}: OpenVINO cannot read it: {_line(error)}") from None
    return made


def kept_wide(model: ir.Model) -> set[str]:
    """The names of what the nodes give that a plan keeps in float32."""
    kept = (node for node in model.graph if node.meta.get(PLANNED) is ir.DataType.FLOAT)
    return {output.name for node in kept for output in node.outputs if output.name}


def _read_within(model: ir.Model, source: Source | None) -> None:
    """Put what `Constant` nodes, branches and loops hold into memory.

    OpenVINO would look for it in the working directory.
    """
    for graph in model.graph.subgraphs():
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value = _in_memory(value.const_value, source)
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for attribute in list(node.attributes.values()):
            if isinstance(attribute.value, ir.ExternalTensor):
                node.attributes.add(ir.AttrTensor(attribute.name, _in_memory(attribute.value, source)))


def _in_memory(tensor: ir.TensorProtocol, source: Source | None) -> ir.TensorProtocol:
    return ir.Tensor(np.array(_data(tensor, source)), tensor.dtype, name=tensor.name)


def _data(tensor: ir.TensorProtocol, source: Source | None) -> Array:
    return tensor.numpy() if source is None else source.data_of(tensor)


def _serialised(model: ir.Model, weights: Mapping[str, Array]) -> bytes:
    """The model as bytes, with the weights as inputs, and with nothing said of what lies between."""
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
    made = ir.serde.serialize_model(model).SerializeToString()
    del model.graph.inputs[-len(values) or len(model.graph.inputs) :]
    for value, tensor in zip(values, tensors, strict=True):
        value.const_value = tensor
        model.graph.register_initializer(value)
    return made


def writable(array: Array) -> Array:
    """The same memory, as an array that says it may be written: OpenVINO asks for that, and never does."""
    array = known(np.asarray(array, order="C"))
    if array.flags.writeable or not array.nbytes:
        return array
    memory: Any = (ctypes.c_ubyte * array.nbytes).from_address(array.ctypes.data)
    memory.owner = array  # lives as long as what is made of it
    return np.ndarray(array.shape, array.dtype, memory)


def known(array: Array) -> Array:
    """The same memory, as the one of numpy's two kinds of 64-bit integers that OpenVINO knows."""
    return array.view(array.dtype.str) if array.dtype.char in "qQ" else array


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[-500:]
