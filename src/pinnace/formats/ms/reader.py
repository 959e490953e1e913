"""Reader of MindSpore Lite's `.ms` files.

A file is one FlatBuffer: a list of all tensors, a list of all nodes (`CNode`) that refer to tensors by index,
and sub-graphs that refer to nodes by index; the first sub-graph is the model, the others are functions. The
Program has:

* Values, named like their tensors, with `@` and the tensor's index if that name is empty or taken. Names of
  the model's inputs and outputs are those that mindspore_lite shows.
* Attributes of nodes: all fields of the primitive's table with the schema's names and defaults. Enumerations
  are numbers, vectors tuples (() if absent), inner tables dicts, absent tables and strings None and "".
  `quantType` and `deviceType` of the node are included unless they have their default.
* Functions as the first inputs of nodes that refer to a sub-graph (`sub_graph_index`).
* Constants of up to 1 KiB that are no floating-point numbers (axes, shapes, permutations) in `constants`, all
  others in `parameters`; see `tensors` for how their data stays in the file.
* Float32 tensors, unpacked on access, for weights that are packed, or quantized for storage only (`quantType`
  of their node), or float16 beside float32; see `packing`. Other quantized constants keep their integers, and
  `quantized` has their parameters, as for tensors that nodes compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from pinnace.formats import packing
from pinnace.formats.ms import schema, tensors
from pinnace.formats.ms.flatbuffer import Buffer, Table
from pinnace.program import Dialect, Function, Input, Layout, Node, Program, Quantized, TypeInfo
from pinnace.program_structure import quantized_axis
from pinnace.types import DataType
from pinnace.weights.source import SMALL, Source

if TYPE_CHECKING:
    import numpy.typing as npt

_FRAMEWORKS = ("TensorFlow", "Caffe", "ONNX", "MindSpore", "TensorFlow Lite", "PyTorch")
"""Original frameworks by the number `MetaGraph.fmkType`."""
_CALL = "Call"
"""The primitive that applies the function in its first input."""
_CUSTOM = "Custom"
"""The primitive for operators outside the schema; its attribute `type` names the operator."""
_FUNCTION = "sub_graph_index"
"""The attribute with the index of a function's sub-graph."""
_GATHERED = 2
"""The position of the axis among the inputs of a primitive that gathers."""


def read(source: Source) -> Program:
    """Read a `.ms` file. Raises ModelFormatError, with file, byte and field, if it is damaged."""
    root = Buffer(source.data, source.name, schema.load()).root()
    if root["obfuscate"]:
        raise root.error("obfuscate", "the model is obfuscated, and cannot be read without its key")
    return _MsReader(root, source).program()


