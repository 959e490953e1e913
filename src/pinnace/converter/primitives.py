"""Writer of the primitives of a program, with which rules write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from pinnace import program_structure as structure
from pinnace.converter.finishing import Dequantized, finish, finish_integers, needed
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.shape_data import dims_of
from pinnace.ops import signatures
from pinnace.ops.values import Value
from pinnace.program import NUMBERS, Dialect, Function, Input, Layout, Literal, Node, Quantized, TypeInfo
from pinnace.weights.placed import lazy

_SMALL = 256
"""Bytes up to which a tensor is a constant of the program and not a parameter."""
_LITERALS = frozenset({"int", "ints", "float", "floats", "bool", "str", "enum", "dtype", "number"})
"""Kinds of arguments that are no tensors."""
_OF_LITE = {"Argmax": "ArgMaxFusion", "Argmin": "ArgMinFusion", "TensorShape": "Shape", "TruncateMod": "Mod"}
_OF_LITE |= {name: f"{name}Fusion" for name in ("Add", "Div", "Exp", "Mul", "Pow", "Sub")}
"""MindSpore Lite's names of primitives that MindSpore has, too."""


class Primitives(Builder):
    """Writes the nodes of one function of a program.

    Rules call it as lowerings call `Builder`, with the names of primitives in the place of operators; `names`
    has the name in the program of each tensor of the ONNX graph.
    """

    def __init__(
        self, dialect: Dialect, layout: Layout, name: str, opset: int, outer: Primitives | None = None
    ) -> None:
        super().__init__(layout, opset=opset)
        self.mindir = layout is Layout.NCHW
        """True for MindIR, where several results are a tuple; images of a `.ms` have their channels last."""
        self.half = False
        """True to store float32 weights in float16."""
        self.outer = outer
        """The function around this one, whose tensors it takes as arguments: `captured`."""
        self.captured: list[ir.Value] = []
        self.dialect, self.function = dialect, name
        self.lite = dialect is Dialect.LITE
        self.mindspore = not self.lite
        self.names: dict[ir.Value, str] = {}
        self.written: dict[str, Node] = {}
        """The nodes, by the name of their first result."""
        self.ranks = 0
        """The ranks among which the model is cut."""
        self.met: ir.Value | None = None
        """The result of the last Send, Receive or Broadcast, whose order nothing else keeps."""
        self.origin = ""
        """The name of the ONNX node that is raised."""
        self.node: ir.Node | None = None
        """The ONNX node whose rule runs."""
        self.quantized: dict[str, Quantized | None] = {}
        """The numbers that integers of int8 tensors stand for, None if only the run knows."""
        self.literals: dict[str, Literal] = {}
        self.parameters: dict[str, ir.TensorProtocol] = {}
        self.channels_last: dict[str, ir.Value] = {}
        """Images with their channels last, by the name of the same with channels first."""
        self.narrow: dict[str, ir.Value] = {}
        """Sizes and places of int32, by the name of the same in int64."""
        self._known: dict[str, str] = {}
        self._parts: dict[str, tuple[list[TypeInfo | None], int]] = {}
        """The types of all results of a node with several, and the place of one, by its name."""

    def cast(self, x: ir.Value, dtype: ir.DataType) -> ir.Value:
        """`x` as `dtype`; `x` itself where it is known to be that."""
        if x.dtype is dtype:
            return x
        made = self.op("Cast", x, number_of(dtype))
        made.type, made.shape = ir.TensorType(dtype), x.shape
        self.declare(made)
        return made

    def ops(
        self, op_type: str, outputs: int, *inputs: Any, domain: str = "", **attributes: Any
    ) -> tuple[ir.Value, ...]:
        """Add a node of a primitive with several results.

        Arguments are given by position or by name, whatever they are in the file; those that have a default
        may be left out. A number in the place of a tensor becomes one of the first tensor's type.
        """
        op_type = _OF_LITE.get(op_type, op_type) if self.lite else op_type
        found = signatures.find(self.dialect, op_type)
        names = [] if found is None else list(found.inputs)
        given = list(inputs)
        for name in names[len(given) :]:
            given.append(attributes.pop(name) if name in attributes else _default(op_type, name, found))
        like = next((x for x in inputs if isinstance(x, ir.Value)), None)
        kinds = {} if found is None else found.kinds
        of = [kinds.get(name, "") for name in names] + [""] * (len(given) - len(names))
        given = [self._plainly(x, kind) for x, kind in zip(given, of, strict=False)]
        if found is not None:
            moved = {n: x for n, x in zip(names, given, strict=False) if n in found.moved}
            if not any(isinstance(x, ir.Value) for x in moved.values()):
                given, attributes = given[: len(given) - len(moved)], moved | attributes
            whole = _written(found) | attributes
            attributes = {_exported(n): v for n, v in whole.items() if v is not None}
        operands = tuple(self._argument(x, like, kind) for x, kind in zip(given, of, strict=False))
        return self._node(op_type, outputs, operands, attributes)

    def _node(
        self, op_type: str, outputs: int, operands: tuple[str, ...], attributes: Mapping[str, Any]
    ) -> tuple[ir.Value, ...]:
        results = tuple(ir.Value(name=self.new_name()) for _ in range(outputs))
        made = tuple(value.name or "" for value in results)
        self.names |= dict(zip(results, made, strict=True))
        if outputs == 1:
            self.add(Node(self.origin, op_type, operands, made, attributes))
            return results
        types: list[TypeInfo | None] = [None] * outputs
        self._parts |= {name: (types, place) for place, name in enumerate(made)}
        whole = (self.new_name(),) if self.mindir else made
        self.add(Node(self.origin, op_type, operands, whole, attributes, types))
        for place, name in enumerate(made if self.mindir else ()):
            self.add(Node(self.origin, structure.ITEM, (*whole, self.literal(place)), (name,)))
        return results

    def add(self, node: Node) -> None:
        self.written[node.outputs[0]] = node

    def new_name(self) -> str:
        """Return a name in the program that nothing has."""
        name = f"{self.function}:{self.fresh().removeprefix('%')}"
        if name in self.taken:
            return self.new_name()
        self.taken.add(name)
        return name

    def has(self, x: ir.Value) -> bool:
        """True for a tensor that can be read."""
        return x in self.names or x.const_value is not None or (self.outer is not None and self.outer.has(x))

    def name(self, x: ir.Value) -> str:
        """The name of a tensor in the program; one that is constant is entered."""
        if x not in self.names:
            if x.const_value is not None and self.mindir:
                number_of(x.const_value.dtype)
            if x.const_value is not None and _is_small(x.const_value):
                self.names[x] = self.literal(x.const_value)
            elif self.outer is not None and (self.mindir or x.const_value is None):
                self.outer.name(x)
                self.names[x] = self.new_name()
                self.captured.append(x)
            elif x.const_value is not None:
                self.names[x] = self._stored(x.const_value)
            else:
                raise Unsupported(f"reads {x.name!r}, which nothing computes")
        return self.names[x]

    def _stored(self, tensor: ir.TensorProtocol) -> str:
        name = f"{self.function}:{tensor.name}"
        made = not tensor.name or tensor.name.startswith("%")  # by a builder, which names its own so
        if made or name in self.taken:  # PyTorch gives tensors numbers for names, too
            name = self.new_name()
        self.taken.add(name)
        if self.half and self.mindspore and _fits_half(tensor):
            self.parameters[name] = _in_half(tensor)
            return self.named("Cast", name, self.literal(number_of(tensor.dtype)))
        self.parameters[name] = tensor
        return name

    def literal(self, value: Literal) -> str:
        """The name of a constant; equal ones are one."""
        key = repr(value)
        if isinstance(value, ir.TensorProtocol):
            key = f"{value.dtype} {value.shape} {value.tobytes().hex()}"
        if key not in self._known:
            name = f"{self.function}:constant{len(self.literals)}"
            self._known[key], self.literals[name] = name, value
        return self._known[key]

    def _plainly(self, x: Value, kind: str) -> Value:
        """An argument of a kind that the signature tells; what is known of a tensor becomes a literal."""
        known = self.known(x) if kind in _LITERALS else None
        if isinstance(known, np.ndarray | np.generic):
            whole = known.reshape(-1).tolist()
            return tuple(whole) if kind in ("ints", "floats") else whole[0]
        return number_of(x) if isinstance(x, ir.DataType) else x

    def _argument(self, x: Value, like: ir.Value | None, kind: str) -> str:
        if isinstance(x, ir.Value):
            return self._computed(self.name(x), kind)
        if isinstance(x, tuple | list) and any(isinstance(item, ir.Value) for item in x):
            return self._tuple(x, like)
        if isinstance(x, np.ndarray):
            return self.name(self.constant(x))
        if kind == "tensor" and isinstance(x, bool | int | float):
            if like is None:
                raise TypeError("a number needs a tensor beside it to tell its type")
            return self.name(self.like(x, like))
        if self.lite:  # its nodes read nothing but tensors
            return self.name(self.constant(x, np.int32))
        return self.literal(_literal(x))

    def _tuple(self, items: Sequence[Value], like: ir.Value | None) -> str:
        name = self.named(structure.TUPLE, *(self._argument(item, like, "") for item in items))
        if all(isinstance(x, ir.Value) and x.dtype is not None for x in items):
            self.written[name].types = tuple(map(type_of, items))
        return name

    def _computed(self, name: str, kind: str) -> str:
        """A tensor known only at run time, as the tuple or scalar that a primitive takes."""
        if kind in ("ints", "floats"):
            return self.named("TensorToTuple", name)
        if kind in _LITERALS:
            return self.named("TensorToScalar", name)
        return name

    def named(self, primitive: str, *operands: str) -> str:
        """Add a node of operands by their names; return the name of its result."""
        (result,) = self._node(primitive, 1, operands, {})
        return self.names[result]

    def declare(self, *results: ir.Value) -> None:
        """Note what is known of the types of results: MindSpore cannot infer all when it loads."""
        for x in results:
            name = self.names.get(x, "")
            if x.dtype is None or x.shape is None:
                continue
            declared = type_of(x)
            if name in self.quantized:  # in ONNX these may be of uint8, or floats
                declared = declared._replace(dtype=ir.DataType.INT8)
            types, place = self._parts.get(name, ([None], 0))
            types[place] = declared
            if name in self.written and self.written[name].types is not types:
                self.written[name].types = (declared,)

    def _own(self, inputs: Sequence[ir.Value], names: list[str], outputs: Sequence[ir.Value]) -> list[str]:
        """The names of outputs, with a copy for each that is an input, a constant, or an output before.

        So it is in MindSpore Lite's dialect for some of the results of a call, without which it would be the
        last node and no tail call.
        """
        found = []
        taken = {self.names[x] for x in inputs}
        for node in self.written.values():
            if self.lite and not node.primitive and list(node.outputs) != names:
                taken.update(node.outputs)
        for name, output in zip(names, outputs, strict=True):
            if name in taken or name in self.parameters or name in self.literals:
                name = self.name(self._copied(output, inputs))
                self.written[name].types = (type_of(output),)
            taken.add(name)
            found.append(name)
        return found

    def _copied(self, x: ir.Value, inputs: Sequence[ir.Value]) -> ir.Value:
        """A copy of a tensor; MindSpore Lite waits forever for one that depends on no input.

        So it does for a Reshape to no dimensions; one of bool to a shape that is computed ends its process.
        """
        if self.mindspore:
            return self.op("Cast", x, number_of(type_of(x).dtype))
        if x.const_value is None and x.shape is not None and not x.shape:
            first = self.constant(0, np.int32)
            return self.op("Gather", self.op("Unsqueeze", x, axis=(0,)), first, first)
        if x.dtype is ir.DataType.BOOL and x.const_value is None:
            return self.op("LogicalNot", self.op("LogicalNot", x))
        beside = next((i for i in inputs if i.shape is not None and i.shape), None)
        if x.const_value is None or beside is None:
            return self.op("Reshape", x, self.op("Shape", x))
        sizes, first = self.op("Shape", beside), self.constant(0, np.int32)
        none = self.op("Gather", self.op("SubFusion", sizes, sizes), first, first)
        shape = x.const_value.shape.numpy()
        y = self.op("Reshape", x, self.op("AddFusion", self.constant(shape or (1,), np.int32), none))
        return y if shape else self.op("Squeeze", y, axis=(0,))

    def results(self, taken: set[str], outputs: Sequence[ir.Value]) -> Sequence[str]:
        """The names of the results of the function, whose inputs have the names `taken`."""
        names = [self.name(x) for x in outputs]
        if self.lite or self.outer is None:  # a node has the name of an output of the model
            ports = [x for x, name in self.names.items() if name in taken]
            names = self._own(ports, names, outputs)
        if self.met is not None:
            names[0] = self.named(structure.ORDERED, names[0], self.name(self.met))
        if len(names) > 1 and self.mindir:
            types = [type_of(x) for x in outputs]
            names = [self.named(structure.TUPLE, *names)]
            self.written[names[0]].types = types
        return names

    def closed(self, inputs: Sequence[Input], names: Sequence[str]) -> Function:
        """Return the function with results of these names."""
        if self.lite:
            return self._finished(inputs, names)
        nodes = needed(list(self.written.values()), names)
        read = {*names, *(name for node in nodes for name in node.inputs)}
        stored = {name: tensor for name, tensor in self.parameters.items() if name in read}
        return Function(self.function, inputs, names, nodes, stored, self.literals)

    def _finished(self, inputs: Sequence[Input], outputs: Sequence[str]) -> Function:
        """Return the function in MindSpore Lite's dialect, in which constant tensors are parameters."""
        literals = {n: x for n, x in self.literals.items() if isinstance(x, ir.TensorProtocol)}
        others = {n: x for n, x in self.literals.items() if n not in literals}
        stored = {**literals, **self.parameters}
        dtypes = {i.name: i.type.dtype for i in inputs if i.type is not None}
        nodes = finish(list(self.written.values()), outputs, dtypes, stored)
        if (
            nodes and not nodes[-1].primitive
        ):  # MindSpore Lite's process ends at tail calls that it is not told of
            nodes[-1].attributes = {"is_tail_call": list(nodes[-1].outputs) == list(outputs)}
        nodes, stored, quantized = finish_integers(nodes, outputs, stored, self.quantized)
        read = {name for node in nodes for name in node.inputs}
        parameters = {name: tensor for name, tensor in stored.items() if name in read}
        for name in self.parameters.keys() & read if self.half else ():  # nodes compute in their own types
            if _fits_half(parameters[name]):
                parameters[name] = _in_half(parameters[name])
        there = {*dtypes, *parameters, *(name for node in nodes for name in node.outputs)}
        meanings = {name: meaning for name, meaning in quantized.items() if name in there}
        return Function(self.function, inputs, outputs, nodes, parameters, others, meanings)


