"""Raising of an ONNX graph to a program in one of MindSpore's dialects, the reverse of `lowering`.

Nodes are visited in order. Each is, whichever comes first,

1. computed now, if all its inputs are constants (`folding`);
2. written by the rule of its operator (`rules`);
3. taken apart into other operators, which are raised in turn: by a rule of `decompositions`, else by
   the function that ONNX defines the operator as.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import onnx
import onnx.version_converter
import onnx_ir as ir
from onnx.inliner import inline_selected_functions

from pinnace.converter import control, rules
from pinnace.converter.folding import fold
from pinnace.converter.primitives import Primitives, number_of, type_of
from pinnace.converter.rules import int32
from pinnace.distributed.segments import partition
from pinnace.errors import UnsupportedModelError, UnsupportedPrimitive
from pinnace.graph.builder import Builder
from pinnace.graph.failures import MISFITS, Unsupported
from pinnace.graph.inference import OPSET, InferenceError, opset_of, refine
from pinnace.ops.table import Primitive
from pinnace.program import Dialect, Function, Input, Layout, Program

_MAIN = "main"
_DEEPEST = 16
"""Operators that may be taken apart one after the other; more is an endless circle."""


def raised(model: ir.Model, dialect: Dialect, layout: Layout, source: str, half: bool = False) -> Program:
    """Return an ONNX model as a program, with float32 weights in float16 if `half`.

    Layout NCHW is that of MindIR, NHWC that of a `.ms`.

    Raises UnsupportedModelError with all nodes that have no way.
    """
    raiser = Raiser(model, dialect, layout, source)
    raiser.writer.half = half
    raiser.writer.ranks = partition(model.metadata_props).size
    return raiser.program()


class Raiser:
    def __init__(self, model: ir.Model, dialect: Dialect, layout: Layout, source: str) -> None:
        self.model, self.dialect, self.source = model, dialect, source
        self.opset = opset_of(model)
        self.writer = Primitives(dialect, layout, _MAIN, self.opset)
        self.functions: dict[str, Function] = {}
        self.failed: list[tuple[str, str, str]] = []
        self._builders = 0

    def builder(self) -> Builder:
        """Return a builder of parts of the model; no other one gives values the same names."""
        self._builders += 1
        return Builder(prefix=f"%{self._builders}.")

    def program(self) -> Program:
        graph, writer = self.model.graph, self.writer
        inputs = [i for i in graph.inputs if i.name not in graph.initializers]
        for value in inputs:
            writer.names[value] = f"{_MAIN}:{value.name}"
            writer.taken.add(writer.names[value])
        for node in graph:
            self.node(node)
        if self.failed:
            raise UnsupportedModelError(self.source, UnsupportedPrimitive.counted(self.failed))
        ports = [Input(writer.names[i], type_of(i)) for i in inputs]
        try:
            for x in inputs:
                if x.dtype is not None and x.dtype is not ir.DataType.STRING:
                    number_of(x.dtype)
            main = writer.closed(ports, writer.results({port.name for port in ports}, graph.outputs))
        except Unsupported as error:
            rows = UnsupportedPrimitive.counted([("input or output", str(error), "")])
            raise UnsupportedModelError(self.source, rows) from None
        return Program(
            main,
            {_MAIN: main, **self.functions},
            self.dialect,
            self.writer.layout,
            producer="MindSpore",  # what reads the file looks for it
            version="2.10.0",
            source=self.source,
            user_info=dict(self.model.metadata_props),
            input_names=[i.name or "" for i in inputs],
            output_names=[o.name or "" for o in graph.outputs],
            tuple_results=writer.mindir,
        )

    def node(self, node: ir.Node) -> None:
        """Raise a node of the model; what fails is noted."""
        if self.failed and self._lacks(node):
            return  # the node that failed is named, not what reads it
        self.writer.origin = node.name or ""
        try:
            self._raise(node, node.version or self.opset, 0)
        except Unsupported as error:
            self.failed.append((node.op_type, str(error), node.name or ""))
        except (TypeError, *MISFITS) as error:  # rules assume that it is as ONNX defines it
            reason = f"its inputs and attributes do not fit together ({error or type(error).__name__})"
            self.failed.append((node.op_type, reason, node.name or ""))

    def _lacks(self, node: ir.Node) -> bool:
        return any(x is not None and not self.writer.has(x) for x in node.inputs)

    def raise_all(self, nodes: Sequence[ir.Node], opset: int, depth: int) -> None:
        for node in nodes:
            self._raise(node, node.version or opset, depth)

    def _raise(self, node: ir.Node, opset: int, depth: int) -> None:
        if self._lacks(node):
            raise Unsupported("reads what was not converted")
        with suppress(InferenceError):  # engines will say it
            refine(node, opset)
        if fold(node, opset):
            return
        if node.op_type in control.OPERATORS and not node.domain:
            control.write(self, node, opset, depth)
            return
        try:
            self._write(node, opset)
            return
        except Unsupported as error:
            reason = error
        if depth == _DEEPEST:
            raise reason
        whole = self._decomposed(node, opset)
        if whole is None:
            raise reason
        self.raise_all(whole.nodes, whole.opset, depth + 1)
        for output, result in zip(node.outputs, whole.outputs, strict=False):
            if output.name:
                self.same(output, result)

    def _decomposed(self, node: ir.Node, opset: int) -> _Parts | None:
        """Return the parts of a node, None if it has none. Raises Unsupported with the reason of a rule."""
        rule = rules.find(rules.DECOMPOSITIONS, self.dialect, rules.name_of(node, opset), node.domain)
        if rule is not None:
            b = self.builder()
            b.declared = [type_of(o) if o.dtype else None for o in node.outputs if o.name]
            results = _lowered(rule, b, node, node.inputs)
            return _Parts(b.nodes, [b.tensor(result) for result in results], OPSET)
        return _by_definition(node, opset, opset) or _by_definition(node, opset, max(opset, OPSET))

    def _write(self, node: ir.Node, opset: int) -> None:
        """Write a node by the rule of its operator. Raises Unsupported if that does not apply."""
        rule = rules.find(rules.RULES, self.dialect, rules.name_of(node, opset), node.domain)
        if rule is None:
            raise Unsupported(f"the converter has no rule for {node.domain or 'ONNX'}'s {node.op_type}")
        self.writer.node = node
        given = int32.inputs(self.writer, node)
        small = given != list(node.inputs)
        self.writer.declared = [type_of(o) if o.dtype else None for o in node.outputs if o.name]
        if small:
            self.writer.declared = list(map(int32.declared, self.writer.declared))
        results = _lowered(rule, self.writer, node, given)
        if any(output.name for output in node.outputs[len(results) :]):
            raise Unsupported(
                f"gives {len(node.outputs)} results, and the rule of the converter {len(results)}"
            )
        for output, result in zip(node.outputs, results, strict=False):
            if output.name:
                if small and output.dtype in int32.WHOLE and result.dtype is not ir.DataType.INT64:
                    result = int32.from_int32(self.writer, result, output.dtype)
                self.same(output, result)
                self.writer.declare(output)
                int32.shape(self.writer, output)

    def same(self, output: ir.Value, result: ir.Value) -> None:
        """Let a value of the model be what was written for it."""
        if result.const_value is not None:
            output.const_value = result.const_value
        else:
            self.writer.names[output] = self.writer.name(result)
        output.shape = output.shape if output.shape is not None else result.shape
        output.type = output.type if output.type is not None else result.type


def _lowered(
    rule: Primitive, b: Builder, node: ir.Node, given: Sequence[ir.Value | None]
) -> Sequence[ir.Value]:
    """Return the results of a rule for a node, whose inputs may be others that are `given`."""
    count = max((place for place, x in enumerate(given, 1) if x is not None), default=0)
    value: Any = rule.lower(b, given[:count], rules.attributes(rule, node))
    return value if isinstance(value, tuple) else (value,)


class _Parts(NamedTuple):
    """Nodes that compute what one node does, in order, and their results in the place of its outputs."""

    nodes: Sequence[ir.Node]
    outputs: Sequence[ir.Value]
    opset: int


def _by_definition(node: ir.Node, opset: int, newer: int) -> _Parts | None:
    """Return the parts by the function that ONNX's schema has for an operator in a newer set.

    Many operators were defined as functions only later: LeakyRelu in set 16, ReduceL2 in set 18.
    """
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, newer, node.domain)
        old: Any = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    if not (schema.has_function or schema.has_context_dependent_function):
        return None
    if any(x is not None and x.dtype is None for x in node.inputs):
        return None
    model = _model_of(node, opset, old)
    try:
        if newer != opset:
            model = onnx.version_converter.convert_version(model, newer)
        inlined = inline_selected_functions(
            model, [(node.domain, node.op_type)], inline_schema_functions=True
        )
    except Exception:  # raised by ONNX's own code where a definition does not fit the node
        return None
    if [n.op_type for n in inlined.graph.node] == [node.op_type]:
        return None
    return _spliced(ir.from_proto(inlined), node)


def _model_of(node: ir.Node, opset: int, schema: Any) -> onnx.ModelProto:
    proto = ir.serde.serialize_node(node)
    given = {attribute.name for attribute in proto.attribute}
    for name, attribute in schema.attributes.items():  # definitions want them in the node
        if name not in given and attribute.default_value.name:
            proto.attribute.append(attribute.default_value)
    ports = {x.name: ir.serde.serialize_value(x) for x in node.inputs if x is not None}
    missing = [onnx.helper.make_tensor_value_info("", onnx.TensorProto.FLOAT, None)]  # ONNX asks for its type
    results = [ir.serde.serialize_value(y) for y in node.outputs if y.name]
    graph = onnx.helper.make_graph([proto], "parts", list(ports.values()), results, value_info=missing)
    imports = {node.domain: opset, "": opset if not node.domain else OPSET}
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in imports.items()]
    return onnx.helper.make_model(graph, opset_imports=opsets)


def _spliced(model: ir.Model, node: ir.Node) -> _Parts:
    """Return the nodes of a model, with the inputs of a node in the place of its own."""
    given = {x.name: x for x in node.inputs if x is not None}
    for port in model.graph.inputs:
        port.replace_all_uses_with(given[port.name])
    made = {o.name: o for o in model.graph.outputs}
    outputs = [made.get(output.name, output) for output in node.outputs]
    nodes = list(model.graph)
    model.graph.remove(nodes)
    return _Parts(nodes, outputs, model.opset_imports[""])
