"""Reader of MindIR, as written by MindSpore and by MindSpore Lite's converter.

Conventions beyond the field table:
* A node's `op_type` is "Constant", "REF::name" of an entry of `primitives`, "REF::name" of a function or of a
  value that holds one (a call), or, in files of MindSpore 1, the primitive itself.
* The attribute "shape" of a node declares the types of its results, with tuples nested as in the value.
* Names of values are unique in the file; those of computed values begin with the graph's name and a colon.
* Weights are in `GraphProto.parameter`, in this file or in `external_data` beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import onnx_ir as ir
from google.protobuf.message import DecodeError

from pinnace.errors import ModelFormatError
from pinnace.formats import packing
from pinnace.formats.messages import Proto
from pinnace.formats.mindir import quantized
from pinnace.formats.mindir.naming import Namer
from pinnace.formats.mindir.schema import model_class, number_of
from pinnace.formats.wire import PAYLOAD, Fields, delimited, number, outline
from pinnace.program import Dialect, Function, FunctionRef, Input, Literal, Monad, Node, Program, TypeInfo
from pinnace.tensors.gears import DYNAMIC_DIMS, INPUT_SHAPE
from pinnace.weights.source import SMALL, Source

_T = TypeVar("_T")
_REF = "REF::"
_CUSTOM = "Custom"
"""The primitive for operators outside of MindSpore; its attribute `type` names the operator."""
_TENSOR: Fields = {9: PAYLOAD}
_GRAPH: Fields = {3: _TENSOR, 1: {5: {6: _TENSOR, 12: _TENSOR}}}
_MODEL: Fields = {7: _GRAPH, 8: _GRAPH}
_EXTERNAL, _OFFSET, _LENGTH = 12, 2, 3  # fields of TensorProto and its ExternalDataProto
_DECLARED = "shape"  # the attribute with the types of a node's results
_NEWEST = max(number_of("Version").values())
_OWN_FILE = ""  # the location of the model's own bytes

DTYPES = {
    number: ir.DataType["DOUBLE" if name == "FLOAT64" else name]
    for name, number in number_of("TensorProto.DataType").items()
    if name not in ("UNDEFINED", "QINT4X2")
}
"""Element types by MindIR's numbers."""
_KINDS = {value: key for key, value in number_of("AttributeProto.AttributeType").items()}
_INTS = {number for number, kind in _KINDS.items() if kind.removeprefix("U").startswith("INT")}
_INLINE = ("float_data", "double_data", "int32_data", "int64_data", "uint64_data")
_FLOATS = {"FLOAT": "f", "DOUBLE": "d"}


def read(source: Source) -> Program:
    """Read a MindIR model. Raises ModelFormatError, with file and place, if it is damaged."""
    skeleton = outline(source.data, _MODEL, _reference, SMALL, source.name)
    model = model_class()()
    try:
        model.ParseFromString(skeleton)
    except (DecodeError, UnicodeDecodeError) as error:  # raised by protobuf without its C extension
        raise ModelFormatError(f"{source.name}: is not a MindIR model: {error}") from None
    if not model.HasField("graph"):
        raise ModelFormatError(f"{source.name}: is not a MindIR model: it has no graph")
    if model.mind_ir_version > _NEWEST:
        raise ModelFormatError(
            f"{source.name}: mind_ir_version is {model.mind_ir_version}, of a release of MindSpore after "
            "2.10: export the model with an older one"
        )
    return _MindirReader(source, model).program()


def _reference(offset: int, length: int) -> bytes:
    return delimited(_EXTERNAL, number(_OFFSET, offset) + number(_LENGTH, length))


