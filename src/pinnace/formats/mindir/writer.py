"""Writer of MindIR, in the form of MindSpore 2.0, which later ones and MindSpore Lite 2.0 read, too.

`reader` has its conventions.

Weights pass through without being held in memory. Over 1 GiB of them, MindSpore's form is two files:
`NAME_graph.mindir`, and beside it `NAME_variables/data_0`, in which each weight begins at a multiple of 64
bytes, the first one at 64, after a number that tells the order of bytes.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx_ir as ir

from pinnace import program_structure as structure
from pinnace.formats.messages import Proto
from pinnace.formats.mindir import quantized
from pinnace.formats.mindir.reader import DTYPES
from pinnace.formats.mindir.schema import number_of, written_class
from pinnace.formats.wire import head
from pinnace.program import (
    Dialect,
    Function,
    FunctionRef,
    Literal,
    Monad,
    Node,
    Program,
    Quantized,
    TypeInfo,
)

_SPLIT = 1 << 30
"""Bytes of weights from which MindSpore writes them to a file of their own."""
_ALIGNED = 64
_ORDER_OF_BYTES = (1).to_bytes(_ALIGNED, "little")
_KIND = number_of("AttributeProto.AttributeType")
_LATER: Mapping[tuple[str, str], object] = {("Activation", "beta"): 0.0}
"""Fields of releases after 2.0 of MindSpore Lite, with the values that say nothing: its 2.0 gets none."""
_NUMBERS = {dtype: number for number, dtype in reversed(DTYPES.items())}
_GRAPH, _FUNCTION, _PARAMETER, _RAW = 7, 8, 3, 9  # fields of ModelProto, GraphProto and TensorProto

_OF_LITE: Mapping[str, Any] = {"fmk": np.int32(2), "graph_name": "main", "isOptimized": True, "format": 0}
"""Facts that MindSpore Lite wants of a graph: it comes from ONNX, is converted, and its images are NCHW."""


def write(program: Program, path: str | os.PathLike[str], split: int = _SPLIT) -> list[Path]:
    """Write a program; return its files.

    With more than `split` bytes of weights the path's name gets `_graph` before its suffix, as in MindSpore.
    Raises OSError.
    """
    where = Path(path)
    tensors = [t for f in program.functions.values() for t in f.parameters.values()]
    if sum(t.nbytes for t in tensors) <= split:
        with where.open("wb") as file:
            _Messages(program).write(file, {})
        return [where]
    stem = where.stem.removesuffix("_graph")
    beside = where.with_name(f"{stem}_variables") / "data_0"
    where = where.with_name(f"{stem}_graph.mindir")
    beside.parent.mkdir(exist_ok=True)
    with beside.open("wb") as file:
        places = _write_beside(file, program)
    with where.open("wb") as file:
        _Messages(program).write(file, places, f"{beside.parent.name}/{beside.name}")
    return [where, beside]


def _write_beside(file: BinaryIO, program: Program) -> dict[int, int]:
    """Write all weights to a file of their own; return the offset of each by its id."""
    file.write(_ORDER_OF_BYTES)
    places: dict[int, int] = {}
    for function in program.functions.values():
        for tensor in function.parameters.values():
            places[id(tensor)] = file.tell()
            tensor.tofile(file)  # type: ignore[attr-defined]
            file.write(bytes(-file.tell() % _ALIGNED))
    return places


class _Messages:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.primitives: dict[tuple[str, str], Proto] = {}
        self.constants: set[str] = set()  # names are unique in a file
        self.count = 0
        """The nodes written so far."""
        self.model = written_class()(
            ir_version="1.1",
            producer_name=program.producer,
            producer_version=program.version,
            model_version=program.version,
            little_endian=True,
            mind_ir_version=number_of("Version")["IR_VERSION"],
        )
        for name, value in program.user_info.items():
            self.model.user_info.add(key=name, value=value)

    def write(self, file: BinaryIO, places: Mapping[int, int], location: str = "") -> None:
        """Write the model; weights with an offset in `places` are in the file at `location`."""
        main, *others = sorted(self.program.functions.values(), key=lambda f: f is not self.program.main)
        graphs = [(_GRAPH, main), *((_FUNCTION, other) for other in others)]
        parts = [(number, f, self._graph(f)) for number, f in graphs]
        self.model.primitives.extend(self.primitives.values())
        file.write(self.model.SerializeToString())
        for number, function, proto in parts:
            heads: list[tuple[bytes, ir.TensorProtocol | None]] = []
            for name, tensor in function.parameters.items():
                proto_of = self._parameter(name, tensor)
                if name in function.quantized:
                    quantized.describe(proto_of, function.quantized[name], tensor.dtype.bitwidth)
                if id(tensor) in places:
                    proto_of.external_data.location = location
                    proto_of.external_data.offset = places[id(tensor)]
                    proto_of.external_data.length = tensor.nbytes
                    heads.append((proto_of.SerializeToString(), None))
                else:
                    heads.append((proto_of.SerializeToString() + head(_RAW, tensor.nbytes), tensor))
            _write_graph(file, number, proto.SerializeToString(), heads)

    def _parameter(self, name: str, tensor: ir.TensorProtocol) -> Proto:
        proto = written_class()().graph.parameter.add(name=name, ref_key=tensor.name or name)
        _describe(proto, TypeInfo(tensor.dtype, tuple(tensor.shape.numpy())))
        return proto

    def _graph(self, function: Function) -> Proto:
        """Return the message of a function without its parameters."""
        graph = written_class()().graph
        graph.name = function.name
        for name, value in _OF_LITE.items() if self.program.dialect is Dialect.LITE else ():
            _literal(graph.attribute.add(name=name), value)
        types: dict[str, list[TypeInfo | None]] = {i.name: [i.type] for i in function.inputs}
        is_main = function is self.program.main
        shown = self._shown() if is_main else {}
        for name, text in self.program.converted_for.items() if function is self.program.main else ():
            _literal(graph.attribute.add(name=name), text)
        for name, literal in function.constants.items():
            if name in self.constants:
                continue
            self.constants.add(name)
            node = graph.node.add(name=name, op_type="Constant", output=[name])
            _literal(node.attribute.add(name="value"), literal)
        for node in function.nodes:
            self._node(
                graph.node.add(),
                node,
                function.quantized.get(node.outputs[0]),
                shown.get(node.outputs[0], {}),
            )
            types[node.outputs[0]] = list(node.types)
        names = self.program.input_names if is_main else ()
        for port, name in itertools.zip_longest(function.inputs, names):
            described = graph.input.add(name=port.name)
            if port.type is not None:
                _describe(described.tensor.add(name=name or port.name), port.type)
        names = self.program.output_names if is_main else ()
        for place, name in enumerate(function.outputs):
            self._output(graph.output.add(name=name), types.get(name, []), names if place == 0 else ())
        return graph

    def _shown(self) -> dict[str, dict[int, str]]:
        """Return the names of the model's results, by the nodes that give them and the place in their own."""
        main, found = self.program.main, dict[str, dict[int, str]]()
        made = {node.outputs[0]: node for node in main.nodes}
        whole = made.get(main.outputs[0])
        values = whole.inputs if whole is not None and whole.primitive == structure.TUPLE else main.outputs
        for value, name in zip(values, self.program.output_names, strict=False):
            item = made.get(value)
            while item is not None and item.primitive == structure.ORDERED:
                value = item.inputs[0]
                item = made.get(value)
            found.setdefault(value, {})[0] = name
            if item is not None and item.primitive == structure.ITEM:
                value, index = item.inputs
                found.setdefault(value, {})[int(str(main.constants[index]))] = name
        return found

    def _output(self, port: Proto, types: list[TypeInfo | None], shown: Any) -> None:
        if len(types) == 1 and types[0] is not None:
            _describe(port.tensor.add(name=shown[0] if shown else ""), types[0])
            return
        port.denotation = "Tuple"
        _declare(port.attr_info, types, shown)

    def _node(self, proto: Proto, node: Node, meaning: Quantized | None, shown: Mapping[int, str]) -> None:
        proto.name = node.outputs[0]
        proto.output.append(node.outputs[0])
        # MindSpore Lite tells nodes apart by this name.
        proto.domain = f"{node.name}/{node.primitive}-op{self.count}".removeprefix("/")
        self.count += 1
        if not node.primitive:
            proto.op_type = f"REF::{node.inputs[0]}"
            proto.input.extend(node.inputs[1:])
        else:
            proto.op_type = f"REF::{self._primitive(node.primitive, self._attributes(node, meaning)).name}"
            proto.input.extend(node.inputs)
        if node.types and None not in list(node.types):
            names = [shown.get(place, "") for place in range(len(node.types))]
            _declare(proto.attribute.add(name="shape"), node.types, names)

    def _attributes(self, node: Node, meaning: Quantized | None) -> Mapping[str, Any]:
        """Return the attributes of a node, with those that MindSpore Lite has of quantization."""
        if self.program.dialect is Dialect.MINDSPORE:
            return node.attributes
        own: dict[str, Any] = {quantized.KIND: np.int32(node.attributes.get("quantType", 0))}
        own |= {} if meaning is None else {quantized.RESULT: meaning}
        later = {
            name
            for (kind, name), default in _LATER.items()
            if kind == node.primitive and node.attributes.get(name) == default
        }
        left_out = {"quantType", *later}
        return {name: value for name, value in node.attributes.items() if name not in left_out} | own

    def _primitive(self, op_type: str, attributes: Mapping[str, Any]) -> Proto:
        """Return the entry of a primitive with attributes; equal ones are one."""
        known = (op_type, repr(sorted(attributes.items())))
        if known not in self.primitives:
            name = f"{op_type}:{len(self.primitives)}"
            proto = written_class()().primitives.add(name=name, op_type=op_type)
            for name, value in attributes.items():
                _literal(proto.attribute.add(name=name), value)
            self.primitives[known] = proto
        return self.primitives[known]