def _is_small(tensor: ir.TensorProtocol) -> bool:
    """Return True for a constant of the program. Raises Unsupported for texts."""
    if tensor.dtype is ir.DataType.STRING:
        raise Unsupported(
            "is of element type STRING, which MindSpore does not have: leave texts to the program around it"
        )
    return tensor.nbytes <= _SMALL and not isinstance(tensor, Dequantized)


def _fits_half(tensor: ir.TensorProtocol) -> bool:
    """Return True for float32 within the range of float16, which is read for it and given up."""
    if tensor.dtype is not ir.DataType.FLOAT or isinstance(tensor, Dequantized):
        return False
    return bool(np.abs(tensor.numpy()).max(initial=0.0) <= np.finfo(np.float16).max)


def _in_half(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """A weight in float16, made when it is written."""
    dims, half = tensor.shape.numpy(), ir.DataType.FLOAT16
    return lazy(lambda: tensor.numpy().astype(np.float16), half, dims, tensor.name)


def type_of(x: ir.Value) -> TypeInfo:
    assert x.dtype is not None
    return TypeInfo(x.dtype, dims_of(x))


def number_of(dtype: ir.DataType) -> int:
    """MindSpore's number of an element type. Raises Unsupported if it has none."""
    if dtype not in NUMBERS:
        raise Unsupported(f"is of element type {dtype.name}, which MindSpore does not have: use another")
    return NUMBERS[dtype]


def _default(op_type: str, name: str, found: signatures.Signature | None) -> Literal:
    default = signatures.GIVEN if found is None else found.inputs[name]
    if default is signatures.GIVEN or default is signatures.DERIVED:
        raise TypeError(f"a rule gives {op_type} no {name}")
    return _plain(default)


def _written(found: signatures.Signature) -> dict[str, Literal]:
    """The attributes that have a default, with it."""
    rows = {name: found.defaults[name] for name in found.attributes}
    return {n: _plain(v) for n, v in rows.items() if v not in (signatures.GIVEN, signatures.DERIVED, None)}


def _exported(name: str) -> str:
    """The name of an attribute in files, which differs from that in MindSpore's definitions."""
    return "format" if name == "data_format" else name


def _plain(default: Any) -> Literal:
    """A default of the table as MindSpore writes it: enumerations as numbers, lists as tuples."""
    if isinstance(default, dict):
        return int(next(iter(default.values())))
    return tuple(map(_plain, default)) if isinstance(default, list) else default


def _literal(x: Any) -> Literal:
    if isinstance(x, list | tuple):
        return tuple(map(_literal, x))
    value: Literal = x.item() if isinstance(x, np.generic) else x
    return value