class _MindirReader:
    def __init__(self, source: Source, model: Proto) -> None:
        self.source, self.model = source, model
        self._budget = packing.ElementBudget(source)
        self.primitives = {p.name: (p.op_type, {a.name: a for a in p.attribute}) for p in model.primitives}
        # MindSpore writes equal constants of all functions once, in one of them.
        self.constants: dict[str, Literal] = {}

    def program(self) -> Program:
        main = self._function(self.model.graph)
        functions = {main.name: main, **{g.name: self._function(g) for g in self.model.functions}}
        lite = any(self._is_lite(n) for f in functions.values() for n in f.nodes)
        return Program(
            main=main,
            functions=functions,
            dialect=Dialect.LITE if lite else Dialect.MINDSPORE,
            producer=self.model.producer_name,
            version=self.model.model_version or self.model.producer_version,
            source=self.source.name,
            folder=None if self.source.folder is None else str(self.source.folder),
            user_info={u.key: u.value for u in self.model.user_info},
            converted_for=self._converted_for(),
            input_names=[self._shown(i) for i in self.model.graph.input],
            output_names=self._output_names(main),
        )

    def _converted_for(self) -> dict[str, str]:
        """Return the shapes that MindSpore Lite's converter, and Pinnace's, note in the graph."""
        noted = {a.name: a.s for a in self.model.graph.attribute if a.name in (INPUT_SHAPE, DYNAMIC_DIMS)}
        return {name: text.decode(errors="replace") for name, text in noted.items() if text}

    @staticmethod
    def _is_lite(node: Node) -> bool:
        # The converter records quantization on every primitive; MindSpore does not.
        return "quant_type" in node.attributes or "infer_done" in node.attributes

    def _shown(self, port: Proto) -> str:
        # The converter keeps the names of the original model; MindSpore has only those of values.
        given: str = port.tensor[0].name if port.tensor else ""
        return given or port.name.removeprefix(f"{self.model.graph.name}:")

    def _output_names(self, main: Function) -> list[str]:
        ports = self.model.graph.output
        if all(port.tensor and port.tensor[0].name for port in ports):
            return [self._shown(port) for port in ports]
        namer = Namer(self.model.graph, main)
        return [name for port in ports for name in namer.names(port.name)]

    def _function(self, graph: Proto) -> Function:
        def weight(proto: Proto) -> ir.TensorProtocol:
            name = proto.name.removeprefix(f"{graph.name}:")
            use = uses.get(proto.name, packing.Use())
            if quantized.is_stored(proto, use):
                return self._unpacked(proto, name, use)
            return self._tensor(proto, name)

        nodes: list[Node] = []
        for node in graph.node:
            if not node.output:
                raise ModelFormatError(f"{self.source.name}: node {node.name!r} has no output")
            if node.op_type == "Constant":
                self.constants[node.output[0]] = self._constant(node)
            else:
                nodes.append(self._node(node))
        whole = [p for p in graph.parameter if p.quant_params]
        uses = quantized.uses(nodes) if whole else {}
        meanings = {p.name: quantized.meaning(p, uses.get(p.name, packing.Use())) for p in whole}
        meanings |= quantized.of_results(nodes) if whole else {}
        return Function(
            name=graph.name,
            inputs=[self._input(i) for i in graph.input],
            outputs=[o.name for o in graph.output],
            nodes=nodes,
            parameters=_Decoded(lambda: {p.name: p for p in graph.parameter}, weight),
            constants=self.constants,
            quantized={name: meaning for name, meaning in meanings.items() if meaning is not None},
        )

    def _input(self, port: Proto) -> Input:
        if port.tensor:
            return Input(port.name, self._type(port.tensor[0]))
        return self._part(port.name, port.attr_info)

    def _part(self, name: str, attribute: Proto) -> Input:
        """Return an input, or an item of one, that is a tuple or a scalar."""
        kind = _KINDS.get(attribute.type)
        if kind in ("TUPLE", "LIST") and not attribute.seq_info.is_dyn_len:
            return Input(
                name, None, tuple(self._part(f"{name}_{i}", v) for i, v in enumerate(attribute.values))
            )
        declared = self._type(attribute.tensors[0]) if attribute.tensors else None
        if declared is not None and kind == "SCALAR":
            declared = TypeInfo(declared.dtype, ())
        return Input(name, declared)

    def _node(self, node: Proto) -> Node:
        op_type = node.op_type.removeprefix(_REF)
        primitive = self.primitives.get(op_type) if node.op_type.startswith(_REF) else None
        is_call = node.op_type.startswith(_REF) and primitive is None
        name, shared = primitive or (op_type, {})

        def protos() -> dict[str, Proto]:
            own = {a.name: a for a in (*node.attribute, *node.node_attr)}
            own.pop(_DECLARED, None)
            return {**shared, **own}

        inputs = tuple(i.removeprefix(_REF) for i in node.input)
        attributes = _Decoded(protos, lambda a: self._value(a, node.name))
        if name == _CUSTOM and not is_call:
            name = f"{_CUSTOM}:{attributes.get('type') or attributes.get('reg_op_name')}"
        return Node(
            name=node.domain or node.name,  # the full name with the layer; the other is a number
            primitive="" if is_call else name,
            inputs=(op_type, *inputs) if is_call else inputs,
            outputs=tuple(node.output),
            attributes=attributes,
            types=_Types(self, node),
        )

    def _constant(self, node: Proto) -> Literal:
        for attribute in node.attribute:
            if attribute.name == "value":
                value: Literal = self._value(attribute, node.output[0])
                return value
        raise ModelFormatError(f"{self.source.name}: constant {node.name!r} has no value")

    def declared(self, node: Proto) -> tuple[TypeInfo | None, ...]:
        """Return the result types that a node's attribute declares."""
        return tuple(t for a in node.attribute if a.name == _DECLARED for t in self._types(a))

    def _types(self, attribute: Proto) -> list[TypeInfo | None]:
        kind = _KINDS.get(attribute.type)
        if kind == "TENSORS":
            return [self._type(tensor) for tensor in attribute.tensors]
        if kind in ("TUPLE", "LIST"):
            return [declared for item in attribute.values for declared in self._types(item)]
        return [] if kind in ("UMONAD", "IOMONAD") else [None]

    def _type(self, tensor: Proto) -> TypeInfo | None:
        dtype = DTYPES.get(tensor.data_type)
        if dtype is None:
            return None
        dims = tuple(tensor.dims)
        if min(dims, default=0) >= 0:
            return TypeInfo(dtype, dims)
        # MindSpore writes a lone -2 for an unknown rank.
        return TypeInfo(dtype, None if dims == (-2,) else tuple(None if d < 0 else d for d in dims))

    def _value(self, attribute: Proto, where: str) -> Any:
        if attribute.type in _INTS:  # the most common case
            return _one_or_all(attribute.ints, attribute.i)
        kind = _KINDS.get(attribute.type)
        if kind is None:
            raise ModelFormatError(
                f"{self.source.name}: {where}: attribute {attribute.name!r} is of type {attribute.type}, "
                "which only releases of MindSpore after 2.10 write: export the model with an older one"
            )
        if kind in ("TUPLE", "LIST"):
            if attribute.values or not attribute.ints:
                return tuple(self._value(item, where) for item in attribute.values)
            return tuple(attribute.ints)
        if kind in ("TENSOR", "TENSORS"):
            tensors = tuple(self._type_or_tensor(t, f"{where}.{attribute.name}") for t in attribute.tensors)
            single = tensors or (self._tensor(attribute.t, f"{where}.{attribute.name}"),)
            return single[0] if len(single) == 1 else single
        if kind in ("UMONAD", "IOMONAD"):
            return Monad.U if kind == "UMONAD" else Monad.IO
        if kind == "NONE":
            return None
        return self._scalar(attribute, kind)

    def _type_or_tensor(self, tensor: Proto, name: str) -> Any:
        """Return a tensor, an element type, which is a scalar without a value, or a quantization."""
        if tensor.quant_params:
            return quantized.meaning(tensor, packing.Use())
        if not tensor.dims and not tensor.raw_data and not tensor.HasField("external_data"):
            dtype = DTYPES.get(tensor.data_type)
            if dtype is not None and not any(getattr(tensor, field) for field in _INLINE):
                return dtype
        return self._tensor(tensor, name)

    def _scalar(self, attribute: Proto, kind: str) -> Any:
        if kind == "BOOL":
            return bool(attribute.ints[0] if attribute.ints else attribute.i)
        if kind in _FLOATS:
            many = attribute.floats if kind == "FLOAT" else attribute.doubles
            return _one_or_all(many, getattr(attribute, _FLOATS[kind]))
        if kind == "STRING":
            one = attribute.strings[0] if attribute.strings else attribute.s
            text = one.decode("utf-8", "replace")
            return FunctionRef(text[len(_REF) :]) if text.startswith(_REF) else text
        return None

    def _unpacked(self, tensor: Proto, name: str, use: packing.Use) -> ir.TensorProtocol:
        """Return a weight that is packed, or quantized for storage only."""

        def error(what: str) -> ModelFormatError:
            return ModelFormatError(f"{self.source.name}: tensor {name!r} {what}")

        outside = tensor.external_data if tensor.HasField("external_data") else None
        length = len(tensor.raw_data) if outside is None else outside.length
        if length <= 0:
            raise error("is packed, but its size in bytes is missing")
        raw = self._placed(tensor, name, ir.DataType.UINT8, (length,))
        dtype = DTYPES.get(tensor.data_type, ir.DataType.UNDEFINED)
        return quantized.unpacked(tensor, dtype, use, raw, self._budget, error)

    def _tensor(self, tensor: Proto, name: str) -> ir.TensorProtocol:
        dtype = DTYPES.get(tensor.data_type)
        if dtype is None or dtype is ir.DataType.STRING:
            raise ModelFormatError(
                f"{self.source.name}: tensor {name!r} has element type {tensor.data_type}, "
                "which cannot be read"
            )
        return self._placed(tensor, name, dtype, tuple(tensor.dims))

    def _placed(
        self, tensor: Proto, name: str, dtype: ir.DataType, shape: tuple[int, ...]
    ) -> ir.TensorProtocol:
        """Return the bytes of a tensor as elements of a type."""
        if tensor.HasField("external_data"):
            data = tensor.external_data
            if data.location == _OWN_FILE:
                return self.source.tensor(name, dtype, shape, data.offset, data.length)
            return self.source.external(name, dtype, shape, data.location, data.offset, data.length or -1)
        return _inline(self.source.name, tensor, name, dtype, shape)