def _write_graph(
    file: BinaryIO, number: int, proto: bytes, heads: list[tuple[bytes, ir.TensorProtocol | None]]
) -> None:
    """Write a graph as a field of the model: its message, and its parameters, whose bytes come last."""
    lengths = [len(described) + (0 if tensor is None else tensor.nbytes) for described, tensor in heads]
    begins = [head(_PARAMETER, length) for length in lengths]
    whole = len(proto) + sum(map(len, begins)) + sum(lengths)
    file.write(head(number, whole) + proto)
    for begin, (described, tensor) in zip(begins, heads, strict=True):
        file.write(begin + described)
        if tensor is not None:
            tensor.tofile(file)  # type: ignore[attr-defined]


def _describe(tensor: Proto, declared: TypeInfo) -> None:
    tensor.data_type = _NUMBERS[declared.dtype]
    dims = declared.shape
    tensor.dims.extend([-2] if dims is None else [-1 if d is None else d for d in dims])


def _declare(attribute: Proto, types: Any, shown: Any = ()) -> None:
    """Write the types of the results of a node, or of an output; `shown` are their names."""
    if len(types) == 1:
        attribute.type = _KIND["TENSORS"]
        if types[0] is not None:
            _describe(attribute.tensors.add(name=shown[0] if shown else ""), types[0])
        return
    attribute.type = _KIND["TUPLE"]
    attribute.seq_info.SetInParent()
    for place, one in enumerate(types):
        _declare(attribute.values.add(), [one], shown[place : place + 1])


