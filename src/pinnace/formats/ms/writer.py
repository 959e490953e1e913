"""Writer of MindSpore Lite's `.ms`, in the form that `reader` describes.

Weights pass through without being held in memory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx_ir as ir

from pinnace.errors import UnsupportedModelError, UnsupportedPrimitive
from pinnace.formats import packing
from pinnace.formats.ms import schema, tables
from pinnace.program import NUMBERS, Function, Node, Program, Quantized, TypeInfo

_CONSTANT, _COMPUTED = 0, 2  # Tensor.nodeType
_NCHW, _NHWC = 0, 1  # Format
_FROM_ONNX = 2  # MetaGraph.fmkType
_NOTE = (("quantType", 0), ("deviceType", -1))
"""Fields of a node that attributes hold, with their defaults."""


def write(program: Program, path: str | os.PathLike[str]) -> list[Path]:
    """Write a program in MindSpore Lite's dialect; return its files.

    Raises UnsupportedModelError for element types that a `.ms` does not have, and for more than 2 GiB, which
    one FlatBuffer does not hold; and OSError.
    """
    try:
        buffer = tables.TableWriter(schema.load(), _Tables(program).root())
    except tables.TooLarge as error:
        raise _refused(program, "weights", f"{error}; a .mindir has files beside it for more") from None
    where = Path(path)
    with where.open("wb") as file:
        buffer.write(file)
    return [where]


def _refused(program: Program, what: str, reason: str, node: str = "") -> UnsupportedModelError:
    return UnsupportedModelError(program.source, [UnsupportedPrimitive(what, 1, node, reason)])


class _Tables:
    def __init__(self, program: Program) -> None:
        self.program = program
        functions = [program.main, *(f for f in program.functions.values() if f is not program.main)]
        self.functions = functions
        self.graphs = {f.name: i for i, f in enumerate(functions)}
        self.tensors: list[dict[str, Any]] = []
        self.places: dict[str, int] = {}
        self.nodes: list[dict[str, Any]] = []

    def root(self) -> dict[str, Any]:
        graphs = [self._graph(f) for f in self.functions]
        main = graphs[0]
        for place, name in zip(main["outputIndices"], self.program.output_names, strict=False):
            self.tensors[place]["name"] = name
        for place, name in zip(main["inputIndices"], self.program.input_names, strict=False):
            self.tensors[place]["name"] = name
        return {
            "name": self.program.producer,
            "version": self.program.version,
            "fmkType": _FROM_ONNX,
            "inputIndex": main["inputIndices"],
            "outputIndex": main["outputIndices"],
            "nodes": self.nodes,
            "allTensors": self.tensors,
            "subGraph": graphs,
        }

    def _graph(self, function: Function) -> dict[str, Any]:
        first_tensor, first_node = len(self.tensors), len(self.nodes)
        last = _with_channels_last(function)
        for port in function.inputs:
            self._tensor(port.name, port.type)["format"] = _NHWC if port.name in last else _NCHW
        for name, tensor in {**function.parameters, **function.constants}.items():
            if isinstance(tensor, ir.TensorProtocol):
                self._stored(name, tensor)
        for node in function.nodes:
            for i, name in enumerate(node.outputs):
                self._tensor(name, node.types[i] if i < len(node.types) else None)
        for node in function.nodes:
            self.nodes.append(self._node(node))
        for name, meaning in function.quantized.items():
            self._quantize(self.tensors[self.places[name]], meaning)
        return {
            "name": function.name,
            "inputIndices": [self.places[i.name] for i in function.inputs],
            "outputIndices": [self.places[name] for name in function.outputs],
            "nodeIndices": list(range(first_node, len(self.nodes))),
            "tensorIndices": list(range(first_tensor, len(self.tensors))),
        }

    def _tensor(self, name: str, declared: TypeInfo | None, kind: int = _COMPUTED) -> dict[str, Any]:
        tensor: dict[str, Any] = {"name": name, "nodeType": kind, "format": _NHWC}
        if declared is not None:
            dims = declared.shape
            if declared.dtype not in NUMBERS:
                reason = f"is of element type {declared.dtype.name}, which a .ms does not have"
                raise _refused(self.program, "tensor", reason, name)
            tensor["dataType"] = NUMBERS[declared.dtype]
            tensor["dims"] = [-1] if dims is None else [-1 if d is None else d for d in dims]
        self.places[name] = len(self.tensors)
        self.tensors.append(tensor)
        return tensor

    @staticmethod
    def _quantize(tensor: dict[str, Any], meaning: Quantized) -> None:
        """Write what the integers of a tensor stand for, and pack those of a weight that need few bits."""
        tensor["quantParams"] = [
            {"scale": scale, "zeroPoint": zero, "numBits": meaning.bits, "inited": True}
            for scale, zero in zip(meaning.scale, meaning.zero_point, strict=True)
        ]
        if "data" in tensor and meaning.bits not in (8, 16):
            number = schema.load().enums["WeightQuantCompressType"]["BITPACKING"]
            tensor["weightQuantCompressType"] = number
            tensor["data"] = ir.Tensor(packing.bit_packed(tensor["data"].numpy(), meaning.bits))

    def _stored(self, name: str, value: ir.TensorProtocol) -> None:
        declared = TypeInfo(value.dtype, tuple(value.shape.numpy()))
        self._tensor(name, declared, _CONSTANT)["data"] = value

    def _node(self, node: Node) -> dict[str, Any]:
        fields = schema.load().tables[node.primitive or "Call"]
        inputs = list(node.inputs)
        values = {name: _field(v) for name, v in node.attributes.items() if name in fields}
        if "sub_graph_index" in fields:
            values["sub_graph_index"] = self.graphs[inputs.pop(0)]
        return {
            "name": node.outputs[0],
            "primitive": {"value": (node.primitive or "Call", values)},
            "inputIndex": [self.places[name] for name in inputs],
            "outputIndex": [self.places[name] for name in node.outputs],
            **{name: node.attributes.get(name, default) for name, default in _NOTE},
        }


def _field(value: Any) -> Any:
    """The value of a primitive's field: rows of numbers are tables of one field each."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return {"data": [{"data": list(row)} for row in value]}
    return list(value) if isinstance(value, tuple) else value


def _with_channels_last(function: Function) -> set[str]:
    """The inputs that primitives for images read as they are, or after steps that keep the shape.

    MindSpore Lite opens no convolution over an input with channels first.
    """
    found: set[str] = set()
    for port in function.inputs:
        same, shape = {port.name}, port.type and port.type.shape
        for node in function.nodes:
            if same.isdisjoint(node.inputs):
                continue
            if node.attributes.get("format") == _NHWC and node.inputs[0] in same:
                found.add(port.name)
            if shape is not None and node.types and node.types[0] and node.types[0].shape == shape:
                same.add(node.outputs[0])
    return found