class _Decoded(Mapping[str, _T]):
    """Messages that are decoded on first access: most attributes and many weights are never used."""

    def __init__(self, protos: Callable[[], dict[str, Proto]], decode: Callable[[Proto], _T]) -> None:
        self._make, self._decode = protos, decode
        self._known: dict[str, _T] = {}
        self._made: dict[str, Proto] | None = None

    @property
    def _protos(self) -> dict[str, Proto]:
        if self._made is None:  # the lock of a cached_property takes half of the time (Python 3.11)
            self._made = self._make()
        return self._made

    def __getitem__(self, name: str) -> _T:
        if name not in self._known:
            self._known[name] = self._decode(self._protos[name])
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._protos

    def __iter__(self) -> Iterator[str]:
        return iter(self._protos)

    def __len__(self) -> int:
        return len(self._protos)


class _Types(Sequence[TypeInfo | None]):
    """Declared types that are decoded on first access: most types are known otherwise."""

    def __init__(self, reader: _MindirReader, node: Proto) -> None:
        self._reader, self._node = reader, node
        self._made: tuple[TypeInfo | None, ...] | None = None

    @property
    def _known(self) -> tuple[TypeInfo | None, ...]:
        if self._made is None:
            self._made = self._reader.declared(self._node)
        return self._made

    def __getitem__(self, index: Any) -> Any:
        return self._known[index]

    def __len__(self) -> int:
        return len(self._known)


def _one_or_all(many: Sequence[_T], one: _T) -> _T | tuple[_T, ...]:
    if not many:
        return one
    return many[0] if len(many) == 1 else tuple(many)


def _inline(
    where: str, tensor: Proto, name: str, dtype: ir.DataType, shape: tuple[int, ...]
) -> ir.TensorProtocol:
    raw = tensor.raw_data
    values = () if raw else next((v for field in _INLINE if (v := getattr(tensor, field))), ())
    if values:
        import numpy as np

        raw = np.asarray(values, dtype.numpy()).tobytes()
    return Source(where, memoryview(raw)).tensor(name, dtype, shape, 0, len(raw))