def _literal(attribute: Proto, value: Literal, inside: bool = False) -> None:
    """Write a constant; the items of a tuple are in repeated fields, though each is one."""
    match value:
        case None:
            attribute.type = _KIND["NONE"]
        case Monad():
            attribute.type = _KIND["UMONAD" if value is Monad.U else "IOMONAD"]
        case bool() | int():
            attribute.type = _KIND["BOOL" if isinstance(value, bool) else "INT64"]
            _put(attribute, "i", "ints", int(value), inside)
        case np.signedinteger():
            attribute.type = _KIND["INT32"]
            attribute.i = int(value)
        case float():
            attribute.type = _KIND["FLOAT"]
            _put(attribute, "f", "floats", value, inside)
        case str() | FunctionRef():
            text = value if isinstance(value, str) else f"REF::{value.name}"
            attribute.type = _KIND["STRING"]
            _put(attribute, "s", "strings", text.encode(), inside)
        case Quantized():
            attribute.type = _KIND["TENSORS"]
            quantized.describe(attribute.tensors.add(name=attribute.name), value)
        case tuple():
            attribute.type = _KIND["TUPLE"]
            for item in value:
                _literal(attribute.values.add(), item, inside=True)
        case ir.TensorProtocol():
            attribute.type = _KIND["TENSORS"]
            tensor = attribute.tensors.add(name="value0", raw_data=value.tobytes())
            _describe(tensor, TypeInfo(value.dtype, tuple(value.shape.numpy())))
        case _:
            raise TypeError(f"MindIR has no constant like {value!r}")


def _put(attribute: Proto, one: str, many: str, value: Any, inside: bool) -> None:
    if inside:
        getattr(attribute, many).append(value)
    else:
        setattr(attribute, one, value)
