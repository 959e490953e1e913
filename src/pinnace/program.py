"""The in-memory form of a MindSpore model file, without any interpretation.

MindSpore graphs contain what ONNX cannot express: tuples, None, scalars, monads, functions as values. So a
reader of `formats/` returns a `Program`, a plain record that does not depend on operators, and
`lowering` turns it into an `onnx_ir.Model` through the primitive table. Passes work on `onnx_ir.Model`
only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import onnx_ir as ir

from pinnace.types import DataType

DTYPES: Mapping[int, ir.DataType] = {31: ir.DataType.INT32, 41: ir.DataType.FLOAT} | {
    t.value: ir.DataType.from_numpy(t.to_numpy())
    for t in DataType
    if t not in (DataType.UNKNOWN, DataType.STRING, DataType.INVALID)
}
"""Element types by MindSpore's type numbers; `int` and `float` without a width (31, 41) have 32 bits."""
NUMBERS: Mapping[ir.DataType, int] = {dtype: number for number, dtype in DTYPES.items()}


class Dialect(Enum):
    """The writer of a program, which determines the meaning of its primitives."""

    MINDSPORE = "mindspore"
    """MindSpore's own export."""
    LITE = "lite"
    """MindSpore Lite's converter, into `.mindir` or `.ms`."""

    __hash__ = object.__hash__  # that of Enum is Python, and every node is looked up by it


class Layout(Enum):
    """Order of the dimensions of images."""

    NCHW = "NCHW"
    NHWC = "NHWC"


class Monad(Enum):
    """The value of a constant that only orders effects."""

    U = "UMonad"
    IO = "IOMonad"


@dataclass(frozen=True)
class FunctionRef:
    """A function used as a value, named as in `Program.functions`."""

    name: str


class TypeInfo(NamedTuple):
    """Declared type of a tensor. A free dimension is None; shape None is an unknown rank."""

    dtype: ir.DataType
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Quantized:
    """Quantization of a tensor with integers q: the values are (q - zero_point) * scale.

    One pair of numbers, and axis None, or one for each index of an axis. `bits` are those that the integers
    need.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None
    bits: int = 8


Literal = None | bool | int | float | str | bytes | ir.TensorProtocol | Monad | FunctionRef | tuple[Any, ...]
"""A constant of a program; a tuple holds literals."""


@dataclass(slots=True, eq=False)
class Node:
    """One application of a primitive, or a call.

    `primitive` is the bare name ("Conv2D"); for a call it is "" and `inputs[0]` names the callee: a function
    or a value that holds one. `inputs` name node outputs, function inputs, parameters, constants, or
    functions. `attributes` are those of the primitive and of the node, with MindSpore's names. `types` are
    the declared types of the results, if any: one for each tensor, those of nested tuples in order.
    """

    name: str
    primitive: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    types: Sequence[TypeInfo | None] = ()


@dataclass(frozen=True)
class Input:
    """One input of a function. `parts` are the items of a tuple or list; then `type` is None, as for anything
    else that is no tensor. A scalar is a tensor without dimensions.
    """

    name: str
    type: TypeInfo | None
    parts: tuple[Input, ...] = ()


@dataclass(eq=False)
class Function:
    """A graph of nodes, in any order. `parameters` maps names to weights (`ir.TensorProtocol`), and
    `constants` names to literals. `outputs` names values of this function.
    """

    name: str
    inputs: Sequence[Input]
    outputs: Sequence[str]
    nodes: Sequence[Node]
    parameters: Mapping[str, ir.TensorProtocol] = field(default_factory=dict)
    constants: Mapping[str, Literal] = field(default_factory=dict)
    quantized: Mapping[str, Quantized] = field(default_factory=dict)


@dataclass
class Program:
    """A whole model: `main` is the entry, `functions` holds every function by name, including `main`.

    `folder` is the base of external weights, None for a model from bytes. `input_names`, `output_names` and
    `user_info` are for the user; names default to those of `main`. `converted_for` has the `input_shape` and
    `dynamic_dims` that a converter was given (`tensors.gears`), if any. In MindIR a node with several results
    has one output for the tuple of them (`tuple_results`); in `.ms` it has one output for each.
    """

    main: Function
    functions: Mapping[str, Function]
    dialect: Dialect
    layout: Layout = Layout.NCHW
    producer: str = ""
    version: str = ""
    source: str = ""
    folder: str | None = None
    user_info: Mapping[str, str] = field(default_factory=dict)
    converted_for: Mapping[str, str] = field(default_factory=dict)
    input_names: Sequence[str] = ()
    output_names: Sequence[str] = ()
    tuple_results: bool = True
