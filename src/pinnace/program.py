"""A MindSpore model as its file says it, before any meaning is given to it.

MindSpore graphs hold what ONNX has no word for: tuples, None, scalars, monads, functions as values.
So a reader of `formats/` gives a `Program`, a plain record with no operator's name in it, and
`compiler.lower` turns that into an `onnx_ir.Model` through the primitive table. Nothing else is done
with it: passes work on `onnx_ir.Model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import onnx_ir as ir


class Dialect(Enum):
    """Who wrote the program, and so what its primitives mean."""

    MINDSPORE = "mindspore"
    """MindSpore's own export."""
    LITE = "lite"
    """MindSpore Lite's converter, into `.mindir` or `.ms`."""


class Layout(Enum):
    """Order of the dimensions of image activations."""

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
    """What a file declares of a tensor. A free dimension is None; shape None is an unknown rank."""

    dtype: ir.DataType
    shape: tuple[int | None, ...] | None


class Quantised(NamedTuple):
    """What the integers q of a tensor stand for: (q - zero_point) * scale.

    One pair of numbers, and axis None, or one for each index of an axis.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None


Literal = None | bool | int | float | str | bytes | ir.TensorProtocol | Monad | FunctionRef | tuple[Any, ...]
"""A constant of a program; a tuple holds literals."""


@dataclass(slots=True, eq=False)
class Node:
    """One application of a primitive, or a call.

    `primitive` is the bare name ("Conv2D"); for a call it is "" and `inputs[0]` names what is called:
    a function or a value that holds one. `inputs` name node outputs, function inputs, parameters,
    constants, or functions. `attributes` carries those of the primitive and of the node, under the names
    that MindSpore gives them. `types` is what the file declares of the results, where it does: one for
    each tensor, those of nested tuples in order.
    """

    name: str
    primitive: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    types: Sequence[TypeInfo | None] = ()


@dataclass(frozen=True)
class Input:
    """One input of a function. `parts` are the items of one that is a tuple or list; `type` is None then,
    and where it is no tensor. A scalar is a tensor without dimensions.
    """

    name: str
    type: TypeInfo | None
    parts: tuple[Input, ...] = ()


@dataclass(eq=False)
class Function:
    """A graph of nodes, in any order. `parameters` maps a name to weights (`ir.TensorProtocol`), and
    `constants` a name to a literal. `outputs` names values of this function.
    """

    name: str
    inputs: Sequence[Input]
    outputs: Sequence[str]
    nodes: Sequence[Node]
    parameters: Mapping[str, ir.TensorProtocol] = field(default_factory=dict)
    constants: Mapping[str, Literal] = field(default_factory=dict)
    quantised: Mapping[str, Quantised] = field(default_factory=dict)


@dataclass
class Program:
    """A whole model: `main` is the entry, `functions` holds every function by name, `main` included.

    `folder` is the directory against which external weights are named, None for a model that came as
    bytes. `input_names`, `output_names` and `user_info` are what the user is shown; names that are not
    given are those of `main`. In MindIR a node with several results has one output that stands for the
    tuple of them (`tuple_results`); in `.ms` it has one output for each.
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
    input_names: Sequence[str] = ()
    output_names: Sequence[str] = ()
    tuple_results: bool = True