class _MsReader:
    def __init__(self, root: Table, source: Source) -> None:
        self.root = root
        self.source = source
        self.tensors: tuple[Table, ...] = root["allTensors"]
        self.nodes: tuple[Table, ...] = root["nodes"]
        self._untaken = dict(enumerate(self.nodes))
        self.graphs: tuple[Table, ...] = root["subGraph"]
        self.functions = _unique([str(g["name"]) or f"graph{i}" for i, g in enumerate(self.graphs)])
        self.labels = [str(t["name"]) for t in self.tensors]
        self.names = self._value_names()
        self._computed = {i for t in self.nodes for i in self._indices(t, "outputIndex")}
        self._uses = self._find_uses()
        self._budget = packing.ElementBudget(source)
        self._constants: dict[int, ir.TensorProtocol | None] = {}

    def program(self) -> Program:
        functions = [self._graph(n, g) for n, g in zip(self.functions, self.graphs, strict=True)]
        main = functions[0] if functions else self._whole()
        framework = self.root["fmkType"]
        labels = dict(zip(self.names, self.labels, strict=True))
        origin = f", from {_FRAMEWORKS[framework]}" if 0 <= framework < len(_FRAMEWORKS) else ""
        return Program(
            main=main,
            functions={f.name: f for f in functions or [main]},
            dialect=Dialect.LITE,
            layout=Layout.NHWC,
            producer=(self.root["name"] or "MindSpore Lite") + origin,
            version=self.root["version"],
            source=self.source.name,
            folder=None if self.source.folder is None else str(self.source.folder),
            output_names=[labels[name] or name for name in main.outputs],
            tuple_results=False,
        )

    def _graph(self, name: str, graph: Table) -> Function:
        return self._function(name, graph, "inputIndices", "outputIndices", self._take(graph))

    def _whole(self) -> Function:
        """Return the function of a file without sub-graphs, as early converters wrote it."""
        return self._function("main", self.root, "inputIndex", "outputIndex", self.nodes)

    def _function(
        self, name: str, owner: Table, inputs: str, outputs: str, tables: Sequence[Table]
    ) -> Function:
        results = self._indices(owner, outputs)
        nodes = [self._node(t) for t in tables]
        used = {i for t in tables for i in self._indices(t, "inputIndex")} | set(results)
        constants = {self.names[i]: c for i in sorted(used) if (c := self._constant(i)) is not None}
        small = {n: c for n, c in constants.items() if c.nbytes <= SMALL and not c.dtype.is_floating_point()}
        function = Function(
            name,
            [Input(self.names[i], tensors.type_of(self.tensors[i])) for i in self._indices(owner, inputs)],
            [self.names[i] for i in results],
            nodes,
            {n: c for n, c in constants.items() if n not in small},
            small,
            self._quantized(used | set(self._indices(owner, inputs)), tables),
        )
        self._check_single_assignment(function, tables)
        return function

    def _node(self, table: Table) -> Node:
        primitive = self._primitive(table)
        attributes = self._attributes(table, primitive)
        inputs = [self.names[i] for i in self._indices(table, "inputIndex")]
        outputs = self._indices(table, "outputIndex")
        if _FUNCTION in attributes:
            inputs.insert(0, self._function_name(primitive, attributes.pop(_FUNCTION)))
        return Node(
            name=table["name"],
            primitive=self._name(primitive, attributes),
            inputs=tuple(inputs),
            outputs=tuple(self.names[i] for i in outputs),
            attributes=attributes,
            types=tuple(self._result_type(i) for i in outputs),
        )

    @staticmethod
    def _name(primitive: Table, attributes: dict[str, Any]) -> str:
        if primitive.name == _CALL:
            return ""
        return f"{_CUSTOM}:{attributes['type']}" if primitive.name == _CUSTOM else primitive.name

    def _primitive(self, node: Table) -> Table:
        primitive: Table | None = node["primitive"] and node["primitive"]["value"]
        if primitive is None:
            raise node.error("primitive", f"node {node['name']!r} has no primitive")
        return primitive

    def _attributes(self, table: Table, primitive: Table) -> dict[str, Any]:
        fields = schema.load().tables["CNode"]
        own = {name: table[name] for name in ("quantType", "deviceType")}
        return primitive.fields() | {n: v for n, v in own.items() if v != fields[n].absent}

    def _function_name(self, primitive: Table, index: int) -> str:
        if not 0 <= index < len(self.functions):
            raise primitive.error(_FUNCTION, f"there is no sub-graph {index}, only {len(self.functions)}")
        return self.functions[index]

    def _result_type(self, index: int) -> TypeInfo | None:
        """Return the type of a node's result; the converter writes [-1] for an unknown rank."""
        declared = tensors.type_of(self.tensors[index])
        unknown = declared is not None and declared.shape == (None,)
        return TypeInfo(declared.dtype, None) if declared is not None and unknown else declared

    def _constant(self, index: int) -> ir.TensorProtocol | None:
        if index in self._computed:
            return None  # tensors without elements have no data, either
        if index not in self._constants:
            use = self._uses.get(index, packing.Use())
            self._constants[index] = tensors.constant(self.tensors[index], self.source, use, self._budget)
        return self._constants[index]

    def _quantized(self, used: set[int], tables: Sequence[Table]) -> dict[str, Quantized]:
        """Return the quantization of tensors that are used or computed."""
        indices = used | {i for t in tables for i in self._indices(t, "outputIndex")}
        found = {i: tensors.quantized(self.tensors[i], self._uses.get(i, packing.Use())) for i in indices}
        return {self.names[i]: q for i, q in sorted(found.items()) if q is not None}

    def _find_uses(self) -> dict[int, packing.Use]:
        """Return the use of each tensor that nodes read."""
        uses: dict[int, packing.Use] = {}
        for table in self.nodes:
            inputs, outputs = self._indices(table, "inputIndex"), self._indices(table, "outputIndex")
            kind = table["quantType"]
            in_float32 = any(
                self.tensors[i]["dataType"] == DataType.FLOAT32.value for i in (*inputs, *outputs)
            )
            for position, index in enumerate(inputs):
                axis = self._channel_axis(table, position, inputs) if kind else 0
                uses[index] = uses.get(index, packing.Use()).by(kind, axis, in_float32)
        return uses

    def _channel_axis(self, node: Table, position: int, inputs: tuple[int, ...]) -> int:
        """Return the axis of the channels of a quantized node's input."""
        primitive = self._primitive(node)
        known = self._integer(inputs[_GATHERED]) if len(inputs) > _GATHERED else None
        gathered = 0 if known is None else int(known.flat[0])
        return quantized_axis(primitive.name, position, primitive.fields(), Layout.NHWC, gathered)

    def _integer(self, index: int) -> npt.NDArray[np.generic] | None:
        """Return a tensor that is one integer in the file, else None."""
        value = tensors.constant(
            self.tensors[index], self.source, packing.Use(), packing.ElementBudget(self.source)
        )
        return value.numpy() if value is not None and value.size == 1 and value.dtype.is_integer() else None

    def _value_names(self) -> list[str]:
        """Return a name for each tensor; the model's inputs and outputs choose first."""
        first = self.graphs[0] if self.graphs else None
        inputs = self._indices(first, "inputIndices") if first else self._indices(self.root, "inputIndex")
        outputs = self._indices(first, "outputIndices") if first else self._indices(self.root, "outputIndex")
        order = dict.fromkeys([*inputs, *outputs, *range(len(self.tensors))])
        names = _unique([self.labels[i] for i in order], order, taken=self.functions)
        return [name for _, name in sorted(zip(order, names, strict=True))]

    def _indices(self, table: Table, field: str) -> tuple[int, ...]:
        """Return a field that lists tensors by index."""
        indices: tuple[int, ...] = table[field]
        if max(indices, default=-1) >= len(self.tensors):
            raise table.error(field, f"there is no tensor {max(indices)}, only {len(self.tensors)}")
        return indices

    def _take(self, graph: Table) -> list[Table]:
        """Return the nodes of a sub-graph; each belongs to only one."""
        taken = []
        for index in graph["nodeIndices"]:
            node = self._untaken.pop(index, None)
            if node is None:
                state = (
                    "is taken twice" if index < len(self.nodes) else f"is not there, only {len(self.nodes)}"
                )
                raise graph.error("nodeIndices", f"node {index} {state}")
            taken.append(node)
        return taken

    def _check_single_assignment(self, function: Function, tables: Sequence[Table]) -> None:
        seen = {i.name for i in function.inputs} | function.parameters.keys() | function.constants.keys()
        for node, table in zip(function.nodes, tables, strict=True):
            for name in node.outputs:
                if name in seen:
                    raise table.error("outputIndex", f"node {node.name!r} is the second to give {name!r}")
                seen.add(name)


def _unique(
    labels: Sequence[str], marks: Iterable[int] | None = None, taken: Iterable[str] = ()
) -> list[str]:
    """Return unique names: the labels, with `@` and the mark (by default the position) if empty or taken."""
    seen = set(taken)
    names = []
    for label, mark in zip(labels, marks or range(len(labels)), strict=True):
        name = label if label and label not in seen else f"{label}@{mark}"
        while name in seen:
            name += "@"
        seen.add(name)
        names.append(name)
    return names
