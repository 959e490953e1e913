"""Raising of an ONNX graph to a program in one of MindSpore's dialects, the reverse of `compiler.lower`.

Nodes are visited in order. Each is, whichever comes first,

1. computed now, if all its inputs are constants (`folding`);
2. written by the rule of its operator (`rules`);
3. taken apart into other operators, which are raised in turn (`parts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import onnx_ir as ir

from pinnace.converter import control, folding, inferring, parts, rules
from pinnace.converter.primitives import Primitives, number_of, type_of
from pinnace.converter.rules import narrow
from pinnace.distributed.segments import partition
from pinnace.errors import UnsupportedModelError, UnsupportedPrimitive
from pinnace.graph.builder import Builder
from pinnace.graph.failures import Unsupported
from pinnace.graph.inference import infer, opset_of
from pinnace.lowering.failures import MISFITS
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
    raiser = _Raiser(model, dialect, layout, source)
    raiser.writer.half = half
    raiser.writer.ranks = partition(model.metadata_props).size
    return raiser.program()


class _Raiser:
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
        """Return the whole model."""
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
            for port in inputs:
                if port.dtype is not None and port.dtype is not ir.DataType.STRING:
                    number_of(port.dtype)
            main = writer.program_function(ports, graph.outputs)
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
        """Raise nodes in order."""
        for node in nodes:
            self._raise(node, node.version or opset, depth)

    def _raise(self, node: ir.Node, opset: int, depth: int) -> None:
        if self._lacks(node):
            raise Unsupported("reads what was not converted")
        with suppress(inferring.InferenceError):  # engines will say it
            inferring.infer(node, opset)
        if folding.fold(node, opset):
            return
        if node.op_type in control.OPERATORS and not node.domain:
            control.write(self, node, opset, depth)
            return
        try:
            self._write(node)
            return
        except Unsupported as error:
            reason = error
        if depth == _DEEPEST:
            raise reason
        whole = parts.of(node, opset, self.dialect, self.builder())
        if whole is None:
            raise reason
        self.raise_all(whole.nodes, whole.opset, depth + 1)
        for output, result in zip(node.outputs, whole.outputs, strict=False):
            if output.name:
                self.same(output, result)

    def _write(self, node: ir.Node) -> None:
        """Write a node by the rule of its operator. Raises Unsupported if that does not apply."""
        rule = rules.find(self.dialect, node.op_type, node.domain)
        if rule is None:
            raise Unsupported(f"the converter has no rule for {node.domain or 'ONNX'}'s {node.op_type}")
        self.writer.node = node
        given = narrow.inputs(self.writer, node)
        small = given != list(node.inputs)
        self.writer.declared = [type_of(o) if o.dtype else None for o in node.outputs if o.name]
        if small:
            self.writer.declared = list(map(narrow.declared, self.writer.declared))
        results = lowered(rule, self.writer, node, given)
        if any(output.name for output in node.outputs[len(results) :]):
            raise Unsupported(
                f"gives {len(node.outputs)} results, and the rule of the converter {len(results)}"
            )
        for output, result in zip(node.outputs, results, strict=False):
            if output.name:
                if small and output.dtype in narrow.WHOLE and result.dtype is not ir.DataType.INT64:
                    result = narrow.of(self.writer, result, output.dtype)
                self.same(output, result)
                self.writer.declare(output)
                narrow.shape(self.writer, output)

    def same(self, output: ir.Value, result: ir.Value) -> None:
        """Let a value of the model be what was written for it."""
        if result.const_value is not None:
            output.const_value = result.const_value
        else:
            self.writer.names[output] = self.writer.name(result)
        if output.shape is None or output.dtype is None:
            infer(result, self.opset)
            output.shape = output.shape if output.shape is not None else result.shape
            output.type = output.type if output.type is not None else result.type


def lowered(
    rule: Primitive, writer: Primitives, node: ir.Node, given: Sequence[ir.Value | None]
) -> Sequence[ir.Value]:
    """Return the results of a rule for a node, whose inputs may be others that are `given`."""
    value = rule.lower(writer, given, rules.attributes(rule, node))
    return value if isinstance(value, tuple) else (value,)
